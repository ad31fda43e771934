"""A file that is complete, from its first byte to its last: the same blocks whenever it is read."""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

from streamgauge.query.blocks import LONGEST, Block
from streamgauge.sources.clean import is_clean
from streamgauge.sources.compressed import FED, Compression, Unpacked
from streamgauge.sources.errors import unreadable
from streamgauge.sources.lines import BLOCK, Lines, read_lines
from streamgauge.sources.opening import MARK, Opening


@dataclass(frozen=True)
class WholeFile:
    """JSON lines or CSV, maybe compressed."""

    path: Path
    has_header: bool
    compression: Compression | None

    def blocks(self) -> Iterator[Block]:
        """All lines but the header; damage is noted where it ends the data."""
        lines = Lines(self._opening())
        fault = yield from self._feed(lines)
        yield from lines.finish(fault)

    def header(self) -> tuple[str, ...] | None:
        """The names of a CSV file's columns."""
        if not self.has_header:
            return None
        opening, begun = self._opening(), b""
        for piece in self._pieces(LONGEST + len(MARK) + 2):
            begun += piece
            if opening.read(begun, ended=False):
                return opening.header
        opening.read(begun, ended=True)
        return opening.header

    def is_clean(self, stop: Flag | None = None) -> bool:
        """Whether an engine may read the path instead of the blocks."""
        return self.compression is None and self.path.stat().st_size > 0 and is_clean(self.path, stop)

    def _opening(self) -> Opening:
        return Opening(str(self.path), has_header=self.has_header)

    def _feed(self, lines: Lines) -> Generator[Block, None, str | None]:
        pieces = self._pieces(BLOCK)
        for data in gathered(pieces) if self.compression else pieces:
            yield from lines.feed(data)
        return pieces.fault

    def _pieces(self, size: int) -> "_Pieces":
        return _Pieces(self.path, self.compression, size)


class _Pieces:
    """The plain bytes of a file; after the last, `fault` tells whether there should have been more."""

    def __init__(self, path: Path, compression: Compression | None, size: int) -> None:
        self._path, self._size = path, size
        self._unpacked = Unpacked(compression) if compression else None

    @property
    def fault(self) -> str | None:
        return self._unpacked.fault if self._unpacked else None

    def __iter__(self) -> Iterator[bytes]:
        for data in self._raw():
            yield from self._unpacked.feed(data) if self._unpacked else (data,)

    def _raw(self) -> Iterator[bytes]:
        size = FED if self._unpacked else self._size
        try:
            with self._path.open("rb", buffering=0) as file:
                start = 0
                while data := read_lines(file.fileno(), start, size):
                    start += len(data)
                    yield data
        except OSError as error:
            raise unreadable(self._path, error) from None


def gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces joined until they make a block."""
    held: list[bytes] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= BLOCK:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)
