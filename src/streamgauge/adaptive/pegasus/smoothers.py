"""Smoothers: estimates of the ticks of a group from its noisy counts.

Public: they read nothing but releases.

Of a group with noisy counts y_1 ... y_n, mean m and median d, tick i is estimated as

    average         m
    median          d, the default: half the variance of m if the group is constant and noise is Laplace
    james_stein     m + (y_i - m)/n
    quiet           0 if n m is at most LOUD standard errors from 0, else m

and all n ticks together as n m, n d, n m, and 0 or n m. The last group ends at the newest tick, so that an
estimate is of the group as it is known by then. Nothing is clamped before it is smoothed: a part that is cut off
below 0 would be missing in every mean.

The first three are the paper's. In a sum over a window of whole groups, means contain all noise of the counts, and
medians of skewed counts are all off to one side. `quiet` is ours, for streams that are mostly near 0. A low level
that lasts would be lost in every group. So `quiet` clips a window to MAX standard errors from the sum of its noisy
counts, and still does worse than that sum if a stream is never quiet. If blocks are read too, they contain that
level. Then a group is loud only beyond a width that noise reaches in one of BLOCKS_PER_FALSE_ALARM blocks. A window
with blocks in it is 0 up to STILL standard errors from 0, unchanged beyond LOUD ones, and on a straight line
between.

Columns of different lengths share one array: rows from 0 on, in use up to the length of each column. Work on all of
them takes little more time than their lengths together. So lengths must be public.

Privacy
    None is spent: a function of releases.

Error
    Depends on data. Of `quiet`: |value - truth| <= |centre - truth| + MAX standard errors of the centre.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, section 3.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.noise.coerce import Bools, Floats

Ints = npt.NDArray[np.int64]
MIN_BAND_ROWS = 8  # rows of an array and of the first band, at least
FIRST_BAND_NUMBERS = 2**14  # numbers in the first band, where columns are few


def iterate_bands(length: Ints) -> Iterator[tuple[slice, slice | Ints]]:
    """Yield rows that double in number, each time with the columns that reach them.

    If columns are few, the first band is deep, so that there are few bands.
    """
    deepest = int(length.max(initial=0))
    first, last = 0, max(MIN_BAND_ROWS, FIRST_BAND_NUMBERS // max(1, len(length)))
    while first < deepest:
        reach = length > first
        yield slice(first, min(last, deepest)), slice(None) if reach.all() else np.flatnonzero(reach)
        first, last = last, 2 * last


def resize_rows(array: Ints, rows: int) -> Ints:
    """Return the array with capacity for so many rows, a power of two.

    Shrink it if it is far too large.
    """
    wanted = row_capacity(rows)
    if wanted <= len(array) <= 4 * wanted:
        return array
    resized = np.zeros((wanted, array.shape[-1]), np.int64)
    copied = min(wanted, len(array))
    resized[:copied] = array[:copied]
    return resized


def row_capacity(rows: int) -> int:
    return max(MIN_BAND_ROWS, 1 << (rows - 1).bit_length())


INT64_MAX = np.iinfo(np.int64).max


@dataclass(slots=True)
class LastGroup:
    """The noisy counts of the last group of each column, open or not."""

    length: Ints  # noisy: its ticks; 0 before the first
    total: Ints  # noisy: their sum
    sorted_counts: Ints  # noisy: the counts in order, a row each, if a median needs them


class Smoother:
    """The mean of a group, and the base of all smoothers.

    Totals are doubled, so that medians are whole.
    """

    NEEDS_SORTED_COUNTS: ClassVar[bool] = False  # True if it needs counts in order
    LEAVES_LEVEL: ClassVar[bool] = False  # True if the rest of a block is a level that may last, rather than noise

    def adapt_to_block(self, block: int) -> "Smoother":
        """Return the smoother to use if blocks of so many ticks are read, too."""
        return self

    def estimate_newest(self, group: LastGroup, noisy: Ints) -> Floats:
        """Estimate the newest tick, whose noisy count is `noisy`."""
        return np.asarray(group.total / group.length)

    def doubled_total(self, group: LastGroup) -> Ints:
        """Return two times the estimate of all ticks of the group together."""
        return 2 * group.total

    def estimate_part(self, twice: Ints, length: Ints, ticks: Ints, partial: Ints) -> Floats:
        """Estimate a part of a group, whose noisy counts add up to `partial`."""
        return np.asarray(twice / (2 * length) * ticks)

    def shrink(self, value: Floats, stddev: float) -> Floats:
        """Shrink the estimate of a window with readings of blocks.

        Its noise has this standard error.
        """
        return value

    def clip_to_centre(self, value: Floats, centre: Ints, ticks: float) -> Floats:
        """Clip the estimate of a window to its sum without bias.

        That sum has the noise of so many ticks.
        """
        return value


class MedianSmoother(Smoother):
    """The middle count, or the mean of both middle counts."""

    NEEDS_SORTED_COUNTS: ClassVar[bool] = True

    def estimate_newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return np.asarray(doubled_median(group) / 2)

    def doubled_total(self, group: LastGroup) -> Ints:
        return group.length * doubled_median(group)


class JamesSteinSmoother(Smoother):
    """The mean, and one part in n of the distance between the tick's own count and it."""

    def estimate_newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return self.estimate_part(2 * group.total, group.length, np.ones_like(noisy), noisy)

    def estimate_part(self, twice: Ints, length: Ints, ticks: Ints, partial: Ints) -> Floats:
        mean = super().estimate_part(twice, length, ticks, partial)
        return np.asarray(mean * (1 - 1 / length) + partial / length)


@dataclass(frozen=True)
class QuietSmoother(Smoother):
    """0 if a group's sum is at most LOUD standard errors from 0, else the mean.

    No window is farther than MAX standard errors from the sum of its noisy counts.
    """

    LOUD_STANDARD_ERRORS: ClassVar[float] = 3.0
    MAX_STANDARD_ERRORS: ClassVar[float] = 2.0
    STILL_STANDARD_ERRORS: ClassVar[float] = 1.0
    BLOCKS_PER_FALSE_ALARM: ClassVar[int] = 20
    LEAVES_LEVEL: ClassVar[bool] = True
    stddev: float  # of the noise of one count
    loud_standard_errors: float = LOUD_STANDARD_ERRORS

    def adapt_to_block(self, block: int) -> Smoother:
        """Return a smoother that noise rarely makes loud.

        It does in less than one of BLOCKS_PER_FALSE_ALARM blocks of Laplace draws.
        """
        return QuietSmoother(self.stddev, log(self.BLOCKS_PER_FALSE_ALARM * block) / sqrt(2))

    def estimate_newest(self, group: LastGroup, noisy: Ints) -> Floats:
        return np.asarray(self.doubled_total(group) / (2 * group.length))

    def doubled_total(self, group: LastGroup) -> Ints:
        loud = np.abs(group.total) > self.loud_standard_errors * self.stddev * np.sqrt(group.length)
        return np.where(loud, 2 * group.total, 0)

    def shrink(self, value: Floats, stddev: float) -> Floats:
        beyond = np.maximum(np.abs(value) - self.STILL_STANDARD_ERRORS * stddev, 0)
        line = self.LOUD_STANDARD_ERRORS / (self.LOUD_STANDARD_ERRORS - self.STILL_STANDARD_ERRORS) * beyond
        return np.asarray(np.copysign(np.minimum(np.abs(value), line), value))

    def clip_to_centre(self, value: Floats, centre: Ints, ticks: float) -> Floats:
        far = self.MAX_STANDARD_ERRORS * self.stddev * np.sqrt(ticks)
        return np.asarray(np.clip(value, centre - far, centre + far))


def build_smoother(name: str, stddev: float) -> Smoother:
    """Return the smoother of this name, for noise of this standard error."""
    kinds: dict[str, Smoother] = {
        "average": Smoother(),
        "median": MedianSmoother(),
        "james_stein": JamesSteinSmoother(),
        "quiet": QuietSmoother(stddev),
    }
    if name not in kinds:
        raise ValueError(f"smoother must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name]


def doubled_median(group: LastGroup) -> Ints:
    """Return the sum of the two middle counts, or two times the one.

    0 if there is none.
    """
    upper, columns = group.length // 2, np.arange(len(group.length))
    lower = np.maximum(group.length - 1, 0) // 2
    both = group.sorted_counts[lower, columns] + group.sorted_counts[upper, columns]
    return np.where(group.length > 0, both, 0)


def empty_group(smoother: Smoother, width: int) -> LastGroup:
    """Return the group before the first tick."""
    none = np.zeros((2, width), np.int64)
    return LastGroup(none[0], none[1], np.zeros((int(smoother.NEEDS_SORTED_COUNTS), width), np.int64))


def extend_group(group: LastGroup, noisy: Ints, started: Bools, active: Bools | None = None) -> None:
    """Add one tick's noisy counts of all active columns.

    A column that `started` begins a group with it.
    """
    group.length[started] = group.total[started] = 0
    here = np.ones(len(noisy), np.int64) if active is None else active.astype(np.int64)
    if len(group.sorted_counts):
        group.sorted_counts = resize_rows(group.sorted_counts, int(group.length.max(initial=0)) + 1)
        insert_sorted(group.sorted_counts, group.length, noisy, here)
    group.length += here
    group.total += here * noisy


def insert_sorted(ranked: Ints, length: Ints, noisy: Ints, here: Ints) -> None:
    """Insert each count in order.

    Row i becomes the middle one of rows i - 1, i and the count.
    """
    columns = np.flatnonzero(here)
    ranked[length[columns], columns] = INT64_MAX
    below = np.full(len(noisy), np.iinfo(np.int64).min)
    for rows, those in iterate_bands((length + 1) * here):
        old = ranked[rows, those].copy()
        new = np.minimum(old, noisy[those])
        np.maximum(new[1:], old[:-1], out=new[1:])
        np.maximum(new[0], below[those], out=new[0])
        below[those] = old[-1]
        ranked[rows, those] = new
