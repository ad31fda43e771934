"""Smoothers: what a group of noisy counts says of each of its ticks. Public: they see nothing but releases.

Of a group with noisy counts y_1 ... y_n, mean m and median d, tick i is estimated as

    average         m
    median          d, the default: half the variance of m where the group is constant and noise is Laplace's
    james_stein     m + (y_i - m)/n
    quiet           0 where n m is within LOUD standard errors of 0, else m

and all n ticks together as n m, n d, n m, and 0 or n m. The last group ends at the newest tick, so that an
estimate is of the group as it is known by then. Nothing is clamped before it is smoothed: what is cut off
below 0 would be missing in every mean.

The first three are the paper's. In a sum over a window of whole groups, means keep all noise of the counts,
and medians of skewed counts are all off to one side. `quiet` is ours, for streams that are mostly near 0. A
level that is low but lasts would be lost in every group; so it keeps a window within NEAR standard errors of
the sum of its noisy counts, and still does worse than that sum where a stream is never quiet. Where blocks
are read too, they have that level: so a group is loud only beyond what noise reaches in one of RARE blocks,
and a window with blocks in it is 0 within STILL standard errors of 0, left as it is beyond LOUD ones, and on
a straight line between.

Privacy
    None is spent: a function of releases.

Error
    Depends on data. Of `quiet`: |value - truth| <= |centre - truth| + NEAR standard errors of the centre.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, section 3.
"""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar, Protocol

import numpy as np

from streamgauge.adaptive.ragged import Ints, bands, with_room
from streamgauge.noise.numbers import Bools, Floats

MOST = np.iinfo(np.int64).max


@dataclass(slots=True)
class LastGroup:
    """The noisy counts of the last group of each column, be it open or not."""

    length: Ints  # noisy: its ticks; 0 before the first
    total: Ints  # noisy: their sum
    ranked: Ints  # noisy: the counts in order, a row each, where a median is wanted


class Smoother(Protocol):
    """What is estimated of a group. Totals are doubled, so that medians are whole."""

    RANKED: bool  # whether it needs counts in order
    LEVEL: bool  # whether what it leaves of a block is a level that may last, rather than noise

    def beside(self, block: int) -> "Smoother":
        """The smoother to use where blocks of so many ticks are read, too."""
        ...

    def newest(self, group: LastGroup, noisy: Ints) -> Floats:
        """The newest tick, whose noisy count is `noisy`."""
        ...

    def twice(self, group: LastGroup) -> Ints:
        """Two times all ticks of the group together."""
        ...

    def part(self, twice: Ints, length: Ints, ticks: Ints, partial: Ints) -> Floats:
        """So many ticks of a group of so many, whose noisy counts add up to `partial`."""
        ...

    def shrunk(self, value: Floats, stddev: float) -> Floats:
        """The estimate of a window that has readings of blocks, whose noise has this standard error."""
        ...

    def guarded(self, value: Floats, centre: Ints, ticks: float) -> Floats:
        """The estimate of a window, in view of its sum without bias, which has the noise of so many ticks."""
        ...


class Average:
    """The mean."""

    RANKED = False
    LEVEL = False

    def beside(self, block: int) -> Smoother:
        return self

    def shrunk(self, value: Floats, stddev: float) -> Floats:
        return value

    def guarded(self, value: Floats, centre: Ints, ticks: float) -> Floats:
        return value

    def newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return np.asarray(group.total / group.length)

    def twice(self, group: LastGroup) -> Ints:
        return 2 * group.total

    def part(self, twice: Ints, length: Ints, ticks: Ints, partial: Ints) -> Floats:
        return evenly(twice, length, ticks)


class Median(Average):
    """The middle count, or the mean of both."""

    RANKED = True

    def newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return np.asarray(middle(group) / 2)

    def twice(self, group: LastGroup) -> Ints:
        return group.length * middle(group)


class JamesStein(Average):
    """The mean, and one part in n of how far the tick's own count is from it."""

    def newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return self.part(2 * group.total, group.length, np.ones_like(noisy), noisy)

    def part(self, twice: Ints, length: Ints, ticks: Ints, partial: Ints) -> Floats:
        return np.asarray(evenly(twice, length, ticks) * (1 - 1 / length) + partial / length)


@dataclass(frozen=True)
class Quiet(Average):
    """Nothing, where a group's sum is within LOUD standard errors of 0, else the mean; and no window farther
    than NEAR standard errors from the sum of its noisy counts."""

    LOUD: ClassVar[float] = 3.0
    NEAR: ClassVar[float] = 2.0
    STILL: ClassVar[float] = 1.0
    RARE: ClassVar[int] = 20
    LEVEL = True
    stddev: float  # of the noise of one count
    loud: float = LOUD

    def beside(self, block: int) -> Smoother:
        """As many Laplace draws as a block has ticks: one is beyond that in less than one block of RARE."""
        return Quiet(self.stddev, log(self.RARE * block) / sqrt(2))

    def newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return np.asarray(self.twice(group) / (2 * group.length))

    def twice(self, group: LastGroup) -> Ints:
        loud = np.abs(group.total) > self.loud * self.stddev * np.sqrt(group.length)
        return np.where(loud, 2 * group.total, 0)

    def shrunk(self, value: Floats, stddev: float) -> Floats:
        beyond = np.maximum(np.abs(value) - self.STILL * stddev, 0)
        line = self.LOUD / (self.LOUD - self.STILL) * beyond
        return np.asarray(np.copysign(np.minimum(np.abs(value), line), value))

    def guarded(self, value: Floats, centre: Ints, ticks: float) -> Floats:
        far = self.NEAR * self.stddev * np.sqrt(ticks)
        return np.asarray(np.clip(value, centre - far, centre + far))


def smoother_of(name: str, stddev: float) -> Smoother:
    """The smoother of this name, for noise of this standard error."""
    kinds: dict[str, Smoother] = {
        "average": Average(),
        "median": Median(),
        "james_stein": JamesStein(),
        "quiet": Quiet(stddev),
    }
    if name not in kinds:
        raise ValueError(f"smoother must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name]


def evenly(twice: Ints, length: Ints, ticks: Ints) -> Floats:
    """Each tick as much as any other."""
    return np.asarray(twice / (2 * length) * ticks)


def middle(group: LastGroup) -> Ints:
    """The two middle counts together, or two times the one; 0 where there is none."""
    upper, columns = group.length // 2, np.arange(len(group.length))
    lower = np.maximum(group.length - 1, 0) // 2
    both = group.ranked[lower, columns] + group.ranked[upper, columns]
    return np.where(group.length > 0, both, 0)


def no_group(smoother: Smoother, width: int) -> LastGroup:
    """Before the first tick."""
    none = np.zeros((2, width), np.int64)
    return LastGroup(none[0], none[1], np.zeros((int(smoother.RANKED), width), np.int64))


def extend(group: LastGroup, noisy: Ints, started: Bools, active: Bools | None = None) -> None:
    """Takes one tick's noisy counts of all active columns; where one `started`, a group begins with it."""
    group.length[started] = group.total[started] = 0
    here = np.ones(len(noisy), np.int64) if active is None else active.astype(np.int64)
    if len(group.ranked):
        group.ranked = with_room(group.ranked, int(group.length.max(initial=0)) + 1)
        insert(group.ranked, group.length, noisy, here)
    group.length += here
    group.total += here * noisy


def insert(ranked: Ints, length: Ints, noisy: Ints, here: Ints) -> None:
    """Puts each count where it belongs: row i becomes the middle one of rows i - 1, i and the count."""
    columns = np.flatnonzero(here)
    ranked[length[columns], columns] = MOST
    below = np.full(len(noisy), np.iinfo(np.int64).min)
    for rows, those in bands((length + 1) * here):
        old = ranked[rows, those].copy()
        new = np.minimum(old, noisy[those])
        np.maximum(new[1:], old[:-1], out=new[1:])
        np.maximum(new[0], below[those], out=new[0])
        below[those] = old[-1]
        ranked[rows, those] = new
