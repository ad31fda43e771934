"""Decoded sizes of an Arrow stream, computed from its metadata before anything is decoded.

A stream of a few hundred bytes can request gigabytes: by the lengths that its compressed buffers state, by a
text or field that its schema refers to a million times, by a number of buffers. pyarrow allocates all of it
before it looks at a value. It decodes the dictionaries of columns that are not read, too. So each message is
measured first:

    a schema                          all fields, texts and key-value pairs, once for each reference to them
    a record batch or a dictionary    the length that each compressed buffer states

A stream whose sum is above the bound is refused. Uncompressed buffers are parts of the body, which is not
copied. Refused as well are dictionary deltas, which pyarrow joins before they can be validated, big-endian
streams, which it copies, and compression by the rules of Arrow 0.17, which the metadata does not show.

The metadata are FlatBuffers (format/Message.fbs and format/Schema.fbs of Apache Arrow). pyarrow checks their
offsets when it opens a message, and this module checks them again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any

from streamgauge.server.http.limits import build_too_large_error

FIELD_OVERHEAD_BYTES = 512  # memory of a field without its texts
TEXT_OVERHEAD_BYTES = 64
MAX_DEPTH = 64  # fields within fields
SCHEMA_MESSAGE, DICTIONARY_MESSAGE, RECORD_BATCH_MESSAGE = 1, 2, 3  # kinds of messages
METADATA_VERSION_5 = 4  # as it is numbered there
LITTLE_ENDIAN = 0
TIMESTAMP_TYPE, UNION_TYPE = 10, 14  # types that have a text, or a list
BYTE, U16, I16, U32, I32, I64 = (Struct(form) for form in ("<B", "<H", "<h", "<I", "<i", "<q"))
BUFFER = Struct("<qq")  # where it begins in the body, and how long it is there


@dataclass
class DecodedSize:
    """Bytes that decoding has used, with a bound."""

    max_bytes: int
    used_bytes: int = 0

    def add(self, size: int) -> None:
        if size < 0:
            raise ValueError("sizes must not be negative")
        self.used_bytes += size
        if self.used_bytes > self.max_bytes:
            raise build_too_large_error(self.max_bytes)


@dataclass(frozen=True)
class FlatBufferTable:
    """A table of a FlatBuffer; slots are numbered in the order of its schema."""

    data: bytes
    offset: int

    def read_number(self, slot: int, form: Struct, default: int = 0) -> int:
        place = self._find_field(slot)
        return default if place is None else unpack_number(form, self.data, place)

    def read_table(self, slot: int) -> "FlatBufferTable | None":
        place = self._find_target(slot)
        return None if place is None else FlatBufferTable(self.data, place)

    def read_tables(self, slot: int) -> Iterator["FlatBufferTable"]:
        first, count = self.read_vector(slot)
        for place in range(first, first + 4 * count, 4):
            yield FlatBufferTable(self.data, place + unpack_number(U32, self.data, place))

    def read_vector(self, slot: int) -> tuple[int, int]:
        """Return where the elements of a vector or string begin, and how many there are."""
        place = self._find_target(slot)
        return (0, 0) if place is None else (place + 4, unpack_number(U32, self.data, place))

    def _find_target(self, slot: int) -> int | None:
        place = self._find_field(slot)
        return None if place is None else place + unpack_number(U32, self.data, place)

    def _find_field(self, slot: int) -> int | None:
        slots = self.offset - unpack_number(I32, self.data, self.offset)
        if 4 + 2 * slot >= unpack_number(U16, self.data, slots):
            return None
        offset = unpack_number(U16, self.data, slots + 4 + 2 * slot)
        return self.offset + offset if offset else None


def unpack_number(form: Struct, data: Any, place: int) -> int:
    """Return one number; raise if it is not inside the data."""
    if place < 0:
        raise ValueError("offsets must not be negative")
    return int(form.unpack_from(data, place)[0])


def check_sizes(arrow: Any, body: bytes, most: int) -> Any:
    """Return the schema of a stream that takes at most `max_bytes` bytes once it is decoded.

    Raises:
        HttpRefusal: It takes more.
        Exception: Any other: it is malformed.
    """
    budget, schema = DecodedSize(most), None
    for message in arrow.ipc.MessageReader.open_stream(arrow.BufferReader(body)):
        data = message.metadata.to_pybytes()
        root = FlatBufferTable(data, unpack_number(U32, data, 0))
        kind, header = root.read_number(1, BYTE), root.read_table(2)
        if header is None or (kind == SCHEMA_MESSAGE) != (schema is None):
            raise ValueError("a stream must have one schema, first")
        if root.read_number(0, I16) != METADATA_VERSION_5 and root.read_vector(4)[1]:
            raise ValueError("metadata must be of version 5")
        if kind == SCHEMA_MESSAGE:
            measure_schema(header, budget)
            schema = arrow.ipc.read_schema(message)
        else:
            measure_batch(find_batch(header, kind), memoryview(message.body), budget)
    if schema is None:
        raise ValueError("a stream must have a schema")
    return schema


def find_batch(header: FlatBufferTable, kind: int) -> FlatBufferTable:
    """Return the record batch of a message that has one."""
    batch = header.read_table(1) if kind == DICTIONARY_MESSAGE else header
    if kind not in (DICTIONARY_MESSAGE, RECORD_BATCH_MESSAGE) or batch is None:
        raise ValueError("messages must be batches")
    if kind == DICTIONARY_MESSAGE and header.read_number(2, BYTE):
        raise ValueError("dictionaries must be whole")
    return batch


def measure_batch(batch: FlatBufferTable, body: memoryview, budget: DecodedSize) -> None:
    """Spend the stated lengths of compressed buffers."""
    first, count = batch.read_vector(2)
    counts, variadic = batch.read_vector(4)
    if any(not 0 <= unpack_number(I64, batch.data, counts + 8 * each) <= count for each in range(variadic)):
        raise ValueError("buffers must be as many as there are")
    if batch.read_table(3) is None:
        return
    for place in range(first, first + BUFFER.size * count, BUFFER.size):
        begin, length = BUFFER.unpack_from(batch.data, place)
        stated = unpack_number(I64, body, begin) if length else 0
        budget.add(max(0, length - I64.size) if stated == -1 else stated)


def measure_schema(schema: FlatBufferTable, budget: DecodedSize) -> None:
    """Spend the size of all fields and of their metadata."""
    if schema.read_number(0, I16) != LITTLE_ENDIAN:
        raise ValueError("a stream must be little-endian")
    measure_pairs(schema, 2, budget)
    for field in schema.read_tables(1):
        measure_field(field, budget, MAX_DEPTH)


def measure_field(field: FlatBufferTable, budget: DecodedSize, depth: int) -> None:
    """Spend the size of a field and of those within it."""
    if depth == 0:
        raise ValueError("fields must not be nested so deep")
    budget.add(FIELD_OVERHEAD_BYTES + field.read_vector(0)[1])
    kind, settings = field.read_number(2, BYTE), field.read_table(3)
    if settings is not None and kind in (TIMESTAMP_TYPE, UNION_TYPE):
        budget.add(4 * settings.read_vector(1)[1])
    measure_pairs(field, 6, budget)
    for child in field.read_tables(5):
        measure_field(child, budget, depth - 1)


def measure_pairs(table: FlatBufferTable, slot: int, budget: DecodedSize) -> None:
    """Spend the size of keys and values."""
    for pair in table.read_tables(slot):
        budget.add(TEXT_OVERHEAD_BYTES + pair.read_vector(0)[1] + pair.read_vector(1)[1])
