"""Physical lines, read by DuckDB: one row for each, whatever is in it.

The CSV reader is told that there are no quotes, no escapes and one column: it only cuts at line feeds.

Promise
    A clean line (see `streamgauge.query.blocks.Block`) is read as it is, up to a first byte 0x01; an empty
    one is NULL. No line changes how another is read. DuckDB cuts its buffers into four pieces, to be read in
    parallel, and follows a line into the next piece but not beyond: measured, a remainder of a few bytes at
    the end of a buffer lost the line that ran over it. So BUFFER is a multiple of 16, which leaves no
    remainder, and a piece (BUFFER/4) is longer than any line that is let in (LONGEST). Errors are not
    ignored, since DuckDB would ignore such losses too.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from streamgauge.engines.quoting import texts
from streamgauge.query.blocks import LONGEST

MOST = 2 * LONGEST  # what DuckDB may take for one line
BUFFER = 2**24
NUMBER = '"$number"'
DESCRIPTORS = "/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"


def lines_of(paths: Sequence[str], *, header: bool, longest: int = MOST, buffer: int = BUFFER) -> str:
    """A relation with one column, `line`; the first line of each file is left out if it is a header."""
    return (
        f"read_csv([{texts(list(paths))}], auto_detect = false, columns = {{'line': 'VARCHAR'}}, "
        f"delim = '\x01', quote = '', escape = '', header = {str(header).lower()}, strict_mode = false, "
        f"compression = 'none', hive_partitioning = false, max_line_size = {longest}, buffer_size = {buffer})"
    )


def numbered(lines: str) -> str:
    """The same lines with NUMBER, from 1, in the order of the file; without it no order survives a join."""
    return f"(SELECT *, row_number() OVER () AS {NUMBER} FROM {lines})"


@contextmanager
def opened(paths: Sequence[Path]) -> Iterator[list[str]]:
    """Files as the engine may read them: by descriptor, so that no path is ever taken for a pattern."""
    files: list[int] = []
    try:
        for path in paths:
            files.append(os.open(path, os.O_RDONLY))
        yield [f"{DESCRIPTORS}/{file}" for file in files]
    finally:
        for file in files:
            os.close(file)


def can_be_read_again() -> bool:
    """Whether this system has files in memory; otherwise a block comes through a pipe, once."""
    return hasattr(os, "memfd_create")


@contextmanager
def in_memory(data: bytes) -> Iterator[str]:
    """A file that is nowhere on disk. It begins with an empty line: no record is the first of a file, where
    a byte order mark would be taken away."""
    if not can_be_read_again():
        with _piped(data) as path:
            yield path
        return
    file = os.memfd_create("block", os.MFD_CLOEXEC)
    try:
        _write(file, data)
        yield f"{DESCRIPTORS}/{file}"
    finally:
        os.close(file)


@contextmanager
def _piped(data: bytes) -> Iterator[str]:
    """The same, for systems that have no files in memory."""
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
