"""`streamgauge init`: a first pipeline file."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import SOURCE_HELP
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import aside

Source = Annotated[Path, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]

PRIVATE = 0o600  # what was guessed from data is, until somebody has confirmed it


def init(source: Source, output: Output = None) -> None:
    """Draft a pipeline file from a look at some records.

    Columns, values and bounds are guessed from the data, and so are private until you have confirmed that
    they may be public: they are listed under confirm, and run refuses the file until the list is empty.
    Reads the beginning of the source; writes one new file beside it, and nothing else. Of devices' reports
    (`source = "reports"`) there is nothing to look at: docs/pipeline.md has a file to begin with.

    Example: `streamgauge init visits.jsonl`
    """
    from streamgauge.query.draft import draft
    from streamgauge.query.pipeline_file import read_pipeline

    file = output or beside(source)
    if file.suffix != ".toml":
        bad_argument("--output", "a file that ends with .toml", file)
    if file.exists() or file.is_symlink():
        bad_argument("--output", "a new file", f"{file}, which exists")
    text = draft(source, folder=file.parent)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "w") as out:
        out.write(text)
    console = aside()
    console.print(f"a draft is in {file}", soft_wrap=True)
    for key in read_pipeline(file).unconfirmed:
        console.print(f"  confirm {key}", soft_wrap=True)
    console.print(f"then: streamgauge plan {file}", soft_wrap=True)


def beside(source: Path) -> Path:
    """
    >>> beside(Path("data/visits.jsonl.gz")).as_posix()
    'data/visits.toml'
    """
    return source.with_name(source.name.partition(".")[0] + ".toml")
