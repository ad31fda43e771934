"""From what a pipeline file says of a sink to the sink."""

from pathlib import Path

from streamgauge.query.paths import path_of, real_path
from streamgauge.query.protocols import Sink
from streamgauge.query.settings import SinkSettings
from streamgauge.sinks.csv_file import CsvLines
from streamgauge.sinks.json_lines import JsonLines
from streamgauge.sinks.line_file import LineFile
from streamgauge.sinks.lines import Form
from streamgauge.sinks.parquet_parts import ParquetParts
from streamgauge.sinks.standard_output import StandardOutput

FORMS: dict[str, type[Form]] = {"jsonl": JsonLines, "csv": CsvLines}


def open_sink(settings: SinkSettings, base: Path, owner: str = "") -> Sink:
    """The sink that was declared, of the store `owner`; paths are relative to `base`. Nothing is touched yet.

    Which releases it gets is for the caller to choose.
    """
    if settings.to == "-":
        if settings.format not in FORMS:
            raise ValueError(f"format must be jsonl or csv for standard output, got {settings.format}")
        return StandardOutput(FORMS[settings.format](), owner)
    path = real_path(path_of(settings.to, base))
    if settings.format == "parquet":
        return ParquetParts(settings.to, path, owner)
    return LineFile(settings.to, path, FORMS[settings.format](), owner)
