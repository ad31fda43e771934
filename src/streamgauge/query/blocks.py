"""Records on their way from a source to an engine: whole physical lines."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

LONGEST = 2**20  # bytes of a record; longer ones are dropped


@dataclass(frozen=True)
class Dropped:
    """A record that is none: where, how long, and by which rule. Never its text."""

    offset: int
    length: int
    rule: str
    file: str = ""  # its name, where a source has several


@dataclass(frozen=True)
class Block:
    """Clean lines: UTF-8, each at most LONGEST bytes and ended by one line feed, no carriage returns."""

    data: bytes = field(repr=False)
    offset: int  # of its beginning in the source, decompressed
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True)
class FilePart:
    """A finished file: one that is `clean` may be read by the engine itself, any other block by block."""

    path: Path
    clean: bool
    header: tuple[str, ...] | None  # the names of its columns, where the file has them (CSV)
    blocks: Callable[[], Iterator[Block]]
