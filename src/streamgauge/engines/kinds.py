"""Registry of engines, and opening of the one that a file chooses."""

from collections.abc import Sequence
from dataclasses import replace

from streamgauge.config.settings import PipelineFile
from streamgauge.engines.duckdb.engine import DuckEngine
from streamgauge.interfaces import ENGINES, Engine, EngineKind, EngineRequest
from streamgauge.plan.measure import Measure


def open_engine(
    file: PipelineFile,
    measures: Sequence[Measure],
    secret: bytes,
    *,
    memory: str = "600MB",
    count_columns: bool = False,
) -> Engine:
    """Return the engine that a file chooses, for some measures."""
    stream, settings = file.stream, file.engine
    if stream.mode == "streaming" and stream.format == "parquet":
        stream = replace(stream, format="jsonl")  # live folders of Parquet files return their rows in this format
    request = EngineRequest(stream, file.lookups, measures, secret, memory, count_columns, settings.options)
    return ENGINES.load(settings.kind, file.plugins).open(request)


def _open_embedded(request: EngineRequest) -> DuckEngine:
    return DuckEngine(
        request.stream,
        request.lookups,
        request.measures,
        secret=request.secret,
        memory=request.memory,
        count_columns=request.count_columns,
    )


EMBEDDED = EngineKind(_open_embedded, supports_pan_private=True)
