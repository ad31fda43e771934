"""Durable private files and file locks.

Writing: files have mode 0600, are flushed, and get their name only when they are complete. They survive a power
cut. Sinks, stores and keys are written with these functions.

Locking: an advisory lock on a file or folder has one holder, and the system releases it when the holder dies. A
forked child closes its copy before its own code runs. So a worker that outlives a killed run does not block
others. Readers need no lock. Network file systems are not supported.
"""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from streamgauge.noise.entropy import renew_after_fork

F_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone has it


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes, in as many calls as the system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync(descriptor: int) -> None:
    """Flush to the disk; on macOS that needs more than fsync."""
    if F_FULLFSYNC is None:
        os.fsync(descriptor)
        return
    with suppress(OSError):  # some file systems know fsync alone
        fcntl.fcntl(descriptor, F_FULLFSYNC)
        return
    os.fsync(descriptor)


def sync_path(path: Path) -> None:
    """Flush a file by its name, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


class FileLock:
    """A locked descriptor, until `close`, the end of the process or a fork.

    A fork closes it in the child only.
    """

    def __init__(self, path: Path, flags: int, mode: int = 0o666) -> None:
        """Open and lock; raise BlockingIOError if another process holds the lock."""
        self._descriptor: int | None = _open_locked(path, flags, mode)
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


def _open_locked(path: Path, flags: int, mode: int) -> int:
    """Open and lock a path; retry if its holder removed the file meanwhile."""
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


PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700


def make_private_folder(folder: Path) -> None:
    """Make a folder, or close one that others can read."""
    if not folder.exists():
        folder.mkdir(PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
        sync_path(folder.parent)
    if folder.stat().st_mode & 0o077:
        folder.chmod(PRIVATE_FOLDER_MODE)


def create_file(path: Path, data: bytes = b"") -> None:
    """Write a file that must not exist yet; remove it if it is incomplete."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE_MODE)
    try:
        write_all(descriptor, data)
        sync(descriptor)
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of a file at once: readers see the old or the new."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    create_file(fresh, data)
    rename(fresh, path)


def rename(old: Path, new: Path) -> None:
    """Rename a file or folder, and flush the name."""
    os.replace(old, new)
    sync_path(new.parent)
