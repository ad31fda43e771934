"""A device's memory in a file: one device has it at a time, and what it was given outlives a power cut.

    with MemoryFile("emoji.memory") as memory:
        device = Device(claim, keep=memory)    begun, or gone on with from what the file has

    emoji.memory         the newest memory, whole
    emoji.memory.new     the next one while it is written; what a crash leaves of it is never read
    emoji.memory.lock    empty, and locked by whoever has the memory

Privacy
    A device hands a report out when `store` has returned: when the memory was written beside the old one and
    flushed, was given its name, and the folder was flushed. Whenever the power fails the file is whole, the
    old memory or the new one, and the new one if its report was handed out. A file that is empty, torn or
    another's is BadSave, never a new device. All files are their owner's alone (mode 0600).
    From its opening until `close`, or until its process ends, nobody else opens it, and one device is made of
    it: two that had both loaded it would both draw (MemoryInUse). Nobody waits for it either: whoever has it
    is the same device, which sends what is due, and may have it for as long as its process lives.

    Not promised: whoever removes the file, or puts an old copy in its place, has another device, which loses
    anew; whoever removes the lock lets a second one in, and so does a second hard link to the file. Network
    file systems may lose all of it. Where files cannot be locked so (Windows), opening is refused.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Self

from streamgauge.noise.entropy import renew_after_fork

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PRIVATE = 0o600
FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone has it


class MemoryInUse(RuntimeError):  # noqa: N818 - named for what happened
    """A memory that another device has, of this process or of another."""


class MemoryFile:
    """A memory under a name, open and locked; see the module's claim."""

    _lock: int | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.realpath(path))  # the file's own name: it is replaced, and locked, by that
        self._lock = _locked(self._beside(".lock"), self._path.name)
        self._once = Lock()  # taken by the one device, and never given back
        self._turn = Lock()  # a memory that is being written is not let go of
        renew_after_fork(self)

    def load(self) -> bytes | None:
        """What the file has, or None if there is none yet; told once, and on disk when it is told."""
        self._refuse_closed()
        if not self._once.acquire(blocking=False):
            raise MemoryInUse(f"memory must be one device's, got {self._path.name} for a second one")
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            _sync(file.fileno())
            self._sync_names()
            return file.read()

    def store(self, memory: bytes) -> None:
        """Returns when the disk has it in the place of the one before."""
        with self._turn:
            self._refuse_closed()
            self._store(memory)

    def _store(self, memory: bytes) -> None:
        fresh = self._beside(".new")
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        try:
            _write_all(descriptor, memory)
            _sync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(fresh, self._path)
        self._sync_names()

    def close(self) -> None:
        """Lets others open it; its device makes no report any more."""
        with self._turn:
            self._let_go()

    def _let_go(self) -> None:
        descriptor, self._lock = self._lock, None
        if descriptor is not None:
            os.close(descriptor)

    renew = _let_go  # in the child of a fork: closing a copy leaves the parent's lock alone
    __del__ = _let_go

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<memory in {self._path}>"

    def _beside(self, ending: str) -> Path:
        return self._path.with_name(self._path.name + ending)

    def _refuse_closed(self) -> None:
        if self._lock is None:
            raise ValueError(f"memory must be open, got {self._path.name}, which was closed")

    def _sync_names(self) -> None:
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _locked(path: Path, name: str) -> int:
    if fcntl is None:
        instead = "elsewhere give keep= and memory= what one process alone has"
        raise NotImplementedError(f"memory must be where fcntl locks files ({instead}), got {sys.platform}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise MemoryInUse(f"memory must be one device's, got {name}, which another has open") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write_all(descriptor: int, data: bytes) -> None:
    """All of them, however many the system takes at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    """Returns when the disk has what was written: on macOS that takes more than fsync."""
    if FULL_SYNC is not None:
        with suppress(OSError):  # some file systems know fsync alone
            fcntl.fcntl(descriptor, FULL_SYNC)
            return
    os.fsync(descriptor)
