"""What a device remembers: what it has spent, its last report, and what became of that. Never an item.

Memories belong to a device, not to a claim or a rule: whoever collects may ask for other things tomorrow, and
what was spent on them before is spent. `spent` is an exact sum, whatever the claims were; `collection` tells
which of them the last report is for.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite

import numpy as np

from streamgauge.continual.saved import ANOTHER, BadSave, pack, unpack
from streamgauge.localdp.reports import Reports
from streamgauge.noise.entropy import Bytes
from streamgauge.privacy import Pure

KIND = "Device"
KEY = 16  # bytes, which no stranger guesses
SUM = re.compile(r"0|[1-9][0-9]*(/[1-9][0-9]*)?")


def no_report() -> Reports:
    return np.empty((0, 0), np.uint8)


def no_key() -> Bytes:
    return np.empty(0, np.uint8)


@dataclass
class Memory:
    """All that a device remembers; never an item."""

    spent: str = "0"  # epsilon of all reports that were paid for, "p" or "p/q"
    today: str = "0"  # of it, on the latest day
    day: int = 0
    sent: int = 0  # reports that were handed out, those that were repeated among them
    at: float = 0.0  # when the last was, in seconds since 1970
    collection: str = ""  # whose report the last is: a fingerprint
    last: Reports = field(default_factory=no_report, repr=False)  # noisy
    key: Bytes = field(default_factory=no_key, repr=False)  # of the last, in messages
    taken: bool = False  # whether somebody said that the last was taken
    open: int = 0  # attempts to send the last that have no answer
    tried: float = 0.0  # when the first of them was

    @property
    def reported(self) -> bool:
        return len(self.last) > 0

    @property
    def loss(self) -> Pure:
        """Of all reports."""
        return Pure.from_amount(Fraction(self.spent))

    def used(self, day: int) -> Pure:
        return Pure.from_amount(Fraction(0 if day > self.day else self.today))

    def charge(self, loss: Pure, day: int) -> None:
        """One more report; a day that is over does not come back."""
        self.today = str((self.used(day) + loss).epsilon)
        self.day = max(self.day, day)
        self.spent = str((self.loss + loss).epsilon)


def packed(memory: Memory) -> bytes:
    return pack(KIND, 1, {}, memory)


def unpacked(saved: bytes, collection: str, size: int) -> Memory:
    """The memory that was packed; BadSave if no device wrote it, or a report of the collection is not of so
    many bytes."""
    memory: Memory = unpack(saved, KIND, lambda _: Memory())[2]
    own = memory.collection != collection or memory.last.shape[1] == size
    if not (own and is_sound(memory)):
        raise BadSave(ANOTHER)
    return memory


def is_sound(memory: Memory) -> bool:
    """What a device may have come to: something spent, sent and kept, or nothing of it."""
    if not (_is_sum(memory.spent) and _is_sum(memory.today)):
        return False
    begun = memory.spent != "0"
    parts = memory.sent > 0, memory.collection != "", len(memory.last), len(memory.key)
    whole = parts == (begun, begun, int(begun), KEY * begun)
    counted = Fraction(memory.today) <= Fraction(memory.spent) and memory.sent >= 0 and memory.open >= 0
    answered = begun or not (memory.taken or memory.open)
    timed = isfinite(memory.at) and isfinite(memory.tried)
    plain = memory.last.dtype == memory.key.dtype == np.uint8
    return whole and counted and answered and timed and plain


def _is_sum(text: str) -> bool:
    """In lowest terms, as it was written."""
    try:
        return SUM.fullmatch(text) is not None and str(Fraction(text)) == text
    except ValueError:
        return False
