"""How often a device reports: so many times in all, and no two reports within one tick.

    Pace(most=30, every=3600, since=start)    30 reports from `start` on, an hour apart at least

A collection states its errors for devices that keep to `reports_per_user`, once a tick: reports that are
repeated have the same noise again. Two reports that are at least a tick apart are in two ticks, whatever the
device's clock is off, as long as it goes evenly and both take equally long on their way; a window of n ticks
has n of them at most. What was sent before a collection's start is not in it, and not counted.

Privacy
    A refusal depends on how many reports there were, on the clock and on public settings, never on an item.
    A clock that is set back brings no report: the latest moment is remembered.
"""

from dataclasses import dataclass

from streamgauge.localdp.clocks import is_number
from streamgauge.localdp.memory import Memory


class NoReportLeft(RuntimeError):  # noqa: N818 - named for what happened
    """A report beyond the most that a device makes; nothing was drawn, and the last may be sent again."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(f"reports must be at most {most}, got one more")

    def __reduce__(self) -> tuple[type["NoReportLeft"], tuple[int]]:
        return type(self), (self.most,)


class TooSoon(RuntimeError):  # noqa: N818 - named for what happened
    """A report that could be in the tick of the one before, or before the collection's start; nothing was
    drawn. In `wait` seconds there may be one."""

    def __init__(self, wait: float) -> None:
        self.wait = wait
        super().__init__(f"report must be {wait:.6g} seconds later, got one now")

    def __reduce__(self) -> tuple[type["TooSoon"], tuple[float]]:
        return type(self), (self.wait,)


@dataclass(frozen=True)
class Pace:
    """At most so many reports, so many seconds apart, from a moment on; None bounds nothing."""

    most: int | None = None
    every: float | None = None
    since: float | None = None

    def __post_init__(self) -> None:
        if self.most is not None and not (type(self.most) is int and self.most >= 1):
            raise ValueError(f"most must be a whole number from 1 on, or None, got {self.most!r}")
        if self.every is not None and not (is_number(self.every) and self.every > 0):
            raise ValueError(f"every must be a number of seconds above 0, or None, got {self.every!r}")
        if self.since is not None and not is_number(self.since):
            raise ValueError(f"since must be seconds since 1970, or None, got {self.since!r}")

    def sent(self, memory: Memory) -> int:
        """How many of a device's reports count."""
        return 0 if self.since is not None and memory.at < self.since else memory.sent

    def left(self, memory: Memory) -> int | None:
        return None if self.most is None else max(0, self.most - self.sent(memory))

    def check(self, memory: Memory, now: float) -> None:
        """Refuses a report that is one too many, or too soon."""
        if self.most is not None and self.sent(memory) >= self.most:
            raise NoReportLeft(self.most)
        earliest = [now] if self.since is None else [now, self.since]
        if self.every is not None and memory.sent:
            earliest.append(memory.at + self.every)
        if max(earliest) > now:
            raise TooSoon(max(earliest) - now)

    def count(self, memory: Memory, now: float) -> None:
        memory.sent = self.sent(memory) + 1
        memory.at = max(memory.at, now)
