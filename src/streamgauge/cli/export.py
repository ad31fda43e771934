"""`streamgauge export`: what was published, as one file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelineFile, switch
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import aside

ENDINGS = (".csv", ".json", ".jsonl", ".parquet")


class CsvShape(StrEnum):
    """The shapes of CSV."""

    WIDE = "wide"
    LONG = "long"


To = Annotated[Path, typer.Option("--to", metavar="PATH", help=f"A new file: {', '.join(ENDINGS)}.")]
Name = Annotated[str | None, typer.Option("--release", metavar="NAME", help="One release; all without it.")]
First = Annotated[int, typer.Option("--from-tick", min=1, metavar="TICK", help="From this tick.")]
Last = Annotated[int | None, typer.Option("--to-tick", min=1, metavar="TICK", help="To this tick.")]
Layout = Annotated[
    CsvShape | None,
    typer.Option("--shape", help="Of CSV: a column for each key and measure, or a line for each measure."),
]
Force = Annotated[bool, switch("--force", help="Write over a file that exists.")]


def export(  # noqa: PLR0917 - the options of a command
    file: PipelineFile,
    to: To,
    release: Name = None,
    first: First = 1,
    last: Last = None,
    shape: Layout = None,
    force: Force = False,
) -> None:
    """Write what was published to one file: CSV, JSON, JSON lines or Parquet, by its ending.

    The columns are those of a sink of the same kind; CSV is wide unless --shape is long. All ticks are
    written. Reads the store, also while a run goes on; needs no key and spends nothing. The file is there
    whole or not at all.

    Example: `streamgauge export clinic.toml --to fever.csv --release fever_by_region --from-tick 100`
    """
    if to.suffix not in ENDINGS:
        bad_argument("--to", f"a file that ends with {', '.join(ENDINGS)}", to)
    if to.exists() and not (force and to.is_file()):
        bad_argument("--to", "a new file", f"{to}, which exists: --force writes over a file")
    if shape is not None and to.suffix != ".csv":
        bad_argument("--shape", "left out unless --to ends with .csv", shape.value)
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.exported import write
    from streamgauge.cli.stored import Stored
    from streamgauge.pipeline.words import counted

    with Stored(checked) as stored:
        names = stored.names(release)
        charged = [each for name, each in stored.shapes.items() if name in names]  # in the order of the file
        wide = None if shape == CsvShape.LONG else charged
        count = write((item for name in names for item in stored.ticks(name, first, last)), to, wide)
    aside().print(f"{to} has {counted(count, 'tick')} of {', '.join(names) or 'no release'}", soft_wrap=True)
