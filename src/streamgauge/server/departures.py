"""When what was committed leaves: on the clock, never when it is ready.

    tick closes   commit          leaves
    ----|-----------|---------|------|-----------   multiples of `every` since the stream's start
        |<----- every ------->|      ^ the first one after a whole delay, and after the commit

How long a commit takes may depend on what came, so its moment is private. It has a whole delay from where the
tick closed, wherever that lies between two multiples. Readers learn of it that it was at most one multiple
before they saw it; with a delay that is longer than any commit takes, nothing.

Promise
    What was committed later never leaves earlier, and what has left stays: also where the clock is set back.
"""

from collections import deque
from dataclasses import dataclass, field
from threading import Lock


@dataclass
class Departures:
    """The entries of a history that have not left yet. Times are microseconds; any thread may call."""

    start: int
    every: int
    left: int = 0  # the last entry that has left
    _waiting: deque[tuple[int, int]] = field(default_factory=deque)  # when, and which entry
    _lock: Lock = field(default_factory=Lock)

    def moment(self, ready: int) -> int:
        """The first multiple at or after one.

        >>> [Departures(start=5, every=10).moment(ready) for ready in (5, 6, 15, 16)]
        [5, 15, 15, 25]
        """
        return self.start - (self.start - ready) // self.every * self.every

    def add(self, entry: int, *, committed: int, closed: int = 0) -> int:
        """An entry that was committed, and when the last of its ticks closed or its turn began; tells when it
        leaves."""
        return self.add_at(entry, self.moment(max(committed, closed + self.every)))

    def add_at(self, entry: int, moment: int) -> int:
        """An entry that is public from a moment on: what was opened before anything was read."""
        with self._lock:
            leaves = max(self._waiting[-1][0] if self._waiting else 0, moment)
            self._waiting.append((leaves, entry))
            return leaves

    def passed(self, now: int) -> int:
        """The last entry that has left by now."""
        with self._lock:
            while self._waiting and self._waiting[0][0] <= now:
                self.left = max(self.left, self._waiting.popleft()[1])
            return self.left

    def wait(self, now: int) -> int | None:
        """How long it is until the next departure, if there is one."""
        with self._lock:
            return max(0, self._waiting[0][0] - now) if self._waiting else None
