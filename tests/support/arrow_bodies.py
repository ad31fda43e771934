"""Hostile Arrow streams: small bodies that ask for much memory. Run as a program, it measures them.

    python -m tests.support.arrow_bodies FOLDER

prints for each body of the folder how it was answered, and the most that pyarrow had allocated by then.
"""

import json
import resource
import struct
import sys
from pathlib import Path
from typing import Any

import pyarrow as arrow

MOST = 2**20  # as [server] max_body
LONG = "x" * (MOST - 4096)  # a text that a body may have
HUGE = 16 * MOST
REGION = "region"  # a declared column


def stream(*columns: tuple[str, Any], **options: Any) -> bytes:
    batch = arrow.record_batch([column for _, column in columns], names=[name for name, _ in columns])
    settings = arrow.ipc.IpcWriteOptions(allow_64bit=True, **options)
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, batch.schema, options=settings) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def repeated(text: str, rows: int = 1000) -> Any:
    """One text in many rows, by a dictionary."""
    return arrow.DictionaryArray.from_arrays(arrow.array([0] * rows, arrow.int32()), arrow.array([text]))


def views(text: str, rows: int = 1000) -> Any:
    """One text in many rows, by views."""
    data = text.encode(errors="surrogateescape")
    view = struct.pack("<i4sii", len(data), data[:4], 0, 0)
    buffers = [None, arrow.py_buffer(view * rows), arrow.py_buffer(data)]
    return arrow.Array.from_buffers(arrow.string_view(), rows, buffers)


def nulls(rows: int) -> Any:
    """Rows that take no memory."""
    return arrow.Array.from_buffers(arrow.null(), rows, [None])


def many_buffers() -> bytes:
    """A batch that says that one column has two billion buffers."""
    body = stream((REGION, views("a long text that is not in line", 3)))
    one = struct.pack("<Iq", 1, 1)  # a vector of one number
    places = [place for place in range(len(body)) if body.startswith(one, place)]
    place = places[-1] if len(places) > 1 else places[0]
    return body[:place] + struct.pack("<Iq", 1, 2**31 - 1) + body[place + len(one) :]


class Flat:
    """A FlatBuffer that is written from front to back."""

    def __init__(self) -> None:
        self.data = bytearray(4)
        self._wanted: list[tuple[int, str]] = [(0, "message")]
        self._places: dict[str, int] = {}

    def table(self, name: str, **slots: tuple[int, Any]) -> None:
        """Add a table whose slots are `number = (size, value)` or `(4, "name of the referenced part")`."""
        count = 1 + max((int(slot[1:]) for slot in slots), default=-1)
        offsets, place = [0] * count, 4
        for slot, (size, _) in sorted(slots.items(), key=lambda each: -each[1][0]):
            place += -place % size
            offsets[int(slot[1:])] = place
            place += size
        self.data += bytes(-len(self.data) % 8)
        begin = len(self.data) + (4 + 2 * count) + -(4 + 2 * count) % 8
        self.data += struct.pack(f"<HH{count}H", 4 + 2 * count, place, *offsets)
        self.data += bytes(begin - len(self.data)) + bytes(place)
        struct.pack_into("<i", self.data, begin, begin - (begin - (4 + 2 * count) - (-(4 + 2 * count) % 8)))
        self._places[name] = begin
        for slot, (size, value) in slots.items():
            at = begin + offsets[int(slot[1:])]
            if isinstance(value, str):
                self._wanted.append((at, value))
            else:
                self.data[at : at + size] = value.to_bytes(size, "little")

    def vector(self, name: str, targets: list[str]) -> None:
        self.data += bytes(-len(self.data) % 4)
        self._places[name] = len(self.data)
        self.data += struct.pack("<I", len(targets))
        self._wanted += [(len(self.data) + 4 * number, target) for number, target in enumerate(targets)]
        self.data += bytes(4 * len(targets))

    def text(self, name: str, text: bytes) -> None:
        self.data += bytes(-len(self.data) % 4)
        self._places[name] = len(self.data)
        self.data += struct.pack("<I", len(text)) + text + b"\0"

    def message(self) -> bytes:
        for at, target in self._wanted:
            struct.pack_into("<I", self.data, at, self._places[target] - at)
        self.data += bytes(-len(self.data) % 8)
        return struct.pack("<Ii", 0xFFFFFFFF, len(self.data)) + bytes(self.data)


def schema(
    *, fields: int = 1, pairs: int = 0, depth: int = 0, text: bytes = b"n", endian: int = 0, version: int = 4
) -> bytes:
    """A stream of a schema alone, whose fields and pairs are the same one, again and again."""
    flat = Flat()
    details = {"_4": (4, "pairs")} if version != 4 else {}
    flat.table("message", _0=(2, version), _1=(1, 1), _2=(4, "schema"), **details)
    flat.table("schema", _0=(2, endian), _1=(4, "fields"), _2=(4, "pairs"))
    flat.vector("fields", ["field0"] * fields)
    for level in range(depth):
        flat.table(f"field{level}", _0=(4, "name"), _2=(1, 13), _3=(4, "type"), _5=(4, f"children{level}"))
        flat.vector(f"children{level}", [f"field{level + 1}"] * 2)
    flat.table(f"field{depth}", _0=(4, "name"), _2=(1, 1), _3=(4, "type"))
    flat.vector("pairs", ["pair"] * pairs)
    flat.table("pair", _0=(4, "name"), _1=(4, "name"))
    flat.table("type")
    flat.text("name", text)
    return flat.message() + struct.pack("<II", 0xFFFFFFFF, 0)


def deltas() -> bytes:
    kind = arrow.schema([(REGION, arrow.dictionary(arrow.int32(), arrow.string()))])
    sink = arrow.BufferOutputStream()
    options = arrow.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with arrow.ipc.new_stream(sink, kind, options=options) as writer:
        for words in (["a"], ["a", "b"]):
            column = arrow.DictionaryArray.from_arrays(arrow.array([0], arrow.int32()), arrow.array(words))
            writer.write_batch(arrow.record_batch([column], schema=kind))
    found: bytes = sink.getvalue().to_pybytes()
    return found


def bodies() -> dict[str, tuple[bytes, int | None]]:
    """By name: a body, and the status of its refusal."""
    zeros = arrow.Array.from_buffers(arrow.int64(), HUGE // 8, [None, arrow.py_buffer(bytes(HUGE))])
    north = (REGION, arrow.array(["north"]))
    ends = arrow.array([2**40], arrow.int64())
    runs = arrow.RunEndEncodedArray.from_arrays(ends, arrow.array(["x"]))
    wide = arrow.FixedSizeListArray.from_arrays(nulls(2**31 - 1), 2**31 - 1)
    return {
        "a compressed dictionary": (stream((REGION, repeated("x" * HUGE)), compression="zstd"), 413),
        "the same, by LZ4": (stream((REGION, repeated("x" * HUGE)), compression="lz4"), 413),
        "a dictionary that is repeated": (stream((REGION, repeated(LONG))), 413),
        "a compressed dictionary that fits": (stream((REGION, repeated(LONG)), compression="zstd"), 413),
        "views that are repeated": (stream((REGION, views(LONG))), 413),
        "a dictionary of views": (stream((REGION, arrow.DictionaryArray.from_arrays([0] * 1000, views(LONG, 1)))), 413),
        "a compressed column that is not declared": (
            stream(north, ("other", arrow.array(["x" * HUGE])), compression="zstd"),
            413,
        ),
        "a compressed dictionary that is not declared": (
            stream(north, ("other", repeated("x" * HUGE, 1)), compression="zstd"),
            413,
        ),
        "zeros": (stream((REGION, zeros), compression="zstd"), 413),
        "nulls": (stream((REGION, nulls(2**40))), 413),
        "nulls that are not declared": (stream(("other", nulls(2**40))), None),
        "runs": (stream((REGION, runs)), 422),
        "runs that are not declared": (stream(("ts", nulls(2**40)), ("other", runs)), 413),
        "a list of nulls": (stream((REGION, wide)), 422),
        "a list of nulls that is not declared": (stream(north, ("other", wide)), None),
        "many buffers": (many_buffers(), 400),
        "many fields": (schema(fields=200_000), 413),
        "fields within fields": (schema(depth=14, text=b"n" * 100_000), 413),
        "long names": (schema(fields=1000, text=b"n" * 500_000), 413),
        "long pairs": (schema(pairs=1000, text=b"n" * 500_000), 413),
        "big-endian": (schema(endian=1), 400),
        "pairs of version 4": (schema(version=3, pairs=1), 400),
        "deltas": (deltas(), 400),
        "a plain schema": (schema(), None),
    }


def measure(folder: Path) -> None:
    """Print a line for each body: its name, its status and what pyarrow has allocated at most."""
    from streamgauge.server.http.bodies import arrow_to_lines
    from streamgauge.server.http.errors import HttpError
    from tests.support.people import clinic

    resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
    resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
    declared = clinic(folder).stream
    for file in sorted(folder.iterdir()):
        try:
            arrow_to_lines(file.read_bytes(), declared, MOST)
            status = None
        except HttpError as refusal:
            status = refusal.status
        peak = arrow.default_memory_pool().max_memory()
        print(json.dumps([file.name, status, peak]), flush=True)


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
