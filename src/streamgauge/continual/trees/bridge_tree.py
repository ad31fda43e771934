"""The bridge tree: running counts under noise whose children sum to their parent's.

Level i cuts time into blocks. A block of level i + 1 has `radices[i]` children, and items are blocks of level 0. All
blocks have a draw. The noise of a block of the top level is its draw. That of a child is its draw and an equal share of
what the parent's noise has more than the draws of all its children, future ones included:

    noise  |             e1              |            e2          ...    top blocks: draws e1, e2
           | z1 + c | z2 + c | z3 + c | z4 + c |                         c = (e1 - z1 - z2 - z3 - z4)/4
           ^                             ^                               so that the four sum to e1

A count is exact, plus the noise of its items. Inside a block that noise is a bridge: it wanders between two ends which
only the larger blocks know (see `streamgauge.continual.trees.bridge`).

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases.
    Proof: let R be the 0/1 matrix of blocks and items. If the draws of the h blocks that hold item t change by -D, the
    noise of each of these blocks changes by -D, since the draws of its children change by as much as its own noise. No
    share changes, and no other block's noise. So the noise of the first s items changes by -D if s >= t, else not at
    all: L R = A. An event +D at t then moves no release. This bijection of the integers costs h bound/b = epsilon
    under discrete Laplace noise of scale b = h bound/epsilon, although shares look ahead. A unit of n ticks costs n
    times as much. For discrete Gaussian noise the argument needs rows that are drawn when their last item arrives,
    which these are not. Other losses are rejected.
    Releases are floats of one exact sum, in units of 1/prod(radices) modulo 2^64. All parts of it move together, so
    wrap-around harms no one's privacy.
    Memory holds the exact total and noise of the future. It is not pan-private, and must be guarded. Two runs
    that continue from one save would share that noise, so one of them draws it again first
    (`redraw_future_noise`). Its releases after the save are then those of an independent run.

Error
    Unbiased. With t - 1 = j d_(h-2) ... d_0 in the radices k_i, top digit j, p_0 = 1 and p_(i+1) = (d_i + p_i)/k_i:
    Var(t) = v (j + p_(h-1)^2 + sum over i of d_i + p_i^2 - (d_i + p_i)^2/k_i), v the variance of a draw. The mean is
    about v (m/2 + sum of k_i/6) for m top blocks, against k/4 a level of `SubtractiveTree`. Without `radices`, those
    of least mean variance are taken: all k or k + 1.

Reference
    We know of no published account. The nearest are constrained inference in trees (Hay, Rastogi, Miklau, Suciu:
    Boosting the accuracy of differentially private histograms through consistency, VLDB 2010; Honaker: Efficient
    use of differentially private binary trees, 2015), and k-ary subtraction (Andersson, Pagh, Steiner, Torkamani:
    Count on Your Elders, FORC 2025). The first average over measured children, the last subtracts future blocks.
    Here future draws pin the children to their parent.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from math import prod
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import MAX_CHEAP_DRAWS, BoundedSettings, LinearMechanism, Release
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.bridge import MAX_RESTS, Bridge, BridgeState, to_release
from streamgauge.continual.validation import check_noise, check_settings, check_whole
from streamgauge.noise import DiscreteLaplace, Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss, Pure

MAX_LEVELS = 20  # levels that are tried: enough for 2^62 ticks
MAX_RADIX = 128  # and children of a block
UNIT_NOISE = DiscreteLaplace(Fraction(1))


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far
    noise: BridgeState = field(repr=False)  # secret noise: of the sum so far, and of items to come


@dataclass(frozen=True, kw_only=True)
class BridgeTree(BoundedSettings, LinearMechanism[State]):
    """Running counts up to `horizon`, by default the best radices; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    LOSSES_REASON: ClassVar[str] = "its noise looks ahead, which is proved harmless for Laplace noise alone"
    EXACT_MEMORY: ClassVar[str] = "its memory is the exact total and the noise to come"
    radices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        if self.radices is None:
            object.__setattr__(self, "radices", self._search_radices())
        object.__setattr__(self, "radices", parse_radices(self.radices))
        check_noise(self)

    def _search_radices(self) -> tuple[int, ...]:
        """Return the radices of least mean variance over the horizon."""
        shapes = find_shapes(self.horizon)
        check_noise(self._with(shapes[0]))
        return min(shapes, key=lambda radices: self._with(radices).mean_variance(self.horizon))

    def _with(self, radices: tuple[int, ...]) -> "BridgeTree":
        return replace(self, radices=radices)

    @cached_property
    def bridge(self) -> Bridge:
        return Bridge(parse_radices(self.radices), self.distribution, self.distribution, is_wiped=False)

    @cached_property
    def distribution(self) -> Distribution:
        ticks, levels = min(self.unit.ticks, self.horizon), len(parse_radices(self.radices)) + 1
        return self.loss.calibrate(l1=self.tick_sensitivity.l1 * ticks * levels, l2_squared=0)

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64), self.bridge.initial(width))

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return a state with the draws of past and open blocks of the top level, and of open blocks."""
        return State(tick, np.zeros(width, np.int64), self.bridge.zero_state(width, tick, noise))

    @property
    def cheap_zero_state(self) -> bool:
        """True if half the top blocks and the open blocks have few draws."""
        return self.horizon // self.bridge.span / 2 + sum(self.bridge.radices) <= MAX_CHEAP_DRAWS

    def redraw_future_noise(self, state: State, noise: Noise) -> None:
        state.noise = self.bridge.zero_state(len(state.total), state.tick, noise)

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        release, total, noises = np.empty(len(values)), state.total, state.noise
        for part in self.bridge.step_parts(noises, state.tick, noise):
            total[part] += values[part]
            release[part] = to_release(total[part] + noises.whole[part], noises.rest[part], self.bridge.span)
        state.tick += 1
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        sums = state.total + np.cumsum(block, axis=0)
        whole, rest = self.bridge.feed(state.noise, state.tick, len(block), noise)
        state.tick += len(block)
        state.total = sums[-1].copy() if len(block) else state.total
        sums += whole
        return to_release(sums, rest, self.bridge.span)

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum(self.bridge.list_terms(tick))

    def mean_variance(self, ticks: int) -> float:
        return self.bridge.sum_variances(ticks) / ticks

    def matrices(self, ticks: int) -> Strategy:
        measure, decode, laws = self.bridge.build_matrices(ticks)
        return Strategy(measure, decode, tuple(laws), tuple(range(len(laws))))


def parse_radices(radices: Iterable[int] | None) -> tuple[int, ...]:
    """Return numbers of children, each at least 2, of blocks that 64 bits count."""
    given = tuple(radices or ())
    for radix in given:
        check_whole("radices", radix, least=2)
    if is_too_large(given):
        raise ValueError(f"radices must have a product of at most 2**62, times the first one, got {given}")
    return tuple(int(radix) for radix in given)


def is_too_large(radices: tuple[int, ...]) -> bool:
    """Return whether rests of the items of a block do not fit."""
    return bool(radices) and prod(radices) * (radices[0] + 1) > MAX_RESTS


@lru_cache(maxsize=256)
def find_shapes(horizon: int) -> tuple[tuple[int, ...], ...]:
    """Return the radices of least mean variance for each number of levels."""
    shapes = []
    for inner in range(MAX_LEVELS):
        best = min(_list_shapes(horizon, inner), key=partial(_relate_variance, horizon), default=None)
        shapes += [] if best is None else [best]
    return tuple(shapes)


def _list_shapes(horizon: int, inner: int) -> Iterator[tuple[int, ...]]:
    """Yield radices k and k + 1, about the best k = (3 horizon)^(1/levels)."""
    middle = (3 * horizon) ** (1 / (inner + 1))
    for k in range(max(2, int(middle / 2)), min(MAX_RADIX, int(2 * middle) + 2)) if inner else [1]:
        for larger in range(max(1, inner)):
            radices = (k + 1,) * larger + (k,) * (inner - larger)
            if prod(radices) <= horizon and not is_too_large(radices):
                yield radices


def _relate_variance(horizon: int, radices: tuple[int, ...]) -> float:
    return Bridge(radices, UNIT_NOISE, UNIT_NOISE).sum_variances(horizon)
