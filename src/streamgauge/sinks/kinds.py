"""Built-in kinds of sinks: a factory per path format, and for standard output."""

from collections.abc import Sequence
from pathlib import Path

from streamgauge.config.endpoints import find_sink_kind
from streamgauge.config.paths import resolve_path, resolve_real_path
from streamgauge.config.settings import SinkSettings
from streamgauge.interfaces import SINKS, Sink, SinkKind, SinkRequest
from streamgauge.releases.schema import ReleaseSchema
from streamgauge.sinks.errors import SinkError
from streamgauge.sinks.file import LineFile
from streamgauge.sinks.formats import CsvLines, JsonLines, LineFormat
from streamgauge.sinks.parquet import ParquetParts
from streamgauge.sinks.stdout import StandardOutput
from streamgauge.sinks.wide_csv import WideCsv


def open_sink(settings: SinkSettings, base: Path, owner: str = "", shapes: Sequence[ReleaseSchema] = ()) -> Sink:
    """Return the sink that a file declares, for the store `owner`. Open nothing yet.

    Args:
        base: The folder that relative paths start from.
        shapes: The releases that the caller will write; wide CSV has their columns.
    """
    kind = SINKS.load(find_sink_kind(settings.to, settings.format), settings.plugins)
    return kind.open(SinkRequest(settings, base, owner, shapes))


def _open_standard_output(request: SinkRequest) -> StandardOutput:
    formats = {"jsonl": lambda _: JsonLines(), "csv": _build_csv}
    if request.settings.format not in formats:
        raise ValueError(f"format must be jsonl or csv for standard output, got {request.settings.format}")
    return StandardOutput(formats[request.settings.format](request), request.owner)


def _find_path(request: SinkRequest) -> Path:
    return resolve_real_path(resolve_path(request.url, request.base))


def _build_csv(request: SinkRequest) -> LineFormat:
    """Return the format of a CSV sink; reject columns that wide CSV cannot have."""
    if request.settings.shape == "long":
        return CsvLines()
    try:
        return WideCsv(request.shapes, has_stamp=True)
    except ValueError as refusal:
        raise SinkError(f"sink {request.url}: {refusal}", "columns") from None


JSONL = SinkKind(lambda to: LineFile(to.url, _find_path(to), JsonLines(), to.owner), is_path=True)
CSV = SinkKind(lambda to: LineFile(to.url, _find_path(to), _build_csv(to), to.owner), is_path=True)
PARQUET = SinkKind(lambda to: ParquetParts(to.url, _find_path(to), to.owner), is_path=True)
STANDARD_OUTPUT = SinkKind(_open_standard_output, is_console=True)
