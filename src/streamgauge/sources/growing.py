"""One file that a writer appends to: read as far as it goes, again and again.

A line without an end waits for it. What was read must stay: if the file gets shorter, or the last bytes that
were read are others now, it was truncated or written over, and reading on would mix two files, so it is
refused. A file is known by its inode and, at an offset, by a hash of the bytes before it.
"""

import os
from collections import deque
from hashlib import sha256
from pathlib import Path

from streamgauge.query.blocks import LONGEST, Block
from streamgauge.sources.errors import SourceTruncated, unreadable
from streamgauge.sources.lines import BLOCK, Lines, read_lines
from streamgauge.sources.opening import MARK, Opening

BEFORE = 2**12  # bytes before an offset that its hash covers


class GrowingFile:
    """An open file, its inode, and how far it was read."""

    complete = False  # it may grow

    def __init__(self, path: Path, *, has_header: bool) -> None:
        self.path = path
        self._fd = _open(path)
        self.inode = os.fstat(self._fd).st_ino
        self._lines = Lines(Opening(str(path), has_header=has_header))
        self._blocks: deque[Block] = deque()
        self._read = 0  # bytes that were read
        self._last = b""  # exact: the last of them
        self._size = 0  # of the file when it was read last
        self.finished = False

    @property
    def header(self) -> tuple[str, ...] | None:
        return self._lines.opening.header

    @property
    def at_end(self) -> bool:
        """Whether all was handed out that was there when `read` was last called."""
        return not self._blocks and self._read >= self._size

    @property
    def offset(self) -> int:
        """Where the blocks end that were handed out."""
        return self._blocks[0].offset if self._blocks else self._lines.offset

    def read(self) -> Block | None:
        if not self._blocks and not self.finished:
            self._take()
        return self._blocks.popleft() if self._blocks else None

    def finish(self) -> None:
        """The file is complete: a line without an end is its last record."""
        if not self.finished:
            self.finished = True
            self._blocks.extend(self._lines.finish())

    def before(self) -> str:
        """The hash of the bytes before the offset."""
        return self._hash(self.offset)

    def go_on_at(self, offset: int, before: str) -> None:
        """Continue where another process stopped."""
        if os.fstat(self._fd).st_size < offset or self._hash(offset) != before:
            raise SourceTruncated(_rewritten(self.path))
        if offset > 0:
            opening = self._lines.opening
            opening.read(os.pread(self._fd, LONGEST + len(MARK) + 2, 0), ended=True)
            self._lines = Lines(opening, offset)
            self._read, self._last = offset, self._bytes_before(offset)

    def modified(self) -> int:
        """When it was last written to."""
        return os.fstat(self._fd).st_mtime_ns

    def close(self) -> None:
        os.close(self._fd)

    def _take(self) -> None:
        size = os.fstat(self._fd).st_size
        if size < self._read or (size > self._size and self._bytes_before(self._read) != self._last):
            raise SourceTruncated(_rewritten(self.path))
        left = size - self._read
        data = (
            read_lines(self._fd, self._read, BLOCK) if left > BLOCK else os.pread(self._fd, left, self._read)
        )
        self._size = size
        self._read += len(data)
        self._last = (self._last + data[-BEFORE:])[-BEFORE:]
        self._blocks.extend(self._lines.feed(data))

    def _hash(self, offset: int) -> str:
        return sha256(self._bytes_before(offset)).hexdigest()

    def _bytes_before(self, offset: int) -> bytes:
        start = max(0, offset - BEFORE)
        return os.pread(self._fd, offset - start, start)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None


def _rewritten(path: Path) -> str:
    rule = "a followed file must only ever grow (rotate it by renaming, never by copying and truncating)"
    return f"{rule}, got {path} with other bytes than were read; put it back, or start a new pipeline on it"
