"""A complete file on its way through a live folder: it can be gone on with at any of its blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from streamgauge.query.blocks import Block
from streamgauge.sources.errors import SourceTruncated
from streamgauge.sources.fingerprint import fingerprint

ALL = -1  # the offset after the last block


class _Blocks(Protocol):
    """A file whose blocks are the same each time."""

    def header(self) -> tuple[str, ...] | None: ...

    def blocks(self) -> Iterator[Block]: ...


class CompleteFile:
    """Its blocks, and the one that comes next."""

    complete = True

    def __init__(self, path: Path, file: _Blocks) -> None:
        self._path = path
        self._known = fingerprint(path)
        self.header = file.header()
        self._blocks = file.blocks()
        self._next = next(self._blocks, None)

    @property
    def at_end(self) -> bool:
        return self._next is None

    @property
    def finished(self) -> bool:
        return self._next is None

    @property
    def offset(self) -> int:
        return ALL if self._next is None else self._next.offset

    def read(self) -> Block | None:
        block, self._next = self._next, next(self._blocks, None)
        return block

    def finish(self) -> None:
        """It is."""

    def before(self) -> str:
        """What the whole file is known by, for its blocks depend on all of it."""
        return self._known

    def go_on_at(self, offset: int, before: str) -> None:
        """Continue where another process stopped."""
        while before == self._known and self.offset not in (offset, ALL):
            self.read()
        if before != self._known or self.offset != offset:
            rule = "a file must stay as it is until it was read to its end"
            raise SourceTruncated(f"{rule}, got {self._path} with other bytes; put it back")

    def close(self) -> None:
        self._next = None
        self._blocks = iter(())
