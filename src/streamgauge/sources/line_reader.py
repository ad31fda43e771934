"""Line reader: arbitrary chunks of bytes become blocks of clean whole lines.

A physical line is the text between two line feeds. One carriage return at its end belongs to its ending and is removed.
The rest is a record if it is at most MAX_RECORD_BYTES bytes of UTF-8 with no carriage return inside. Otherwise it is
dropped, with its position, length and rule. Byte order marks at its beginning are removed. The last line needs no line
feed.

Promise
    The records are a function of each physical line alone, for any chunks: no line can
    change how another is read. Proof: `_repair_lines` checks line by line. The short cuts (`_is_plain` for a whole
    block, for a hop of lines, for a hop whose CRLF were replaced) accept only what it would accept.
    Memory is bounded: of a line longer than MAX_RECORD_BYTES only the length is stored, and a block ends early when
    MAX_DROPPED_RECORDS records of it were dropped.

A CSV file begins with a header, perhaps after a byte order mark, which is not text. The header is the first line: names
between commas, in double quotes if they contain a comma or a quote. It is public, as the columns of a pipeline file
are. If the first line is not a header, it is refused without being shown, since it may be a record.
"""

import csv
import os
from collections.abc import Iterable, Iterator

from streamgauge.records.blocks import MAX_RECORD_BYTES, Block, DroppedRecord
from streamgauge.sources.errors import SourceError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FileHeader:
    """Header of the file `name`. `length` counts all bytes before the first record."""

    def __init__(self, name: str, *, has_header: bool) -> None:
        self.name = name
        self.has_header = has_header
        self.header: tuple[str, ...] | None = None
        self.length: int | None = None  # not known yet

    def read(self, data: bytes, *, is_last: bool) -> bool:
        """Return whether the first bytes suffice. `is_last` if there are no more."""
        if not self.has_header:
            self.length = 0
        else:
            start = len(BYTE_ORDER_MARK) if data.startswith(BYTE_ORDER_MARK) else 0
            end = data.find(b"\n", start)
            if end >= 0 or is_last or len(data) - start > MAX_RECORD_BYTES + 1:
                text = data[start:] if end < 0 else data[start:end]
                self.header = self._parse_names(text.removesuffix(b"\r"))
                self.length = len(data) if end < 0 else end + 1
        return self.length is not None

    def _parse_names(self, line: bytes) -> tuple[str, ...]:
        if len(line) > MAX_RECORD_BYTES:
            raise self._build_error(f"be one line of at most {MAX_RECORD_BYTES} bytes")
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise self._build_error("be UTF-8") from None
        if "\r" in text or "\0" in text:
            raise self._build_error("have no carriage return or NUL inside")
        names = tuple(name.strip() for name in self._parse_cells(text))
        if len(set(names) - {""}) < len([name for name in names if name]):
            raise self._build_error("name each column once")
        return names

    def _parse_cells(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], strict=True, skipinitialspace=True), [])
        except csv.Error:
            raise self._build_error("close each quote before the next comma") from None

    def _build_error(self, rule: str) -> SourceError:
        return SourceError(f"the header of {self.name} must {rule}, got a first line that does not")


BLOCK_BYTES = 2**24  # bytes read for one block: larger ones cost more in fresh memory than they save
HOP_BYTES = 2**17  # bytes checked at once
MAX_DROPPED_RECORDS = 10_000  # maximum for a block, plus at most one hop

LENGTH_RULE = f"a record must be at most {MAX_RECORD_BYTES} bytes"
CARRIAGE_RETURN_RULE = "a record must have no carriage return inside"
UTF8_RULE = "a record must be UTF-8"


class LineSplitter:
    """Splitter of one file or pipe. `offset` is the end of the lines already returned."""

    def __init__(self, file_header: FileHeader, offset: int = 0) -> None:
        self.file_header = file_header
        self.offset = offset
        self._partial_line = b""  # exact: the incomplete line
        self._skipped_bytes = 0  # bytes of an incomplete line that is too long

    def feed(self, data: bytes) -> Iterator[Block]:
        """Yield the lines that are whole now. Exhaust it before the next `feed`."""
        if self.file_header.length is None:
            data = self._read_header(data, is_last=False)
        if self.file_header.length is None:
            return
        if self._skipped_bytes:
            yield from self._feed_skipping(data)
        else:
            yield from self._feed_lines(data)

    def finish(self, fault: str | None = None) -> Iterator[Block]:
        """End the input. An unterminated line is a record, unless a fault cut it off."""
        if self.file_header.length is None:
            self._partial_line = self._read_header(b"", is_last=True)
        begun, skipped, offset = self._partial_line, self._skipped_bytes, self.offset
        self._partial_line, self._skipped_bytes = b"", 0
        self.offset += len(begun) + skipped
        if fault or skipped:
            yield Block(b"", offset, (DroppedRecord(offset, len(begun) + skipped, fault or LENGTH_RULE),))
        elif begun:
            yield from _split_blocks(begun + b"\n", offset, [])

    def _read_header(self, data: bytes, *, is_last: bool) -> bytes:
        data = self._partial_line + data
        if not self.file_header.read(data, is_last=is_last):
            self._partial_line = data
            return b""
        self._partial_line, self.offset = b"", self.file_header.length or 0
        return data[self.offset :]

    def _feed_lines(self, data: bytes) -> Iterator[Block]:
        end = data.rfind(b"\n") + 1
        if not end:
            self._set_partial_line(self._partial_line + data)
            return
        whole, offset = self._partial_line + data[:end], self.offset
        self.offset += len(whole)
        self._set_partial_line(data[end:])
        yield from _split_blocks(whole, offset, [])

    def _set_partial_line(self, data: bytes) -> None:
        fits = len(data) <= MAX_RECORD_BYTES + 1  # one more byte may be the carriage return of its ending
        self._partial_line, self._skipped_bytes = (data, 0) if fits else (b"", len(data))

    def _feed_skipping(self, data: bytes) -> Iterator[Block]:
        first, last = data.find(b"\n") + 1, data.rfind(b"\n") + 1
        if not first:
            self._skipped_bytes += len(data)
            return
        long = DroppedRecord(self.offset, self._skipped_bytes + first - 1, LENGTH_RULE)
        offset, start = self.offset, self.offset + self._skipped_bytes + first
        self.offset = start + last - first
        self._set_partial_line(data[last:])
        yield from _split_blocks(data[first:last], start, [long], begin=offset)


def clean_batch(data: bytes, offset: int = 0) -> Block:
    """Return the clean lines of a batch, which needs no last line feed."""
    opening = FileHeader("a batch", has_header=False)
    opening.read(b"", is_last=True)
    lines = LineSplitter(opening, offset)
    blocks = [*lines.feed(data), *lines.finish()]
    dropped = tuple(record for block in blocks for record in block.dropped_records)
    return Block(b"".join(block.data for block in blocks), offset, dropped)


def read_lines(fd: int, start: int, size: int) -> bytes:
    """Read at most `size` bytes, up to a line end if one is near, to avoid a copy."""
    near = min(size // 2, 2**15)
    end = os.pread(fd, near, start + size - near).rfind(b"\n") + 1
    return os.pread(fd, size - near + end if end else size, start)


def _split_blocks(data: bytes, offset: int, dropped: list[DroppedRecord], begin: int | None = None) -> Iterator[Block]:
    """Yield blocks of whole lines, starting at `offset`. `dropped` came before."""
    begin = offset if begin is None else begin
    if b"\r" not in data and data.isascii() and has_short_lines(data, len(data)):
        yield Block(data, begin, tuple(dropped))
        return
    parts: list[bytes] = []
    for start, end in split_hops(data, HOP_BYTES, len(data)):
        parts.append(_clean(data[start:end], offset + start, dropped))
        if len(dropped) >= MAX_DROPPED_RECORDS or end == len(data):
            yield Block(b"".join(parts), begin, tuple(dropped))
            begin, parts, dropped = offset + end, [], []


def split_hops(data: bytes | bytearray, size: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield runs of whole lines before `stop` that fit into `size` bytes.

    A longer line is a run by itself.
    """
    start = 0
    while start < stop:
        end = data.rfind(b"\n", start, min(start + size, stop)) + 1 or data.index(b"\n", start + size) + 1
        yield start, end
        start = end


def has_short_lines(data: bytes | bytearray, stop: int) -> bool:
    return all(end - start <= MAX_RECORD_BYTES + 1 for start, end in split_hops(data, MAX_RECORD_BYTES + 1, stop))


def is_utf8(data: bytes | bytearray) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def has_byte_order_mark(data: bytes | bytearray) -> bool:
    """Return whether a line begins with a byte order mark."""
    return not data.isascii() and (data.startswith(BYTE_ORDER_MARK) or b"\n" + BYTE_ORDER_MARK in data)


def _is_plain(hop: bytes) -> bool:
    return len(hop) <= MAX_RECORD_BYTES + 1 and b"\r" not in hop and is_utf8(hop) and not has_byte_order_mark(hop)


def _clean(hop: bytes, offset: int, dropped: list[DroppedRecord]) -> bytes:
    if _is_plain(hop):
        return hop
    unix = hop.replace(b"\r\n", b"\n")
    return unix if _is_plain(unix) else _repair_lines(hop, offset, dropped)


def _repair_lines(hop: bytes, offset: int, dropped: list[DroppedRecord]) -> bytes:
    """Return the good lines of a hop."""
    accepted = []
    for line in hop[:-1].split(b"\n"):
        record = line.removesuffix(b"\r")
        rule = find_broken_rule(record)
        if rule is None:
            accepted.append(strip_byte_order_marks(record) + b"\n")
        else:
            dropped.append(DroppedRecord(offset, len(line), rule))
        offset += len(line) + 1
    return b"".join(accepted)


def strip_byte_order_marks(record: bytes) -> bytes:
    """Return a record without leading byte order marks, on any line of the file."""
    while record.startswith(BYTE_ORDER_MARK):
        record = record.removeprefix(BYTE_ORDER_MARK)
    return record


def find_broken_rule(record: bytes) -> str | None:
    """Return the rule that a record breaks."""
    if len(record) > MAX_RECORD_BYTES:
        return LENGTH_RULE
    if b"\r" in record:
        return CARRIAGE_RETURN_RULE
    return None if is_utf8(record) else UTF8_RULE


def join_pieces(pieces: Iterable[bytes], block_bytes: int) -> Iterator[bytes]:
    """Join pieces until they make a block."""
    pending: list[bytes] = []
    length = 0
    for piece in pieces:
        pending.append(piece)
        length += len(piece)
        if length >= block_bytes:
            yield b"".join(pending)
            pending, length = [], 0
    if pending:
        yield b"".join(pending)
