"""`streamgauge init`: draft a pipeline file."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import SOURCE_HELP, read_pipeline
from streamgauge.cli.console import stderr
from streamgauge.cli.errors import raise_bad_argument

Source = Annotated[Path, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]

DRAFT_FILE_MODE = 0o600  # a draft has guesses from data, which are private until confirmed


def init(source: Source, output: Output = None) -> None:
    """Draft a pipeline file from some records.

    Columns, values and bounds are guessed from the data. They are private until you confirm that they may be
    public: they are listed under confirm, and run refuses the file until the list is empty. It reads the
    beginning of the source, and writes one new file beside it. Reports of devices (`source = "reports"`) have
    no records to read: docs/pipeline.md has a file to start with.

    Example: `streamgauge init visits.jsonl`
    """
    from streamgauge.runtime.draft.draft import draft

    file = output or choose_output(source)
    if file.suffix != ".toml":
        raise_bad_argument("--output", "a file that ends with .toml", file)
    if file.exists() or file.is_symlink():
        raise_bad_argument("--output", "a new file", f"{file}, which exists")
    text = draft(source, folder=file.parent)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, DRAFT_FILE_MODE), "w") as out:
        out.write(text)
    console = stderr()
    console.print(f"a draft is in {file}", soft_wrap=True)
    for key in read_pipeline(file).unconfirmed_keys:
        console.print(f"  confirm {key}", soft_wrap=True)
    console.print(f"then: streamgauge plan {file}", soft_wrap=True)


def choose_output(source: Path) -> Path:
    """
    >>> choose_output(Path("data/visits.jsonl.gz")).as_posix()
    'data/visits.toml'
    """
    return source.with_name(source.name.partition(".")[0] + ".toml")
