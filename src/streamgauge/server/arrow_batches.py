"""Arrow's record batches as JSON lines: declared columns only, by rules that look at one value alone.

Times become ISO texts, or whole numbers where the stream's time is an epoch; decimals become numbers, digit
by digit; NaN, which JSON has no word for, becomes null. A declared column of any other type (bytes, lists,
times of day) refuses the whole, by its schema, before a value of it is looked at. A batch is checked whole
before it is read, and its lines are bounded, since a dictionary can repeat one long text a million times.
"""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from math import isfinite
from typing import Any

from streamgauge.query.packages import needs
from streamgauge.query.settings import Stream
from streamgauge.server.bodies import malformed
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.limits import too_large

ROWS = 1000  # made into lines at a time
LONGEST = 100  # characters of a type that are told
PLAIN = (
    *("null", "boolean", "integer", "floating", "decimal", "timestamp", "date"),
    *("string", "large_string", "string_view"),
)
EPOCHS = {"epoch s": "s", "epoch ms": "ms", "epoch us": "us", "epoch ns": "ns"}


def arrow_lines(body: bytes, stream: Stream, most: int) -> bytes:
    with needs("pyarrow", "streamgauge[arrow]"):
        import pyarrow as arrow
    parts, length = [], 0
    try:
        for part in _parts(arrow, body, stream):
            length += len(part)
            if length > most:
                raise too_large(most)
            parts.append(part)
    except HttpRefusal:
        raise
    except Exception:
        raise malformed("an Arrow stream") from None
    return b"".join(parts)


def _parts(arrow: Any, body: bytes, stream: Stream) -> Iterator[bytes]:
    with arrow.ipc.open_stream(body) as reader:
        known = [name for name in _declared(stream) if reader.schema.names.count(name) == 1]
        for name in known:
            _check(arrow, reader.schema.field(name))
        for batch in reader:
            batch.validate(full=True)
            table = _timed(arrow, batch.select(known), stream)
            for start in range(0, table.num_rows, ROWS):
                rows = table.slice(start, ROWS).to_pylist()
                yield "".join(f"{_line(row)}\n" for row in rows).encode()


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


def _timed(arrow: Any, batch: Any, stream: Stream) -> Any:
    """A column of timestamps as the numbers that the file's time format means."""
    unit, names = EPOCHS.get(stream.time_format), batch.schema.names
    if unit is None or stream.time not in names:
        return batch
    place = names.index(stream.time)
    if not arrow.types.is_timestamp(batch.schema.field(place).type):
        return batch
    whole = batch.column(place).cast(arrow.timestamp(unit), safe=False).cast(arrow.int64())
    return batch.set_column(place, stream.time, whole)


def _line(row: dict[str, Any]) -> str:
    return f"{{{', '.join(f'{json.dumps(name)}: {_word(value)}' for name, value in row.items())}}}"


def _word(value: Any) -> str:
    """
    >>> _word(1), _word(float("nan")), _word(date(2026, 1, 5)), _word(Decimal("0.10"))
    ('1', 'null', '"2026-01-05"', '0.10')
    """
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, float) and not isfinite(value):
        return "null"
    return json.dumps(value.isoformat() if isinstance(value, date) else value)
