"""Tilings of sliding windows by blocks of k^i ticks: the geometry of `WindowSum`.

The geometry is public. The window of W ticks that ends at t begins after s = max(0, t - W). It is tiled by ever
larger blocks from s up to a multiple of S = k^(h-1), by blocks of S, and by ever smaller ones down to t:

    digits(-s mod S) + (blocks of S between) + digits(t mod S) tiles, digits those in base k

S <= W, so that every window contains a multiple of S.
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
        """Number of closed blocks of S that windows may begin in."""
        return -(-self.window // self.span)

    @property
    def sizes(self) -> list[int]:
        """Numbers of blocks of each level below the top in one of S."""
        return [int(self.branching**i) for i in range(self.levels - 1, 0, -1)]

    @property
    def slices(self) -> list[slice]:
        """Slices of the levels in a list of the blocks in one of S, level by level."""
        ends = np.cumsum([0, *self.sizes])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def level(self, tick: int) -> int:
        """Return the level of the largest block that `tick` completes."""
        level = 0
        while level + 1 < self.levels and tick % self.branching ** (level + 1) == 0:
            level += 1
        return level

    def find_levels(self, ticks: Ints) -> Ints:
        found = np.zeros_like(ticks)
        for level in range(1, self.levels):
            found += ticks % self.branching**level == 0
        return found

    def tiles(self, tick: int) -> list[tuple[int, int]]:
        """Return (level, beginning) of the window's blocks at `tick`, left to right."""
        place, tiles = max(0, tick - self.window), []
        while place < tick:
            level = self.level(place)
            while place + self.branching**level > tick:
                level -= 1
            tiles.append((level, place))
            place += self.branching**level
        return tiles

    def count_tiles(self, ticks: Ints) -> tuple[Ints, Ints]:
        """Return numbers of tiles and of single-item tiles of windows at these ticks."""
        before = np.maximum(ticks - self.window, 0)
        right, left = ticks % self.span, -before % self.span
        counts = (ticks - right - before - left) // self.span
        if self.levels == 1:
            return counts, counts
        k = self.branching
        for size in (k**i for i in range(self.levels - 1)):
            counts += right // size % k + left // size % k
        return counts, right % k + left % k

    def mean_tile_counts(self) -> tuple[float, float]:
        """Return the same, averaged over all ticks from W on."""
        counts = (self.levels - 1) * (self.branching - 1) + (self.window + 1) / self.span - 1
        return counts, self.branching - 1 if self.levels > 1 else counts

    def overlap(self, ticks: int) -> int:
        """Return the most that `ticks` moves of 1 move the block sums, in squared L2."""
        sizes = (self.branching**level for level in range(self.levels))
        return sum(ticks // size * size**2 + (ticks % size) ** 2 for size in sizes)

    def from_beginnings(self, sums: list[Ints], counts: Ints) -> Ints:
        """Return noisy counts at all ticks of blocks of S, adding tiles from the left.

        `counts` are the counts at the ends of the blocks. `sums` has the p-sums of each level below the top, one row a
        block.
        """
        for level in reversed(sums):
            families, finer, out = self._unfold(level, counts)
            for child in range(1, self.branching):
                np.add(finer[:, child - 1], families[:, child - 1], out=finer[:, child])
            counts = out
        return counts

    def from_ends(self, sums: list[Ints], counts: Ints) -> Ints:
        """Return the same, subtracting tiles from the right."""
        for level in reversed(sums):
            families, finer, out = self._unfold(level, counts)
            after = counts[1:]
            for child in range(self.branching - 1, 0, -1):
                after = np.subtract(after, families[:, child], out=finer[:, child])
            counts = out
        return counts

    def _unfold(self, sums: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the sums by family, and arrays for the counts before each and at the end."""
        families = sums.reshape(-1, self.branching, sums.shape[1])
        out = np.empty((len(sums) + 1, sums.shape[1]), np.int64)
        out[-1] = counts[-1]
        finer = out[:-1].reshape(families.shape)
        finer[:, 0] = counts[:-1]
        return families, finer, out


def least_levels(branching: int, window: int) -> int:
    """Return the least h for which k^h reaches the window."""
    levels = 1
    while branching**levels < window:
        levels += 1
    return levels
