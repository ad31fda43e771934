"""Time, injected: the wall clock that closes ticks, and the steady one that it is checked against."""

import time
from dataclasses import dataclass
from typing import Protocol

SECOND = 1_000_000
STEADY: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Whole microseconds."""

    def now(self) -> int:
        """Since 1970, UTC, as far as the machine knows."""
        ...

    def steady(self) -> int:
        """Since some moment; never goes back, whatever is done to the wall clock."""
        ...

    def sleep(self, microseconds: int) -> None: ...


class SystemClock:
    """The machine's."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def steady(self) -> int:
        """Where the system has one, the clock that also counts the time for which a machine sleeps."""
        return time.clock_gettime_ns(STEADY) // 1000

    def sleep(self, microseconds: int) -> None:
        time.sleep(microseconds / SECOND)


class ClockJumped(RuntimeError):  # noqa: N818 - refusals are named by what they say
    """The wall clock was set: ticks would close too soon or too late."""


@dataclass
class Watched:
    """A clock whose two hands must agree within `tolerance`, or someone must accept it."""

    clock: Clock
    tolerance: int
    accepted: bool = False

    def __post_init__(self) -> None:
        self._start = self.clock.now() - self.clock.steady()

    def now(self) -> int:
        now = self.clock.now()
        apart = now - self.clock.steady() - self._start
        if abs(apart) > self.tolerance:
            if not self.accepted:
                rule = "the wall clock must agree with the steady clock within a tick"
                told = f"got {apart / SECOND:+.1f} s: set it right, or go on with run --accept-clock"
                raise ClockJumped(f"{rule}, {told}")
            self._start += apart
        return now

    def sleep(self, microseconds: int) -> None:
        self.clock.sleep(microseconds)
