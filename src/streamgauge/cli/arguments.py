"""What several commands are given."""

from pathlib import Path
from typing import Annotated, Any

import typer


def switch(*names: str, help: str, **settings: Any) -> Any:
    """An option that is there or not."""
    return typer.Option(*names, help=help, metavar="", **settings)


PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file, such as clinic.toml.")]
AsJson = Annotated[bool, switch("--json", help="Print JSON instead of tables.")]

SOURCE_HELP = "JSON lines, CSV or Parquet, plain, .gz or .zst; or a folder of such files."
