"""A file of lines that grows tick by tick, each tick in it once and whole.

    committed                    | written, not committed | torn
    ... lines of ticks 1 to 40 \\n | lines of tick 41 \\n    | {"release":"fev

Promise
    After a crash at any instant, `resume` with the committed position and the same writes again give the same
    bytes as an unbroken run. Proof: a write cuts the file at the length that the last one returned, so that
    whatever was written since is gone, and returns only when its own lines are on the disk.

    Nothing is cut before the first write. So a start that is refused, because the newest line found is
    ahead of the store, leaves the evidence where it is. A file that does not begin like ours, or that another
    store wrote, is never touched. The file is held from `resume` on, so no two runs write to it at once.

    `astray` tells a file that is shorter than the position, or where another history stands at it: the line
    that ends there has a stamp, and a stamp that the store knows has only what the store knows before it.
"""

import csv
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from streamgauge.query.durable import sync, write_all
from streamgauge.query.released import Released
from streamgauge.sinks.failures import (
    ForeignSink,
    SinkColumnsError,
    SinkFailed,
    describe_columns,
    failing,
    lacking,
    of_another_history,
)
from streamgauge.sinks.lines import Form, Stamp, Trace, in_order, length_of, told
from streamgauge.sinks.place import Place

TIMES, LAST = b"release,tick,start,end,", b",chain"  # of every CSV header


class LineFile:
    """A sink of lines; `name` is what the pipeline file calls it, `owner` the store that it belongs to."""

    def __init__(self, name: str, path: Path, form: Form, owner: str = "") -> None:
        self.name = name
        self.path = path
        self.form = form
        self.owner = owner
        self._length = 0  # what is committed, or written by us and durable
        self._place = Place(name, path, folder=False)

    def resume(self, position: bytes | None) -> Trace | None:
        self._length = length_of(position)
        with failing(self.name):
            if self.path.exists() and not self.path.is_file():
                raise ForeignSink(f"sink must be a file, got {self.name}")
            with self._place.taken() as fd:
                return self._newest() if os.fstat(fd).st_size else None

    def _newest(self) -> Trace | None:
        with self._content() as content:
            if not begins_like(content, self.form):
                self._refuse_columns(content[: max(content.find(b"\n"), 0)])
                raise ForeignSink(f"sink must be a new file or one of ours, got {self.name}")
            found = newest(content, self.form, len(content))
            return found and found.of_owner(self.owner, self.name)

    def check_columns(self) -> None:
        """Refuse a CSV sink of ours that has another header; nothing is opened for writing."""
        with suppress(OSError), self.path.open("rb") as file:
            self._refuse_columns(file.readline(2**20).rstrip(b"\n"))

    def _refuse_columns(self, first: bytes) -> None:
        lines = first, self.form.header.rstrip(b"\n")
        if first != lines[1] and all(each.startswith(TIMES) and each.endswith(LAST) for each in lines):
            with suppress(csv.Error):  # no header of ours
                before, after = (next(csv.reader([each.decode(errors="replace")])) for each in lines)
                raise SinkColumnsError(describe_columns(self.name, before, after))

    def astray(self, knows: Callable[[Trace], bool]) -> str | None:
        with failing(self.name):
            size = os.fstat(self._place.open()).st_size
            if size < self._length:
                return lacking(self.name, self._length, "bytes", size)
            return None if not self._length or self._stands(knows) else of_another_history(self.name)

    def _stands(self, knows: Callable[[Trace], bool]) -> bool:
        """Whether a line ends at the position, and is known."""
        with self._content() as content:
            if content[self._length - 1] != ord("\n"):
                return False
            last = newest(content, self.form, self._length)
            return last is None or knows(last.trace)

    @contextmanager
    def _content(self) -> Iterator[mmap.mmap]:
        with (
            self.path.open("rb") as file,
            closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as content,
        ):
            yield content

    def write(self, releases: Sequence[Released], tick: int, chain: str) -> bytes:
        with failing(self.name):
            fd = self._place.open()
            self._place.keep()
            if (size := os.fstat(fd).st_size) < self._length:
                raise SinkFailed(lacking(self.name, self._length, "bytes", size))
            os.ftruncate(fd, self._length)
            os.lseek(fd, self._length, os.SEEK_SET)
            if not self._length:
                write_all(fd, self.form.header)
            stamp = str(Stamp(tick, chain, self.owner))
            for item in in_order(releases):
                write_all(fd, self.form.lines(item, stamp))
            sync(fd)
            self._length = os.lseek(fd, 0, os.SEEK_CUR)
        return told((tick, chain), self._length)

    def close(self) -> None:
        self._place.close()


def begins_like(content: mmap.mmap | bytes, form: Form) -> bool:
    """Whether a file is ours by its beginning, as far as there is one: the first write may have been torn."""
    start = content[: len(form.opening)]
    if start != form.opening[: len(start)]:
        return False
    end = content.find(b"\n")
    first = content[: max(end, 0)]
    return end < 0 or first + b"\n" == form.header or form.stamp(first) is not None


def newest(content: mmap.mmap | bytes, form: Form, length: int) -> Stamp | None:
    """The stamp of the last whole line that is ours, within a length."""
    end = content.rfind(b"\n", 0, length)
    while end >= 0:
        begin = content.rfind(b"\n", 0, end) + 1
        found = form.stamp(content[begin:end])
        if found is not None:
            return found
        end = begin - 1
    return None
