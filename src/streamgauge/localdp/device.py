"""A device over time: one claim, a rule for what happens when it is asked again, and a memory.

    device = Device(claim, Repeat(), keep=MemoryFile(path))   or keep=store: it returns when a memory is safe
    device.due(item)                         what is to be sent now, a report and its Batch-Key, or None
    device.answered(key, taken)              that it was taken or, for certain, not
    device.report(item)                      one report more, in any case

Every report that is made is counted, a repeated one too: `most` in all, `every` seconds apart, from the
moment `since` on (see `pace`; NoReportLeft, TooSoon). Each has a key of 128 random bits, which are kept
beside it: while no answer came it is sent again under that key, and counted once (see `attempts`).

Privacy
    Local: all reports that a device ever makes lose `loss` together, for any two histories of items (see
    `again`). A report is paid for before it is drawn, and `keep` has the memory before the report is handed
    out: whenever the power fails, what was sent is remembered. If drawing or keeping fails, the device is
    not gone on with; load what was kept. Until it has returned, `keep` cannot ask the device, which would
    hand out what is not safe yet (InsideStep). Without `keep` a device is remembered as long as its process
    lives, and until `save` is stored somewhere: one that is made anew draws, and loses, anew.
    A memory may be loaded under another claim or rule. What was spent is spent, by an exact sum; a last
    report that is another collection's is neither told nor repeated (OtherCollection).
    The memory holds no item, but the last report, its key and how many were made: it links the device to what
    it sent, and belongs on the device alone.

    Not promised: an old copy of the memory has the budget that it had. A device cannot tell that it was set
    back (nor that its clock was set forward, which brings the next day's budget): load the newest copy only,
    and only once, of which a MemoryFile takes care. `save` therefore ends a device; it cannot be copied,
    pickled or gone on with after a fork. Two devices of one person, or two collections of one item, add up.
"""

from collections.abc import Callable
from time import time
from typing import Any, Self

import numpy as np

from streamgauge.continual.single import Single
from streamgauge.localdp import attempts
from streamgauge.localdp.again import Again, NoBudgetLeft, Repeat, check_rule
from streamgauge.localdp.attempts import Due
from streamgauge.localdp.claim import LocalClaim
from streamgauge.localdp.clocks import moment, utc_day, whole_day
from streamgauge.localdp.memory import KEY, Memory, packed, unpacked
from streamgauge.localdp.memory_file import MemoryFile
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.pace import NoReportLeft, Pace, TooSoon
from streamgauge.localdp.wire import OtherCollection, fingerprint
from streamgauge.noise import Chance
from streamgauge.noise.entropy import Bytes, system_key
from streamgauge.privacy import Pure

ONCE = Repeat()


class HandedOver(RuntimeError):  # noqa: N818 - named for what happened
    """The device was saved, and is elsewhere now."""


class Device(Single[Memory]):
    """Reports items under a claim, again and again; see the module's claim."""

    def __init__(
        self,
        claim: LocalClaim,
        again: Again = ONCE,
        *,
        most: int | None = None,
        every: float | None = None,
        since: float | None = None,
        keep: Callable[[bytes], object] | MemoryFile | None = None,
        today: Callable[[], int] = utc_day,
        now: Callable[[], float] = time,
        noise: Chance | None = None,
    ) -> None:
        super().__init__(Memory())
        check_rule(again)
        if not (keep is None or callable(keep) or isinstance(keep, MemoryFile)):
            rule = "a MemoryFile, a function that keeps a memory, or None"
            raise ValueError(f"keep must be {rule}, got {keep!r}")
        if not callable(today):
            raise ValueError(f"today must be a function that tells the day, got {today!r}")
        if not callable(now):
            raise ValueError(f"now must be a function that tells the time, got {now!r}")
        again.within(claim.loss, 1)  # refuses a budget without room for a single report
        self.claim, self.again, self.pace = claim, again, Pace(most, every, since)
        self._today, self._now, self._noise = today, now, noise
        self._collection, self._handed_over = fingerprint(claim).hex(), False
        self._in_file = isinstance(keep, MemoryFile)
        self._keep = keep.store if isinstance(keep, MemoryFile) else keep
        saved = keep.load() if isinstance(keep, MemoryFile) else None
        if saved is not None:
            self._state = self._unpacked(saved)

    @classmethod
    def loaded(cls, claim: LocalClaim, saved: bytes, again: Again = ONCE, **settings: Any) -> Self:
        """The device that `save` ended or `keep` was given, whatever its claim and rule were. Load the
        newest, and load it once."""
        device = cls(claim, again, **settings)
        with device._alone() as begun:
            if begun.reported:
                raise ValueError("keep must have no memory where another is loaded, got a file that has one")
        device._state = device._unpacked(saved)
        return device

    @property
    def spent(self) -> Pure:
        """What was lost so far."""
        with self._alone() as memory:
            return memory.loss

    @property
    def loss(self) -> Pure | None:
        """What all reports together can ever cost; None if nothing bounds it, which is so for a budget that
        is given back (`loss_within` says what it comes to)."""
        with self._alone() as memory:
            return self.again.ever(memory, self.claim.loss)

    def loss_within(self, days: int) -> Pure:
        """What all reports of so many days can cost, where a daily budget is all of this claim's."""
        ever = self.loss
        return self.again.within(self.claim.loss, days) if ever is None else ever

    @property
    def left(self) -> int | None:
        """How many reports may still be made, by the pace and by the budget; None if neither bounds them. A
        daily budget, which comes back, bounds none."""
        with self._alone() as memory:
            if self.again.repeats and self._is_of_another(memory):
                return 0
            bounds = self.pace.left(memory), self.again.left(memory, self.claim.loss)
            return min((each for each in bounds if each is not None), default=None)

    @property
    def last(self) -> bytes | None:
        """The report that was made last: to send it again, if it was lost on its way, costs nothing. None
        if there is none for this collection."""
        with self._alone() as memory:
            return None if self._is_of_another(memory) else memory.last.tobytes() or None

    @property
    def key(self) -> str | None:
        """The Batch-Key of the last report, under which it is counted once, however often it is sent."""
        with self._alone() as memory:
            return None if self._is_of_another(memory) else memory.key.tobytes().hex() or None

    def report(self, item: Item) -> bytes:
        """One report more; NoReportLeft or TooSoon if there may be none, NoBudgetLeft if it cannot be paid
        for, OtherCollection if it was to be repeated and was made for another."""
        return self._handed(item, lambda memory, now: False).report

    def due(self, item: Item) -> Due | None:
        """What is to be sent now: the last report again, while it is not taken and counts once (see
        `attempts`), or one more; None if there may be none."""
        try:
            return self._handed(item, self._lasts)
        except (NoReportLeft, TooSoon, NoBudgetLeft):
            return None

    def answered(self, key: str, taken: bool | None = True) -> None:
        """What became of the report of a key: it was taken (True), for certain not (False), or nobody knows
        (None), which is so until there is an answer. See `attempts.taken_by`."""
        if not (taken is None or isinstance(taken, bool)):
            raise ValueError(f"taken must be True, False or None, got {taken!r}")
        with self._taken(lambda _: self._still_here()) as memory:
            if taken is not None and memory.reported and memory.key.tobytes().hex() == key:
                attempts.answer(memory, taken)
                self._remember(memory)

    def save(self) -> bytes:
        """Hands the device over to `loaded`: this one makes no report any more. One whose memory is in a file
        has no need of it, and would be two."""
        if self._in_file:
            raise ValueError(
                "device must have its memory in no file to be saved, got one that has: open that"
            )
        with self._alone() as memory:
            self._still_here()
            self._handed_over = True
            return packed(memory)

    def _handed(self, item: Item, lasts: Callable[[Memory, float], bool]) -> Due:
        """The last report, if it lasts, or one more; it is remembered before it is handed out."""
        day, now, key = whole_day(self._today()), moment(self._now()), _fresh_key()
        with self._taken(lambda memory: self._check(memory, day, now, lasts)) as memory:
            if lasts(memory, now):
                attempts.begin_again(memory, now)
            else:
                self._make(memory, item, day)
                self.pace.count(memory, now)
                attempts.begin(memory, now)
                memory.key = key
            self._remember(memory)
            return Due.of(memory)

    def _make(self, memory: Memory, item: Item, day: int) -> None:
        if not (self.again.repeats and memory.reported):
            memory.charge(self.claim.loss, day)
            memory.last = self.claim.privatise_many([item], self._noise)
            memory.collection = self._collection

    def _check(self, memory: Memory, day: int, now: float, lasts: Callable[[Memory, float], bool]) -> None:
        self._still_here()
        if self.again.repeats and self._is_of_another(memory):
            rule = f"collection must be the one that was reported to, {memory.collection}"
            raise OtherCollection(f"{rule}, got {self._collection}")
        if not lasts(memory, now):
            self.pace.check(memory, now)
            self.again.check(memory, self.claim.loss, day)

    def _lasts(self, memory: Memory, now: float) -> bool:
        """Whether the last report is this collection's and in its count, and may be sent again."""
        own = self.pace.sent(memory) > 0 and not self._is_of_another(memory)
        return own and attempts.lasting(memory, now) > 0

    def _is_of_another(self, memory: Memory) -> bool:
        return memory.reported and memory.collection != self._collection

    def _unpacked(self, saved: bytes) -> Memory:
        return unpacked(saved, self._collection, self.claim.report_size)

    def _still_here(self) -> None:
        if self._handed_over:
            raise HandedOver("device must be gone on with where it was loaded, got the one that was saved")

    def _remember(self, memory: Memory) -> None:
        if self._keep is not None:
            self._keep(packed(memory))

    def __repr__(self) -> str:
        return f"<device of {self.claim!r}, {self.again!r}>"


def _fresh_key() -> Bytes:
    return np.frombuffer(system_key()[:KEY], np.uint8).copy()
