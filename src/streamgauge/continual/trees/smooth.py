"""Smooth binary counting: a binary tree of which only balanced leaves are used.

Items are, in order, at those leaves of a binary tree of depth d whose d-bit name has exactly w ones. The
count at tick t adds one p-sum for every one in the name of the next leaf, t + 1: the p-sum of the left
sibling at that bit. So every count adds w p-sums, and every item is in d - w, one for every zero:

    names of 4 bits with 2 ones:   0011 0101 0110 1001 1010 1100       d = 4, w = 2
    count at t = 3, next 1001:     [- 0*** = x1 x2 x3 -] and [1000: no item]

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: an item is in at most ZEROS = d - w p-sums, each drawn when its last item arrives. A unit of n
    ticks is charged as n units of one.

Error
    Unbiased, and the variance is the same at every tick: w draws.

Reference
    Andersson, Pagh: A smooth binary mechanism for efficient private continual observation, NeurIPS 2023.
    Their d is even and w = d/2. Here d is the least of any parity with (d choose w) > T. A horizon that
    never reaches the names that begin with a one needs less noise for the same promise.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import BoundedSettings, LinearMechanism, draw_rows
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Pure, Zcdp


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    name: int  # public: the name of the next leaf
    total: Ints = field(repr=False)  # exact: the sum so far
    noises: Ints = field(repr=False)  # secret noise: row j sums the draws of the first j ones of the name


@dataclass(frozen=True)
class SmoothBinary(BoundedSettings, LinearMechanism[State]):
    """Running counts over at most `horizon` ticks, all equally good; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    EXACT_MEMORY: ClassVar[str] = "its memory is the exact total and its noise"

    @property
    def has_falling_overlaps(self) -> bool:
        return True

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_noise(self)

    @cached_property
    def depth(self) -> int:
        """d: the least for which there are more names than ticks."""
        depth = 1
        while comb(depth, depth // 2) <= self.horizon:
            depth += 1
        return depth

    @property
    def one_count(self) -> int:
        """w: how many p-sums a count adds."""
        return self.depth - self.depth // 2

    @property
    def zero_count(self) -> int:
        """Number of p-sums that an item is in."""
        return self.depth // 2

    @cached_property
    def distribution(self) -> Distribution:
        ticks = min(self.unit.ticks, self.horizon)
        moved = self.tick_sensitivity.scale(ticks)
        return self.loss.calibrate(l1=moved.l1 * self.zero_count, l2_squared=moved.l2_squared * self.zero_count)

    def names(self, first: int, count: int) -> Ints:
        """Return the names of `count` leaves from number `first` (the first of all is number 0)."""
        rest = np.arange(first, first + count, dtype=np.int64)
        left = np.full(count, self.one_count, np.int64)
        names = np.zeros(count, np.int64)
        for place in reversed(range(self.depth)):
            below = np.array([comb(place, ones) for ones in range(self.one_count + 1)], np.int64)[left]
            one = rest >= below
            rest -= np.where(one, below, 0)
            left -= one
            names = names << 1 | one
        return names

    def count_renewed_ones(self, names: Ints) -> Ints:
        """Return how many ones change from a name to the next: its lowest run."""
        runs = names >> count_trailing_zeros(names)
        return count_trailing_zeros(~runs)

    def initial(self, width: int, noise: Noise) -> State:
        noises = np.zeros((self.one_count + 1, width), np.int64)
        return State(0, 2**self.one_count - 1, np.zeros(width, np.int64), noises)

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        lowest = state.name & -state.name
        ripple = state.name + lowest
        count = (ripple & -ripple).bit_length() - lowest.bit_length()
        draws = draw_rows(self.distribution, noise, count, len(values))
        state.tick += 1
        state.name = ripple | ((1 << (count - 1)) - 1)
        state.total += values
        unchanged = self.one_count - count
        for one, draw in enumerate(draws, unchanged):
            np.add(state.noises[one], draw, out=state.noises[one + 1])
        release: Ints = state.total + state.noises[-1]
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        ticks, width = block.shape
        releases = state.total + np.cumsum(block, axis=0)
        if not ticks:
            return releases
        counts = self.count_renewed_ones(self.names(state.tick, ticks))
        draws = draw_rows(self.distribution, noise, int(counts.sum()), width)
        ends = np.cumsum(counts)
        noises = np.zeros((ticks, width), np.int64)
        for one, before in enumerate(np.diff(state.noises, axis=0)):
            renewed = counts >= self.one_count - one
            own = draws[ends[renewed] - (self.one_count - one)]
            noises += np.concatenate([before[None], own])[np.cumsum(renewed)]
            state.noises[one + 1] = noises[-1]
        state.tick += ticks
        state.name = int(self.names(state.tick, 1)[0])
        state.total = state.total + block.sum(axis=0)
        return releases + noises

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum((Term(self.one_count, 1, self.distribution),))

    def mean_variance(self, ticks: int) -> float:
        return self.one_count * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        names = self.names(0, ticks)
        counts, zeros = self.count_renewed_ones(names), count_trailing_zeros(names)
        rows = int(counts.sum())
        measure, decode = np.zeros((rows, ticks)), np.zeros((ticks, rows))
        used: list[int] = []  # the rows of the ones of the name, highest first
        for t, first in enumerate(np.cumsum(counts) - counts):
            size = comb(int(zeros[t] + counts[t]), int(counts[t]))
            measure[first, t + 1 - size : t + 1] = 1
            used[self.one_count - int(counts[t]) :] = range(first, first + int(counts[t]))
            decode[t, used] = 1
        return Strategy(measure, decode, (self.distribution,) * rows, tuple(range(rows)))


def count_trailing_zeros(numbers: Ints) -> Ints:
    zeros: Ints = np.bitwise_count((numbers & -numbers) - 1).astype(np.int64)
    return zeros
