"""One run at a time: an advisory lock on a file in the folder, which the system lets go when its holder dies.

A forked child gives its copy of the lock up before its own code runs, so that a worker which outlives a
killed run does not keep the folder shut. Readers need no lock. Network file systems are not supported.
"""

import fcntl
import os
from pathlib import Path
from typing import Self

from streamgauge.noise.entropy import renew_after_fork
from streamgauge.pipeline.durable import PRIVATE_FILE
from streamgauge.pipeline.store_errors import AlreadyRunning, refusals

NAME = "lock"


class Lock:
    """Held from construction until `release`, the end of a `with` block, or the end of the process."""

    def __init__(self, folder: Path) -> None:
        path = folder / NAME
        with refusals(path):
            self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise AlreadyRunning(folder, holder(folder)) from None
        renew_after_fork(self)
        self._sign(path)

    def _sign(self, path: Path) -> None:
        """Says who holds it, for the message that the next one gets."""
        assert self._descriptor is not None
        try:
            with refusals(path):
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    renew = release  # in the child of a fork: closing a copy leaves the parent's lock alone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.release()


def holder(folder: Path) -> int | None:
    """The process that took the lock last, if it said so."""
    try:
        told = (folder / NAME).read_bytes().strip()
    except OSError:
        return None
    return int(told) if told.isdigit() else None
