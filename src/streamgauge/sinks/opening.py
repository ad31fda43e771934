"""From what a pipeline file says of a sink to the sink."""

from collections.abc import Sequence
from pathlib import Path

from streamgauge.query.paths import path_of, real_path
from streamgauge.query.protocols import Sink
from streamgauge.query.settings import SinkSettings
from streamgauge.query.shapes import Shape
from streamgauge.sinks.csv_file import CsvLines
from streamgauge.sinks.failures import SinkColumnsError
from streamgauge.sinks.json_lines import JsonLines
from streamgauge.sinks.line_file import LineFile
from streamgauge.sinks.lines import Form
from streamgauge.sinks.parquet_parts import ParquetParts
from streamgauge.sinks.standard_output import StandardOutput
from streamgauge.sinks.wide_csv import WideCsv


def open_sink(settings: SinkSettings, base: Path, owner: str = "", shapes: Sequence[Shape] = ()) -> Sink:
    """Return the sink that was declared, of the store `owner`. Nothing is touched yet.

    Args:
        base: The folder that relative paths start from.
        shapes: The releases that the caller will write; wide CSV has their columns.
    """
    if settings.to == "-":
        if settings.format == "parquet":
            raise ValueError(f"format must be jsonl or csv for standard output, got {settings.format}")
        return StandardOutput(build_form(settings, shapes), owner)
    path = real_path(path_of(settings.to, base))
    if settings.format == "parquet":
        return ParquetParts(settings.to, path, owner)
    return LineFile(settings.to, path, build_form(settings, shapes), owner)


def build_form(settings: SinkSettings, shapes: Sequence[Shape]) -> Form:
    """Return the form of a sink of lines; refuse columns that wide CSV cannot have."""
    if settings.format == "jsonl":
        return JsonLines()
    if settings.shape == "long":
        return CsvLines()
    try:
        return WideCsv(shapes, stamped=True)
    except ValueError as refusal:
        raise SinkColumnsError(f"sink {settings.to}: {refusal}") from None
