"""Parquet that DuckDB refuses, read in batches by pyarrow, where it is installed.

DuckDB gives up on a whole file if one text of a column is not UTF-8, or one time is beyond its range. Here
texts come as bytes, and times that do not fit as NULL: each is judged by itself.
"""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from streamgauge.engines.failures import EngineFailed

BATCH = "$batch"
ROWS = 2**16
PER_UNIT = {"s": 10**6, "ms": 10**3}


def parquet_batches(path: Path, names: Sequence[str]) -> Generator[Any, None, None]:
    """Arrow tables of the named columns."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise EngineFailed(
            "a Parquet file with damaged values needs pyarrow: install streamgauge[arrow]"
        ) from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            present = [name for name in names if name in file.schema_arrow.names]
            for batch in file.iter_batches(ROWS, columns=present):
                yield pyarrow.table([_plain(column) for column in batch.columns], names=batch.schema.names)
    except (pyarrow.ArrowException, OSError):
        failure = EngineFailed("a Parquet file must be whole, got one with damaged pages")
    else:
        return
    raise failure


def _plain(column: Any) -> Any:
    """A column without anything that DuckDB would check as a whole."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind):
        return column.cast("large_binary" if types.is_large_string(kind) else "binary")
    return _microseconds(column) if types.is_timestamp(kind) and kind.unit in PER_UNIT else column


def _microseconds(column: Any) -> Any:
    """Times of a coarse unit; those that have too many microseconds are NULL."""
    import pyarrow
    from pyarrow import compute

    per, whole = PER_UNIT[column.type.unit], column.view("int64")
    most = (2**63 - 1) // per
    fits = compute.and_(compute.greater_equal(whole, -most), compute.less_equal(whole, most))
    kept = compute.if_else(fits, whole, pyarrow.scalar(None, "int64"))
    return compute.multiply(kept, per).view(pyarrow.timestamp("us", column.type.tz))
