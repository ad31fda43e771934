"""The memory of a process as an intruder gets it, byte by byte: freed and not overwritten parts included.

The search shifts its marks, so that it does not find itself.
"""

import re
from collections.abc import Iterator, Mapping
from errno import EIO
from io import FileIO
from mmap import PAGESIZE
from pathlib import Path

import numpy as np

SHIFT = bytes((byte + 1) % 256 for byte in range(256))
WRITABLE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw")
THERE = np.uint64(3 << 62)  # of a page: in memory, or in swap
AT_ONCE = 2**12  # pages


def shifted(mark: bytes) -> bytes:
    """A mark, for another process to look for."""
    return mark.translate(SHIFT)


def words(*numbers: int) -> bytes:
    """Return numbers as bytes of an array."""
    return np.array(numbers, np.int64).tobytes()


def in_raw_memory(marks: Mapping[str, bytes]) -> set[str]:
    """Return the marks, shifted as they are, that occur anywhere in the memory of this process."""
    return {name for piece in _pieces() for name, mark in marks.items() if mark in piece}


def _pieces() -> Iterator[bytes]:
    """Yield everything that was ever written to, in pieces that overlap by a page."""
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        for begin, pages in _stretches():
            for first in range(0, pages, AT_ONCE):
                yield _read_pages(memory, begin + first, min(pages - first, AT_ONCE + 1)).translate(SHIFT)


def _read_pages(memory: FileIO, first: int, count: int) -> bytes:
    """Read pages, without those that another thread has unmapped since they were listed."""
    pieces, position, end = list[bytes](), first * PAGESIZE, (first + count) * PAGESIZE
    while position < end:
        memory.seek(position)
        try:
            pieces.append(memory.read(end - position))
        except OSError as error:
            if error.errno != EIO:
                raise
            pieces.append(bytes(PAGESIZE))  # in place of the unmapped page
        position += len(pieces[-1])
    return b"".join(pieces)


def _stretches() -> Iterator[tuple[int, int]]:
    """Pages in a row that are there: the first, and how many."""
    maps = map(WRITABLE.match, Path("/proc/self/maps").read_text().splitlines())
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        for each in maps:
            if each is None:
                continue
            begin, end = (int(address, 16) // PAGESIZE for address in each.groups())
            file.seek(8 * begin)
            there = (np.frombuffer(file.read(8 * (end - begin)), np.uint64) & THERE) > 0
            edges = np.flatnonzero(np.diff(there, prepend=False, append=False))
            yield from ((begin + int(first), int(last - first)) for first, last in edges.reshape(-1, 2))
