"""Policies for repeated reports of a device, and the pace of its reports.

    Repeat()                  sends its first report again, also if the item changes
    ChargeEachReport(total)   draws every report afresh, and pays for each, while the total lasts
    DailyBudget(per_day)      draws afresh and pays, and renews its budget every day: no promise in total

    Pace(max_reports=30, interval_seconds=3600, start=start)    30 reports from `start` on, an hour apart at least

A collection states its errors for devices that obey `reports_per_user`, once a tick: reports that are repeated have
the same noise again. Two reports that are at least a tick apart are in two ticks, for any error of the device's
clock, as long as it runs evenly and both have the same transport time. A window of n ticks has n of them at most.
Reports before a collection's start are not in it, and not counted. A clock that returns anything but a number is
rejected before a report is charged.

Privacy
    Neighbours: any two histories of a device, however they differ. The number and times of its reports are not
    protected. Promise: that of `total_loss`, for all reports of a device together.
    Repeat: epsilon, forever. All reports are copies of the first, which is drawn from the first item alone.
    ChargeEachReport: n reports are n independent draws, and their epsilons add. None is drawn that the total
    does not cover. Spending under another policy or claim counts for the total too.
    DailyBudget: the same day by day, so that n days lose n times as much, and nothing bounds n.

    A report that is remembered *for each item* loses everything once the item changes. Of the histories AAAA
    and ABAB the first always sends four equal reports, the second two and two, so that a single pair of
    different reports distinguishes them for certain. So Repeat never reads an item again. A change of the
    item is not visible.

    A refusal depends on the number of reports, on the clock and on public settings, never on an item. A clock
    that is set back brings no report: the latest moment is remembered.

Reference
    Erlingsson, Pihur, Korolova: RAPPOR, CCS 2014, remember a report for each item, for items that never
    change. Tang et al.: Privacy loss in Apple's implementation of differential privacy, 2017, found a budget
    that is renewed daily, of up to 16 a day, without any total.
"""

from dataclasses import dataclass
from math import isfinite
from time import time
from typing import Any, ClassVar, Protocol

import numpy as np

from streamgauge.localdp.device.memory import DeviceMemory
from streamgauge.privacy import PrivacyError, Pure


class BudgetExhaustedError(PrivacyError):
    """A report beyond the budget of its device; nothing was drawn.

    It depends on the number of requests alone.
    """

    def __init__(self, requested: Pure, spent: Pure, allowed: Pure) -> None:
        self.requested, self.spent, self.allowed = requested, spent, allowed
        super().__init__(f"report must be within {allowed}, got {requested} on top of {spent}")

    def __reduce__(self) -> tuple[type["BudgetExhaustedError"], tuple[Pure, ...]]:
        return type(self), (self.requested, self.spent, self.allowed)


class RepeatPolicy(Protocol):
    """A policy for reports after the first."""

    @property
    def is_memoized(self) -> bool:
        """True if all reports are copies of the first."""
        ...

    def check(self, memory: DeviceMemory, loss: Pure, day: int) -> None:
        """Reject a report without budget."""
        ...

    def remaining_reports(self, memory: DeviceMemory, loss: Pure) -> int | None:
        """Return the number of reports of `loss` that the budget ever allows; None if any."""
        ...

    def total_loss(self, memory: DeviceMemory, loss: Pure) -> Pure | None:
        """Return the most that all reports can cost, past ones too; None if unbounded."""
        ...

    def loss_over_days(self, loss: Pure, days: int) -> Pure:
        """Return the most that reports of so many days can cost, if all are of `loss`."""
        ...


@dataclass(frozen=True)
class Repeat:
    """The first report forever; see the module's claim."""

    is_memoized: ClassVar[bool] = True

    def check(self, memory: DeviceMemory, loss: Pure, day: int) -> None:
        """Allow everything: a copy costs nothing."""

    def remaining_reports(self, memory: DeviceMemory, loss: Pure) -> int | None:
        return None

    def total_loss(self, memory: DeviceMemory, loss: Pure) -> Pure | None:
        return memory.loss if memory.has_reported else loss

    def loss_over_days(self, loss: Pure, days: int) -> Pure:
        return loss


@dataclass(frozen=True)
class ChargeEachReport:
    """A new report each time, up to a total; see the module's claim."""

    is_memoized: ClassVar[bool] = False
    total: Pure

    def __post_init__(self) -> None:
        if not isinstance(self.total, Pure):
            why = "a budget that is given back daily is DailyBudget"
            raise ValueError(f"total must be Pure ({why}), got {self.total!r}")

    def check(self, memory: DeviceMemory, loss: Pure, day: int) -> None:
        _check_budget(loss, memory.loss, self.total)

    def remaining_reports(self, memory: DeviceMemory, loss: Pure) -> int | None:
        return max(0, int((self.total.epsilon - memory.loss.epsilon) // loss.epsilon))

    def total_loss(self, memory: DeviceMemory, loss: Pure) -> Pure | None:
        times = self.remaining_reports(memory, loss)
        return memory.loss + loss.group(times) if times else memory.loss

    def loss_over_days(self, loss: Pure, days: int) -> Pure:
        return _compute_affordable_loss(loss, self.total)


@dataclass(frozen=True)
class DailyBudget:
    """A new report each time, up to a budget that is renewed every day.

    It protects a day, and no device that has the same item for longer; see the module's claim.
    """

    is_memoized: ClassVar[bool] = False
    per_day: Pure

    def __post_init__(self) -> None:
        if not isinstance(self.per_day, Pure):
            raise ValueError(f"per_day must be Pure, got {self.per_day!r}")

    def check(self, memory: DeviceMemory, loss: Pure, day: int) -> None:
        _check_budget(loss, memory.day_loss(day), self.per_day)

    def remaining_reports(self, memory: DeviceMemory, loss: Pure) -> int | None:
        return None

    def total_loss(self, memory: DeviceMemory, loss: Pure) -> Pure | None:
        return None

    def loss_over_days(self, loss: Pure, days: int) -> Pure:
        return _compute_affordable_loss(loss, self.per_day).group(days)


def _compute_affordable_loss(loss: Pure, allowed: Pure) -> Pure:
    """Return the cost of as many reports as the budget covers."""
    times = int(allowed.epsilon // loss.epsilon)
    if times < 1:
        raise ValueError(f"budget must cover a report of {loss}, got {allowed}")
    return loss.group(times)


def _check_budget(loss: Pure, spent: Pure, allowed: Pure) -> None:
    if spent + loss > allowed:
        raise BudgetExhaustedError(loss, spent, allowed)


def check_policy(policy: Any) -> None:
    names = ("is_memoized", "check", "remaining_reports", "total_loss", "loss_over_days")
    if isinstance(policy, type) or not all(hasattr(policy, name) for name in names):
        rules = "Repeat(), ChargeEachReport(total) or DailyBudget(per_day)"
        raise ValueError(f"policy must be {rules}, got {policy!r}")


DAY_SECONDS = 24 * 60 * 60


def utc_day() -> int:
    """Return whole days since 1970, by the system's clock."""
    return int(time() // DAY_SECONDS)


def is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and isfinite(value)


def parse_day(day: Any) -> int:
    if not is_number(day):
        raise ValueError(f"today must return a number of days, got {day!r}")
    return int(day // 1)


def parse_seconds(now: Any) -> float:
    if not is_number(now):
        raise ValueError(f"now must return seconds since 1970, got {now!r}")
    return float(now)


class ReportPaceError(RuntimeError):
    """A report beyond the most of a device (`report_limit`), or too soon (`too_soon`). Nothing was drawn.

    Too soon is a report in the tick of the one before, or before the start: `wait_seconds` is the time to the next.
    Beyond the limit it is None; the last report may be sent again.
    """

    def __init__(self, message: str, code: str = "report_limit", wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.code, self.wait_seconds = code, wait_seconds


@dataclass(frozen=True)
class Pace:
    """A limit of reports, seconds between them, and a start; None bounds nothing."""

    max_reports: int | None = None
    interval_seconds: float | None = None
    start: float | None = None

    def __post_init__(self) -> None:
        most, every = self.max_reports, self.interval_seconds
        if most is not None and not (type(most) is int and most >= 1):
            raise ValueError(f"max_reports must be a whole number from 1 on, or None, got {most!r}")
        if every is not None and not (is_number(every) and every > 0):
            raise ValueError(f"interval_seconds must be a number of seconds above 0, or None, got {every!r}")
        if self.start is not None and not is_number(self.start):
            raise ValueError(f"start must be seconds since 1970, or None, got {self.start!r}")

    def count_sent(self, memory: DeviceMemory) -> int:
        """Return the number of a device's reports that count."""
        return 0 if self.start is not None and memory.last_sent_at < self.start else memory.reports_sent

    def remaining_reports(self, memory: DeviceMemory) -> int | None:
        return None if self.max_reports is None else max(0, self.max_reports - self.count_sent(memory))

    def check(self, memory: DeviceMemory, now: float) -> None:
        """Reject a report that is one too many, or too soon."""
        if self.max_reports is not None and self.count_sent(memory) >= self.max_reports:
            raise ReportPaceError(f"reports must be at most {self.max_reports}, got one more")
        earliest = [now] if self.start is None else [now, self.start]
        if self.interval_seconds is not None and memory.reports_sent:
            earliest.append(memory.last_sent_at + self.interval_seconds)
        if max(earliest) > now:
            wait = max(earliest) - now
            raise ReportPaceError(f"report must be {wait:.6g} seconds later, got one now", "too_soon", wait)

    def record_report(self, memory: DeviceMemory, now: float) -> None:
        memory.reports_sent = self.count_sent(memory) + 1
        memory.last_sent_at = max(memory.last_sent_at, now)
