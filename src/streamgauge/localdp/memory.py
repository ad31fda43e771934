"""What a device remembers: what it has spent, and its last report. Never an item.

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
from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.reports import Reports
from streamgauge.localdp.wire import fingerprint
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


def unpacked(saved: bytes, claim: LocalClaim) -> Memory:
    """The memory that was packed; BadSave if no device wrote it."""
    memory: Memory = unpack(saved, KIND, lambda _: Memory())[2]
    if not is_sound(memory, claim):
        raise BadSave(ANOTHER)
    return memory


def is_sound(memory: Memory, claim: LocalClaim) -> bool:
    """What a device may have come to: something spent, sent and kept, or nothing of it."""
    if not (_is_sum(memory.spent) and _is_sum(memory.today)):
        return False
    begun = memory.spent != "0"
    counted = Fraction(memory.today) <= Fraction(memory.spent) and isfinite(memory.at)
    whole = (memory.sent > 0, memory.collection != "", len(memory.last)) == (begun, begun, int(begun))
    own = memory.collection != fingerprint(claim).hex() or memory.last.shape[1] == claim.report_size
    plain = memory.last.dtype == memory.key.dtype == np.uint8 and len(memory.key) in {0, KEY}
    return counted and whole and memory.sent >= 0 and own and plain


def _is_sum(text: str) -> bool:
    """In lowest terms, as it was written."""
    try:
        return SUM.fullmatch(text) is not None and str(Fraction(text)) == text
    except ValueError:
        return False
