"""`streamgauge backup`: a copy of a store."""

from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelineFile
from streamgauge.cli.screens import aside

To = Annotated[Path, typer.Argument(metavar="TO", help="A folder that does not exist yet.")]


def backup(file: PipelineFile, to: To) -> None:
    """Copy the store of a pipeline to a new folder, checked, also while a run goes on. Needs no key.

    To restore it, put it in the place of the store, and run with --rolled-back, which charges again the ticks
    that were published since. As long as a copy exists, the key opens what the store knew then.

    Example: `streamgauge backup clinic.toml /mnt/backup/clinic-monday`
    """
    from streamgauge.pipeline.backup import backup as copied
    from streamgauge.query.pipeline_file import read_pipeline

    copied(read_pipeline(file).folder, to)
    aside().print(f"the store of {file} was copied to {to}", soft_wrap=True)
