"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer


def build_switch(*names: str, help: str, **settings: Any) -> Any:
    """Return an option without a value."""
    return typer.Option(*names, help=help, metavar="", **settings)


PipelinePath = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file, such as clinic.toml.")]
JsonOutput = Annotated[bool, build_switch("--json", help="Print JSON instead of tables.")]

SOURCE_HELP = "JSON lines, CSV or Parquet, plain, .gz or .zst; or a folder of such files."
