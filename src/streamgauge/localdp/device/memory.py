"""Memory of a device: its spending, its last report and the answers.

Never an item.

Memories belong to a device, not to a claim or a policy: collections may change tomorrow, and earlier spending stays
spent. `spent_epsilon` is an exact sum over all claims. `collection` names the one that the last report is for.

A memory in a file belongs to one device at a time, and survives a power cut:

    with MemoryFile("emoji.memory") as memory:
        device = Device(claim, persist=memory)    begun, or resumed from the file

    emoji.memory         the newest memory, whole
    emoji.memory.new     the next one while it is written; a part that a crash leaves is never read
    emoji.memory.lock    empty, and locked by the process that has the memory

Privacy
    A device hands a report out when `store` has returned: the memory was written next to the old one and
    flushed, got its name, and the folder was flushed. Whenever the power fails the file is whole, the old
    memory or the new one, and the new one if its report was handed out. A file that is empty, torn or foreign
    raises InvalidSaveError, and never makes a new device. All files are their owner's alone (mode 0600).
    From its opening until `close`, or until its process ends, no other process opens it, and one device is made
    of it: two that had both loaded it would both draw (`in_use`). No process waits for it either: the
    owner is the same device, which sends due reports, and may have it for as long as its process lives.

    Not promised: removing the file, or restoring an old copy, makes another device, which loses again. Removing
    the lock admits a second one, and so does a second hard link to the file. Network file systems may lose all
    of it. If files cannot be locked so (Windows), opening is rejected.
"""

import os
import re
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np

from streamgauge.continual.run import RunFailedError
from streamgauge.continual.state_io import WRONG_STATE_MESSAGE, InvalidSaveError, pack, unpack
from streamgauge.localdp.report_bytes import Reports
from streamgauge.noise.entropy import Bytes, renew_after_fork
from streamgauge.privacy import Pure

STATE_KIND = "Device"
KEY_BYTES = 16  # too many to guess
SUM_PATTERN = re.compile(r"0|[1-9][0-9]*(/[1-9][0-9]*)?")


@dataclass
class DeviceMemory:
    """The memory of a device; never an item."""

    spent_epsilon: str = "0"  # epsilon of all reports that were paid for, "p" or "p/q"
    spent_today: str = "0"  # of it, on the latest day
    day: int = 0
    reports_sent: int = 0  # reports that were handed out, those that were repeated among them
    last_sent_at: float = 0.0  # when the last was, in seconds since 1970
    collection: str = ""  # of the last report: a fingerprint
    last_report: Reports = field(default_factory=lambda: np.empty((0, 0), np.uint8), repr=False)  # noisy
    key: Bytes = field(default_factory=lambda: np.empty(0, np.uint8), repr=False)  # of the last, in messages
    is_accepted: bool = False  # True if a server accepted the last
    open_attempts: int = 0  # attempts to send the last that have no answer
    first_attempt_at: float = 0.0  # when the first of them was

    @property
    def has_reported(self) -> bool:
        return len(self.last_report) > 0

    @property
    def loss(self) -> Pure:
        """The loss of all reports."""
        return Pure.from_amount(Fraction(self.spent_epsilon))

    def day_loss(self, day: int) -> Pure:
        return Pure.from_amount(Fraction(0 if day > self.day else self.spent_today))

    def charge(self, loss: Pure, day: int) -> None:
        """Charge one more report; a past day does not come back."""
        self.spent_today = str((self.day_loss(day) + loss).epsilon)
        self.day = max(self.day, day)
        self.spent_epsilon = str((self.loss + loss).epsilon)


def pack_memory(memory: DeviceMemory) -> bytes:
    return pack(STATE_KIND, 1, {}, memory)


def unpack_memory(saved: bytes, collection: str, size: int) -> DeviceMemory:
    """Return the memory that was packed.

    Raises:
        InvalidSaveError: no device wrote it, or a report of the collection is not of so many bytes.
    """
    memory: DeviceMemory = unpack(saved, STATE_KIND, lambda _: DeviceMemory())[2]
    own = memory.collection != collection or memory.last_report.shape[1] == size
    if not (own and is_sound(memory)):
        raise InvalidSaveError(WRONG_STATE_MESSAGE)
    return memory


def is_sound(memory: DeviceMemory) -> bool:
    """True if a device may have reached it: it has spent, sent and stored, or nothing."""
    if not (_is_sum(memory.spent_epsilon) and _is_sum(memory.spent_today)):
        return False
    begun = memory.spent_epsilon != "0"
    parts = memory.reports_sent > 0, memory.collection != "", len(memory.last_report), len(memory.key)
    whole = parts == (begun, begun, int(begun), KEY_BYTES * begun)
    counted = Fraction(memory.spent_today) <= Fraction(memory.spent_epsilon)
    counted = counted and memory.reports_sent >= 0 and memory.open_attempts >= 0
    answered = begun or not (memory.is_accepted or memory.open_attempts)
    timed = isfinite(memory.last_sent_at) and isfinite(memory.first_attempt_at)
    plain = memory.last_report.dtype == memory.key.dtype == np.uint8
    return whole and counted and answered and timed and plain


def _is_sum(text: str) -> bool:
    """True if a sum is in lowest terms, as it was written."""
    try:
        return SUM_PATTERN.fullmatch(text) is not None and str(Fraction(text)) == text
    except ValueError:
        return False


try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PRIVATE_MODE = 0o600
FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone has it


class MemoryFile:
    """A memory under a name, open and locked; see the module's claim."""

    _lock_descriptor: int | None = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(os.path.realpath(path))  # the file's own name: it is replaced, and locked, by that
        self._lock_descriptor = _acquire_lock(self._sibling_path(".lock"), self._path.name)
        self._load_guard = Lock()  # acquired by the one device, and never released
        self._write_lock = Lock()  # a memory that is being written is not closed
        renew_after_fork(self)

    def load(self) -> bytes | None:
        """Return the content of the file, or None if there is none yet; only once.

        The content is on disk when it is returned.
        """
        self._check_open()
        if not self._load_guard.acquire(blocking=False):
            raise RunFailedError(f"memory must be one device's, got {self._path.name} for a second one", "in_use")
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            _sync(file.fileno())
            self._sync_folder()
            return file.read()

    def store(self, memory: bytes) -> None:
        """Replace the memory; return when it is on disk."""
        with self._write_lock:
            self._check_open()
            self._store(memory)

    def _store(self, memory: bytes) -> None:
        fresh = self._sibling_path(".new")
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
        try:
            _write_all(descriptor, memory)
            _sync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(fresh, self._path)
        self._sync_folder()

    def close(self) -> None:
        """Unlock the file; its device makes no more reports."""
        with self._write_lock:
            self._release_lock()

    def _release_lock(self) -> None:
        descriptor, self._lock_descriptor = self._lock_descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    renew = _release_lock  # in the child of a fork: closing a copy leaves the parent's lock alone
    __del__ = _release_lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<memory in {self._path}>"

    def _sibling_path(self, ending: str) -> Path:
        return self._path.with_name(self._path.name + ending)

    def _check_open(self) -> None:
        if self._lock_descriptor is None:
            raise ValueError(f"memory must be open, got {self._path.name}, which was closed")

    def _sync_folder(self) -> None:
        descriptor = os.open(self._path.parent, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _acquire_lock(path: Path, name: str) -> int:
    if fcntl is None:
        instead = "elsewhere give persist= and memory= what one process alone has"
        raise NotImplementedError(f"memory must be where fcntl locks files ({instead}), got {sys.platform}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RunFailedError(f"memory must be one device's, got {name}, which another has open", "in_use") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all data, in as many calls as the system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(descriptor: int) -> None:
    """Return when the data are on disk: on macOS that takes more than fsync."""
    if FULL_SYNC is not None:
        with suppress(OSError):  # some file systems know fsync alone
            fcntl.fcntl(descriptor, FULL_SYNC)
            return
    os.fsync(descriptor)
