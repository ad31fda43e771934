"""Release of one tick as bytes: exact to the bit, and small for simple rows.

    version | measures, places, tick, start, end | fingerprint of the shape | a kind for each row
            | rows of value, stddev, low and high, one for each measure | reliable, a bit each
            | CRC-32 of all before

If each tick has its own groups, the version is TICK_GROUPS_VERSION. Then after the header come the length of the
labels and the labels themselves, group by group, as a JSON array.

A row is stored as one number if all places share it (standard errors often do), as 32-bit whole numbers if it
has nothing else (counts and their bounds), and as doubles otherwise.

Promise
    The output is the input, to the bit, or an error. Proof: a kind is chosen only if the row made
    from it has the same bits. Any other shape has another fingerprint, and torn or altered bytes another
    sum. The sum detects accidents, not forgeries.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual.state_io import InvalidSaveError

if TYPE_CHECKING:
    from streamgauge.releases.release import TickRelease
    from streamgauge.releases.schema import ReleaseSchema

VERSION, TICK_GROUPS_VERSION = 1, 2
HEADER = struct.Struct("<BIIqqq8s")
CHECKSUM = struct.Struct("<I")
LENGTH = struct.Struct("<I")
CONSTANT_ROW, INT32_ROW, DOUBLE_ROW = range(3)  # kinds of rows
Floats = npt.NDArray[np.float64]


def pack(released: "TickRelease") -> bytes:
    """Return a release as bytes."""
    shape = released.shape
    header = HEADER.pack(
        TICK_GROUPS_VERSION if shape.has_tick_groups else VERSION,
        len(shape.measures),
        len(shape.groups),
        released.tick,
        released.start,
        released.end,
        shape.fingerprint,
    )
    rows = list(_pack_rows(np.concatenate(released.numbers)))
    kinds = bytes(kind for kind, _ in rows)
    reliable = np.packbits(released.reliable, axis=None).tobytes()
    body = b"".join([header, _pack_labels(shape), kinds, *(data for _, data in rows), reliable])
    return body + CHECKSUM.pack(zlib.crc32(body))


def unpack(shape: "ReleaseSchema", data: bytes) -> dict[str, Any]:
    """Return the fields of the packed release. The tick's own groups, if it has some, are added to `shape`."""
    body = memoryview(data)[: -CHECKSUM.size]
    if len(body) < HEADER.size or CHECKSUM.pack(zlib.crc32(body)) != data[-CHECKSUM.size :]:
        raise InvalidSaveError("packed release must be whole, got torn or altered bytes")
    version, measures, places, tick, start, end, fingerprint = HEADER.unpack_from(body)
    expected = TICK_GROUPS_VERSION if shape.has_tick_groups else VERSION
    if version != expected:
        raise InvalidSaveError(f"packed release must be of version {expected}, got {version}")
    own, rest = _unpack_schema(shape, body[HEADER.size :])
    if (measures, places, fingerprint) != (len(own.measures), len(own.groups), own.fingerprint):
        raise InvalidSaveError(f"packed release must be of release {shape.release!r} as it is, got another shape")
    numbers, reliable = _unpack_rows(rest, measures, places)
    return {"shape": own, "tick": tick, "start": start, "end": end, **numbers, "reliable": reliable}


def _pack_labels(shape: "ReleaseSchema") -> bytes:
    """Return the bytes of the groups of a tick that has its own."""
    if not shape.has_tick_groups:
        return b""
    labels = json.dumps([label for place in shape.groups for _, label in place.labels]).encode()
    return LENGTH.pack(len(labels)) + labels


def _unpack_schema(shape: "ReleaseSchema", rest: memoryview) -> tuple["ReleaseSchema", memoryview]:
    """Return the shape with the packed groups, and the remaining bytes."""
    if not shape.has_tick_groups:
        return shape, rest
    try:
        (length,) = LENGTH.unpack_from(rest)
        end = LENGTH.size + length
        return shape.with_groups(json.loads(bytes(rest[LENGTH.size : end]))), rest[end:]
    except (struct.error, ValueError, TypeError):
        raise InvalidSaveError(f"packed release must be of release {shape.release!r} as it is, got others") from None


def _unpack_rows(rest: memoryview, measures: int, places: int) -> tuple[dict[str, Floats], Any]:
    numbers = np.empty((4, measures, places))
    kinds, rest = rest[: 4 * measures], rest[4 * measures :]
    for row, kind in zip(numbers.reshape(4 * measures, places), kinds, strict=True):
        dtype = np.dtype("<i4" if kind == INT32_ROW else "<f8")
        size = dtype.itemsize * (1 if kind == CONSTANT_ROW else places)
        row[:] = np.frombuffer(rest[:size], dtype)
        rest = rest[size:]
    bits = np.unpackbits(np.frombuffer(rest, np.uint8), count=measures * places)
    reliable = bits.astype(np.bool_).reshape(measures, places)
    return dict(zip(("value", "stddev", "low", "high"), numbers, strict=True)), reliable


def _pack_rows(rows: Floats) -> Iterator[tuple[int, bytes]]:
    """Return the smallest kind that preserves every bit, and the bytes, of each row."""
    bits, doubles = rows.view(np.int64), rows.astype("<f8", copy=False)
    with np.errstate(invalid="ignore"):
        whole = rows.astype("<i4")
    alike = (bits == bits[:, :1]).all(axis=1) & (rows.shape[1] > 0)
    exact = (whole.astype(np.float64).view(np.int64) == bits).all(axis=1)
    for row, (one, is_exact) in enumerate(zip(alike.tolist(), exact.tolist(), strict=True)):
        if one:
            yield CONSTANT_ROW, doubles[row, :1].tobytes()
        elif is_exact:
            yield INT32_ROW, whole[row].tobytes()
        else:
            yield DOUBLE_ROW, doubles[row].tobytes()
