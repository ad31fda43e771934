"""File that a writer appends to, read repeatedly up to its current end.

An incomplete line waits for its end. Bytes that were read must not change. If the file gets shorter, or the last bytes
that were read differ now, it was truncated or rewritten. Further reading would mix two files, so the source refuses
it. The source identifies a file by its inode and, at an offset, by a hash of the bytes before it.
"""

import os
from collections import deque
from hashlib import sha256
from pathlib import Path

from streamgauge.records.blocks import MAX_RECORD_BYTES, Block
from streamgauge.sources.errors import SourceError, build_unreadable_error
from streamgauge.sources.line_reader import BLOCK_BYTES, BYTE_ORDER_MARK, FileHeader, LineSplitter, read_lines

PREFIX_BYTES = 2**12  # bytes before an offset that its hash covers


class GrowingFile:
    """Open file with its inode and read position."""

    is_complete = False  # it may grow

    def __init__(self, path: Path, *, has_header: bool, block_bytes: int = BLOCK_BYTES) -> None:
        self.path = path
        self._block_bytes = block_bytes
        self._fd = _open_descriptor(path)
        self.inode = os.fstat(self._fd).st_ino
        self._lines = LineSplitter(FileHeader(str(path), has_header=has_header))
        self._blocks: deque[Block] = deque()
        self._read_bytes = 0  # bytes that were read
        self._last_bytes = b""  # exact: the last bytes that were read
        self._size = 0  # size of the file at the last read
        self.is_finished = False

    @property
    def header(self) -> tuple[str, ...] | None:
        return self._lines.file_header.header

    @property
    def at_end(self) -> bool:
        """True if all bytes that existed at the last call of `read` were returned."""
        return not self._blocks and self._read_bytes >= self._size

    @property
    def offset(self) -> int:
        """End of the blocks that were returned."""
        return self._blocks[0].offset if self._blocks else self._lines.offset

    def read(self) -> Block | None:
        if not self._blocks and not self.is_finished:
            self._read_more()
        return self._blocks.popleft() if self._blocks else None

    def finish(self) -> None:
        """Mark the file as complete: an unterminated line is its last record."""
        if not self.is_finished:
            self.is_finished = True
            self._blocks.extend(self._lines.finish())

    def prefix_digest(self) -> str:
        """Return the hash of the bytes before the offset."""
        return self._hash(self.offset)

    def resume_at(self, offset: int, before: str) -> None:
        """Continue at the offset at which another process stopped."""
        if os.fstat(self._fd).st_size < offset or self._hash(offset) != before:
            raise SourceError(_describe_rewrite(self.path), "truncated")
        if offset > 0:
            opening = self._lines.file_header
            opening.read(os.pread(self._fd, MAX_RECORD_BYTES + len(BYTE_ORDER_MARK) + 2, 0), is_last=True)
            self._lines = LineSplitter(opening, offset)
            self._read_bytes, self._last_bytes = offset, self._bytes_before(offset)

    def modified_ns(self) -> int:
        """Return the time of the last change."""
        return os.fstat(self._fd).st_mtime_ns

    def close(self) -> None:
        os.close(self._fd)

    def _read_more(self) -> None:
        size = os.fstat(self._fd).st_size
        if size < self._read_bytes or (size > self._size and self._bytes_before(self._read_bytes) != self._last_bytes):
            raise SourceError(_describe_rewrite(self.path), "truncated")
        left = size - self._read_bytes
        data = (
            read_lines(self._fd, self._read_bytes, self._block_bytes)
            if left > self._block_bytes
            else os.pread(self._fd, left, self._read_bytes)
        )
        self._size = size
        self._read_bytes += len(data)
        self._last_bytes = (self._last_bytes + data[-PREFIX_BYTES:])[-PREFIX_BYTES:]
        self._blocks.extend(self._lines.feed(data))

    def _hash(self, offset: int) -> str:
        return sha256(self._bytes_before(offset)).hexdigest()

    def _bytes_before(self, offset: int) -> bytes:
        start = max(0, offset - PREFIX_BYTES)
        return os.pread(self._fd, offset - start, start)


def _open_descriptor(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise build_unreadable_error(path, error) from None


def _describe_rewrite(path: Path) -> str:
    rule = "a followed file must only ever grow (rotate it by renaming, never by copying and truncating)"
    return f"{rule}, got {path} with other bytes than were read; put it back, or start a new pipeline on it"
