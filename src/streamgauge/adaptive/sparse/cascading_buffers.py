"""Cascading buffers: a pan-private running count of few events, rarely updated.

The less there is to count, the more rarely the count is updated.

Each of d levels has an accumulator a, which adds up the stream, and a buffer b, which adds up noisy messages and
decides when to pass on. A value is a message to the first buffer. A buffer that has reached the threshold l, or
has had r^2 messages, is emptied. Its level's accumulator becomes the message to the next buffer, and at the last
level to the count. Every message gets a draw:

    values -> [b1] -> [b2] -> .. -> [bd] -> count        b1 passes on a1, b2 passes on a2, .. with a draw each
              (a1)    (a2)          (ad)                 a buffer that passes on begins again from 0,
                                                         its accumulator from a draw (pan-private)

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases. With
    `pan_private=True` it holds against one unannounced intruder as well, and any number of announced ones.
    Proof, for one number moved by 1 at tick t: all buffers and the count are sums of messages, which also
    decide when they pass on. So let the intruder read the messages. Each is drawn at
    eps' = step_loss/(d + 1). The value at t is in one message by itself and in d accumulators, each of which
    is in one later message. Without an intruder, or with one before t, d + 1 draws of messages, moved by 1,
    hide it. An intruder at t or later has read accumulators: the draw of the value's own message hides it
    there, and the d draws that those accumulators began from hide it in them, so that nothing differs from t
    on. Never both: (d + 1) eps', not (2d + 1) eps'. An announced intrusion adds a draw to each accumulator
    before the hand-over and after it. Of the draws of one accumulator, the next after t hides the value,
    unless the unannounced intruder comes in between, and then the last one before t does.

Error
    The count misses the content of the buffers. `centre` adds the buffers, noisy as they are. It is off by the
    noise of the messages in count and buffers alone, and its bound holds for all data, even if they are chosen
    in view of past releases. `value` adds the part of the buffers beyond their noise: of a sum b under noise
    of variance v, b - v/b, and nothing if b^2 <= v. So it is at most sqrt(v) from the centre, and equals the
    count if nothing has come.
    The number of draws in count and buffers may then depend on all of them. But in the count they are the
    first ever, in the first buffer those of the last ticks, and in any other the first since it was emptied.
    By Levy's inequality, sums of the first (or last) 1, 2, .. N draws all stay below a width that a sum of N
    exceeds with half the chance. Every N = 2^j has a part 1/((j + 1)(j + 2)). Each of the d + 1 sums has an
    even share of beta. Buffers but the first divide theirs among the times that they were filled
    (`chance_divisor`).
    The theorem of the paper: but for exp(-kappa), the count at tick t with n events is off by
    O(d l + sqrt(t)/(eps' r^d) + sqrt(n)/(eps' r)). With kappa = log^2 T, l is so large (35200 for T = 2^20,
    epsilon = 1) that it says next to nothing. With the buffers the error is that of a few draws a level.

Reference
    Dwork: Differential privacy in new settings, SODA 2010, Figure 2, after Dwork, Naor, Pitassi, Rothblum and
    Yekhanin: Pan-private streaming algorithms, ICS 2010. There the loss is (2d + 1) eps', epsilon is met only
    up to a constant, both square roots lack 1/eps', an announced intrusion empties the buffers, and the
    content of the buffers is not published, though it is paid for.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from math import ceil, nan, sqrt
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease, chance_divisor
from streamgauge.adaptive.mechanism import AdaptiveMechanism
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.validation import check_noise, check_settings, check_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.noise.coerce import Floats

NO_EXPONENT = -1  # no draws, or no refills to distinguish


@dataclass(slots=True)
class State:
    """The memory of a run, one column per group.

    There is one row for each level, the first level first.

    `start_ticks` and `draws_inside` count draws: `draws_inside` has a last row for the count.
    """

    tick: int
    accumulators: Ints = field(repr=False)  # exact: since the level passed on; pan-private: noisy
    buffers: Ints  # noisy: the messages since the level passed on
    messages: Ints  # noisy: the number of those
    start_ticks: Ints  # noisy: the draws in each accumulator
    draws_inside: Ints  # noisy: the draws in each buffer, and in the count
    passed_on: Ints  # noisy: the number of times that each level has passed on
    count: Ints  # noisy: the released count


@dataclass(frozen=True, eq=False)
class CascadeErrorBound:
    """The noise of so many draws in each buffer and in the count (d + 1, width)."""

    draws_inside: Ints
    fill_counts: Ints  # the number of times that each buffer was filled (d, width)
    law: DiscreteLaplace

    @property
    def stddev(self) -> float:
        return nan

    def half_width(self, confidence: float) -> Floats:
        """Return the half width. Every part fails with an even share of the chance."""
        kinds = 64 * (binary_exponents(self.draws_inside) + 1)
        kinds[1:-1] += binary_exponents(self.fill_counts[1:]) + 1
        few, places = np.unique(kinds, return_inverse=True)
        widths = np.array([self._half_width_among(int(kind) // 64 - 1, int(kind) % 64 - 1, confidence) for kind in few])
        return np.asarray(widths[places].reshape(kinds.shape).sum(axis=0))

    def _half_width_among(self, j: int, i: int, confidence: float) -> float:
        """Return the width for up to 2^j draws, however that number came about.

        `i` is for a buffer that is filled for the 2^i-th time at most, and NO_EXPONENT for sums that are not refilled.
        """
        if j == NO_EXPONENT:
            return 0.0
        share = len(self.draws_inside) * 2 * (j + 1) * (j + 2) * (1 if i == NO_EXPONENT else chance_divisor(2**i))
        return NoiseSum((Term(2**j, 1, self.law),)).simultaneous_half_width(confidence, share)


def binary_exponents(numbers: Ints) -> Ints:
    """Return the least j with 2^j not below each number; NO_EXPONENT for 0."""
    mantissas, powers = np.frexp(numbers.astype(np.float64))
    return np.where(numbers > 0, powers - (mantissas == 0.5), NO_EXPONENT).astype(np.int64)


def shrink_noise(totals: Ints | Floats, variance: Floats) -> Floats:
    """Return the likely part of a sum beyond its noise: b - v/b, or 0.

    >>> shrink_noise(np.array([-3, 1, 100]), np.array([4.0, 4.0, 4.0])).round(2)
    array([-1.67,  0.  , 99.96])
    """
    sums = totals.astype(np.float64)
    clear = sums**2 > variance
    return np.where(clear, sums - variance / np.where(clear, sums, 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class CascadingBuffers(AdaptiveMechanism[State]):
    """Running counts over at most `horizon` ticks; see the module's claim.

    `levels` is d. Its default updates the count once in the horizon of a silent stream. `ratio` is r. `kappa` is
    log^2 T by default.
    """

    ERROR_DEPENDS_ON: ClassVar[str] = "how often the buffers pass on, and what they contain"
    WINDOWS: ClassVar[tuple[str, ...]] = ("running",)
    OPEN_TICKS_REASON: ClassVar[str] = "the value of an open tick would rest without noise until it is a message"
    pan_private: bool = True
    levels: int = 0
    ratio: int = 2
    kappa: int = 0

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_whole("ratio", self.ratio, least=2)
        if not self.levels:
            enough = (levels for levels in count(1) if self.max_messages**levels >= self.ticks)
            object.__setattr__(self, "levels", next(enough))
        if not self.kappa:
            object.__setattr__(self, "kappa", max(1, (self.ticks - 1).bit_length()) ** 2)
        check_whole("levels", self.levels)
        check_whole("kappa", self.kappa)
        check_noise(self)

    @property
    def ticks(self) -> int:
        """The horizon, without which nothing is claimed."""
        return self.horizon or 1

    @property
    def memberships(self) -> int:
        """The number of draws that hide one value: d + 1."""
        return self.levels + 1

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.memberships / self.step_loss.epsilon)

    @property
    def max_messages(self) -> int:
        """The most messages that a buffer takes."""
        return self.ratio**2

    @cached_property
    def threshold(self) -> int:
        """l = 4 kappa r/eps', rounded up."""
        return ceil(4 * self.kappa * self.ratio * self.distribution.scale)

    def theorem_bound(self, tick: int, events: int) -> float:
        """Return the bound of the theorem, without its constant."""
        scale, r = float(self.distribution.scale), self.ratio
        rarely = sqrt(self.check_tick(tick)) / r**self.levels + sqrt(events) / r
        return float(self.levels * self.threshold + scale * rarely)

    def initial(self, width: int, noise: Noise) -> State:
        buffers, messages, began, passed = (np.zeros((self.levels, width), np.int64) for _ in range(4))
        inside, count = np.zeros((self.levels + 1, width), np.int64), np.zeros(width, np.int64)
        accumulators = self._draw_accumulators(self.levels, width, noise)
        began += int(self.pan_private)
        return State(0, accumulators, buffers, messages, began, inside, passed, count)

    def _draw_accumulators(self, rows: int, width: int, noise: Noise) -> Ints:
        """Return the initial values of accumulators."""
        if self.pan_private:
            return draw_rows(self.distribution, noise, rows, width)
        return np.zeros((rows, width), np.int64)

    def step(self, state: State, values: Ints, noise: Noise) -> AdaptiveRelease:
        """Draw for those groups alone that pass on.

        Messages decide which groups these are.
        """
        state.tick += 1
        state.accumulators += values
        groups = np.arange(len(values))
        message, draws = values, np.zeros(len(values), np.int64)
        for level in range(self.levels):
            state.buffers[level, groups] += message + self.distribution.draw(noise, len(groups))
            state.messages[level, groups] += 1
            state.draws_inside[level, groups] += draws + 1
            high = state.buffers[level, groups] >= self.threshold
            groups = groups[high | (state.messages[level, groups] >= self.max_messages)]
            message, draws = state.accumulators[level, groups], state.start_ticks[level, groups]
            self._begin_buffers(state, level, groups, noise)
        state.count[groups] += message + self.distribution.draw(noise, len(groups))
        state.draws_inside[-1, groups] += draws + 1
        buffered = state.buffers.sum(axis=0)
        value = state.count + shrink_noise(buffered, state.draws_inside[:-1].sum(axis=0) * self.distribution.variance)
        bar = CascadeErrorBound(state.draws_inside.copy(), state.passed_on + 1, self.distribution)
        return AdaptiveRelease(value, (state.count + buffered).astype(np.float64), (bar,))

    def _begin_buffers(self, state: State, level: int, groups: Ints, noise: Noise) -> None:
        state.accumulators[level, groups] = self._draw_accumulators(1, len(groups), noise)[0]
        state.start_ticks[level, groups] = int(self.pan_private)
        state.buffers[level, groups] = state.messages[level, groups] = state.draws_inside[level, groups] = 0
        state.passed_on[level, groups] += 1

    def error_bound(self, tick: int) -> CascadeErrorBound:
        """Return the bound with the most draws.

        The count is updated at every tick, and buffers are as full as they get.
        """
        each = 1 + int(self.pan_private)
        inside = np.full((self.levels + 1, 1), each * (self.max_messages - 1))
        inside[0], inside[-1] = self.max_messages - 1, each * self.check_tick(tick)
        return CascadeErrorBound(inside, np.full((self.levels, 1), tick), self.distribution)

    def intrude(self, state: State, noise: Noise) -> State:
        """Add a fresh draw to every accumulator, return a copy, and add fresh draws again."""
        if not self.pan_private:
            return super().intrude(state, noise)
        self._rerandomize(state, noise)
        handed_over = deepcopy(state)
        self._rerandomize(state, noise)
        return handed_over

    def _rerandomize(self, state: State, noise: Noise) -> None:
        state.accumulators += draw_rows(self.distribution, noise, *state.accumulators.shape)
        state.start_ticks += 1
