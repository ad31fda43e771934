"""Smooth binary counting: a binary tree of which only balanced leaves are used.

Items sit, in order, at those leaves of a binary tree of depth d whose d-bit name has exactly w ones. The
count at tick t adds one p-sum for every one in the name of the next leaf, t + 1: the p-sum of the left
sibling at that bit. Every count therefore adds w p-sums, and every item is in d - w, one for every zero:

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
    They take d even and w = d/2. Here d is the least of any parity with (d choose w) > T: a horizon that
    never reaches the names that begin with a one needs less noise for the same promise.
"""

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import comb
from typing import ClassVar

import numpy as np

from streamgauge.continual.bound import Bound
from streamgauge.continual.mechanism import Mechanism, draw_rows
from streamgauge.continual.settings import check_noise, check_settings
from streamgauge.continual.strategy import Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, Zcdp


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    name: int  # public: the name of the next leaf
    total: Ints = field(repr=False)  # exact: the sum so far
    noises: Ints = field(repr=False)  # secret noise: row j sums the draws of the first j ones of the name


@dataclass(frozen=True)
class SmoothBinary(Mechanism[State]):
    """Running counts over at most `horizon` ticks, all equally good; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    RESTS_EXACT: ClassVar[str] = "its memory is the exact total and its noise"
    loss: Loss
    _: KW_ONLY
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

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
    def ones(self) -> int:
        """w: how many p-sums a count adds."""
        return self.depth - self.depth // 2

    @property
    def zeros(self) -> int:
        """How many p-sums an item is in."""
        return self.depth // 2

    @cached_property
    def distribution(self) -> Distribution:
        ticks = min(self.unit.ticks, self.horizon)
        moved = self.reach.times(ticks)
        return self.loss.calibrate(l1=moved.l1 * self.zeros, l2_squared=moved.l2_squared * self.zeros)

    def names(self, first: int, count: int) -> Ints:
        """The names of `count` leaves from number `first` (the first of all is number 0)."""
        rest = np.arange(first, first + count, dtype=np.int64)
        left = np.full(count, self.ones, np.int64)
        names = np.zeros(count, np.int64)
        for place in reversed(range(self.depth)):
            below = np.array([comb(place, ones) for ones in range(self.ones + 1)], np.int64)[left]
            one = rest >= below
            rest -= np.where(one, below, 0)
            left -= one
            names = names << 1 | one
        return names

    def renewed(self, names: Ints) -> Ints:
        """How many ones change when a name gives way to the next: the length of its lowest run."""
        runs = names >> trailing_zeros(names)
        return trailing_zeros(~runs)

    def initial(self, width: int, noise: Noise) -> State:
        noises = np.zeros((self.ones + 1, width), np.int64)
        return State(0, 2**self.ones - 1, np.zeros(width, np.int64), noises)

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        lowest = state.name & -state.name
        ripple = state.name + lowest
        count = (ripple & -ripple).bit_length() - lowest.bit_length()
        draws = draw_rows(self.distribution, noise, count, len(values))
        state.tick += 1
        state.name = ripple | ((1 << (count - 1)) - 1)
        state.total += values
        kept = self.ones - count
        for one, draw in enumerate(draws, kept):
            np.add(state.noises[one], draw, out=state.noises[one + 1])
        release: Ints = state.total + state.noises[-1]
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        ticks, width = block.shape
        releases = state.total + np.cumsum(block, axis=0)
        if not ticks:
            return releases
        counts = self.renewed(self.names(state.tick, ticks))
        draws = draw_rows(self.distribution, noise, int(counts.sum()), width)
        ends = np.cumsum(counts)
        noises = np.zeros((ticks, width), np.int64)
        for one, before in enumerate(np.diff(state.noises, axis=0)):
            renewed = counts >= self.ones - one
            own = draws[ends[renewed] - (self.ones - one)]
            noises += np.concatenate([before[None], own])[np.cumsum(renewed)]
            state.noises[one + 1] = noises[-1]
        state.tick += ticks
        state.name = int(self.names(state.tick, 1)[0])
        state.total = state.total + block.sum(axis=0)
        return releases + noises

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum((Term(self.ones, 1, self.distribution),))

    def mean_variance(self, ticks: int) -> float:
        return self.ones * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        names = self.names(0, ticks)
        counts, zeros = self.renewed(names), trailing_zeros(names)
        rows = int(counts.sum())
        measure, decode = np.zeros((rows, ticks)), np.zeros((ticks, rows))
        used: list[int] = []  # the rows of the ones of the name, highest first
        for t, first in enumerate(np.cumsum(counts) - counts):
            size = comb(int(zeros[t] + counts[t]), int(counts[t]))
            measure[first, t + 1 - size : t + 1] = 1
            used[self.ones - int(counts[t]) :] = range(first, first + int(counts[t]))
            decode[t, used] = 1
        return Strategy(measure, decode, (self.distribution,) * rows, tuple(range(rows)))


def trailing_zeros(numbers: Ints) -> Ints:
    zeros: Ints = np.bitwise_count((numbers & -numbers) - 1).astype(np.int64)
    return zeros
