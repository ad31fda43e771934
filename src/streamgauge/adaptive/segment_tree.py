"""A tree of p-sums over segments, where every group is at a segment of its own.

As `streamgauge.continual.tree`: level i has blocks of k^i segments, a block's p-sum is released under one
draw when its last segment ends, and the digits of m in base k, the top one open, say how many blocks of each
level tile the first m segments. What is remembered is, for each level, the noise in the release at the last
multiple of k^i. The index m is the group's own: groups end segments at different ticks.

Privacy
    One segment is in one block of each of the h levels at most, so that a sum that moves by 1 moves h p-sums
    by 1 each: loss h/scale. How many segments a group has ended is public.

Error
    Unbiased; the variance after m segments is that of one draw times the sum of the digits of m. With few
    segments one level is best; k and h are fitted to a number of segments, and hold for more.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from streamgauge.continual.kary import BROADEST, least_levels
from streamgauge.continual.tree import digit_total
from streamgauge.noise import DiscreteLaplace, Ints, Noise


@dataclass(frozen=True)
class Shape:
    """k and h."""

    branching: int
    levels: int

    def digits(self, ended: Ints) -> Ints:
        """How many p-sums tile so many segments, group by group."""
        total, left = np.zeros_like(ended), ended
        for _ in range(self.levels - 1):
            left, digit = np.divmod(left, self.branching)
            total += digit
        return total + left

    def most_digits(self, ended: int) -> int:
        """At least the sum of the digits of any number up to this one."""
        below = min(ended, (self.levels - 1) * (self.branching - 1))
        return below + ended // int(self.branching ** (self.levels - 1))

    def mean_digits(self, ended: int) -> float:
        """The sum of the digits, averaged over 1 to `ended`."""
        totals = (digit_total(ended, self.branching, level, self.levels) for level in range(self.levels))
        return sum(totals) / max(1, ended)

    def level(self, ended: Ints) -> Ints:
        """The level of the block that ends with this segment, group by group."""
        level = np.zeros_like(ended)
        for i in range(1, self.levels):
            level += ended % self.branching**i == 0
        return level


@dataclass(frozen=True)
class SegmentTree:
    """The tree of one claim; its state is `entries` (h, width), pure noise, and `ended` (width,), public."""

    shape: Shape
    distribution: DiscreteLaplace

    def end(self, entries: Ints, ended: Ints, groups: Ints, noise: Noise) -> Ints:
        """Ends a segment of each of these groups; returns the noise in their releases."""
        ended[groups] += 1
        level = self.shape.level(ended[groups])
        release: Ints = entries[level, groups] + self.distribution.draw(noise, len(groups))
        for i in range(self.shape.levels):
            covered = level >= i
            entries[i, groups[covered]] = release[covered]
        return release


@lru_cache(maxsize=64)
def fitted(segments: int) -> Shape:
    """The shape of least mean variance over so many segments.

    >>> fitted(32), fitted(1000)
    (Shape(branching=2, levels=1), Shape(branching=10, levels=3))
    """
    shapes = [Shape(2, 1)]
    for k in range(2, min(BROADEST, segments) + 1):
        shapes += [Shape(k, h) for h in range(2, least_levels(k, segments) + 1)]
    return min(shapes, key=lambda shape: shape.levels**2 * shape.mean_digits(segments))
