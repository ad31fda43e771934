"""What a stream of noisy counts and its groups say of a window of ticks. Public: it sees releases alone.

A window W ends at the newest tick: that tick alone ("each"), the last N ("sliding N") or all ("running"). It
is estimated from whole groups, also where it holds a part of one only, as

    the sum over groups G of |G and W| * median(y over all of G)             (or another smoother)

and from its own noisy counts, without bias, as their sum. Sums are of whole numbers, doubled where a median
needs it, so that nothing drifts, however long a stream is; parts of groups are worked out afresh.

    groups      [------][----][---------][------        W = the last 11 ticks
    window          |-----------------------|
                 edge     full groups     last

Privacy
    None is spent: a function of releases.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, section 4.
"""

from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np

from streamgauge.adaptive.ragged import Ints
from streamgauge.adaptive.smoothers import LastGroup, Smoother, extend, no_group
from streamgauge.noise.numbers import Bools, Floats

LONGEST = 2**30  # ticks of a sliding window, all of which are in memory
SPELT = 20  # digits
P = TypeVar("P")
Estimate = tuple[Floats, Ints]  # from groups; the sum of noisy counts


class Window(Protocol[P]):
    """A kind of window; P is what has to be remembered of groups before the last."""

    def initial(self, width: int) -> P: ...

    def close(self, past: P, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        """Takes the groups that ended just before `tick`."""
        ...

    def take(self, past: P, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother) -> Estimate:
        """Takes the tick's noisy counts, which the last groups hold already."""
        ...

    def ticks(self, tick: int) -> int:
        """How many are in the window at `tick`."""
        ...


@dataclass(slots=True)
class Nothing:
    """No memory."""


@dataclass(frozen=True)
class Each:
    """The newest tick."""

    def initial(self, width: int) -> Nothing:
        return Nothing()

    def close(self, past: Nothing, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        pass

    def take(self, past: Nothing, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother) -> Estimate:
        return smoother.newest(group, noisy), noisy

    def ticks(self, tick: int) -> int:
        return 1


@dataclass(slots=True)
class Sums:
    """All ticks so far."""

    twice: Ints  # noisy: two times the groups before the last
    noisy: Ints  # noisy: the counts


@dataclass(frozen=True)
class Running:
    """All ticks so far."""

    def initial(self, width: int) -> Sums:
        return Sums(np.zeros(width, np.int64), np.zeros(width, np.int64))

    def close(self, past: Sums, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        past.twice += np.where(ended, smoother.twice(group), 0)

    def take(self, past: Sums, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother) -> Estimate:
        past.noisy += noisy
        return np.asarray((past.twice + smoother.twice(group)) / 2), past.noisy.copy()

    def ticks(self, tick: int) -> int:
        return tick


@dataclass(slots=True)
class Ring:
    """The last N ticks, tick t in row t mod N, and the group across the window's edge, if it has ended."""

    noisy: Ints  # noisy: the counts
    length: Ints  # noisy: of the group that began there, once it has ended; else 0
    twice: Ints  # noisy: two times its estimate
    sums: Ints  # noisy: the counts together
    full: Ints  # noisy: two times the groups that are in the window and have ended
    edge_ticks: Ints  # noisy: how many ticks of the group across the edge are in the window
    edge_length: Ints  # noisy: how many it has
    edge_twice: Ints  # noisy: two times its estimate
    edge_sum: Ints  # noisy: those counts of it that are in the window


@dataclass(frozen=True)
class Sliding:
    """The last `size` ticks."""

    size: int

    def initial(self, width: int) -> Ring:
        rows = (np.zeros((self.size, width), np.int64) for _ in range(3))
        flat = (np.zeros(width, np.int64) for _ in range(len(fields(Ring)) - 3))
        return Ring(*rows, *flat)

    def close(self, past: Ring, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        twice, inside = smoother.twice(group), np.flatnonzero(ended & (group.length <= self.size))
        rows = (tick - group.length[inside]) % self.size
        past.length[rows, inside] = group.length[inside]
        past.twice[rows, inside] = twice[inside]
        past.full[inside] += twice[inside]
        wider = np.flatnonzero(ended & (group.length > self.size))
        self._edge(past, wider, group.length[wider], twice[wider], past.sums[wider])
        past.edge_ticks[wider] = self.size

    def take(self, past: Ring, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother) -> Estimate:
        self._leave(past, tick % self.size)
        past.noisy[tick % self.size] = noisy
        past.sums += noisy
        ticks = np.minimum(group.length, self.size)
        own = np.where(group.length > self.size, past.sums, group.total)
        last = smoother.part(smoother.twice(group), group.length, ticks, own)
        length = np.maximum(past.edge_length, 1)
        edge = smoother.part(past.edge_twice, length, past.edge_ticks, past.edge_sum)
        return past.full / 2 + np.where(past.edge_ticks > 0, edge, 0) + last, past.sums.copy()

    def _leave(self, past: Ring, row: int) -> None:
        """The tick in this row leaves the window: of the edge, the first of an ended group, or neither."""
        past.sums -= past.noisy[row]
        on_edge = past.edge_ticks > 0
        past.edge_ticks -= on_edge
        past.edge_sum -= np.where(on_edge, past.noisy[row], 0)
        cut = np.flatnonzero(~on_edge & (past.length[row] > 0))
        length, twice = past.length[row, cut], past.twice[row, cut]
        past.full[cut] -= twice
        self._edge(past, cut, length, twice, twice // 2 - past.noisy[row, cut])
        past.edge_ticks[cut] = length - 1
        past.length[row] = past.twice[row] = 0

    def _edge(self, past: Ring, columns: Ints, length: Ints, twice: Ints, own: Ints) -> None:
        past.edge_length[columns], past.edge_twice[columns], past.edge_sum[columns] = length, twice, own

    def ticks(self, tick: int) -> int:
        return min(tick, self.size)


def window_of(text: str) -> Window[Any]:
    """The window that "each", "sliding N" or "running" asks for."""
    kind, _, size = str(text).partition(" ")
    if kind == "sliding" and size.isdecimal() and len(size) <= SPELT and int(size) > 0:
        if int(size) > LONGEST:
            raise ValueError(f"window must be of at most 2**30 ticks, got {text!r}")
        return Sliding(int(size))
    if text not in ("each", "running"):
        raise ValueError(f'window must be "each", "running" or "sliding TICKS", got {text!r}')
    return Each() if text == "each" else Running()


@dataclass(slots=True)
class Smoothed:
    """All that is remembered of releases."""

    group: LastGroup
    past: Any


@dataclass(frozen=True)
class Smoothing:
    """A smoother at work on a window."""

    smoother: Smoother
    window: Window[Any]

    def initial(self, width: int) -> Smoothed:
        return Smoothed(no_group(self.smoother, width), self.window.initial(width))

    def step(
        self, state: Smoothed, noisy: Ints, started: Bools, tick: int, reading: Ints | None = None
    ) -> Estimate:
        """Takes the noisy counts of `tick`, and which columns began a group with it; reads no blocks."""
        value, centre = self.estimate(state, noisy, started, tick)
        return self.smoother.guarded(value, centre, self.window.ticks(tick)), centre

    def draws(self, tick: int) -> tuple[int, int]:
        """Of how many blocks and how many ticks the window is put together without bias."""
        return 0, self.window.ticks(tick)

    def estimate(self, state: Smoothed, noisy: Ints, started: Bools, tick: int) -> Estimate:
        """As groups have it."""
        ended = started & (state.group.length > 0)
        self.window.close(state.past, state.group, ended, tick, self.smoother)
        extend(state.group, noisy, started)
        return self.window.take(state.past, state.group, noisy, tick, self.smoother)
