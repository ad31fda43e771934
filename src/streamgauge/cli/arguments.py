"""Arguments that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from streamgauge.config.settings import PipelineFile


def build_switch(*names: str, help: str, **settings: Any) -> Any:
    """Return an option without a value."""
    return typer.Option(*names, help=help, metavar="", **settings)


def read_pipeline(path: Path) -> "PipelineFile":
    """Read and check a pipeline file. Its parser is imported on use: help does without it."""
    from streamgauge.config import pipeline_file

    return pipeline_file.read_pipeline(path)


PipelinePath = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file, such as clinic.toml.")]
JsonOutput = Annotated[bool, build_switch("--json", help="Print JSON instead of tables.")]

SOURCE_HELP = "JSON lines, CSV or Parquet, plain, .gz or .zst; or a folder of such files."
