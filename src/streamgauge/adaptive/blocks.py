"""Blocks: the second scale of a Perturber, which reads each block of `size` ticks once more, as one count.

    ticks      1   2   3   4 | 5   6   7   8 | 9  10
    readings   y   y   y   y | y   y   y   y | y   y       one for each tick, by the Perturber
               B ----------> | B ----------> | (open)      one for each block, when it ends

A long window then needs few draws: a block of 64 ticks has one where its ticks have 64.

Privacy
    Neighbours: one count of one column moves by 1. Public: the number of ticks, so where blocks end. Promise:
    pure DP at 1/scale of the `law`, even if counts are chosen in view of past readings.
    Proof: blocks do not overlap, so the count is in one block, whose sum moves by 1, modulo 2^64 too; that
    sum is read once, under discrete Laplace noise. The exact sum of the open block is in memory until then.
"""

from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from streamgauge.noise import DiscreteLaplace, Ints, Noise


@dataclass(slots=True)
class OpenBlock:
    """The block of each column that has not ended."""

    total: Ints = field(repr=False)  # exact: the sum of its counts


@dataclass(frozen=True)
class Blocks:
    """Readings of aligned blocks of `size` ticks, under noise of `law`, beside those of ticks."""

    size: int
    law: DiscreteLaplace  # of a block
    each: DiscreteLaplace  # of a tick

    def initial(self, width: int) -> OpenBlock:
        return OpenBlock(np.zeros(width, np.int64))

    def step(self, state: OpenBlock, values: Ints, tick: int, noise: Noise) -> Ints:
        """Takes one tick's counts; returns the readings of the blocks that end with it, else 0."""
        state.total += values
        if tick % self.size:
            return np.zeros_like(values)
        reading = state.total + self.law.draw(noise, len(values))
        state.total[:] = 0
        return reading

    def cover(self, ticks: int, tick: int) -> "Cover":
        """How the last `ticks` ones lie to blocks; at least as many as a block has, or all."""
        before, ended = tick - ticks, tick // self.size
        first = -(-before // self.size)
        return Cover(self, first, ended, first * self.size - before, tick - ended * self.size)


@dataclass(frozen=True)
class Cover:
    """A window as blocks [first, ended), the last `edge` ticks of the block before them, and the `open` ones.

    >>> from fractions import Fraction
    >>> law = DiscreteLaplace(Fraction(2))
    >>> Blocks(4, law, law).cover(7, 10)  # doctest: +ELLIPSIS
    Cover(blocks=..., first=1, ended=2, edge=1, open=2)
    """

    blocks: Blocks
    first: int
    ended: int
    edge: int
    open: int

    @property
    def whole(self) -> int:
        """How many blocks are in the window from their first tick to their last."""
        return self.ended - self.first

    @property
    def trimmed(self) -> bool:
        """Whether the edge is known better as its block without the ticks before it."""
        spared = 2 * self.edge - self.blocks.size
        return spared * self.blocks.each.variance > self.blocks.law.variance

    @property
    def draws(self) -> tuple[int, int]:
        """Of how many blocks and how many ticks the window is put together without bias."""
        edge = self.blocks.size - self.edge if self.trimmed else self.edge
        return self.whole + self.trimmed, edge + self.open

    @property
    def as_ticks(self) -> float:
        """How many ticks have as much noise as that sum."""
        blocks, ticks = self.draws
        one = self.blocks.each.variance
        return ticks + blocks * (self.blocks.law.variance / one if one else 1.0)

    @property
    def stddev(self) -> float:
        """Of the sum where ticks that are in no whole block count as shares of the blocks beside them."""
        edge, rest = self.edge / self.blocks.size, self.open / self.blocks.size
        newest = (1 if self.whole else edge) + rest if self.ended else 0.0
        others = self.whole - 1 + edge**2 if self.whole else 0.0
        return sqrt((newest**2 + others) * self.blocks.law.variance)
