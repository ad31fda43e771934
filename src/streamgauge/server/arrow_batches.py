"""Arrow's record batches as JSON lines: declared columns only, by rules that look at one value alone.

Times become ISO texts, in UTC if they have a zone, or whole numbers where the stream's time is an epoch;
decimals become numbers, digit by digit; NaN, which JSON has no word for, and times before year 1 or after
9999 become null, each by itself. A declared column of any other type (bytes, lists, times of day) refuses the
whole, by its schema, before a value of it is looked at. No other column is read. A batch is checked whole
before it is read.

**Promise.** Memory is bounded by a small multiple of the longest body, however a stream is made. It is
measured before it is decoded (`arrow_sizes`). Rows are made into lines a few at a time if one long text may
stand in many of them, by a dictionary or by views.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.query.packages import needs
from streamgauge.query.settings import Stream
from streamgauge.server.arrow_sizes import check_sizes
from streamgauge.server.bodies import malformed
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.limits import too_large

ROWS = 1000  # made into lines at a time
TEXT_BYTES = 2**20  # of one column that are, unless one value is longer
VIEW_BYTES = 16  # of a text view, the first four of which are its length
LONGEST = 100  # characters of a type that are told
PLAIN = (
    *("null", "boolean", "integer", "floating", "decimal", "timestamp", "date"),
    *("string", "large_string", "string_view"),
)
EPOCHS = {"epoch s": "s", "epoch ms": "ms", "epoch us": "us", "epoch ns": "ns"}
PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SINCE = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def arrow_lines(body: bytes, stream: Stream, most: int) -> bytes:
    with needs("pyarrow", "streamgauge[arrow]"):
        import pyarrow as arrow
    parts, length = [], 0
    try:
        for part in _parts(arrow, body, stream, most):
            length += len(part)
            if length > most:
                raise too_large(most)
            parts.append(part)
    except HttpRefusal:
        raise
    except Exception:
        raise malformed("an Arrow stream") from None
    return b"".join(parts)


def _parts(arrow: Any, body: bytes, stream: Stream, most: int) -> Iterator[bytes]:
    schema = check_sizes(arrow, body, most)
    known = [name for name in _declared(stream) if schema.names.count(name) == 1]
    epochs = {stream.time: EPOCHS.get(stream.time_format)}
    for name in known:
        _check(arrow, schema.field(name))
    if not known:  # nothing of it would be read, and pyarrow takes no field for all fields
        return
    shortest = len(_line(known, (0,) * len(known))) + 1
    fields = [schema.get_field_index(name) for name in known]
    options = arrow.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    with arrow.ipc.open_stream(body, options=options) as reader:
        columns_read = ValidatedColumns(arrow, most)
        for batch in reader:
            batch.validate()
            step = min(columns_read.validate(name, batch.column(name)) for name in known)
            if batch.num_rows * shortest > most:
                raise too_large(most)
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                columns = [_texts(arrow, part.column(name), epochs.get(name)) for name in known]
                lines = (_line(known, values) for values in zip(*columns, strict=True))
                yield "".join(f"{line}\n" for line in lines).encode()


class ValidatedColumns:
    """Validation of the columns of a stream, in time that is bounded like its memory.

    Batches that share a dictionary validate it once. Else a few megabytes of small batches would validate one
    large dictionary a hundred thousand times. Views are added up first, since each is validated by itself.
    """

    def __init__(self, arrow: Any, most: int) -> None:
        self._arrow, self._most = arrow, most
        self._known: dict[str, tuple[Any, int]] = {}  # by column: its newest dictionary, rows at a time

    def validate(self, name: str, column: Any) -> int:
        """Return how many rows of the column are made into lines at a time.

        Raises:
            Exception: The column is malformed.
        """
        if not self._arrow.types.is_dictionary(column.type):
            return self._validate_whole(column, column)
        known, step = self._known.get(name, (None, 0))
        values = column.dictionary
        if known is None or _memory(known) != _memory(values):
            step = self._validate_whole(column, values)
            self._known[name] = values, step  # alive, so that no other dictionary gets its addresses
        else:
            self._validate_indices(column.indices, len(values))
        return step

    def _validate_whole(self, column: Any, values: Any) -> int:
        if self._arrow.types.is_string_view(values.type) and _view_lengths(values).sum() > self._most:
            raise too_large(self._most)
        column.validate(full=True)
        return _rows_at_once(self._arrow, column)

    def _validate_indices(self, indices: Any, count: int) -> None:
        from pyarrow import compute

        indices.validate(full=True)
        ends = compute.min_max(indices).as_py()
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < count:
            raise ValueError("indices must be inside their dictionary")


def _memory(values: Any) -> list[Any]:
    """Return where the values of an array are."""
    buffers = [None if each is None else (each.address, each.size) for each in values.buffers()]
    return [len(values), values.offset, *buffers]


def _view_lengths(values: Any) -> npt.NDArray[np.int64]:
    """Return the lengths of texts that are views."""
    lengths = np.frombuffer(values.buffers()[1] or b"", "<i4")[:: VIEW_BYTES // 4]
    return lengths[values.offset : values.offset + len(values)].astype(np.int64).clip(0)


def _rows_at_once(arrow: Any, column: Any) -> int:
    """Return how many rows are made into lines at a time: few if one long text may stand in many."""
    types = arrow.types
    values = column.dictionary if types.is_dictionary(column.type) else column
    if types.is_string_view(values.type):
        longest = int(_view_lengths(values).max(initial=0))
    elif values is not column and (types.is_string(values.type) or types.is_large_string(values.type)):
        from pyarrow import compute

        longest = compute.max(compute.binary_length(values)).as_py() or 0
    else:
        return ROWS
    return max(1, min(ROWS, TEXT_BYTES // max(1, longest)))


def _check(arrow: Any, field: Any) -> None:
    """Refuses a column whose values are no numbers, texts or times."""
    types, kind = arrow.types, field.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if not any(getattr(types, f"is_{plain}")(kind) for plain in PLAIN):
        told = f"column {field.name} must be of numbers, texts or times, got {str(field.type)[:LONGEST]}"
        raise HttpRefusal(422, "column_type", told)


def _declared(stream: Stream) -> list[str]:
    return list(dict.fromkeys([stream.time, *stream.columns, *filter(None, [stream.user])]))


def _texts(arrow: Any, column: Any, epoch: str | None) -> list[Any]:
    """The values of a column, of which Python may not have some times; as numbers of an epoch's units, if
    the file's time format means these."""
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind) and not types.is_string_view(kind.value_type):  # pyarrow decodes no views
        return _texts(arrow, column.dictionary_decode(), epoch)
    if types.is_date(kind):
        return [text and text[:10] for text in _times(column.cast(arrow.timestamp("s"), safe=False))]
    if types.is_timestamp(kind):
        return (
            _times(column) if epoch is None else [_units(each, kind.unit, epoch) for each in _whole(column)]
        )
    return list(column.to_pylist())


def _whole(column: Any) -> list[int | None]:
    return list(column.cast("int64").to_pylist())


def _times(column: Any) -> list[str | None]:
    """Instants are kept in UTC, whatever zone a column names."""
    zone = "+00:00" if column.type.tz else ""
    return [_time(each, column.type.unit, zone) for each in _whole(column)]


def _units(value: int | None, unit: str, other: str) -> int | None:
    """So many units since 1970 in others, if these are not too many.

    >>> _units(1_999, "ms", "s"), _units(2, "s", "us"), _units(2**60, "s", "ns")
    (1, 2000000, None)
    """
    found = None if value is None else value * PARTS[other] // PARTS[unit]
    return None if found is None or abs(found) >= 2**63 else found


def _time(value: int | None, unit: str, zone: str = "") -> str | None:
    """Of so many units since 1970, to the microsecond.

    >>> _time(1, "s"), _time(1_500_000_000, "ns", "+00:00"), _time(2**60, "s")
    ('1970-01-01T00:00:01', '1970-01-01T00:00:01.500000+00:00', None)
    """
    found = _units(value, unit, "us")
    try:
        return None if found is None else (SINCE + timedelta(microseconds=found)).isoformat() + zone
    except OverflowError:
        return None


def _line(names: list[str], values: tuple[Any, ...]) -> str:
    told = (f"{json.dumps(name)}: {_word(value)}" for name, value in zip(names, values, strict=True))
    return f"{{{', '.join(told)}}}"


def _word(value: Any) -> str:
    """
    >>> _word(1), _word(float("nan")), _word("a"), _word(Decimal("0.10"))
    ('1', 'null', '"a"', '0.10')
    """
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, float) and not isfinite(value):
        return "null"
    return json.dumps(value)
