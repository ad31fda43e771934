"""A file of lines that grows tick by tick, each tick in it once and whole.

    committed                    | written, not committed | torn
    ... lines of ticks 1 to 40 \\n | lines of tick 41 \\n    | {"release":"fev

Promise
    After a crash at any instant, `resume` with the committed position and the same writes again give the same
    bytes as an unbroken run. Proof: a write cuts the file at the length that the last one returned, so that
    whatever was written since is gone, and returns only when its own lines are on the disk.

    Nothing is cut before the first write. So a start that is refused, because the newest line found is
    ahead of the store, leaves the evidence where it is. A file that does not begin like ours is never
    touched.
"""

import mmap
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from streamgauge.query.released import Released
from streamgauge.sinks.durable import sync, sync_path, write_all
from streamgauge.sinks.failures import ForeignSink, failing
from streamgauge.sinks.lines import Form, Trace, in_order, length_of, stamp_of, told


class LineFile:
    """A sink of lines; `name` is what the pipeline file calls it."""

    def __init__(self, name: str, path: Path, form: Form) -> None:
        self.name = name
        self.path = path
        self.form = form
        self._length = 0  # what is committed, or written by us and durable
        self._fd: int | None = None

    def resume(self, position: bytes | None) -> Trace | None:
        self._length = length_of(position)
        with failing(self.name):
            if self.path.exists() and not self.path.is_file():
                raise ForeignSink(f"sink must be a file, got {self.name}")
            size = self.path.stat().st_size if self.path.exists() else 0
            if size < self._length:
                raise ForeignSink(
                    f"sink {self.name} must have the {self._length} bytes that were written to it, "
                    f"got {size}: restore it, or name a new file"
                )
            return self._newest() if size else None

    def _newest(self) -> Trace | None:
        with (
            self.path.open("rb") as file,
            closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as content,
        ):
            cut_within_a_line = self._length and content[self._length - 1] != ord("\n")
            if cut_within_a_line or not begins_like(content, self.form):
                raise ForeignSink(f"sink must be a new file or one of ours, got {self.name}")
            return newest(content, self.form)

    def write(self, releases: Sequence[Released], tick: int, chain: str) -> bytes:
        with failing(self.name):
            fd = self._opened()
            os.ftruncate(fd, self._length)
            os.lseek(fd, self._length, os.SEEK_SET)
            if not self._length:
                write_all(fd, self.form.header)
            for item in in_order(releases):
                write_all(fd, self.form.lines(item, stamp_of((tick, chain))))
            sync(fd)
            self._length = os.lseek(fd, 0, os.SEEK_CUR)
        return told((tick, chain), self._length)

    def _opened(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            sync_path(self.path.parent)
        return self._fd

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def begins_like(content: mmap.mmap | bytes, form: Form) -> bool:
    """Whether a file is ours by its beginning, as far as there is one: the first write may have been torn."""
    start = content[: len(form.opening)]
    if start != form.opening[: len(start)]:
        return False
    end = content.find(b"\n")
    first = content[: max(end, 0)]
    return end < 0 or first + b"\n" == form.header or form.trace(first) is not None


def newest(content: mmap.mmap | bytes, form: Form) -> Trace | None:
    """The trace of the last whole line that is ours."""
    end = content.rfind(b"\n")
    while end >= 0:
        begin = content.rfind(b"\n", 0, end) + 1
        found = form.trace(content[begin:end])
        if found is not None:
            return found
        end = begin - 1
    return None
