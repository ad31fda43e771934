"""`streamgauge key`: the curator's key, made and changed."""

import json
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelineFile
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import aside

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Make or change the curator's key.")

KeyPath = Annotated[Path, typer.Argument(metavar="PATH", help="A file that does not exist yet.")]
KeySource = Annotated[
    str, typer.Option("--to", metavar="KEY", help="The new key: file:PATH, env:NAME or command:PROGRAM.")
]


@app.command()
def create(path: KeyPath) -> None:
    """Make a new key in a new file that its owner alone can read.

    The key opens what a pipeline must remember exactly; without it a run cannot go on. Keep it on another
    disk than the store, and keep a copy: nobody can make it again.

    Example: `streamgauge key create ~/keys/clinic.key`
    """
    from streamgauge.pipeline.keys import create_key

    made = create_key(path.expanduser().absolute())
    console = aside()
    console.print(f"a new key is in {made.path}", soft_wrap=True)
    named = json.dumps(made.source, ensure_ascii=False)  # JSON's quotes are TOML's
    console.print(f"name it in the pipeline file: key = {named}", soft_wrap=True)


@app.command()
def rotate(file: PipelineFile, to: KeySource) -> None:
    """Put the store of a pipeline under another key.

    The new key must exist. Everything that is sealed is sealed anew, and the old key opens nothing of the
    store any more; copies that were made before stay under it. Then name the new key in the pipeline file.

    Example: `streamgauge key rotate clinic.toml --to file:~/keys/clinic-2.key`
    """
    from streamgauge.pipeline.backup import rotate as rotated
    from streamgauge.pipeline.keys import default_key, hidden, load_key
    from streamgauge.pipeline.lock import Lock
    from streamgauge.pipeline.store_errors import NoStore
    from streamgauge.query.pipeline_file import read_pipeline

    asked = read_pipeline(file)
    if not asked.folder.is_dir():
        raise NoStore(asked.folder)
    old = load_key(asked.stream.key or default_key(asked.path), asked.path.parent)
    new = load_key(to, asked.path.parent)
    if old.secret == new.secret:
        bad_argument("--to", "another key", "the same")
    with Lock(asked.folder):
        rotated(asked.folder, old, new)
    console = aside()
    console.print(f"the store of {file} is under another key now", soft_wrap=True)
    console.print(f'name it in the pipeline file: key = "{hidden(to)}"', soft_wrap=True)
