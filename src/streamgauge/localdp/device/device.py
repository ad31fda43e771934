"""Device over time: a claim, a policy for repeated reports, and a memory.

    device = Device(claim, Repeat(), persist=MemoryFile(path))   or a function that returns when a memory is safe
    device.prepare_report(item)              a report to send now, with its Batch-Key, or None
    device.acknowledge(key, accepted)        records that it was accepted or, for certain, not
    device.report(item)                      one report more, in any case

Every report is counted, a repeated one too: `max_reports` in all, `interval_seconds` apart, from the moment `start`
on (see `policy.Pace`; ReportPaceError). Each has a key of 128 random bits, which are stored with
it.

The last report is sent again while no server has accepted it and a copy would not count twice. An attempt is *open*
until its answer has come: the report was accepted or, for certain, not.

    accepted                  never again
    no attempt is open        it was rejected each time and did not count: again, at any request
    some are open             it may have arrived: again for RESEND_SECONDS from the first of them on

A server counts a report once while it remembers its key, which is ten minutes. RESEND_SECONDS leaves one minute of
them to the transport: later it might count twice, and is lost. An answer to one attempt says nothing of the others. A
clock that is set back to before the first of them gives no time: nothing is sent that might count twice. One that is
set back by less is believed.

`build_device` makes the device of a collection (`GET /api/collection`):

    device = build_device(collection, "emoji", max_loss=Pure(2), persist=MemoryFile("emoji.memory"))
    device = build_device(collection, "emoji", max_loss=Pure(2), persist=store, memory=saved)

`on_repeat`, `reports_per_user`, the tick and the start become the device's policy and its pace. The collector is not
trusted, and might request more every day. `max_loss` is the most that all reports of the device may cost, by the
decision of its owner, and a collection that requests more is rejected (`loss_not_agreed`).

Privacy
    Local: all reports that a device ever makes lose `loss` together, for any two histories of items (see
    `policy`). A report is paid for before it is drawn, and `persist` has the memory before the report is handed
    out: whenever the power fails, a report that was sent is remembered. If drawing or storing fails, the device
    does not continue; load the stored memory. Until it has returned, `persist` cannot call the device, which
    would hand out a report that is not safe yet. Without `persist` a device is remembered as long as its process
    lives, and until `save` is stored somewhere: a device that is made again draws, and loses, again.
    A memory may be loaded under another claim or policy. Earlier spending counts, by an exact sum. A last report
    of another collection is neither returned nor repeated (`mismatch`).
    Sending a report again costs nothing. The decision depends on the clock and on answers, never on an item.
    The memory has no item, but the last report, its key and the number of reports: it links the device to its
    reports, and belongs on the device alone.
    Of `build_device`: all reports lose `max_loss` together at most, for any later collection and any number of
    loads from the newest memory. A policy that charges draws up to the current request, earlier reports
    included. One that repeats draws if nothing was spent, and sends the last report to the same settings again,
    or nothing (`mismatch`).

    Not promised: an old copy of the memory has the budget that it had. A device cannot detect that it was set
    back (nor that its clock was set forward, which brings the next day's budget). Load the newest copy only,
    and only once; a MemoryFile enforces that. `save` therefore ends a device. It cannot be copied, pickled or
    resumed after a fork. Two devices of one person, or two collections of one item, add up.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import time
from typing import Any, Self

import numpy as np

from streamgauge.continual.run import ExclusiveState, RunFailedError
from streamgauge.localdp.device.memory import KEY_BYTES, DeviceMemory, MemoryFile, pack_memory, unpack_memory
from streamgauge.localdp.device.policy import (
    BudgetExhaustedError,
    ChargeEachReport,
    Pace,
    Repeat,
    RepeatPolicy,
    ReportPaceError,
    check_policy,
    parse_day,
    parse_seconds,
    utc_day,
)
from streamgauge.localdp.mechanism import LocalMechanism
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.wire import CollectionError, compute_fingerprint, parse_mechanism
from streamgauge.noise import RandomSource
from streamgauge.noise.entropy import read_system_key
from streamgauge.privacy import Pure

DEFAULT_POLICY = Repeat()
RESEND_SECONDS = 540.0  # a server remembers a key for 600; a minute is for the transport


@dataclass(frozen=True)
class PendingReport:
    """A report that is to be sent now."""

    report: bytes = field(repr=False)  # noisy
    key: str = field(repr=False)  # public once it is sent: the Batch-Key, under which it is counted once


def start_resend(memory: DeviceMemory, now: float) -> None:
    """Record one more attempt to send the last report.

    It may be the one that arrives, so the pace counts from it.
    """
    memory.last_sent_at = max(memory.last_sent_at, now)
    memory.first_attempt_at = memory.first_attempt_at if memory.open_attempts else now
    memory.open_attempts += 1


def compute_resend_seconds(memory: DeviceMemory, now: float) -> float:
    """Return the seconds for which the last report may be sent again."""
    if memory.is_accepted:
        return 0.0
    if not memory.open_attempts:
        return inf
    waited = now - memory.first_attempt_at
    return max(0.0, RESEND_SECONDS - waited) if waited >= 0 else 0.0


def was_accepted(status: int, body: bytes) -> bool | None:
    """Return by its answer whether a server accepted a report.

    It is True, False for certain, or None if unknown.
    """
    if 200 <= status < 300:
        return True
    if 400 <= status < 500:
        return False
    try:
        return False if json.loads(body)["error"]["accepted"] is False else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def record_answer(memory: DeviceMemory, accepted: bool) -> None:
    """Record the answer to one of the attempts."""
    if accepted:
        memory.is_accepted = True
    else:
        memory.open_attempts = max(0, memory.open_attempts - 1)


class Device(ExclusiveState[DeviceMemory]):
    """Repeated reports of items under a claim; see the module's claim."""

    def __init__(
        self,
        mechanism: LocalMechanism,
        policy: RepeatPolicy = DEFAULT_POLICY,
        *,
        max_reports: int | None = None,
        interval_seconds: float | None = None,
        start: float | None = None,
        persist: Callable[[bytes], object] | MemoryFile | None = None,
        today: Callable[[], int] = utc_day,
        now: Callable[[], float] = time,
        noise: RandomSource | None = None,
    ) -> None:
        super().__init__(DeviceMemory())
        check_policy(policy)
        if not (persist is None or callable(persist) or isinstance(persist, MemoryFile)):
            rule = "a MemoryFile, a function that keeps a memory, or None"
            raise ValueError(f"persist must be {rule}, got {persist!r}")
        if not callable(today):
            raise ValueError(f"today must be a function that returns the day, got {today!r}")
        if not callable(now):
            raise ValueError(f"now must be a function that returns seconds since 1970, got {now!r}")
        policy.loss_over_days(mechanism.loss, 1)  # rejects a budget that does not cover a single report
        self.mechanism, self.policy, self.pace = mechanism, policy, Pace(max_reports, interval_seconds, start)
        self._today, self._now, self._noise = today, now, noise
        self._collection, self._is_moved = compute_fingerprint(mechanism).hex(), False
        self._is_file_backed = isinstance(persist, MemoryFile)
        self._persist = persist.store if isinstance(persist, MemoryFile) else persist
        saved = persist.load() if isinstance(persist, MemoryFile) else None
        if saved is not None:
            self._state = self._unpack_memory(saved)

    @classmethod
    def load(
        cls, mechanism: LocalMechanism, saved: bytes, policy: RepeatPolicy = DEFAULT_POLICY, **settings: Any
    ) -> Self:
        """Resume the device that `save` ended or `persist` stored.

        Its claim and policy may have been others.

        Load the newest, and load it once.
        """
        device = cls(mechanism, policy, **settings)
        with device._locked() as begun:
            if begun.has_reported:
                raise ValueError("persist must have no memory where another is loaded, got a file that has one")
        device._state = device._unpack_memory(saved)
        return device

    @property
    def spent(self) -> Pure:
        """The loss so far."""
        with self._locked() as memory:
            return memory.loss

    @property
    def loss(self) -> Pure | None:
        """The most that all reports together can ever cost; None if unbounded.

        A budget that is renewed is unbounded (see `loss_over_days`).
        """
        with self._locked() as memory:
            return self.policy.total_loss(memory, self.mechanism.loss)

    def loss_over_days(self, days: int) -> Pure:
        """Return the most that all reports of so many days can cost.

        A daily budget is all of this claim's.
        """
        ever = self.loss
        return self.policy.loss_over_days(self.mechanism.loss, days) if ever is None else ever

    @property
    def remaining_reports(self) -> int | None:
        """The number of reports that pace and budget still allow; None if unbounded.

        A daily budget, which is renewed, bounds none.
        """
        with self._locked() as memory:
            if self.policy.is_memoized and self._is_foreign(memory):
                return 0
            bounds = (self.pace.remaining_reports(memory), self.policy.remaining_reports(memory, self.mechanism.loss))
            return min((each for each in bounds if each is not None), default=None)

    @property
    def last_report(self) -> bytes | None:
        """The report that was made last; None if there is none for this collection.

        Sending it again, if it was lost, costs nothing.
        """
        with self._locked() as memory:
            return None if self._is_foreign(memory) else memory.last_report.tobytes() or None

    @property
    def key(self) -> str | None:
        """The Batch-Key of the last report, under which a server counts it once."""
        with self._locked() as memory:
            return None if self._is_foreign(memory) else memory.key.tobytes().hex() or None

    def report(self, item: Item) -> bytes:
        """Return one more report.

        Raises:
            ReportPaceError: the pace allows none.
            BudgetExhaustedError: the budget does not cover it.
            CollectionError: it would repeat a report that was made for another collection.
        """
        return self._issue_report(item, lambda memory, now: False).report

    def prepare_report(self, item: Item) -> PendingReport | None:
        """Return the report to send now: the last one again, or one more; None if neither.

        The last one is sent again while it is not accepted and counts once (see the module).
        """
        try:
            return self._issue_report(item, self._can_resend)
        except (ReportPaceError, BudgetExhaustedError):
            return None

    def acknowledge(self, key: str, accepted: bool | None = True) -> None:
        """Record the answer to the report of a key.

        It was accepted (True), for certain not (False), or nothing is known (None).

        It is unknown until there is an answer. See `was_accepted`.
        """
        if not (accepted is None or isinstance(accepted, bool)):
            raise ValueError(f"accepted must be True, False or None, got {accepted!r}")
        with self._exclusive(lambda _: self._check_owned()) as memory:
            if accepted is not None and memory.has_reported and memory.key.tobytes().hex() == key:
                record_answer(memory, accepted)
                self.persist_memory(memory)

    def save(self) -> bytes:
        """Return the memory for `load`, and end this device.

        A device whose memory is in a file has no need of it, and would be two.
        """
        if self._is_file_backed:
            raise ValueError("device must have its memory in no file to be saved, got one that has: open that")
        with self._locked() as memory:
            self._check_owned()
            self._is_moved = True
            return pack_memory(memory)

    def _issue_report(self, item: Item, lasts: Callable[[DeviceMemory, float], bool]) -> PendingReport:
        """Return the last report, if it lasts, or one more; remember it first."""
        day, now = parse_day(self._today()), parse_seconds(self._now())
        key = np.frombuffer(read_system_key()[:KEY_BYTES], np.uint8).copy()
        with self._exclusive(lambda memory: self._check(memory, day, now, lasts)) as memory:
            if lasts(memory, now):
                start_resend(memory, now)
            else:
                if not (self.policy.is_memoized and memory.has_reported):
                    memory.charge(self.mechanism.loss, day)
                    memory.last_report = self.mechanism.privatise_many([item], self._noise)
                    memory.collection = self._collection
                self.pace.record_report(memory, now)
                memory.is_accepted, memory.open_attempts, memory.first_attempt_at = False, 1, now
                memory.key = key
            self.persist_memory(memory)
            return PendingReport(memory.last_report.tobytes(), memory.key.tobytes().hex())

    def _check(self, memory: DeviceMemory, day: int, now: float, lasts: Callable[[DeviceMemory, float], bool]) -> None:
        self._check_owned()
        if self.policy.is_memoized and self._is_foreign(memory):
            rule = f"collection must be the one that was reported to, {memory.collection}"
            raise CollectionError(f"{rule}, got {self._collection}", "mismatch")
        if not lasts(memory, now):
            self.pace.check(memory, now)
            self.policy.check(memory, self.mechanism.loss, day)

    def _can_resend(self, memory: DeviceMemory, now: float) -> bool:
        """Return whether the last report may be sent again.

        It must be this collection's, and count.
        """
        own = self.pace.count_sent(memory) > 0 and not self._is_foreign(memory)
        return own and compute_resend_seconds(memory, now) > 0

    def _is_foreign(self, memory: DeviceMemory) -> bool:
        return memory.has_reported and memory.collection != self._collection

    def _unpack_memory(self, saved: bytes) -> DeviceMemory:
        return unpack_memory(saved, self._collection, self.mechanism.report_size)

    def _check_owned(self) -> None:
        if self._is_moved:
            raise RunFailedError("device must be gone on with where it was loaded, got the one that was saved", "moved")

    def persist_memory(self, memory: DeviceMemory) -> None:
        if self._persist is not None:
            self._persist(pack_memory(memory))

    def __repr__(self) -> str:
        return f"<device of {self.mechanism!r}, {self.policy!r}>"


def build_device(
    collection: Any, column: str, *, max_loss: Pure, memory: bytes | None = None, **settings: Any
) -> Device:
    """Return the device of a column, blank or with the memory that it saved.

    Settings are those of `Device`, whose `persist` may be a file that has the memory.
    """
    terms = _find_column(collection, column)
    claim, most, repeat = parse_mechanism(terms.get("settings")), terms.get("reports_per_user"), terms.get("on_repeat")
    if not (type(most) is int and most >= 1):
        raise CollectionError(f"reports_per_user must be a whole number from 1 on, got {most!r}", "settings")
    requested = claim.loss.group(most if repeat == "charge" else 1)
    if not isinstance(max_loss, Pure):
        raise ValueError(f"max_loss must be Pure, got {max_loss!r}")
    if requested > max_loss:
        rule = f"at least {requested}, which the collection requires"
        raise CollectionError(f"max_loss must be {rule}, got {max_loss}", "loss_not_agreed")
    if repeat not in ("repeat", "charge"):
        raise CollectionError(f"on_repeat must be repeat or charge, got {repeat!r}", "settings")
    policy = Repeat() if repeat == "repeat" else ChargeEachReport(requested)
    pace = {"max_reports": most, "interval_seconds": collection.get("tick"), "start": collection.get("start")}
    if memory is None:
        return Device(claim, policy, **pace, **settings)
    return Device.load(claim, memory, policy, **pace, **settings)


def _find_column(collection: Any, column: str) -> dict[str, Any]:
    columns = collection.get("columns") if isinstance(collection, dict) else None
    if not isinstance(columns, dict):
        raise CollectionError("collection must be as /api/collection returns it, got another", "settings")
    if not isinstance(columns.get(column), dict):
        raise CollectionError(f"column must be one of {', '.join(map(str, columns))}, got {column!r}", "settings")
    return dict(columns[column])
