"""`streamgauge backup`: a copy of a store."""

from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelinePath, read_pipeline
from streamgauge.cli.console import stderr

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder that does not exist yet.")]


def backup(file: PipelinePath, folder: Folder) -> None:
    """Copy the store of a pipeline to a new folder, and check the copy.

    It works during a run, and needs no key. To restore the copy, put it in the place of the store, and run with
    --accept-rollback, which charges again the ticks published since. As long as a copy exists, the key opens
    its contents.

    Example: `streamgauge backup clinic.toml /mnt/backup/clinic-monday`
    """
    from streamgauge.store.backup import backup as copied
    from streamgauge.store.drivers import find_driver

    checked = read_pipeline(file)
    copied(checked.folder, folder, find_driver(checked))
    stderr().print(f"the store of {file} was copied to {folder}", soft_wrap=True)
