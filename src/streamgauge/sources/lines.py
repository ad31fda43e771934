"""Bytes, cut anyhow, become blocks of clean whole lines.

A physical line is what stands between two line feeds. One carriage return at its end belongs to its ending
and goes. What is left is a record if it is at most LONGEST bytes of UTF-8 with no carriage return inside, and
is dropped otherwise, which is noted by position, length and rule. Byte order marks at its beginning go. The
last line needs no line feed.

Promise
    The records that come out are a function of each physical line alone, whatever the chunks: no line can
    change how another is read. Proof: `_mended` judges line by line; the short cuts (`_plain` for a whole
    block, for a hop of lines, for a hop whose CRLF were replaced) let pass only what it would let pass.
    Memory is bounded: of a line longer than LONGEST only the length is kept, and a block ends early when
    MOST_DROPPED records of it were dropped.
"""

import os
from collections.abc import Iterator

from streamgauge.query.blocks import LONGEST, Block, Dropped
from streamgauge.sources.opening import MARK, Opening

BLOCK = 2**24  # bytes that are read for one block: larger ones cost more in fresh memory than they save
HOP = 2**17  # bytes that are judged at once
MOST_DROPPED = 10_000  # a block has at most these and one hop's more

TOO_LONG = f"a record must be at most {LONGEST} bytes"
CARRIAGE_RETURN = "a record must have no carriage return inside"
NOT_UTF8 = "a record must be UTF-8"


class Lines:
    """The splitter of one file or pipe. `offset` is where the lines end that were handed out as blocks."""

    def __init__(self, opening: Opening, offset: int = 0) -> None:
        self.opening = opening
        self.offset = offset
        self._begun = b""  # exact: the line that has no end yet
        self._skipped = 0  # bytes of a line that is too long and has no end yet

    def feed(self, data: bytes) -> Iterator[Block]:
        """The lines that are whole now; all of them must be taken before the next `feed`."""
        if self.opening.length is None:
            data = self._open(data, ended=False)
        if self.opening.length is None:
            return
        if self._skipped:
            yield from self._feed_skipping(data)
        else:
            yield from self._feed_lines(data)

    def finish(self, fault: str | None = None) -> Iterator[Block]:
        """There is no more: what has no line feed is the last record, unless a fault cut it off."""
        if self.opening.length is None:
            self._begun = self._open(b"", ended=True)
        begun, skipped, offset = self._begun, self._skipped, self.offset
        self._begun, self._skipped = b"", 0
        self.offset += len(begun) + skipped
        if fault or skipped:
            yield Block(b"", offset, (Dropped(offset, len(begun) + skipped, fault or TOO_LONG),))
        elif begun:
            yield from _blocks(begun + b"\n", offset, [])

    def _open(self, data: bytes, *, ended: bool) -> bytes:
        data = self._begun + data
        if not self.opening.read(data, ended=ended):
            self._begun = data
            return b""
        self._begun, self.offset = b"", self.opening.length or 0
        return data[self.offset :]

    def _feed_lines(self, data: bytes) -> Iterator[Block]:
        end = data.rfind(b"\n") + 1
        if not end:
            self._begin(self._begun + data)
            return
        whole, offset = self._begun + data[:end], self.offset
        self.offset += len(whole)
        self._begin(data[end:])
        yield from _blocks(whole, offset, [])

    def _begin(self, data: bytes) -> None:
        fits = len(data) <= LONGEST + 1  # one more may be the carriage return of its ending
        self._begun, self._skipped = (data, 0) if fits else (b"", len(data))

    def _feed_skipping(self, data: bytes) -> Iterator[Block]:
        first, last = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if not first:
            self._skipped += len(data)
            return
        long = Dropped(self.offset, self._skipped + first - 1, TOO_LONG)
        offset, start = self.offset, self.offset + self._skipped + first
        self.offset = start + last - first
        self._begin(data[last:])
        yield from _blocks(data[first:last], start, [long], begin=offset)


def read_lines(fd: int, start: int, size: int) -> bytes:
    """At most `size` bytes of a file, up to the end of a line if one is near: then nothing is copied."""
    near = min(size // 2, 2**15)
    end = os.pread(fd, near, start + size - near).rfind(b"\n") + 1
    return os.pread(fd, size - near + end if end else size, start)


def _blocks(data: bytes, offset: int, dropped: list[Dropped], begin: int | None = None) -> Iterator[Block]:
    """Blocks of whole lines, the first of which begins at `offset`; `dropped` came before."""
    begin = offset if begin is None else begin
    if b"\r" not in data and data.isascii() and none_too_long(data, len(data)):
        yield Block(data, begin, tuple(dropped))
        return
    parts: list[bytes] = []
    for start, end in hops(data, HOP, len(data)):
        parts.append(_clean(data[start:end], offset + start, dropped))
        if len(dropped) >= MOST_DROPPED or end == len(data):
            yield Block(b"".join(parts), begin, tuple(dropped))
            begin, parts, dropped = offset + end, [], []


def hops(data: bytes | bytearray, size: int, stop: int) -> Iterator[tuple[int, int]]:
    """Runs of the whole lines before `stop`: as many as fit into `size` bytes, or one that does not."""
    start = 0
    while start < stop:
        end = data.rfind(b"\n", start, min(start + size, stop)) + 1 or data.index(b"\n", start + size) + 1
        yield start, end
        start = end


def none_too_long(data: bytes | bytearray, stop: int) -> bool:
    return all(end - start <= LONGEST + 1 for start, end in hops(data, LONGEST + 1, stop))


def is_utf8(data: bytes | bytearray) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_marked(data: bytes | bytearray) -> bool:
    """Whether a line begins with a byte order mark."""
    return not data.isascii() and (data.startswith(MARK) or b"\n" + MARK in data)


def _plain(hop: bytes) -> bool:
    return len(hop) <= LONGEST + 1 and b"\r" not in hop and is_utf8(hop) and not is_marked(hop)


def _clean(hop: bytes, offset: int, dropped: list[Dropped]) -> bytes:
    if _plain(hop):
        return hop
    unix = hop.replace(b"\r\n", b"\n")
    return unix if _plain(unix) else _mended(hop, offset, dropped)


def _mended(hop: bytes, offset: int, dropped: list[Dropped]) -> bytes:
    """What is left of a hop, line by line."""
    kept = []
    for line in hop[:-1].split(b"\n"):
        record = line.removesuffix(b"\r")
        rule = broken(record)
        if rule is None:
            kept.append(unmarked(record) + b"\n")
        else:
            dropped.append(Dropped(offset, len(line), rule))
        offset += len(line) + 1
    return b"".join(kept)


def unmarked(record: bytes) -> bytes:
    """Without the marks that it begins with: a line is read alike whether or not it is the first."""
    while record.startswith(MARK):
        record = record.removeprefix(MARK)
    return record


def broken(record: bytes) -> str | None:
    """The rule that a record breaks."""
    if len(record) > LONGEST:
        return TOO_LONG
    if b"\r" in record:
        return CARRIAGE_RETURN
    return None if is_utf8(record) else NOT_UTF8
