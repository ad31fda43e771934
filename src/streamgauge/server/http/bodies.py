"""Request bodies: read up to a size and a time, decompressed up to the same size, parsed strictly.

**Promise.** Memory has at most the size limit of one body, however it is sent or compressed. A client that
sends slowly is disconnected.

Batches of events become JSON lines:

    application/json                      an object, or an array of objects
    application/x-ndjson                  lines, unchanged
    application/vnd.apache.arrow.stream   Arrow record batches (needs pyarrow)

**Privacy.** A malformed batch (no JSON, no Arrow) is rejected as a whole, and the curator who sent it gets the
reason. Records are not examined here: later, each is cleaned or dropped by rules that look at that record
alone. An array element becomes a line with its original text, so the content type does not change the meaning
of a record. Outside of strings, line ends in JSON are white space, so they become blanks.

Of Arrow, declared columns become JSON by rules that look at one value alone. Times become ISO texts, in UTC if
they have a zone, or integers if the stream's time is an epoch. Decimals become numbers, digit by digit. NaN,
and times before year 1 or after 9999, become null. A declared column of any other type (bytes, lists, times of
day) rejects the whole stream by its schema. Other columns are not read. A batch is validated before it is read.

**Promise.** Memory is bounded by a small multiple of the longest body, however a stream is made. The decoded
size is computed first (`arrow_sizes`). Rows become lines a few at a time if one long text may occur in many of
them, by a dictionary or by views.
"""

import asyncio
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.requests import Request

from streamgauge.config.settings import Stream
from streamgauge.interfaces import ignore
from streamgauge.optional import require_package
from streamgauge.server.http.arrow_sizes import check_sizes
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import BODY_SECONDS, build_too_large_error

MAX_JSON_BODY_BYTES = 2**16  # of a JSON command
JSON_TYPE = "application/json"
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS


def parse_media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def build_unsupported_error(*known: str) -> HttpError:
    return HttpError(415, "media_type", f"content type must be {' or '.join(known)}, got another")


def build_malformed_error(rule: str) -> HttpError:
    return HttpError(400, "malformed_request", f"body must be {rule}, got something else")


async def read_body(
    request: Request, most: int, *, seconds: float = BODY_SECONDS, count_bytes: Callable[[int], None] = ignore
) -> bytes:
    """Return the body as it was sent."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise build_too_large_error(most)
    try:
        async with asyncio.timeout(seconds):
            return await _read_chunks(request, most, count_bytes)
    except TimeoutError:
        rule = f"body must be sent within {seconds:g} s, got a part of it"
        raise HttpError(408, "request_timeout", rule, {"Connection": "close"}) from None


async def _read_chunks(request: Request, most: int, hold: Callable[[int], None]) -> bytes:
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > most:
            raise build_too_large_error(most)
        hold(len(part))
        parts.append(part)
    return b"".join(parts)


def decompress_body(body: bytes, encoding: str, most: int) -> bytes:
    """Return the decompressed body."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise HttpError(415, "encoding", "content encoding must be gzip or left out, got another")
    inflater = zlib.decompressobj(GZIP_WINDOW_BITS)
    try:
        found = inflater.decompress(body, most + 1)
    except zlib.error:
        raise build_malformed_error("in its content encoding") from None
    if len(found) > most:
        raise build_too_large_error(most)
    if not inflater.eof or inflater.unused_data:
        raise build_malformed_error("whole, and nothing more, in its content encoding")
    return found


async def read_json_object(request: Request, *, most: int = MAX_JSON_BODY_BYTES) -> dict[str, Any]:
    """Return a body that is one JSON object. Numbers are exact; duplicate keys are rejected."""
    if parse_media_type(request) != JSON_TYPE:
        raise build_unsupported_error(JSON_TYPE)
    body = await read_body(request, most)
    try:
        found = json.loads(
            body, parse_float=Decimal, parse_constant=_reject_constant, object_pairs_hook=_reject_duplicate_keys
        )
    except (ValueError, RecursionError):
        raise build_malformed_error("a JSON object") from None
    if not isinstance(found, dict):
        raise build_malformed_error("a JSON object")
    return found


def _reject_constant(word: str) -> None:
    raise ValueError


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


NDJSON_TYPE = "application/x-ndjson"
ARROW_TYPE = "application/vnd.apache.arrow.stream"
JSON_RULE = "JSON in UTF-8"
BLANKS_PATTERN = re.compile(r"[ \t\r\n]*")
LINE_BREAKS_TO_SPACES = str.maketrans("\r\n", "  ")


def to_lines(kind: str, body: bytes, stream: Stream, most: int) -> bytes:
    """Return the JSON lines of a batch; at most `most` bytes if they are longer than the body."""
    if kind not in LINE_CONVERTERS:
        raise build_unsupported_error(*LINE_CONVERTERS)
    return LINE_CONVERTERS[kind](body, stream, most)


def _json_to_lines(body: bytes, stream: Stream, most: int) -> bytes:
    try:
        texts = _split_elements(body.decode())
    except (ValueError, RecursionError):
        raise build_malformed_error(JSON_RULE) from None
    return "".join(f"{text.translate(LINE_BREAKS_TO_SPACES)}\n" for text in texts).encode()


def _split_elements(text: str) -> list[str]:
    """Return the texts of the elements of an array, or the one text of any other value.

    >>> _split_elements(' [{"a": 1.50} , {"a": "]"}] ')
    ['{"a": 1.50}', '{"a": "]"}']
    """
    decode, at = json.JSONDecoder(parse_int=str).raw_decode, _skip_blanks(text, 0)  # numbers of any length
    if not text.startswith("[", at):
        return [text[at : _check_end(text, decode(text, at)[1])].rstrip()]
    found: list[str] = []
    at = _skip_blanks(text, at + 1)
    if text.startswith("]", at):
        _check_end(text, at + 1)
        return found
    while True:
        end = decode(text, at)[1]
        found.append(text[at:end])
        at = _skip_blanks(text, end)
        if text.startswith("]", at):
            _check_end(text, at + 1)
            return found
        if not text.startswith(",", at):
            raise ValueError
        at = _skip_blanks(text, at + 1)


def _skip_blanks(text: str, at: int) -> int:
    found = BLANKS_PATTERN.match(text, at)
    return at if found is None else found.end()


def _check_end(text: str, at: int) -> int:
    """Return the position if nothing but blanks follows it."""
    if _skip_blanks(text, at) != len(text):
        raise ValueError
    return at


MAX_CHUNK_ROWS = 1000  # made into lines at a time
MAX_CHUNK_TEXT_BYTES = 2**20  # of one column that are, unless one value is longer
VIEW_BYTES = 16  # of a text view, the first four of which are its length
MAX_TYPE_CHARS = 100  # of a type in an error message
SUPPORTED_TYPES = (
    *("null", "boolean", "integer", "floating", "decimal", "timestamp", "date"),
    *("string", "large_string", "string_view"),
)
EPOCH_UNITS = {"epoch s": "s", "epoch ms": "ms", "epoch us": "us", "epoch ns": "ns"}
UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def arrow_to_lines(body: bytes, stream: Stream, most: int) -> bytes:
    with require_package("pyarrow", "streamgauge[arrow]"):
        import pyarrow as arrow
    parts, length = [], 0
    try:
        for part in _iterate_chunks(arrow, body, stream, most):
            length += len(part)
            if length > most:
                raise build_too_large_error(most)
            parts.append(part)
    except HttpError:
        raise
    except Exception:
        raise build_malformed_error("an Arrow stream") from None
    return b"".join(parts)


def _iterate_chunks(arrow: Any, body: bytes, stream: Stream, most: int) -> Iterator[bytes]:
    schema = check_sizes(arrow, body, most)
    known = [name for name in _list_declared_columns(stream) if schema.names.count(name) == 1]
    epochs = {stream.time: EPOCH_UNITS.get(stream.time_format)}
    for name in known:
        _check_type(arrow, schema.field(name))
    if not known:  # nothing would be read, and pyarrow reads an empty list as all fields
        return
    shortest = len(_format_record(known, (0,) * len(known))) + 1
    fields = [schema.get_field_index(name) for name in known]
    options = arrow.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
    with arrow.ipc.open_stream(body, options=options) as reader:
        columns_read = ColumnValidator(arrow, most)
        for batch in reader:
            batch.validate()
            step = min(columns_read.validate(name, batch.column(name)) for name in known)
            if batch.num_rows * shortest > most:
                raise build_too_large_error(most)
            for start in range(0, batch.num_rows, step):
                part = batch.slice(start, step)
                columns = [_to_values(arrow, part.column(name), epochs.get(name)) for name in known]
                lines = (_format_record(known, values) for values in zip(*columns, strict=True))
                yield "".join(f"{line}\n" for line in lines).encode()


class ColumnValidator:
    """Validation of the columns of a stream, in time that is bounded like its memory.

    Batches that share a dictionary validate it once. Else a few megabytes of small batches would validate one
    large dictionary a hundred thousand times. Views are added up first, since each is validated by itself.
    """

    def __init__(self, arrow: Any, most: int) -> None:
        self._arrow, self._max_bytes = arrow, most
        self._dictionaries: dict[str, tuple[Any, int]] = {}  # by column: its newest dictionary, rows at a time

    def validate(self, name: str, column: Any) -> int:
        """Return how many rows of the column are made into lines at a time.

        Raises:
            Exception: The column is malformed.
        """
        if not self._arrow.types.is_dictionary(column.type):
            return self._validate_whole(column, column)
        known, step = self._dictionaries.get(name, (None, 0))
        values = column.dictionary
        if known is None or _list_buffers(known) != _list_buffers(values):
            step = self._validate_whole(column, values)
            self._dictionaries[name] = values, step  # alive, so that no other dictionary gets its addresses
        else:
            self._validate_indices(column.indices, len(values))
        return step

    def _validate_whole(self, column: Any, values: Any) -> int:
        if self._arrow.types.is_string_view(values.type) and _read_view_lengths(values).sum() > self._max_bytes:
            raise build_too_large_error(self._max_bytes)
        column.validate(full=True)
        return _compute_chunk_rows(self._arrow, column)

    def _validate_indices(self, indices: Any, count: int) -> None:
        from pyarrow import compute

        indices.validate(full=True)
        ends = compute.min_max(indices).as_py()
        if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < count:
            raise ValueError("indices must be inside their dictionary")


def _list_buffers(values: Any) -> list[Any]:
    """Return where the values of an array are."""
    buffers = [None if each is None else (each.address, each.size) for each in values.buffers()]
    return [len(values), values.offset, *buffers]


def _read_view_lengths(values: Any) -> npt.NDArray[np.int64]:
    """Return the lengths of texts that are views."""
    lengths = np.frombuffer(values.buffers()[1] or b"", "<i4")[:: VIEW_BYTES // 4]
    return lengths[values.offset : values.offset + len(values)].astype(np.int64).clip(0)


def _compute_chunk_rows(arrow: Any, column: Any) -> int:
    """Return how many rows are made into lines at a time: few if one long text may stand in many."""
    types = arrow.types
    values = column.dictionary if types.is_dictionary(column.type) else column
    if types.is_string_view(values.type):
        longest = int(_read_view_lengths(values).max(initial=0))
    elif values is not column and (types.is_string(values.type) or types.is_large_string(values.type)):
        from pyarrow import compute

        longest = compute.max(compute.binary_length(values)).as_py() or 0
    else:
        return MAX_CHUNK_ROWS
    return max(1, min(MAX_CHUNK_ROWS, MAX_CHUNK_TEXT_BYTES // max(1, longest)))


def _check_type(arrow: Any, field: Any) -> None:
    """Reject a column whose values are not numbers, texts or times."""
    types, kind = arrow.types, field.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    if not any(getattr(types, f"is_{plain}")(kind) for plain in SUPPORTED_TYPES):
        rule = f"column {field.name} must be of numbers, texts or times, got {str(field.type)[:MAX_TYPE_CHARS]}"
        raise HttpError(422, "column_type", rule)


def _list_declared_columns(stream: Stream) -> list[str]:
    return list(dict.fromkeys([stream.time, *stream.columns, *filter(None, [stream.user])]))


def _to_values(arrow: Any, column: Any, epoch: str | None) -> list[Any]:
    """Return the values of a column. Times become numbers if the file's time format is an epoch."""
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind) and not types.is_string_view(kind.value_type):  # pyarrow decodes no views
        return _to_values(arrow, column.dictionary_decode(), epoch)
    if types.is_date(kind):
        return [text and text[:10] for text in _to_timestamps(column.cast(arrow.timestamp("s"), safe=False))]
    if types.is_timestamp(kind):
        if epoch is None:
            return _to_timestamps(column)
        return [_convert_units(each, kind.unit, epoch) for each in _to_integers(column)]
    return list(column.to_pylist())


def _to_integers(column: Any) -> list[int | None]:
    return list(column.cast("int64").to_pylist())


def _to_timestamps(column: Any) -> list[str | None]:
    """Return times as text, in UTC if the column has a zone."""
    zone = "+00:00" if column.type.tz else ""
    return [_format_timestamp(each, column.type.unit, zone) for each in _to_integers(column)]


def _convert_units(value: int | None, unit: str, other: str) -> int | None:
    """Convert a time since 1970 to another unit; None if it does not fit.

    >>> _convert_units(1_999, "ms", "s"), _convert_units(2, "s", "us"), _convert_units(2**60, "s", "ns")
    (1, 2000000, None)
    """
    found = None if value is None else value * UNITS_PER_SECOND[other] // UNITS_PER_SECOND[unit]
    return None if found is None or abs(found) >= 2**63 else found


def _format_timestamp(value: int | None, unit: str, zone: str = "") -> str | None:
    """Return a time since 1970 as text, to the microsecond.

    >>> _format_timestamp(1, "s"), _format_timestamp(1_500_000_000, "ns", "+00:00"), _format_timestamp(2**60, "s")
    ('1970-01-01T00:00:01', '1970-01-01T00:00:01.500000+00:00', None)
    """
    found = _convert_units(value, unit, "us")
    try:
        return None if found is None else (UNIX_EPOCH + timedelta(microseconds=found)).isoformat() + zone
    except OverflowError:
        return None


def _format_record(names: list[str], values: tuple[Any, ...]) -> str:
    fields = (f"{json.dumps(name)}: {_format_value(value)}" for name, value in zip(names, values, strict=True))
    return f"{{{', '.join(fields)}}}"


def _format_value(value: Any) -> str:
    """
    >>> _format_value(1), _format_value(float("nan")), _format_value("a"), _format_value(Decimal("0.10"))
    ('1', 'null', '"a"', '0.10')
    """
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else "null"
    if isinstance(value, float) and not isfinite(value):
        return "null"
    return json.dumps(value)


LINE_CONVERTERS: Mapping[str, Callable[[bytes, Stream, int], bytes]] = {
    JSON_TYPE: _json_to_lines,
    NDJSON_TYPE: lambda body, stream, most: body,
    ARROW_TYPE: arrow_to_lines,
}
