"""`streamgauge export`: published releases as one file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelinePath, build_switch
from streamgauge.cli.console import stderr
from streamgauge.cli.errors import raise_bad_argument

FILE_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")


class CsvShape(StrEnum):
    """Shapes of CSV."""

    WIDE = "wide"
    LONG = "long"


Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="PATH", help=f"A new file: {', '.join(FILE_SUFFIXES)}.")
]
Name = Annotated[str | None, typer.Option("--release", metavar="NAME", help="One release; default: all.")]
First = Annotated[int, typer.Option("--from-tick", min=1, metavar="TICK", help="First tick.")]
Last = Annotated[int | None, typer.Option("--to-tick", min=1, metavar="TICK", help="Last tick.")]
Layout = Annotated[
    CsvShape | None,
    typer.Option("--shape", help="Shape of CSV: a column for each key and measure, or a line for each measure."),
]
Force = Annotated[bool, build_switch("--force", help="Overwrite an existing file.")]


def export(  # noqa: PLR0917 - the options of a command
    file: PipelinePath,
    output: Output,
    release: Name = None,
    first: First = 1,
    last: Last = None,
    shape: Layout = None,
    force: Force = False,
) -> None:
    """Write published releases to one file: CSV, JSON, JSON lines or Parquet, by its suffix.

    The columns are those of a sink of the same kind. CSV is wide, or long with --shape long. All ticks are
    written. It reads the store, also during a run, needs no key and spends nothing. The file is written whole
    or not at all.

    Example: `streamgauge export clinic.toml --output fever.csv --release fever_by_region --from-tick 100`
    """
    if output.suffix not in FILE_SUFFIXES:
        raise_bad_argument("--output", f"a file that ends with {', '.join(FILE_SUFFIXES)}", output)
    if output.exists() and not (force and output.is_file()):
        raise_bad_argument("--output", "a new file", f"{output}, which exists: --force writes over a file")
    if shape is not None and output.suffix != ".csv":
        raise_bad_argument("--shape", "left out unless --output ends with .csv", shape.value)
    from streamgauge.config.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.views.export import StoredReleases, write_releases
    from streamgauge.runtime.format import plural

    with StoredReleases(checked) as stored:
        names = stored.list_names(release)
        charged = [each for name, each in stored.schemas.items() if name in names]  # in the order of the file
        wide = None if shape == CsvShape.LONG else charged
        count = write_releases((item for name in names for item in stored.read_ticks(name, first, last)), output, wide)
    stderr().print(f"{output} has {plural(count, 'tick')} of {', '.join(names) or 'no release'}", soft_wrap=True)
