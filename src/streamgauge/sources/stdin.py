"""Standard input or another descriptor (pipe, terminal, file), readable only once.

Reading never waits for the writer. It does not change the descriptor's mode, which other processes may share. At
the end the last line needs no line feed. With `forget_offsets` the source does not count the bytes that were read.
"""

import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from fcntl import F_GETFL, fcntl
from threading import Event as Flag

from streamgauge.interfaces import StreamingSource, check_stop
from streamgauge.records.blocks import Block
from streamgauge.records.source_schema import SourceSchema
from streamgauge.sources.compression import FEED_BYTES, Compression, Decompressor
from streamgauge.sources.errors import build_unreadable_error
from streamgauge.sources.line_reader import BLOCK_BYTES, FileHeader, LineSplitter

SOURCE_NAME = "standard input"


def is_readable(descriptor: int) -> bool:
    """Return whether a descriptor is open for reading."""
    try:
        return fcntl(descriptor, F_GETFL) & os.O_ACCMODE != os.O_WRONLY
    except OSError:
        return False


class StandardInput(StreamingSource):
    """Live source that ends and cannot be replayed."""

    replayable = False

    def __init__(
        self,
        fd: int = 0,
        *,
        has_header: bool = False,
        compression: Compression | None = None,
        forget_offsets: bool = False,
        block_bytes: int = BLOCK_BYTES,
        feed_bytes: int = FEED_BYTES,
    ) -> None:
        self._block_bytes, self._feed_bytes = block_bytes, feed_bytes
        self._fd, self._forget_offsets = fd, forget_offsets  # if true, no number of bytes is stored
        self._lines = LineSplitter(FileHeader(SOURCE_NAME, has_header=has_header))
        self._decompressor = Decompressor(compression) if compression else None
        self._pieces: Iterator[bytes] = iter(())
        self._blocks: deque[Block] = deque()
        self._has_eof = False
        self._is_drained = True

    @property
    def header(self) -> tuple[str, ...] | None:
        return self._lines.file_header.header

    @property
    def at_end(self) -> bool:
        return self._is_drained and not self._blocks

    @property
    def is_exhausted(self) -> bool:
        return self._has_eof and not self._blocks

    def schemas(self) -> tuple[SourceSchema, ...]:
        """Return the columns of a CSV as far as they were read. This reads no input."""
        return () if self.header is None else (SourceSchema.from_header(SOURCE_NAME, self.header),)

    def wait_for_header(self, sleep: Callable[[], None], stop: Flag | None) -> None:
        """Read the first line of a CSV. Its records wait for a later `read`."""
        while self._lines.file_header.has_header and self.header is None:
            check_stop(stop)
            if not self._blocks and not self._has_eof:
                self._read_more()
            if self.header is None:
                sleep()

    def read(self) -> Block | None:
        if not self._blocks and not self._has_eof:
            self._read_more()
        return self._blocks.popleft() if self._blocks else None

    def position(self) -> bytes:
        return b'{"source": "standard input"}'

    def resume(self, position: bytes | None) -> None:
        """Continue from the current place in the input."""

    def _read_more(self) -> None:
        pieces: list[bytes] = []
        length = 0
        while length < self._block_bytes and (piece := self._next_piece()) is not None:
            pieces.append(piece)
            length += len(piece)
        self._blocks.extend(self._lines.feed(b"".join(pieces)))
        if self._has_eof:
            fault = self._decompressor.fault if self._decompressor else None
            self._blocks.extend(self._lines.finish(fault))
        if self._forget_offsets:
            self._lines.offset = 0

    def _next_piece(self) -> bytes | None:
        """Return the next plain bytes that are available now."""
        piece = next(self._pieces, None)
        while piece is None:
            data = self._read_some()
            if not data:
                return None
            self._pieces = self._decompressor.feed(data) if self._decompressor else iter((data,))
            piece = next(self._pieces, None)
        return piece

    def _read_some(self) -> bytes:
        """Return the bytes that can be read without waiting."""
        try:
            self._is_drained = not select.select([self._fd], [], [], 0)[0]
            if self._is_drained:
                return b""
            data = os.read(self._fd, self._feed_bytes)
        except OSError as error:
            raise build_unreadable_error(SOURCE_NAME, error) from None
        self._has_eof = self._is_drained = not data
        return data
