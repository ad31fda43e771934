"""Publication only if data have moved, for distribution and absorption.

Half of epsilon is for the tests, the other half for publications. At every tick the noisy distance of the data
from the last publication is compared with the error that a publication would have. Only if the distance is
larger, the tick is published, and spends its offer of the window's budget:

    c1 c2 c3 c4 c5 c6        data
    o1 o1 o1 o4 o4 o4        releases; at ticks 2, 3, 5 and 6 the data had not moved by more than the noise

The distance of two vectors is D = sum_j |o_j - c_j|. It is measured around the circle of 64 bits, on which all
integers of this package live. Each term is cut at a bound that follows from the width alone, so that no sum can
overflow. A c that moves by l1 in L1 moves D by no more: both the distance around the circle and the cut are
1-Lipschitz in every coordinate.

Privacy
    The first tick is published. Tick t loses epsilon/(2w) by its noisy distance D + DLap(2 w l1/epsilon),
    since D moves by at most l1, and epsilon_t by its publication c_t + DLap(l1/epsilon_t), if there is one.
    The decision to publish, and epsilon_t, follow from the noisy distance and past releases. The distance is
    charged at every tick, used or not. The distances of a window lose epsilon/2. Its publications lose no
    more than the other half: `max_parts` guarantees that, in whole parts. The rest of the proof is in
    `streamgauge.adaptive.w_event.budget`.

Error
    At a published tick, one draw of scale l1/epsilon_t. At any other, the distance from the last publication:
    at most the noisy one plus the noise in that, for all groups together. The noisy distance is paid for in
    full, as a released number, so the bound of a repeated tick contains it. Each |o_j - c_j| is at most D, and
    D is at most the noisy distance plus the noise that may have reduced it.
    The decision to publish depends on the noise of the distance. So both kinds of bound share their failure
    probability: with 1 - confidence = beta, 7/8 beta is for the noise of a publication and 1/8 beta for that
    of the distance. The truth is missed with probability beta at most, for either decision.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014. Ours: distances are sums, not means, so that they are
    whole numbers. The noisy distance is part of the release, as their proof allows. Budgets are rounded down
    to few binary digits, and the remainder is for later publications.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, nan
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease, ErrorBound, UnknownErrorBound
from streamgauge.adaptive.w_event.budget import WEventMechanism, round_down_to_few_bits, single_draw_noise
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum
from streamgauge.noise.noise_sum import round_up

MAX_DISTANCE = 2**62
TEST_FAILURE_DIVISOR = 8  # one in so many parts of a bound's failure probability is for the noise of the distance


def max_coordinate(width: int) -> int:
    """Return the largest distance of a coordinate of vectors of this width.

    Larger ones are cut to it.
    """
    return MAX_DISTANCE // width


def clipped_distance(published: Ints, values: Ints) -> int:
    """Return D, in L1; 1-Lipschitz in `values`, modulo 2^64.

    >>> clipped_distance(np.array([5, -1]), np.array([3, 1]))
    4
    >>> clipped_distance(np.array([2**63 - 1]), np.array([-(2**63)]))
    1
    """
    around = np.abs(published - values).view(np.uint64)  # |-2^63| is itself, which is right without a sign
    return int(np.minimum(around, np.uint64(max_coordinate(len(values)))).sum())


@dataclass(frozen=True)
class FreshErrorBound:
    """The bound of a tick that was published because the noisy distance was large."""

    noise: NoiseSum

    @property
    def stddev(self) -> float:
        return self.noise.stddev

    def half_width(self, confidence: float) -> float:
        return self.noise.half_width(1 - (1 - confidence) * (TEST_FAILURE_DIVISOR - 1) / TEST_FAILURE_DIVISOR)


@dataclass(frozen=True)
class StaleErrorBound:
    """The bound of a tick that repeats an old publication.

    It is at a noisy distance from the truth.
    """

    noisy_distance: int  # the noisy distance of all groups together
    noise: NoiseSum  # of the distance
    max_coordinate: int  # distances of one group are cut here

    @property
    def stddev(self) -> float:
        return nan

    def half_width(self, confidence: float) -> float:
        """Return a bound that only noise below minus its half width breaks.

        That has half the chance of both sides.
        """
        shortfall = Fraction(self.noise.simultaneous_half_width(confidence, TEST_FAILURE_DIVISOR // 2))
        most = max(Fraction(0), self.noisy_distance + shortfall)
        return round_up(most) if most < self.max_coordinate else inf


@dataclass(slots=True)
class State:
    """The memory of a run: past releases and nothing else."""

    tick: int
    last_published: Ints  # noisy: the newest publication
    history: Ints  # public: the parts that publications spent at the last 2 w ticks, the newest last


@dataclass(frozen=True)
class RepublishingMechanism(WEventMechanism[State]):
    """A claim that publishes if data have moved, else repeats the last publication.

    See the module's claim.
    """

    HAS_JOINT_GROUPS: ClassVar[bool] = True

    @property
    @abstractmethod
    def total_parts(self) -> int:
        """The number of parts of the budget for publications."""

    @abstractmethod
    def max_parts(self, history: Ints, tick: int) -> int:
        """Return the most parts that the publication after `tick` ticks may take.

        0 forbids it.
        """

    def to_budget(self, parts: int) -> Fraction:
        return self.epsilon * parts / (2 * self.total_parts)

    def spent_budget(self, state: State) -> Fraction:
        """Return the budget that the last w ticks have spent: at most epsilon.

        It is for distances and publications together.
        """
        looked = self.epsilon * min(state.tick, self.w) / (2 * self.w)
        return looked + self.to_budget(int(state.history[self.w :].sum()))

    @cached_property
    def distance_noise(self) -> DiscreteLaplace:
        """The noise of a distance."""
        return self.build_law(self.epsilon / (2 * self.w))

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return self.build_law(self.to_budget(1))

    def error_bound(self, tick: int) -> ErrorBound:
        """Return the noise of the first tick, the only one that is sure to be published."""
        if self.check_tick(tick) > 1:
            return UnknownErrorBound()
        parts = round_down_to_few_bits(self.max_parts(self._blank_state(1).history, 0))
        return single_draw_noise(self.build_law(self.to_budget(parts)))

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64), np.zeros(2 * self.w, np.int64))

    def step(self, state: State, values: Ints, noise: Noise) -> AdaptiveRelease:
        width = len(values)
        moved = clipped_distance(state.last_published, values) + int(self.distance_noise.draw(noise, 1)[0])
        bar: ErrorBound = StaleErrorBound(moved, single_draw_noise(self.distance_noise), max_coordinate(width))
        parts = round_down_to_few_bits(self.max_parts(state.history, state.tick))
        if state.tick and parts and moved <= width * self.build_law(self.to_budget(parts)).scale:
            parts = 0  # the data moved less than a publication would be off
        if parts:
            law = self.build_law(self.to_budget(parts))
            bar = FreshErrorBound(single_draw_noise(law)) if state.tick else single_draw_noise(law)
            state.last_published = values + law.draw(noise, width)
        state.tick += 1
        state.history = np.append(state.history[1:], parts)
        value = state.last_published.astype(np.float64)
        return AdaptiveRelease(value, value, (bar,))
