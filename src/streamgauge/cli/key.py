"""`streamgauge key`: create and rotate the curator's key."""

import json
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelinePath, read_pipeline
from streamgauge.cli.console import stderr
from streamgauge.cli.errors import raise_bad_argument

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help="Make or change the curator's key.")

KeyPath = Annotated[Path, typer.Argument(metavar="PATH", help="A file that does not exist yet.")]
NewKey = Annotated[
    str, typer.Option("--new-key", metavar="KEY", help="The new key: file:PATH, env:NAME or command:PROGRAM.")
]


@app.command()
def create(path: KeyPath) -> None:
    """Create a key in a new file that only its owner can read.

    The key opens the exact state of a pipeline; without it a run cannot resume. Store it on another disk than
    the store, and make a copy: a lost key cannot be restored.

    Example: `streamgauge key create ~/keys/clinic.key`
    """
    from streamgauge.store.keys import create_key

    made = create_key(path.expanduser().absolute())
    console = stderr()
    console.print(f"a new key is in {made.path}", soft_wrap=True)
    named = json.dumps(made.source, ensure_ascii=False)  # JSON's quotes are TOML's
    console.print(f"name it in the pipeline file: key = {named}", soft_wrap=True)


@app.command()
def rotate(file: PipelinePath, new_key: NewKey) -> None:
    """Encrypt the store of a pipeline under another key.

    The new key must exist. All encrypted state is encrypted again, and the old key opens nothing of the store
    any more. Earlier copies stay under the old key. Then name the new key in the pipeline file.

    Example: `streamgauge key rotate clinic.toml --new-key file:~/keys/clinic-2.key`
    """
    from streamgauge.store.backup import rotate as rotated
    from streamgauge.store.drivers import find_driver
    from streamgauge.store.errors import StoreNotFoundError
    from streamgauge.store.keys import default_key, load_key, redact_key
    from streamgauge.store.lock import Lock

    checked = read_pipeline(file)
    if not checked.folder.is_dir():
        raise StoreNotFoundError(checked.folder)
    old = load_key(checked.stream.key or default_key(checked.path), checked.path.parent)
    new = load_key(new_key, checked.path.parent)
    if old.secret == new.secret:
        raise_bad_argument("--new-key", "another key", "the same")
    with Lock(checked.folder):
        rotated(checked.folder, old, new, driver=find_driver(checked))
    console = stderr()
    console.print(f"the store of {file} is under another key now", soft_wrap=True)
    console.print(f'name it in the pipeline file: key = "{redact_key(new_key)}"', soft_wrap=True)
