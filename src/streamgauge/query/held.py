"""One holder at a time: an advisory lock on a file or folder, which the system lets go when its holder dies.

A forked child gives its copy of the lock up before its own code runs, so that a worker which outlives a
killed run does not keep others out. Readers need no lock. Network file systems are not supported.
"""

import errno
import fcntl
import os
from pathlib import Path

from streamgauge.noise.entropy import renew_after_fork


class Held:
    """A descriptor, open and locked until `close`, the end of the process or, in a child, the fork."""

    def __init__(self, path: Path, flags: int, mode: int = 0o666) -> None:
        """Raises BlockingIOError if somebody else holds it."""
        self._descriptor: int | None = _locked(path, flags, mode)
        renew_after_fork(self)

    @property
    def descriptor(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EBADF, "a file that was closed, or opened before a fork")
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    renew = close  # in the child of a fork: closing a copy leaves the parent's lock alone


def _locked(path: Path, flags: int, mode: int) -> int:
    """Tries again if what was locked has lost its name meanwhile: a holder may remove what it made."""
    while True:
        descriptor = os.open(path, flags, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_named(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
