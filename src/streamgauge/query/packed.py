"""A tick's release as bytes: exact to the bit, small where there is little to tell.

    version | measures, places, tick, start, end | fingerprint of the shape | a kind for each row
            | rows of value, stddev, low and high, one for each measure | enough, a bit each
            | CRC-32 of all before

Where groups are discovered the version is FOUND, and after the header come the length of the labels and the
labels themselves, as a JSON array.

A row is kept as one number if all places share it (standard errors often do), as 32-bit whole numbers if it
has nothing else (counts and their bounds), and as doubles otherwise.

Promise
    What comes out is what went in, to the bit, or an error. Proof: a kind is chosen only if the row made
    from it has the same bits; any other shape has another fingerprint, and torn or altered bytes another
    sum. The sum finds accidents, not forgers.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from streamgauge.query.released import Released
    from streamgauge.query.shapes import Shape

VERSION, FOUND = 1, 2
HEADER = struct.Struct("<BIIqqq8s")
SUM = struct.Struct("<I")
LENGTH = struct.Struct("<I")
ONE, WHOLE, DOUBLES = range(3)  # kinds of rows
Floats = npt.NDArray[np.float64]


class BadPack(ValueError):  # noqa: N818 - named for what it is
    """Bytes that are not a release of this shape."""


def pack(released: "Released") -> bytes:
    """A release as bytes."""
    shape = released.shape
    header = HEADER.pack(
        VERSION if shape.discovered is None else FOUND,
        len(shape.measures),
        len(shape.places),
        released.tick,
        released.start,
        released.end,
        shape.fingerprint,
    )
    rows = list(_packed(np.concatenate(released.numbers)))
    kinds = bytes(kind for kind, _ in rows)
    enough = np.packbits(released.enough, axis=None).tobytes()
    body = b"".join([header, _labels(shape), kinds, *(data for _, data in rows), enough])
    return body + SUM.pack(zlib.crc32(body))


def unpack(shape: "Shape", data: bytes) -> dict[str, Any]:
    """The fields of the release that `pack` was given; where groups are discovered, `shape` gets them."""
    body = memoryview(data)[: -SUM.size]
    if len(body) < HEADER.size or SUM.pack(zlib.crc32(body)) != data[-SUM.size :]:
        raise BadPack("packed release must be whole, got torn or altered bytes")
    version, measures, places, tick, start, end, fingerprint = HEADER.unpack_from(body)
    expected = VERSION if shape.discovered is None else FOUND
    if version != expected:
        raise BadPack(f"packed release must be of version {expected}, got {version}")
    own, rest = _shaped(shape, body[HEADER.size :])
    if (measures, places, fingerprint) != (len(own.measures), len(own.places), own.fingerprint):
        raise BadPack(f"packed release must be of release {shape.release!r} as it is, got another shape")
    numbers, enough = _unpacked(rest, measures, places)
    return {"shape": own, "tick": tick, "start": start, "end": end, **numbers, "enough": enough}


def _labels(shape: "Shape") -> bytes:
    """The groups of a shape whose groups are discovered."""
    if shape.discovered is None:
        return b""
    labels = json.dumps(shape.labels(shape.discovered)).encode()
    return LENGTH.pack(len(labels)) + labels


def _shaped(shape: "Shape", rest: memoryview) -> tuple["Shape", memoryview]:
    """The shape with the groups that were packed, and what comes after them."""
    if shape.discovered is None:
        return shape, rest
    try:
        (length,) = LENGTH.unpack_from(rest)
        end = LENGTH.size + length
        return shape.having(json.loads(bytes(rest[LENGTH.size : end]))), rest[end:]
    except (struct.error, ValueError, TypeError):
        raise BadPack(f"packed release must be of release {shape.release!r} as it is, got others") from None


def _unpacked(rest: memoryview, measures: int, places: int) -> tuple[dict[str, Floats], Any]:
    numbers = np.empty((4, measures, places))
    kinds, rest = rest[: 4 * measures], rest[4 * measures :]
    for row, kind in zip(numbers.reshape(4 * measures, places), kinds, strict=True):
        dtype, count = _held(kind, places)
        size = dtype.itemsize * count
        row[:] = np.frombuffer(rest[:size], dtype)
        rest = rest[size:]
    bits = np.unpackbits(np.frombuffer(rest, np.uint8), count=measures * places)
    enough = bits.astype(np.bool_).reshape(measures, places)
    return dict(zip(("value", "stddev", "low", "high"), numbers, strict=True)), enough


def _held(kind: int, places: int) -> tuple[np.dtype[Any], int]:
    """What a row of a kind is made of."""
    return np.dtype("<i4" if kind == WHOLE else "<f8"), 1 if kind == ONE else places


def _packed(rows: Floats) -> Iterator[tuple[int, bytes]]:
    """The smallest kind that keeps every bit of a row, and its bytes: of each row."""
    bits, doubles = rows.view(np.int64), rows.astype("<f8", copy=False)
    with np.errstate(invalid="ignore"):
        whole = rows.astype("<i4")
    alike = (bits == bits[:, :1]).all(axis=1) & (rows.shape[1] > 0)
    exact = (whole.astype(np.float64).view(np.int64) == bits).all(axis=1)
    for row, (one, kept) in enumerate(zip(alike.tolist(), exact.tolist(), strict=True)):
        if one:
            yield ONE, doubles[row, :1].tobytes()
        elif kept:
            yield WHOLE, whole[row].tobytes()
        else:
            yield DOUBLES, doubles[row].tobytes()
