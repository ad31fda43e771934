"""The curator's log: a line for each commit, with the counters that nobody else may see.

Mode 0600, in the pipeline's folder; at a megabyte it becomes curator.log.1, in the place of an earlier one.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from streamgauge.pipeline.options import Progress

NAME = "curator.log"
ACCESS = "access.log"  # the same, of requests to the server
LARGEST = 2**20
PRIVATE = 0o600


class CuratorLog:
    """Lines at the end of a file. A log that cannot be written is no reason to end a run."""

    def __init__(self, folder: Path, name: str = NAME) -> None:
        self.path = folder / name

    def progress(self, progress: Progress) -> None:
        self.line(progress_text(progress))

    def line(self, text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        try:
            self._turn_over()
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
            try:
                os.fchmod(descriptor, PRIVATE)
                os.write(descriptor, f"{now} {text}\n".encode())
            finally:
                os.close(descriptor)
        except OSError:
            return

    def _turn_over(self) -> None:
        if self.path.exists() and self.path.stat().st_size > LARGEST:
            os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))


def progress_text(progress: Progress) -> str:
    """
    >>> progress_text(Progress(512, 2160, 20311, {"late": 2, "outside": 0}))
    'tick 512 of 2160, 20311 records, dropped: late 2'
    >>> progress_text(Progress(4096, None, 0, {}, due=454000))
    'catching up: tick 4096 of 454000, 0 records'
    """
    far = f"{progress.behind}tick {progress.tick}"
    tick = far if progress.until is None else f"{far} of {progress.until}"
    if not progress.counts:
        return tick
    records = "record" if progress.events == 1 else "records"
    return f"{tick}, {progress.events} {records}{dropped_text(progress)}"


def dropped_text(progress: Progress) -> str:
    found = ", ".join(f"{rule} {count}" for rule, count in progress.dropped.items() if count)
    return f", dropped: {found}" if found else ""
