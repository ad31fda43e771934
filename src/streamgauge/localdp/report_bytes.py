"""Reports as rows of bytes of one size.

Input that does not fit is dropped by itself. Nothing here ever raises. An integer code takes as many bytes as the
largest code needs, least significant first. A vector of bits has bit i in byte i // 8, least significant first, and
zeros behind the last.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise.coerce import list_items
from streamgauge.noise.entropy import Bytes

Reports = Bytes  # (reports, bytes of one)
CodeArray = npt.NDArray[np.unsignedinteger[Any]]
CHUNK_BITS = 1 << 20  # bits of reports that are unpacked together
ReportInput = Reports | bytes | bytearray | memoryview | Sequence[bytes]


def slice_chunks(count: int, bits: int) -> Iterator[slice]:
    """Yield slices of so many reports of `bits` bits each, which are unpacked together."""
    step = max(CHUNK_BITS // bits, 1)
    return (slice(at, at + step) for at in range(0, count, step))


def bits_for(codes: int) -> int:
    """Return the bits that distinguish so many codes."""
    return (codes - 1).bit_length()


def bytes_for(bits: int) -> int:
    return max(-(-bits // 8), 1)


def pack_codes(codes: npt.NDArray[np.integer[Any]], size: int) -> Reports:
    """Return integer codes as rows of `size` bytes."""
    wide = np.ascontiguousarray(codes, "<u8")
    return np.ascontiguousarray(wide.view(np.uint8).reshape(-1, 8)[:, :size])


def unpack_codes(reports: Reports) -> CodeArray:
    """Return the codes of rows, of up to 8 bytes each."""
    count, size = reports.shape
    width = 4 if size <= 4 else 8
    padded = np.ascontiguousarray(reports) if size >= width else np.zeros((count, width), np.uint8)
    if size < width:
        padded[:, :size] = reports
    codes: CodeArray = padded.view(f"<u{width}").reshape(count)
    return codes


def parse_rows(reports: Any, size: int) -> tuple[Reports, int]:
    """Return any input as rows of `size` bytes, and the number of its other items."""
    if isinstance(reports, np.ndarray):
        rows = np.asarray(reports)
        if rows.dtype == np.uint8 and rows.ndim == 2 and rows.shape[1] == size:
            return rows, 0
        return np.empty((0, size), np.uint8), len(rows) if rows.ndim else 1
    if isinstance(reports, bytes | bytearray | memoryview):
        try:
            return _split_payloads(bytes(reports), size)
        except ValueError:  # a view that was released
            return np.empty((0, size), np.uint8), 1
    payloads = list_items(reports, [None])
    whole = [bytes(item) for item in payloads if isinstance(item, bytes | bytearray) and len(item) == size]
    return _split_payloads(b"".join(whole), size)[0], len(payloads) - len(whole)


def _split_payloads(payloads: bytes, size: int) -> tuple[Reports, int]:
    """Split payloads that follow each other; a last one that is cut off counts as one."""
    count, rest = divmod(len(payloads), size)
    return np.frombuffer(payloads, np.uint8, count * size).reshape(count, size), int(rest > 0)
