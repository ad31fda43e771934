"""Cascading buffers: a pan-private running count that is updated the more rarely the less there is to count.

Each of d levels has an accumulator a, which adds up the stream, and a buffer b, which adds up noisy messages
and decides when to pass on. A value is a message to the first buffer; a buffer that has reached the
threshold l, or has had r^2 messages, is emptied, and its level's accumulator becomes the message to the next,
and at the last level to the count. Every message gets a draw:

    values -> [b1] -> [b2] -> .. -> [bd] -> count        b1 passes on a1, b2 passes on a2, .. with a draw each
              (a1)    (a2)          (ad)                 a buffer that passes on begins again from 0,
                                                         its accumulator from a draw (pan-private)

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases; with
    `pan_private=True` against one unannounced intruder as well, and any number of announced ones.
    Proof, for one number moved by 1 at tick t: all buffers and the count are sums of messages, and when
    they pass on follows from those; so let the messages be seen. Each is drawn at eps' = share/(d + 1). The
    value at t is in one message by itself and in d accumulators, each of which is in one later message: no
    intruder, or one before t, and d + 1 draws of messages, moved by 1, hide it. An intruder at t or later
    has seen accumulators: the draw of the value's own message hides it there, and the d draws that those
    accumulators began from hide it in them, so that nothing differs from t on. Never both: (d + 1) eps', not
    (2d + 1) eps'. An announced intrusion stirs a draw into each accumulator before the hand-over and after
    it: of the draws of one accumulator, the next after t hides the value, unless the unannounced intruder
    comes in between, and then the last one before t does.

Error
    The count misses what the buffers hold. `centre` adds the buffers, noisy as they are: it is off by the
    noise of the messages in count and buffers alone, and its bar holds whatever the data, be they chosen in
    view of past releases. `value` adds of the buffers what is beyond their noise: of a sum b under noise of
    variance v, b - v/b, and nothing if b^2 <= v. So it is within sqrt(v) of the centre, and the count where
    nothing has come. How many draws are in count and buffers may then depend on all of
    them. But in the count they are the first ever, in the first buffer those of the last ticks, and in any
    other the first since it was emptied: by Levy's inequality, sums of the first (or last) 1, 2, .. N
    draws all stay below what a sum of N exceeds with half the chance; every N = 2^j has a part
    1/((j + 1)(j + 2)). Each of the d + 1 has an even share of beta, and buffers but the first part theirs
    among the times that they were filled (`parts`).
    The theorem of the paper: but for exp(-kappa), the count at tick t with n events is off by
    O(d l + sqrt(t)/(eps' r^d) + sqrt(n)/(eps' r)). With kappa = log^2 T, l is so large (35200 for T = 2^20,
    epsilon = 1) that it says next to nothing; with the buffers the error is that of a few draws a level.

Reference
    Dwork: Differential privacy in new settings, SODA 2010, Figure 2, after Dwork, Naor, Pitassi, Rothblum and
    Yekhanin: Pan-private streaming algorithms, ICS 2010. There the loss is (2d + 1) eps', epsilon is met only
    up to a constant, both square roots lack 1/eps', an announced intrusion empties the buffers, and nothing
    is published of what they hold, though it is paid for.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import ceil, nan, sqrt
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.adaptive import Adaptive
from streamgauge.adaptive.bars import parts
from streamgauge.adaptive.released import Released
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.settings import check_noise, check_settings, check_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.noise.numbers import Floats

NONE = -1  # no draws, or no times to tell apart


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; a row for each level, the first is the first level's.

    `began` and `inside` count draws: `inside` has a last row for the count.
    """

    tick: int
    accumulators: Ints = field(repr=False)  # exact: since the level passed on; pan-private: noisy
    buffers: Ints  # noisy: the messages since the level passed on
    messages: Ints  # noisy: how many those are
    began: Ints  # noisy: the draws in each accumulator
    inside: Ints  # noisy: the draws in each buffer, and in the count
    passed: Ints  # noisy: how often each level has passed on
    count: Ints  # noisy: what is released


@dataclass(frozen=True, eq=False)
class CascadeBar:
    """The noise of so many draws in each buffer and in the count (d + 1, width)."""

    inside: Ints
    filled: Ints  # for which time each buffer is filled (d, width)
    law: DiscreteLaplace

    @property
    def stddev(self) -> float:
        return nan

    def half_width(self, confidence: float) -> Floats:
        """Every part fails with an even share of the chance."""
        kinds = 64 * (exponents(self.inside) + 1)
        kinds[1:-1] += exponents(self.filled[1:]) + 1
        few, places = np.unique(kinds, return_inverse=True)
        widths = np.array([self._among(int(kind) // 64 - 1, int(kind) % 64 - 1, confidence) for kind in few])
        return np.asarray(widths[places].reshape(kinds.shape).sum(axis=0))

    def _among(self, j: int, i: int, confidence: float) -> float:
        """Of up to 2^j draws, however that number came about; in a buffer that is filled for the 2^i-th time
        at most, if that must be told."""
        if j == NONE:
            return 0.0
        share = len(self.inside) * 2 * (j + 1) * (j + 2) * (1 if i == NONE else parts(2**i))
        return NoiseSum((Term(2**j, 1, self.law),)).simultaneous(confidence, share)


def exponents(numbers: Ints) -> Ints:
    """The least j with 2^j not below each number; NONE for 0."""
    mantissas, powers = np.frexp(numbers.astype(np.float64))
    return np.where(numbers > 0, powers - (mantissas == 0.5), NONE).astype(np.int64)


def beyond_noise(held: Ints | Floats, variance: Floats) -> Floats:
    """What a sum is likely to have beyond its noise: b - v/b, of the same sign, or nothing.

    >>> beyond_noise(np.array([-3, 1, 100]), np.array([4.0, 4.0, 4.0])).round(2)
    array([-1.67,  0.  , 99.96])
    """
    sums = held.astype(np.float64)
    clear = sums**2 > variance
    return np.where(clear, sums - variance / np.where(clear, sums, 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class CascadingBuffers(Adaptive[State]):
    """Running counts over at most `horizon` ticks; see the module's claim.

    `levels` is d, as many as it takes to update the count once in the horizon of a silent stream unless
    given; `ratio` is r; `kappa` is log^2 T unless given.
    """

    DEPENDS: ClassVar[str] = "how often the buffers pass on, and what they hold"
    WINDOWS: ClassVar[tuple[str, ...]] = ("running",)
    pan_private: bool = True
    levels: int = 0
    ratio: int = 2
    kappa: int = 0

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_whole("ratio", self.ratio, least=2)
        if not self.levels:
            object.__setattr__(self, "levels", self._enough_levels())
        if not self.kappa:
            object.__setattr__(self, "kappa", max(1, (self.ticks - 1).bit_length()) ** 2)
        check_whole("levels", self.levels)
        check_whole("kappa", self.kappa)
        check_noise(self)

    @property
    def ticks(self) -> int:
        """The horizon, without which nothing is claimed."""
        return self.horizon or 1

    def _enough_levels(self) -> int:
        levels = 1
        while self.patience**levels < self.ticks:
            levels += 1
        return levels

    @property
    def memberships(self) -> int:
        """How many draws hide one value: d + 1."""
        return self.levels + 1

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.memberships / self.share.epsilon)

    @property
    def patience(self) -> int:
        """How many messages a buffer takes, at most."""
        return self.ratio**2

    @cached_property
    def threshold(self) -> int:
        """l = 4 kappa r/eps', rounded up."""
        return ceil(4 * self.kappa * self.ratio * self.distribution.scale)

    def theorem(self, tick: int, events: int) -> float:
        """The bound of the theorem, without its constant."""
        scale, r = float(self.distribution.scale), self.ratio
        rarely = sqrt(self.checked(tick)) / r**self.levels + sqrt(events) / r
        return float(self.levels * self.threshold + scale * rarely)

    def initial(self, width: int, noise: Noise) -> State:
        buffers, messages, began, passed = (np.zeros((self.levels, width), np.int64) for _ in range(4))
        inside, count = np.zeros((self.levels + 1, width), np.int64), np.zeros(width, np.int64)
        accumulators = self._fresh(self.levels, width, noise)
        began += int(self.pan_private)
        return State(0, accumulators, buffers, messages, began, inside, passed, count)

    def _fresh(self, rows: int, width: int, noise: Noise) -> Ints:
        """What accumulators begin from."""
        if self.pan_private:
            return draw_rows(self.distribution, noise, rows, width)
        return np.zeros((rows, width), np.int64)

    def step(self, state: State, values: Ints, noise: Noise) -> Released:
        """Draws for those groups alone that pass on: which they are follows from messages."""
        state.tick += 1
        state.accumulators += values
        groups = np.arange(len(values))
        message, draws = values, np.zeros(len(values), np.int64)
        for level in range(self.levels):
            self._take(state, level, groups, message + self.distribution.draw(noise, len(groups)))
            state.inside[level, groups] += draws + 1
            groups = groups[self._full(state, level, groups)]
            message, draws = state.accumulators[level, groups], state.began[level, groups]
            self._begin(state, level, groups, noise)
        state.count[groups] += message + self.distribution.draw(noise, len(groups))
        state.inside[-1, groups] += draws + 1
        return self._released(state)

    def _take(self, state: State, level: int, groups: Ints, message: Ints) -> None:
        state.buffers[level, groups] += message
        state.messages[level, groups] += 1

    def _full(self, state: State, level: int, groups: Ints) -> Ints:
        """Where a buffer is to pass on, among these groups."""
        high = state.buffers[level, groups] >= self.threshold
        return np.flatnonzero(high | (state.messages[level, groups] >= self.patience))

    def _begin(self, state: State, level: int, groups: Ints, noise: Noise) -> None:
        state.accumulators[level, groups] = self._fresh(1, len(groups), noise)[0]
        state.began[level, groups] = int(self.pan_private)
        state.buffers[level, groups] = state.messages[level, groups] = state.inside[level, groups] = 0
        state.passed[level, groups] += 1

    def _released(self, state: State) -> Released:
        held = state.buffers.sum(axis=0)
        value = state.count + beyond_noise(held, state.inside[:-1].sum(axis=0) * self.distribution.variance)
        bar = CascadeBar(state.inside.copy(), state.passed + 1, self.distribution)
        return Released(value, (state.count + held).astype(np.float64), (bar,))

    def bar(self, tick: int) -> CascadeBar:
        """With an update of the count at every tick, and buffers as full as they get."""
        each = 1 + int(self.pan_private)
        inside = np.full((self.levels + 1, 1), each * (self.patience - 1))
        inside[0], inside[-1] = self.patience - 1, each * self.checked(tick)
        return CascadeBar(inside, np.full((self.levels, 1), tick), self.distribution)

    def intrude(self, state: State, noise: Noise) -> State:
        """Stirs, hands over a copy, stirs again."""
        if not self.pan_private:
            return super().intrude(state, noise)
        stir = partial(self._stir, state, noise)
        stir()
        seen = deepcopy(state)
        stir()
        return seen

    def _stir(self, state: State, noise: Noise) -> None:
        """A fresh draw into every accumulator."""
        state.accumulators += draw_rows(self.distribution, noise, *state.accumulators.shape)
        state.began += 1
