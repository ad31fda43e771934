"""Durable private files and file locks.

Writing: files have mode 0600, are flushed, and get their name only when they are complete. They survive a power
cut. Sinks, stores and keys are written with these functions.

Locking: an advisory lock on a file or folder has one holder, and the system releases it when the holder dies. A
forked child closes its copy before its own code runs. So a worker that outlives a killed run does not block
others. Readers need no lock. Network file systems are not supported.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

from streamgauge.noise.entropy import renew_after_fork

try:
    import fcntl
except ImportError:  # Windows, which has no such locks
    fcntl = None  # type: ignore[assignment]


class FileSystem:
    """System calls of durable files. Tests inject a subclass that fails, waits or records."""

    can_lock = fcntl is not None
    full_sync_command: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone has it

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        return os.open(path, flags, mode)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return os.write(descriptor, data)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def replace(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def control(self, descriptor: int, command: int) -> None:
        fcntl.fcntl(descriptor, command)

    def sync(self, descriptor: int) -> None:
        """Flush to the disk; on macOS that needs more than fsync."""
        if self.full_sync_command is not None:
            with suppress(OSError):  # some file systems know fsync alone
                self.control(descriptor, self.full_sync_command)
                return
        self.fsync(descriptor)

    def sync_path(self, path: Path) -> None:
        """Flush a file by its name, or the names in a folder."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            self.sync(descriptor)
        finally:
            self.close(descriptor)


SYSTEM = FileSystem()
sync, sync_path = SYSTEM.sync, SYSTEM.sync_path


def write_all(descriptor: int, data: bytes, system: FileSystem = SYSTEM) -> None:
    """Write all bytes, in as many calls as the system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[system.write(descriptor, rest) :]


class FileLock:
    """A locked descriptor, until `close`, the end of the process or a fork.

    A fork closes it in the child only.
    """

    def __init__(self, path: Path, flags: int, mode: int = 0o666) -> None:
        """Open and lock; raise BlockingIOError if another process holds the lock."""
        self._descriptor: int | None = None
        self._descriptor = _open_locked(path, flags, mode)
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

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    renew = __del__ = close  # in the child of a fork: closing a copy leaves the parent's lock alone


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


def create_file(path: Path, data: bytes = b"", system: FileSystem = SYSTEM) -> None:
    """Write a file that must not exist yet; remove it if it is incomplete."""
    descriptor = system.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE_MODE)
    try:
        write_all(descriptor, data, system)
        system.sync(descriptor)
    except BaseException:
        system.unlink(path)
        raise
    finally:
        system.close(descriptor)


def replace_file(path: Path, data: bytes, system: FileSystem = SYSTEM) -> None:
    """Replace the content of a file at once: readers see the old or the new."""
    fresh = path.with_name(path.name + ".new")
    with suppress(FileNotFoundError):
        system.unlink(fresh)
    create_file(fresh, data, system)
    rename(fresh, path, system)


def rename(old: Path, new: Path, system: FileSystem = SYSTEM) -> None:
    """Rename a file or folder, and flush the name."""
    system.replace(old, new)
    system.sync_path(new.parent)
