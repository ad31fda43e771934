"""How blocks of k^i ticks tile sliding windows: the public geometry behind `WindowSum`.

The window of W ticks that ends at t begins after s = max(0, t - W). It is tiled by ever larger blocks from s
up to a multiple of S = k^(h-1), by blocks of S, and by ever smaller ones down to t:

    digits(-s mod S) + (blocks of S between) + digits(t mod S) tiles, digits those in base k

S <= W, so that every window holds a multiple of S.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from streamgauge.noise import Ints


@dataclass(frozen=True)
class Tiling:
    """Levels 0 to `levels` - 1 of blocks of branching^level ticks, and windows over them."""

    window: int
    branching: int
    levels: int

    @property
    def span(self) -> int:
        """S, the size of the largest blocks."""
        return int(self.branching ** (self.levels - 1))

    @property
    def slots(self) -> int:
        """How many closed blocks of S windows may begin in."""
        return -(-self.window // self.span)

    @property
    def sizes(self) -> list[int]:
        """How many blocks of each level below the top are in one of S."""
        return [int(self.branching**i) for i in range(self.levels - 1, 0, -1)]

    @property
    def slices(self) -> list[slice]:
        """Where the levels are if the blocks in one of S are listed level by level."""
        ends = np.cumsum([0, *self.sizes])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def level(self, tick: int) -> int:
        """The level of the largest block that `tick` completes."""
        level = 0
        while level + 1 < self.levels and tick % self.branching ** (level + 1) == 0:
            level += 1
        return level

    def levels_of(self, ticks: Ints) -> Ints:
        found = np.zeros_like(ticks)
        for level in range(1, self.levels):
            found += ticks % self.branching**level == 0
        return found

    def tiles(self, tick: int) -> list[tuple[int, int]]:
        """(level, beginning) of the blocks that make the window at `tick`, from left to right."""
        place, tiles = max(0, tick - self.window), []
        while place < tick:
            level = self.level(place)
            while place + self.branching**level > tick:
                level -= 1
            tiles.append((level, place))
            place += self.branching**level
        return tiles

    def counts(self, ticks: Ints) -> tuple[Ints, Ints]:
        """How many tiles the windows at these ticks have, and how many of them are single items."""
        before = np.maximum(ticks - self.window, 0)
        right, left = ticks % self.span, -before % self.span
        counts = (ticks - right - before - left) // self.span
        if self.levels == 1:
            return counts, counts
        k = self.branching
        for size in (k**i for i in range(self.levels - 1)):
            counts += right // size % k + left // size % k
        return counts, right % k + left % k

    def mean_counts(self) -> tuple[float, float]:
        """The same, averaged over all ticks from W on."""
        counts = (self.levels - 1) * (self.branching - 1) + (self.window + 1) / self.span - 1
        return counts, self.branching - 1 if self.levels > 1 else counts

    def overlap(self, ticks: int) -> int:
        """The most that so many ticks, each moved by 1, move the sums of the blocks, in squared L2."""
        sizes = (self.branching**level for level in range(self.levels))
        return sum(ticks // size * size**2 + (ticks % size) ** 2 for size in sizes)

    def from_beginnings(self, sums: list[Ints], counts: Ints) -> Ints:
        """Noisy counts at all ticks of some blocks of S, from those at their ends: tiles added from the left.

        `sums` has the p-sums of each level below the top, one row a block.
        """
        for level in reversed(sums):
            families, finer, out = self._unfolded(level, counts)
            for child in range(1, self.branching):
                np.add(finer[:, child - 1], families[:, child - 1], out=finer[:, child])
            counts = out
        return counts

    def from_ends(self, sums: list[Ints], counts: Ints) -> Ints:
        """The same, with tiles taken away from the right."""
        for level in reversed(sums):
            families, finer, out = self._unfolded(level, counts)
            after = counts[1:]
            for child in range(self.branching - 1, 0, -1):
                after = np.subtract(after, families[:, child], out=finer[:, child])
            counts = out
        return counts

    def _unfolded(self, sums: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
        """The sums by family, room for the counts before each, and the same room with the end of all."""
        families = sums.reshape(-1, self.branching, sums.shape[1])
        out = np.empty((len(sums) + 1, sums.shape[1]), np.int64)
        out[-1] = counts[-1]
        finer = out[:-1].reshape(families.shape)
        finer[:, 0] = counts[:-1]
        return families, finer, out


def least_levels(branching: int, window: int) -> int:
    """The least h for which k^h reaches the window."""
    levels = 1
    while branching**levels < window:
        levels += 1
    return levels
