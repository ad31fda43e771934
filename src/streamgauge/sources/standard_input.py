"""Standard input, or any other descriptor: a pipe, a terminal, a file. What was read cannot be read again.

Reading never waits for the writer: what is there is taken, and the descriptor's own mode, which other
processes may share, is left as it is. At the end the last line needs no line feed. One that `forgets` does
not count the bytes that were read.
"""

import os
import select
from collections import deque
from collections.abc import Iterator

from streamgauge.query.blocks import Block
from streamgauge.query.source_schema import SourceSchema
from streamgauge.sources.compressed import FED, Compression, Unpacked
from streamgauge.sources.errors import SourceError, unreadable
from streamgauge.sources.lines import BLOCK, Lines
from streamgauge.sources.opening import Opening

NAME = "standard input"


class StandardInput:
    """A live source that ends and cannot be replayed."""

    replayable = False
    pressing = False  # whoever wrote it waits for nothing

    def __init__(
        self,
        fd: int = 0,
        *,
        has_header: bool = False,
        compression: Compression | None = None,
        forgets: bool = False,
    ) -> None:
        self._fd, self._forgets = fd, forgets  # whether it knows no number of bytes
        self._lines = Lines(Opening(NAME, has_header=has_header))
        self._unpacked = Unpacked(compression) if compression else None
        self._pieces: Iterator[bytes] = iter(())
        self._blocks: deque[Block] = deque()
        self._at_end = False
        self._nothing_waits = True

    @property
    def has_header(self) -> bool:
        return self._lines.opening.has_header

    @property
    def header(self) -> tuple[str, ...] | None:
        return self._lines.opening.header

    @property
    def caught_up(self) -> bool:
        return self._nothing_waits and not self._blocks

    @property
    def ended(self) -> bool:
        return self._at_end and not self._blocks

    def schemas(self) -> tuple[SourceSchema, ...]:
        """Return the columns of a CSV as far as they were read; nothing is read for it."""
        return () if self.header is None else (SourceSchema.from_header(NAME, self.header),)

    def fetch(self) -> None:
        """Read what is there, for a later `read` to return."""
        if not self._blocks and not self._at_end:
            self._take()

    def read(self) -> Block | None:
        if not self._blocks and not self._at_end:
            self._take()
        return self._blocks.popleft() if self._blocks else None

    def wait(self) -> Block | None:
        """The next block, however long it takes, or nothing at the end."""
        while (block := self.read()) is None and not self.ended:
            select.select([self._fd], [], [])
        return block

    def position(self) -> bytes:
        return b'{"source": "standard input"}'

    def seek(self, position: bytes) -> None:
        raise SourceError("standard input must be read from where it is, got a position to go back to")

    def resume(self, position: bytes | None) -> None:
        """Goes on from where it is."""

    def committed(self, closed: int) -> None:
        """Nobody has to be told."""

    def rest(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Leaves the descriptor to whoever opened it."""

    def _take(self) -> None:
        held: list[bytes] = []
        length = 0
        while length < BLOCK and (piece := self._piece()) is not None:
            held.append(piece)
            length += len(piece)
        self._blocks.extend(self._lines.feed(b"".join(held)))
        if self._at_end:
            fault = self._unpacked.fault if self._unpacked else None
            self._blocks.extend(self._lines.finish(fault))
        if self._forgets:
            self._lines.offset = 0

    def _piece(self) -> bytes | None:
        """The next plain bytes, if there are any now."""
        piece = next(self._pieces, None)
        while piece is None:
            data = self._read_some()
            if not data:
                return None
            self._pieces = self._unpacked.feed(data) if self._unpacked else iter((data,))
            piece = next(self._pieces, None)
        return piece

    def _read_some(self) -> bytes:
        """What can be read without waiting."""
        try:
            self._nothing_waits = not select.select([self._fd], [], [], 0)[0]
            if self._nothing_waits:
                return b""
            data = os.read(self._fd, FED)
        except OSError as error:
            raise unreadable(NAME, error) from None
        self._at_end = self._nothing_waits = not data
        return data
