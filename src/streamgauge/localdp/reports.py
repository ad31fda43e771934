"""Reports as bytes: rows of one size. What does not fit is dropped by itself; nothing here ever raises.

An integer code takes as many bytes as the largest code needs, least significant first. A vector of bits has
bit i in byte i // 8, least significant first, and zeros behind the last.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise.entropy import Bytes
from streamgauge.noise.numbers import listed

Reports = Bytes  # (reports, bytes of one)
Codes = npt.NDArray[np.unsignedinteger[Any]]
Given = Reports | bytes | bytearray | memoryview | Sequence[bytes]


def bits_for(codes: int) -> int:
    """How many bits tell so many codes apart."""
    return (codes - 1).bit_length()


def bytes_for(bits: int) -> int:
    return max(-(-bits // 8), 1)


def packed(codes: npt.NDArray[np.integer[Any]], size: int) -> Reports:
    """Integer codes as rows of `size` bytes."""
    wide = np.ascontiguousarray(codes, "<u8")
    return np.ascontiguousarray(wide.view(np.uint8).reshape(-1, 8)[:, :size])


def unpacked(reports: Reports) -> Codes:
    """The codes of rows, of up to 8 bytes each."""
    count, size = reports.shape
    room = 4 if size <= 4 else 8
    wide = np.zeros((count, room), np.uint8) if size < room else np.ascontiguousarray(reports)
    if size < room:
        wide[:, :size] = reports
    codes: Codes = wide.view(f"<u{room}").reshape(count)
    return codes


def rows(given: Any, size: int) -> tuple[Reports, int]:
    """Whatever was sent as rows of `size` bytes, and how many items were none."""
    if isinstance(given, np.ndarray):
        return _array(np.asarray(given), size)
    if isinstance(given, bytes | bytearray | memoryview):
        return _buffer(given, size)
    payloads = listed(given, [None])
    whole = [bytes(item) for item in payloads if _is_payload(item, size)]
    return _joined(b"".join(whole), size)[0], len(payloads) - len(whole)


def _array(given: npt.NDArray[Any], size: int) -> tuple[Reports, int]:
    if given.dtype == np.uint8 and given.ndim == 2 and given.shape[1] == size:
        return given, 0
    return np.empty((0, size), np.uint8), len(given) if given.ndim else 1


def _buffer(given: bytes | bytearray | memoryview, size: int) -> tuple[Reports, int]:
    try:
        return _joined(bytes(given), size)
    except ValueError:  # a view that was released
        return _joined(b"", size)[0], 1


def _joined(payloads: bytes, size: int) -> tuple[Reports, int]:
    """Payloads one after the other; a last one that is cut off counts as one."""
    count, rest = divmod(len(payloads), size)
    return np.frombuffer(payloads, np.uint8, count * size).reshape(count, size), int(rest > 0)


def _is_payload(item: object, size: int) -> bool:
    return isinstance(item, bytes | bytearray) and len(item) == size
