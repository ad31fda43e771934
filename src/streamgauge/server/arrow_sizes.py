"""Decoded sizes of an Arrow stream, computed from its metadata before anything is decoded.

A stream of a few hundred bytes can ask for gigabytes: by the lengths that its compressed buffers state, by a
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

from streamgauge.server.limits import too_large

FIELD_BYTES = 512  # that a field takes in memory, beside its texts
TEXT_BYTES = 64
MAX_DEPTH = 64  # fields within fields
SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3  # kinds of messages
VERSION_5 = 4  # as it is numbered there
LITTLE_ENDIAN = 0
TIMESTAMP, UNION = 10, 14  # types that have a text, or a list
BYTE, U16, I16, U32, I32, I64 = (Struct(form) for form in ("<B", "<H", "<h", "<I", "<i", "<q"))
BUFFER = Struct("<qq")  # where it begins in the body, and how long it is there


@dataclass
class Budget:
    """Bytes that decoding may still take."""

    most: int
    spent: int = 0

    def spend(self, size: int) -> None:
        if size < 0:
            raise ValueError("sizes must not be negative")
        self.spent += size
        if self.spent > self.most:
            raise too_large(self.most)


@dataclass(frozen=True)
class Table:
    """A table of a FlatBuffer; slots are numbered in the order of its schema."""

    data: bytes
    place: int

    def number(self, slot: int, form: Struct, default: int = 0) -> int:
        place = self._place(slot)
        return default if place is None else read(form, self.data, place)

    def table(self, slot: int) -> "Table | None":
        place = self._target(slot)
        return None if place is None else Table(self.data, place)

    def tables(self, slot: int) -> Iterator["Table"]:
        first, count = self.vector(slot)
        for place in range(first, first + 4 * count, 4):
            yield Table(self.data, place + read(U32, self.data, place))

    def vector(self, slot: int) -> tuple[int, int]:
        """Return where the elements of a vector or string begin, and how many there are."""
        place = self._target(slot)
        return (0, 0) if place is None else (place + 4, read(U32, self.data, place))

    def _target(self, slot: int) -> int | None:
        place = self._place(slot)
        return None if place is None else place + read(U32, self.data, place)

    def _place(self, slot: int) -> int | None:
        slots = self.place - read(I32, self.data, self.place)
        if 4 + 2 * slot >= read(U16, self.data, slots):
            return None
        offset = read(U16, self.data, slots + 4 + 2 * slot)
        return self.place + offset if offset else None


def read(form: Struct, data: Any, place: int) -> int:
    """Return one number; raise if it is not inside the data."""
    if place < 0:
        raise ValueError("offsets must not be negative")
    return int(form.unpack_from(data, place)[0])


def check_sizes(arrow: Any, body: bytes, most: int) -> Any:
    """Return the schema of a stream that takes at most `most` bytes once it is decoded.

    Raises:
        HttpRefusal: It takes more.
        Exception: Any other: it is malformed.
    """
    budget, schema = Budget(most), None
    for message in arrow.ipc.MessageReader.open_stream(arrow.BufferReader(body)):
        data = message.metadata.to_pybytes()
        root = Table(data, read(U32, data, 0))
        kind, header = root.number(1, BYTE), root.table(2)
        if header is None or (kind == SCHEMA) != (schema is None):
            raise ValueError("a stream must have one schema, first")
        if root.number(0, I16) != VERSION_5 and root.vector(4)[1]:
            raise ValueError("metadata must be of version 5")
        if kind == SCHEMA:
            measure_schema(header, budget)
            schema = arrow.ipc.read_schema(message)
        else:
            measure_batch(find_batch(header, kind), memoryview(message.body), budget)
    if schema is None:
        raise ValueError("a stream must have a schema")
    return schema


def find_batch(header: Table, kind: int) -> Table:
    """Return the record batch of a message that has one."""
    batch = header.table(1) if kind == DICTIONARY else header
    if kind not in (DICTIONARY, RECORD_BATCH) or batch is None:
        raise ValueError("messages must be batches")
    if kind == DICTIONARY and header.number(2, BYTE):
        raise ValueError("dictionaries must be whole")
    return batch


def measure_batch(batch: Table, body: memoryview, budget: Budget) -> None:
    """Spend the stated lengths of compressed buffers."""
    first, count = batch.vector(2)
    counts, variadic = batch.vector(4)
    if any(not 0 <= read(I64, batch.data, counts + 8 * each) <= count for each in range(variadic)):
        raise ValueError("buffers must be as many as there are")
    if batch.table(3) is None:
        return
    for place in range(first, first + BUFFER.size * count, BUFFER.size):
        begin, length = BUFFER.unpack_from(batch.data, place)
        stated = read(I64, body, begin) if length else 0
        budget.spend(max(0, length - I64.size) if stated == -1 else stated)


def measure_schema(schema: Table, budget: Budget) -> None:
    """Spend the size of all fields and of the metadata beside them."""
    if schema.number(0, I16) != LITTLE_ENDIAN:
        raise ValueError("a stream must be little-endian")
    measure_pairs(schema, 2, budget)
    for field in schema.tables(1):
        measure_field(field, budget, MAX_DEPTH)


def measure_field(field: Table, budget: Budget, depth: int) -> None:
    """Spend the size of a field and of those within it."""
    if depth == 0:
        raise ValueError("fields must not be nested so deep")
    budget.spend(FIELD_BYTES + field.vector(0)[1])
    kind, settings = field.number(2, BYTE), field.table(3)
    if settings is not None and kind in (TIMESTAMP, UNION):
        budget.spend(4 * settings.vector(1)[1])
    measure_pairs(field, 6, budget)
    for child in field.tables(5):
        measure_field(child, budget, depth - 1)


def measure_pairs(table: Table, slot: int, budget: Budget) -> None:
    """Spend the size of keys and values."""
    for pair in table.tables(slot):
        budget.spend(TEXT_BYTES + pair.vector(0)[1] + pair.vector(1)[1])
