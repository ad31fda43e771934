"""Parquet that DuckDB refuses, read in batches by pyarrow, where it is installed.

DuckDB gives up on a whole file if one text of a column is not UTF-8, or one time is beyond its range. Here
texts come as bytes, and times that do not fit as NULL: each is judged by itself.

Promise
    All other values are what DuckDB makes of the file by itself, so that a value that is bad changes how no
    other is read. (Decimals of more than 38 digits may differ in their last bit.)
"""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

BATCH_ROWS = 2**16
MICROSECONDS_PER_UNIT = {"s": 10**6, "ms": 10**3}
Conversion = tuple[Callable[[Any], bool], Callable[[Any], Any]]


class ParquetReadError(Exception):
    """A file that cannot be read further. The message reveals nothing of its content."""


def read_parquet_batches(path: Path, names: Sequence[str], rows: int = BATCH_ROWS) -> Generator[Any, None, None]:
    """Arrow tables of the named columns, which must have values (`streamgauge.records.fields`)."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ParquetReadError("a Parquet file with damaged values needs pyarrow: install streamgauge[arrow]") from None
    try:
        with pyarrow.parquet.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(rows, columns=list(names)):
                yield pyarrow.table([convert_column(column) for column in batch.columns], names=batch.schema.names)
    except (pyarrow.ArrowException, OSError):
        failure = ParquetReadError("a Parquet file must be whole, got one with damaged pages")
    else:
        return
    raise failure


def convert_column(column: Any) -> Any:
    """Return the column in the type that DuckDB gives it when it reads the file itself."""
    for applies, changed in _build_conversions():
        if applies(column.type):
            return changed(column)
    return column


def _build_conversions() -> list[Conversion]:
    from pyarrow import types

    return [
        (
            lambda kind: getattr(kind, "extension_name", None) == "arrow.json",
            lambda column: convert_column(column.storage),
        ),
        (types.is_dictionary, lambda column: convert_column(column.dictionary_decode())),
        (types.is_large_string, lambda column: column.cast("large_binary")),
        (lambda kind: types.is_string(kind) or types.is_string_view(kind), lambda c: c.cast("binary")),
        (types.is_float16, lambda column: column.cast("float32")),
        (types.is_decimal256, lambda column: column.cast("float64")),
        (types.is_duration, lambda column: column.view("int64")),
        (lambda kind: types.is_timestamp(kind) and kind.unit in MICROSECONDS_PER_UNIT, _to_microseconds),
    ]


def _to_microseconds(column: Any) -> Any:
    """Times of a coarse unit; those that have too many microseconds are NULL."""
    import pyarrow
    from pyarrow import compute

    per, whole = MICROSECONDS_PER_UNIT[column.type.unit], column.view("int64")
    most = (2**63 - 1) // per
    fits = compute.and_(compute.greater_equal(whole, -most), compute.less_equal(whole, most))
    fitting = compute.if_else(fits, whole, pyarrow.scalar(None, "int64"))
    return compute.multiply(fitting, per).view(pyarrow.timestamp("us", column.type.tz))
