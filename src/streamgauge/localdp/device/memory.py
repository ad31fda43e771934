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
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np

from streamgauge.continual.run import RunFailedError
from streamgauge.continual.state_io import WRONG_STATE_MESSAGE, InvalidSaveError, pack, unpack
from streamgauge.files import PRIVATE_FILE_MODE, SYSTEM, FileLock, FileSystem, replace_file
from streamgauge.localdp.report_bytes import Reports
from streamgauge.noise.entropy import Bytes
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


class MemoryFile:
    """A memory under a name, open and locked; see the module's claim."""

    def __init__(self, path: str | os.PathLike[str], system: FileSystem = SYSTEM) -> None:
        self.path = Path(os.path.realpath(path))  # the file's own name: it is replaced, and locked, by that
        self.system = system
        self._lock = self.acquire_lock()
        self._load_guard = Lock()  # acquired by the one device, and never released
        self._write_lock = Lock()  # a memory that is being written is not closed

    def acquire_lock(self) -> FileLock:
        """Return the lock of the file; reject one that another device has."""
        if not self.system.can_lock:
            instead = "elsewhere pass persist= and memory= that a single process owns"
            raise NotImplementedError(f"memory must be where fcntl locks files ({instead}), got {sys.platform}")
        try:
            return FileLock(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, PRIVATE_FILE_MODE)
        except BlockingIOError:
            rule = f"memory must be one device's, got {self.path.name}, which another has open"
            raise RunFailedError(rule, "in_use") from None

    def load(self) -> bytes | None:
        """Return the content of the file, or None if there is none yet; only once.

        The content is on disk when it is returned.
        """
        self._check_open()
        if not self._load_guard.acquire(blocking=False):
            raise RunFailedError(f"memory must be one device's, got {self.path.name} for a second one", "in_use")
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return None
        with file:
            self.system.sync(file.fileno())
            self.system.sync_path(self.path.parent)
            return file.read()

    def store(self, memory: bytes) -> None:
        """Replace the memory; return when it is on disk."""
        with self._write_lock:
            self._check_open()
            replace_file(self.path, memory, self.system)

    def close(self) -> None:
        """Unlock the file; its device makes no more reports."""
        with self._write_lock:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<memory in {self.path}>"

    def _check_open(self) -> None:
        if not self._lock.is_open:
            raise ValueError(f"memory must be open, got {self.path.name}, which was closed")
