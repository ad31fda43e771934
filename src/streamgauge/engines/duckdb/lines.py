"""Physical lines, read by DuckDB: one row for each, whatever its content.

The CSV reader is configured for no quotes, no escapes and one column: it only cuts at line feeds.

Promise
    A clean line (see `streamgauge.records.blocks.Block`) is read unchanged, up to a first byte 0x01. An empty
    one is NULL. No line changes how another is read. DuckDB cuts its buffers into four pieces, to be read in
    parallel, and follows a line into the next piece but not beyond. Measured: a remainder of a few bytes at
    the end of a buffer lost the line that crossed it. So BUFFER_BYTES is a multiple of 16, which leaves no
    remainder, and a piece (BUFFER_BYTES/4) is longer than any accepted line (MAX_LINE_BYTES). Errors
    are not ignored, since DuckDB would ignore such losses too.

A block is read in pieces that should fit into memory. A piece that does not fit is halved.

Names and texts that the curator declared are quoted. SQL never contains events.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from threading import Thread

import numpy as np

from streamgauge.noise import Ints
from streamgauge.records.blocks import MAX_RECORD_BYTES


def quote_text(value: str) -> str:
    """Return a string literal."""
    return "'" + check_no_nul(value).replace("'", "''") + "'"


def quote_name(value: str) -> str:
    """Return an identifier."""
    return '"' + check_no_nul(value).replace('"', '""') + '"'


def quote_texts(values: "tuple[str, ...] | list[str]") -> str:
    """Return string literals between commas."""
    return ", ".join(quote_text(value) for value in values)


def double_literal(value: Fraction | int | float) -> str:
    """Return a DOUBLE literal: a plain one would be a DECIMAL."""
    return f"({float(value)!r})::DOUBLE"


def check_no_nul(value: str) -> str:
    """Reject a NUL, at which DuckDB's parser ends names and texts."""
    if "\0" in value:
        raise ValueError(f"names and labels must have no NUL character, got {value!r}")
    return value


MAX_LINE_BYTES = 2 * MAX_RECORD_BYTES  # longest line that DuckDB may accept
BUFFER_BYTES = 2**24
NUMBER_COLUMN = '"$number"'
DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"


def build_lines_sql(
    paths: Sequence[str], *, header: bool, longest: int = MAX_LINE_BYTES, buffer: int = BUFFER_BYTES
) -> str:
    """Return SQL of a relation with one column, `line`.

    The first line of each file is left out if it is a header.
    """
    return (
        f"read_csv([{quote_texts(list(paths))}], auto_detect = false, columns = {{'line': 'VARCHAR'}}, "
        f"delim = '\x01', quote = '', escape = '', header = {str(header).lower()}, strict_mode = false, "
        f"compression = 'none', hive_partitioning = false, max_line_size = {longest}, buffer_size = {buffer})"
    )


def number_lines_sql(lines: str) -> str:
    """Return SQL of the lines with NUMBER, from 1, in the order of the file.

    Without it no order survives a join.
    """
    return f"(SELECT *, row_number() OVER () AS {NUMBER_COLUMN} FROM {lines})"


@contextmanager
def open_descriptors(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Open files by descriptor, so that the engine never reads a path as a pattern."""
    files: list[int] = []
    try:
        for path in paths:
            files.append(os.open(path, os.O_RDONLY))
        yield [f"{DESCRIPTORS}/{file}" for file in files]
    finally:
        for file in files:
            os.close(file)


def has_memory_files() -> bool:
    """Return whether this system has files in memory. If not, a block uses a pipe."""
    return hasattr(os, "memfd_create")


@contextmanager
def open_memory_file(data: bytes) -> Iterator[str]:
    """Open a file that is never on disk.

    It begins with an empty line. DuckDB would remove a byte order mark from the first line of a file, so no record
    may be the first.
    """
    if not has_memory_files():
        with _open_pipe(data) as path:
            yield path
        return
    file = os.memfd_create("block", os.MFD_CLOEXEC)
    try:
        _write(file, data)
        yield f"{DESCRIPTORS}/{file}"
    finally:
        os.close(file)


@contextmanager
def _open_pipe(data: bytes) -> Iterator[str]:
    """Open a pipe with the data, for systems that have no files in memory."""
    out, into = os.pipe()

    def fill() -> None:
        try:
            _write(into, data)
        except BrokenPipeError:
            pass
        finally:
            os.close(into)

    writer = Thread(target=fill, daemon=True)
    writer.start()
    try:
        yield f"{DESCRIPTORS}/{out}"
    finally:
        os.close(out)
        writer.join()


def _write(file: int, data: bytes) -> None:
    with open(file, "wb", closefd=False) as out:
        out.write(b"\n")
        out.write(data)


MAX_PIECE_BYTES = 2**22  # bytes of a piece: with half of it, adding up takes 1.3 times as long (measured)


@dataclass
class LinePiece:
    """Whole lines of a block, and which of them exceed the bounds of users, if known."""

    data: bytes = field(repr=False)
    begin: int = 0  # offset in the block
    rejected_lines: Ints | None = field(default=None, repr=False)  # exact: numbers of lines, from 0

    @property
    def halves(self) -> list["LinePiece"]:
        """Two parts of about the same length, or the line itself if it is one."""
        middle = self.data.find(b"\n", len(self.data) // 2) + 1
        if middle in (0, len(self.data)):
            middle = self.data.rfind(b"\n", 0, max(0, len(self.data) - 1)) + 1
        return [self] if middle == 0 else self._split(middle)

    def _split(self, at: int) -> list["LinePiece"]:
        number = self.data.count(b"\n", 0, at)
        one, other = self.rejected_lines, self.rejected_lines
        if self.rejected_lines is not None:
            first = self.rejected_lines < number
            one, other = self.rejected_lines[first], self.rejected_lines[~first] - number
        return [LinePiece(self.data[:at], self.begin, one), LinePiece(self.data[at:], self.begin + at, other)]


def split_pieces(data: bytes, max_bytes: int = MAX_PIECE_BYTES) -> Iterator[LinePiece]:
    """Return all lines, in order, in at least one piece.

    >>> [piece.data for piece in split_pieces(b"1\\n22\\n3\\n4444\\n", 5)]
    [b'1\\n22\\n', b'3\\n', b'4444\\n']
    """
    begin = 0
    while True:
        end = data.rfind(b"\n", begin, begin + max_bytes) + 1 or data.find(b"\n", begin) + 1 or len(data)
        yield LinePiece(data[begin:end], begin)
        begin = end
        if begin >= len(data):
            return


def line_numbers(numbers: Ints) -> Ints:
    """Return line numbers from DuckDB's row numbers.

    The first line in memory is an empty one, and has number 1.
    """
    return np.asarray(numbers, np.int64) - 2
