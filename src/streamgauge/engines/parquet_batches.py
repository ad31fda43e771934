"""Parquet that DuckDB refuses, in batches: `streamgauge.query.parquet_batches`, with the engine's error."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from streamgauge.engines.failures import EngineFailed
from streamgauge.query import parquet_batches as batches

BATCH = "$batch"


def parquet_batches(path: Path, names: Sequence[str]) -> Generator[Any, None, None]:
    """Arrow tables of the named columns."""
    try:
        yield from batches.parquet_batches(path, names)
    except batches.Unreadable as unreadable:
        failure = EngineFailed(str(unreadable))
    else:
        return
    raise failure
