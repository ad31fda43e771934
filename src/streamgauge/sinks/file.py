"""File of lines that grows tick by tick, with each tick once and complete.

    committed                    | written, not committed | torn
    ... lines of ticks 1 to 40 \\n | lines of tick 41 \\n    | {"release":"fev

Promise
    After a crash at any instant, `resume` with the committed position and the same writes again give the same
    bytes as an uninterrupted run. Proof: a write cuts the file at the length that the last one returned, which
    removes everything written since. It returns only when its own lines are on the disk.

    Nothing is cut before the first write. So a start that is refused, because the newest line found is
    ahead of the store, preserves the evidence. A file that does not begin like ours, or that another
    store wrote, is never changed. The run locks the file from `resume` on, so no two runs write to it at once.

    `diverged` detects a file that is shorter than the position, or that has another history there. The line
    that ends at the position has a stamp. If the store knows a stamp, it also knows everything before it.

    `SinkLocation` gives one run at a time the file or folder. From `open` until `close`, or the death of the
    process, no other run has the location open. Files created for the lock are removed again, unless `keep` was
    called: a start that is refused leaves nothing behind.
"""

import csv
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from streamgauge.files import FileLock, sync, sync_path, write_all
from streamgauge.releases.release import TickRelease
from streamgauge.sinks.errors import (
    SinkAccessError,
    SinkError,
    describe_columns,
    describe_divergence,
    describe_missing,
    translate_os_errors,
)
from streamgauge.sinks.formats import ChainTrace, LineFormat, Stamp, build_position, parse_length, sort_by_tick


class SinkLocation:
    """File or folder that one run at a time may have open."""

    def __init__(self, name: str, path: Path, *, folder: bool) -> None:
        self.name = name
        self.path = path
        self.folder = folder
        self._file_lock: FileLock | None = None
        self._is_new = False

    @contextmanager
    def reopen(self) -> Iterator[int]:
        """Open the location again, and close it if its content is refused."""
        self.close()
        try:
            yield self.open()
        except BaseException:
            self.close()
            raise

    def open(self) -> int:
        """Open the location and return its descriptor."""
        if self._file_lock is None:
            made = not self.path.exists()
            (self.path if self.folder else self.path.parent).mkdir(parents=True, exist_ok=True)
            try:
                self._file_lock = FileLock(self.path, os.O_RDONLY if self.folder else os.O_RDWR | os.O_CREAT)
            except BlockingIOError:
                raise SinkError(
                    f"sink {self.name} must be written by one run at a time, got one that another run has open: stop "
                    "that run, or name another sink",
                    "in_use",
                ) from None
            self._is_new = made
            if made:
                sync_path(self.path.parent)
        return self._file_lock.descriptor

    def keep(self) -> None:
        """Keep the location after `close`, because it has content."""
        self._is_new = False

    def close(self) -> None:
        if self._file_lock is None:
            return
        if self._is_new:
            with suppress(OSError):
                self._remove()
        self._file_lock.close()
        self._file_lock, self._is_new = None, False

    def _remove(self) -> None:
        if self.folder:
            self.path.rmdir()  # fails if it is not empty
        elif not os.fstat(self.open()).st_size:
            self.path.unlink()


TIME_COLUMNS_PREFIX, TRACE_COLUMN_SUFFIX = b"release,tick,start,end,", b",trace"  # part of every CSV header


class LineFile:
    """Sink of lines.

    `name` is the sink's name in the pipeline file, `owner` the store that it belongs to.
    """

    def __init__(self, name: str, path: Path, line_format: LineFormat, owner: str = "") -> None:
        self.name = name
        self.path = path
        self.line_format = line_format
        self.owner = owner
        self._length = 0  # length that is committed, or written by this run and durable
        self._location = SinkLocation(name, path, folder=False)

    def resume(self, position: bytes | None) -> ChainTrace | None:
        self._length = parse_length(position)
        with translate_os_errors(self.name):
            if self.path.exists() and not self.path.is_file():
                raise SinkError(f"sink must be a file, got {self.name}")
            with self._location.reopen() as fd:
                return self._find_newest() if os.fstat(fd).st_size else None

    def _find_newest(self) -> ChainTrace | None:
        with self._open_content() as content:
            if not has_file_prefix(content, self.line_format):
                self._refuse_columns(content[: max(content.find(b"\n"), 0)])
                raise SinkError(f"sink must be a new file or one of ours, got {self.name}")
            found = find_newest_stamp(content, self.line_format, len(content))
            return found and found.check_owner(self.owner, self.name)

    def check_columns(self) -> None:
        """Reject a CSV sink that has another header, without opening it for writing."""
        with suppress(OSError), self.path.open("rb") as file:
            self._refuse_columns(file.readline(2**20).rstrip(b"\n"))

    def _refuse_columns(self, first: bytes) -> None:
        lines = first, self.line_format.header.rstrip(b"\n")
        if first != lines[1] and all(
            each.startswith(TIME_COLUMNS_PREFIX) and each.endswith(TRACE_COLUMN_SUFFIX) for each in lines
        ):
            with suppress(csv.Error):  # not a header of this package
                before, after = (next(csv.reader([each.decode(errors="replace")])) for each in lines)
                raise SinkError(describe_columns(self.name, before, after), "columns")

    def diverged(self, knows: Callable[[ChainTrace], bool]) -> str | None:
        with translate_os_errors(self.name):
            size = os.fstat(self._location.open()).st_size
            if size < self._length:
                return describe_missing(self.name, self._length, "bytes", size)
            return None if not self._length or self._is_intact(knows) else describe_divergence(self.name)

    def _is_intact(self, knows: Callable[[ChainTrace], bool]) -> bool:
        """Return whether a line ends at the position and its stamp is known."""
        with self._open_content() as content:
            if content[self._length - 1] != ord("\n"):
                return False
            last = find_newest_stamp(content, self.line_format, self._length)
            return last is None or knows(last.trace)

    @contextmanager
    def _open_content(self) -> Iterator[mmap.mmap]:
        with self.path.open("rb") as file, closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as content:
            yield content

    def write(self, releases: Sequence[TickRelease], tick: int, chain: str) -> bytes:
        with translate_os_errors(self.name):
            fd = self._location.open()
            self._location.keep()
            if (size := os.fstat(fd).st_size) < self._length:
                raise SinkAccessError(describe_missing(self.name, self._length, "bytes", size))
            os.ftruncate(fd, self._length)
            os.lseek(fd, self._length, os.SEEK_SET)
            if not self._length:
                write_all(fd, self.line_format.header)
            stamp = str(Stamp(tick, chain, self.owner))
            for item in sort_by_tick(releases):
                write_all(fd, self.line_format.format_lines(item, stamp))
            sync(fd)
            self._length = os.lseek(fd, 0, os.SEEK_CUR)
        return build_position((tick, chain), self._length)

    def close(self) -> None:
        self._location.close()


def has_file_prefix(content: mmap.mmap | bytes, form: LineFormat) -> bool:
    """Return whether a file begins like ours. A torn first write counts as such."""
    start = content[: len(form.file_prefix)]
    if start != form.file_prefix[: len(start)]:
        return False
    end = content.find(b"\n")
    first = content[: max(end, 0)]
    return end < 0 or first + b"\n" == form.header or form.parse_stamp(first) is not None


def find_newest_stamp(content: mmap.mmap | bytes, form: LineFormat, length: int) -> Stamp | None:
    """Return the stamp of the last whole line of ours, up to a length."""
    end = content.rfind(b"\n", 0, length)
    while end >= 0:
        begin = content.rfind(b"\n", 0, end) + 1
        found = form.parse_stamp(content[begin:end])
        if found is not None:
            return found
        end = begin - 1
    return None
