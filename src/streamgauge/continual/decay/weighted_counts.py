"""Decayed sums from running counts: weighed counts of a tree, not noisy items.

With S_t the running count and g the weights of a decay, g_(-1) = 0,

    F_t = sum_k g_k x_(t-k) = sum_k (g_k - g_(k-1)) S_(t-k)

So a decayed sum is post-processing of the releases of a `SubtractiveTree`. The noise of a block, which
is in the counts from tick a to tick b - 1, weighs g_(t-a) - g_(t-b) in F_t. This is small once b is long past.

Privacy
    As for `SubtractiveTree`: nothing else is measured. Not pan-private, since the tree is not.

Error
    Unbiased up to `deviation`. Var(t) is the variance of one draw times the sum of those weights squared.
    For slow decays it is far below that of noisy items: a sixth of the error for (k + 1)^(-1/10) at T = 2^16.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.factorizations.convolution import Floats
from streamgauge.continual.factorizations.toeplitz import (
    ROUNDING_ERROR,
    Factors,
    build_noise_sum,
    check_memory,
    grow_rows,
    lower_triangle,
)
from streamgauge.continual.mechanism import BoundedSettings, LinearMechanism
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees import subtractive
from streamgauge.continual.trees.subtractive import SubtractiveTree
from streamgauge.continual.validation import check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss, Number, Pure, parse_rational


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    tree: subtractive.State = field(repr=False)  # exact: the total, and noise that must stay secret
    counts: Floats  # noisy: all running counts so far, one row per tick, with spare rows


@dataclass(frozen=True, kw_only=True)
class WeightedCounts(BoundedSettings, LinearMechanism[State]):
    """Sums weighed by (age + 1)^-exponent, from the counts of a tree; see the module."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    LOSSES_REASON: ClassVar[str] = SubtractiveTree.LOSSES_REASON
    EXACT_MEMORY: ClassVar[str] = SubtractiveTree.EXACT_MEMORY
    exponent: Number

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
        return np.concatenate([np.zeros(1), polynomial_weights(parse_rational(self.exponent), self.horizon)])

    @cached_property
    def factors(self) -> Factors:
        return Factors.from_items(np.diff(self.weights))

    def deviation(self, tick: int) -> float:
        """Return how far a release without noise may be off at `tick`, per unit of the sum of |x|."""
        return ROUNDING_ERROR

    def memory(self) -> int:
        return self.horizon + self.tree.memory()

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, self.tree.initial(width, noise), np.zeros((0, width)))

    def redraw_refusal(self) -> str:
        """Refuse: later releases would weigh counts before and after the redraw, with an error that is not stated."""
        return "a polynomial decay must draw all its noise once to state its error, got a redraw"

    def step(self, state: State, values: Ints, noise: Noise) -> Floats:
        release: Floats = self._weigh_counts(state, self.tree.step(state.tree, values, noise)[None])[0]
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Floats:
        return self._weigh_counts(state, self.tree.feed(state.tree, block, noise))

    def _weigh_counts(self, state: State, counts: Ints) -> Floats:
        before, state.tick = state.tick, state.tick + len(counts)
        state.counts = grow_rows(state.counts, state.tick, self.horizon)
        state.counts[before : state.tick] = counts
        return self.factors.decode_rows(state.counts[: state.tick], before)

    def _list_blocks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (first a, b - a, period) of every kind of block.

        Ticks from a to b - 1 have its noise. In units of the block's size, counted from its smallest digit, the
        subtracted blocks stay for 1, 2, ..., half units. The added blocks come in after half + 1, half + 2, ...
        and stay to the end.
        """
        k, half = self.tree.branching, self.tree.max_digit
        for size in (k**level for level in range(self.tree.levels)):
            begin = -(self.tree.offset % (k * size))
            subtracted = [(0, units) for units in range(1, half + 1)]
            added = [(units, k - units) for units in range(half + 1, k)]
            for after, length in subtracted + added:
                first = begin + after * size
                yield first + (first < 1) * k * size, length * size, k * size

    def noise_at(self, tick: int) -> NoiseSum:
        found = []
        for first, length, period in self._list_blocks():
            ages = tick - np.arange(first, tick + 1, period)
            found.append(self.weights[ages + 1] - self.weights[np.maximum(ages + 1 - length, 0)])
        return build_noise_sum(np.concatenate(found), self.distribution)

    def mean_variance(self, ticks: int) -> float:
        total = 0.0
        for first, length, period in self._list_blocks():
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


def polynomial_weights(exponent: Fraction, count: int) -> Floats:
    """(k + 1)^-exponent for k below `count`."""
    ages: Floats = np.arange(1.0, count + 1)
    return ages ** -float(exponent)
