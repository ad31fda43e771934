"""Decayed sums from running counts: weigh the noisy counts of a tree instead of noisy items.

With S_t the running count and g the weights of a decay, g_(-1) = 0,

    F_t = sum_k g_k x_(t-k) = sum_k (g_k - g_(k-1)) S_(t-k)

so that a decayed sum is post-processing of the releases of a `SubtractiveTree`. The noise of a block, which
is in the counts from tick a to tick b - 1, weighs g_(t-a) - g_(t-b) in F_t: little, once b is long past.

Privacy
    As for `SubtractiveTree`: nothing else is measured. Not pan-private, since the tree is not.

Error
    Unbiased up to `deviation`; Var(t) is the variance of one draw times the sum of those weights squared.
    For slow decays it is far below that of noisy items: a sixth of the error for (k + 1)^(-1/10) at T = 2^16.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual import subtractive
from streamgauge.continual.bound import Bound
from streamgauge.continual.convolution import Floats
from streamgauge.continual.mechanism import Mechanism
from streamgauge.continual.settings import check_settings
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.subtractive import SubtractiveTree
from streamgauge.continual.toeplitz import (
    ROUNDING,
    Factors,
    check_memory,
    lower_triangle,
    weighted_sum,
    with_room,
)
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Event, Loss, Number, Pure, Unit, exact


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    tree: subtractive.State = field(repr=False)  # exact: the total, and noise that must stay secret
    counts: Floats  # noisy: all running counts so far, one row per tick, with room to grow


@dataclass(frozen=True)
class WeighedCounts(Mechanism[State]):
    """Sums of items weighed by (age + 1)^-exponent, from the counts of a tree; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    WHY: ClassVar[str] = SubtractiveTree.WHY
    RESTS_EXACT: ClassVar[str] = SubtractiveTree.RESTS_EXACT
    loss: Loss
    _: KW_ONLY
    exponent: Number
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)

    @cached_property
    def tree(self) -> SubtractiveTree:
        return SubtractiveTree(self.loss, horizon=self.horizon, bound=self.bound, unit=self.unit)

    @property
    def distribution(self) -> Distribution:
        return self.tree.distribution

    @cached_property
    def weights(self) -> Floats:
        """g_(-1) = 0, g_0, g_1, ..."""
        return np.concatenate([np.zeros(1), weights(exact(self.exponent), self.horizon)])

    @cached_property
    def factors(self) -> Factors:
        return Factors.of_items(np.diff(self.weights))

    def deviation(self, tick: int) -> float:
        """How far a release without noise may be off at `tick`, per unit of the sum of |x|."""
        return ROUNDING

    def memory(self) -> int:
        return self.horizon + self.tree.memory()

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, self.tree.initial(width, noise), np.zeros((0, width)))

    def step(self, state: State, values: Ints, noise: Noise) -> Floats:
        release: Floats = self._weighed(state, self.tree.step(state.tree, values, noise)[None])[0]
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Floats:
        return self._weighed(state, self.tree.feed(state.tree, block, noise))

    def _weighed(self, state: State, counts: Ints) -> Floats:
        before, state.tick = state.tick, state.tick + len(counts)
        state.counts = with_room(state.counts, state.tick, self.horizon)
        state.counts[before : state.tick] = counts
        return self.factors.decoded(state.counts[: state.tick], before)

    def _blocks(self) -> Iterator[tuple[int, int, int]]:
        """(first a, b - a, period) of every kind of block: ticks from a to b - 1 are those with its noise.

        In units of the block's size, from where its digit is smallest: the blocks taken away stay for
        1, 2, ..., half units, those added come in after half + 1, half + 2, ... and stay to the end.
        """
        k, half = self.tree.branching, self.tree.half
        for size in (k**level for level in range(self.tree.levels)):
            begin = -(self.tree.offset % (k * size))
            taken = [(0, units) for units in range(1, half + 1)]
            added = [(units, k - units) for units in range(half + 1, k)]
            for after, length in taken + added:
                first = begin + after * size
                yield first + (first < 1) * k * size, length * size, k * size

    def noise_at(self, tick: int) -> NoiseSum:
        found = []
        for first, length, period in self._blocks():
            ages = tick - np.arange(first, tick + 1, period)
            found.append(self.weights[ages + 1] - self.weights[np.maximum(ages + 1 - length, 0)])
        return weighted_sum(np.concatenate(found), self.distribution)

    def mean_variance(self, ticks: int) -> float:
        total = 0.0
        for first, length, period in self._blocks():
            ends = ticks - np.arange(first, ticks + 1, period)
            if len(ends):
                squares = self.weights[1 : ends[0] + 2].copy()
                squares[length:] -= self.weights[1 : max(0, ends[0] + 1 - length) + 1]
                total += float(np.cumsum(squares**2)[ends].sum())
        return total / ticks * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        counts = self.tree.matrices(ticks)
        decode = lower_triangle(self.factors.decoder[:ticks]) @ counts.decode
        return Strategy(counts.measure, decode, counts.distributions, counts.draws)


def weights(exponent: Fraction, count: int) -> Floats:
    """(k + 1)^-exponent for k below `count`."""
    ages: Floats = np.arange(1.0, count + 1)
    return ages ** -float(exponent)
