"""The injected clock: the wall clock that closes ticks, and a steady one."""

import time
from dataclasses import dataclass
from typing import Protocol

MICROSECONDS_PER_SECOND = 1_000_000
STEADY_CLOCK_ID: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A wall clock and a steady clock, in whole microseconds."""

    def now(self) -> int:
        """Return the time since 1970, UTC, as the machine knows it."""
        ...

    def steady(self) -> int:
        """Return the time since some moment; it never goes back.

        Setting the wall clock does not change it.
        """
        ...

    def sleep(self, microseconds: int) -> None: ...


class SystemClock:
    """The clocks of the machine."""

    def now(self) -> int:
        return time.time_ns() // 1000

    def steady(self) -> int:
        """Return the steady time; it counts sleep of the machine if the system can."""
        return time.clock_gettime_ns(STEADY_CLOCK_ID) // 1000

    def sleep(self, microseconds: int) -> None:
        time.sleep(microseconds / MICROSECONDS_PER_SECOND)


class ClockJumpError(RuntimeError):
    """The wall clock was set, so ticks would close too soon or too late."""


@dataclass
class CheckedClock:
    """A clock that rejects jumps of the wall clock beyond `tolerance`.

    The wall clock is compared with the steady clock. With `accepts_jumps` a jump is accepted instead.
    """

    clock: Clock
    tolerance: int
    accepts_jumps: bool = False

    def __post_init__(self) -> None:
        self._start = self.clock.now() - self.clock.steady()

    def now(self) -> int:
        now = self.clock.now()
        apart = now - self.clock.steady() - self._start
        if abs(apart) > self.tolerance:
            if not self.accepts_jumps:
                rule = "the wall clock must agree with the steady clock within a tick"
                got = f"got {apart / MICROSECONDS_PER_SECOND:+.1f} s: set it right, or continue with run --accept-clock"
                raise ClockJumpError(f"{rule}, {got}")
            self._start += apart
        return now

    def sleep(self, microseconds: int) -> None:
        self.clock.sleep(microseconds)
