"""Private-partition counter: a sparse vector cuts, a tree counts.

The stream is cut into segments where it moves. A test compares the sum since the last cut with a threshold, both
under noise. If it fires, the segment ends with that tick, and its sum enters a tree of p-sums over segments. A new
test begins with the next tick, from 0 and with its own threshold noise:

    0 0 1 0 0 2 0 1 | 0 0 0 0 0 0 3 1 | 0 0 1 ..      segments: the noisy sum has passed the threshold
    [   segment 1   ] [   segment 2   ]   open        the release repeats until the next one ends

So noise comes with segments, not with ticks: with few events there are few of either.

The tree is as in `continual.trees.tree`, but each group has its own segment. Level i has blocks of k^i
segments. A block's p-sum is released under one draw when its last segment ends. The digits of m in base k, the top
one open, are the numbers of blocks of each level that tile the first m segments. The memory has, for each level,
the noise in the release at the last multiple of k^i. The index m is the group's own: groups end segments at
different ticks.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks, the thresholds and
    the ends of each group's segments are public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases.
    Proof, for one number moved by 1 at tick t and eps = `step_loss`: with the cuts given, t is in one segment,
    hence in one test and one leaf of the tree. One segment is in one block of each of the h levels at most. So
    a sum that moves by 1 moves h p-sums by 1 each, for a loss of h/scale = (1 - split) eps. The test
    fires if q + v >= threshold + r, with q the sum since the cut, r drawn once a segment, v once a tick.
    All q from t on, the one that fires too, move by the same 1. Up: r + 1 hides it, as tests that were silent
    before t stay silent, and those from t on are as they were. Down: silent tests stay silent, and v + 1 at
    the tick that fired hides it. Never both, so that Lap(1/(split eps)) for r and v loses split eps.
    With `signed` a second test with its own r and v compares the sum with minus the threshold. For a move up,
    the first needs r + 1, and if the second fired it needs v + 1: both, so that the scale is twice that.
    Values first pass `fold_counts` to +-2^62. Without `signed` they are then raised to 0. For the test alone
    they are clipped to 2^40, so that its sums do not leave 64 bits. These are fixed functions of one value
    each, which move by at most 1 if that does, also where 64 bits wrap around.

Error
    Between cuts a release misses the sum of the open segment. It is only known that the test has not fired,
    which bounds the sum by the threshold and the noise of two draws. `centre` and its bound state that.
    The threshold is such that the test of a silent stream fires at one tick or so until the horizon (without
    one, until the next power of two): about (ln T + ln ln T)/(split eps), twice that if `signed`.
    The tree is unbiased. Its variance after m segments is that of one draw times the sum of the digits of m.
    With few segments one level is best. k and h are fitted to a number of segments, and are valid for more.
    The bound holds even if values are chosen in view of past releases. The number of ended segments, and
    whether this tick has ended one, may then depend on all noise so far. So half of beta is for the noise of
    the p-sums after any number of segments, and half for the test in any segment, used or not. Of both
    halves the i-th segment has its part (`chance_divisor`), and the parts add up to 1.

Reference
    Dwork, Naor, Reingold, Rothblum: Pure differential privacy for rectangle queries via private partitions,
    ASIACRYPT 2015, for the idea. The general sparse vector has noise of 2/eps' and 4/eps', eps' = split eps.
    Here one event moves all sums in the same direction, and 1/eps' is enough. The tree is k-ary with its top
    left open, and fitted to the expected segments, not to T. No value need be positive.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import nan
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease, chance_divisor
from streamgauge.adaptive.mechanism import AdaptiveMechanism
from streamgauge.adaptive.pegasus.grouper import fold_counts
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.trees.kary import MAX_BRANCHING, least_levels
from streamgauge.continual.trees.tree import sum_digits
from streamgauge.continual.validation import check_noise, check_settings, check_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.noise.coerce import Bools, Floats, as_fraction


@dataclass(frozen=True)
class SegmentTreeShape:
    """The branching k and the number of levels h of a tree."""

    branching: int
    levels: int

    def digit_sums(self, ended: Ints) -> Ints:
        """Return the number of p-sums that tile so many segments, group by group."""
        total, left = np.zeros_like(ended), ended
        for _ in range(self.levels - 1):
            left, digit = np.divmod(left, self.branching)
            total += digit
        return total + left

    def max_digit_sum(self, ended: int) -> int:
        """Return at least the sum of the digits of any number up to this one."""
        below = min(ended, (self.levels - 1) * (self.branching - 1))
        return below + ended // int(self.branching ** (self.levels - 1))

    def mean_digit_sum(self, ended: int) -> float:
        """Return the sum of the digits, averaged over 1 to `ended`."""
        totals = (sum_digits(ended, self.branching, level, self.levels) for level in range(self.levels))
        return sum(totals) / max(1, ended)


@dataclass(frozen=True)
class SegmentTree:
    """The tree of one claim.

    Its state is `entries` (h, width), pure noise, and `ended` (width,), public.
    """

    shape: SegmentTreeShape
    distribution: DiscreteLaplace

    def end_segments(self, entries: Ints, ended: Ints, groups: Ints, noise: Noise) -> Ints:
        """End a segment of each of these groups; return the noise in their releases."""
        ended[groups] += 1
        level = np.zeros_like(groups)  # of the block that ends with this segment
        for i in range(1, self.shape.levels):
            level += ended[groups] % self.shape.branching**i == 0
        release: Ints = entries[level, groups] + self.distribution.draw(noise, len(groups))
        for i in range(self.shape.levels):
            covered = level >= i
            entries[i, groups[covered]] = release[covered]
        return release


@lru_cache(maxsize=64)
def fit_shape(segments: int) -> SegmentTreeShape:
    """Return the shape of least mean variance over so many segments.

    >>> fit_shape(32), fit_shape(1000)
    (SegmentTreeShape(branching=2, levels=1), SegmentTreeShape(branching=10, levels=3))
    """
    shapes = [SegmentTreeShape(2, 1)]
    for k in range(2, min(MAX_BRANCHING, segments) + 1):
        shapes += [SegmentTreeShape(k, h) for h in range(2, least_levels(k, segments) + 1)]
    return min(shapes, key=lambda shape: shape.levels**2 * shape.mean_digit_sum(segments))


MAX_VALUE = 2**62  # of one tick's value
MAX_TESTED_VALUE = 2**40  # of one tick's value, in the test alone
MAX_THRESHOLD = 2**38  # thresholds that every clipped value passes


@dataclass(slots=True)
class State:
    """The memory of a run, one column per group; `margins` has a row for each test."""

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far
    open_sum: Ints = field(repr=False)  # exact: the sum since the last cut
    margins: Ints = field(repr=False)  # noise alone: that of the thresholds
    entries: Ints = field(repr=False)  # noise alone: in the release at the last multiple of k^i segments
    released_sum: Ints  # noisy: the release of the last cut
    ended_segments: Ints  # public: the number of segments that have ended


@dataclass(frozen=True, eq=False)
class SegmentErrorBound:
    """The noise of so many p-sums, and the bound of an open sum.

    The latter is for groups that wait for a cut.
    """

    draws: Ints
    ordinal: Ints  # of the open segment
    is_waiting: Bools
    threshold: float  # of a test without noise, to either side of the centre
    tree: DiscreteLaplace
    test: DiscreteLaplace
    tests: int

    @property
    def stddev(self) -> Floats:
        variance = np.where(self.is_waiting, nan, self.draws * self.tree.variance)
        return np.asarray(np.sqrt(variance))

    def half_width(self, confidence: float) -> Floats:
        """Return one width for all groups at the same segment, more for those that wait.

        Half of the chance to miss is for the noise after the last ended segment. The other half is for the
        open segment: all of it for one side of each test.
        """
        _, first, places = np.unique(self.ordinal, return_index=True, return_inverse=True)
        pair = NoiseSum((Term(2, 1, self.test),))
        noise, open_sums = np.zeros(len(first)), np.zeros(len(first))
        for row, at in enumerate(first):
            ordinal, p_sums = int(self.ordinal[at]), NoiseSum((Term(int(self.draws[at]), 1, self.tree),))
            noise[row] = p_sums.simultaneous_half_width(confidence, 2 * chance_divisor(max(1, ordinal - 1)))
            open_sums[row] = pair.simultaneous_half_width(confidence, chance_divisor(ordinal) * self.tests)
        return np.asarray(noise[places] + np.where(self.is_waiting, self.threshold + open_sums[places], 0.0))


@dataclass(frozen=True, kw_only=True)
class SparseCounter(AdaptiveMechanism[State]):
    """Running counts of few events; see the module's claim.

    Without `signed`, values below 0 count as 0. The tree is fitted to `segments`.
    """

    EXACT_MEMORY: ClassVar[str] = "the sum of all ticks and that of the open segment rest in memory"
    ERROR_DEPENDS_ON: ClassVar[str] = "the number of segments of the stream, and the sum of the open one"
    WINDOWS: ClassVar[tuple[str, ...]] = ("running",)
    split: Fraction = Fraction(1, 2)
    threshold: int | None = None
    segments: int = 32
    signed: bool = True

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        object.__setattr__(self, "split", as_fraction("split", self.split))
        if not 0 < self.split < 1:
            raise ValueError(f"split must be above 0 and below 1, got {self.split}")
        check_whole("segments", self.segments)
        if self.threshold is not None:
            check_whole("threshold", self.threshold)
        check_noise(self)
        farthest = max(self.threshold or 0, quiet_threshold(self.test_noise, self.horizon or 2**62))
        if farthest > MAX_THRESHOLD:
            raise ValueError(f"threshold must be at most 2**38, got {farthest}")

    @property
    def test_count(self) -> int:
        return 2 if self.signed else 1

    @cached_property
    def test_noise(self) -> DiscreteLaplace:
        """The noise of a threshold, and of one comparison."""
        return DiscreteLaplace(self.test_count / (self.split * self.step_loss.epsilon))

    @cached_property
    def shape(self) -> SegmentTreeShape:
        return fit_shape(self.segments)

    @cached_property
    def tree(self) -> SegmentTree:
        scale = self.shape.levels / ((1 - self.split) * self.step_loss.epsilon)
        return SegmentTree(self.shape, DiscreteLaplace(scale))

    @property
    def distribution(self) -> DiscreteLaplace:
        return max(self.test_noise, self.tree.distribution, key=lambda law: law.scale)

    def threshold_at(self, tick: int) -> int:
        """Return the threshold, from the settings and the tick alone."""
        if self.threshold is not None:
            return self.threshold
        return quiet_threshold(self.test_noise, self.horizon or 1 << tick.bit_length())

    def initial(self, width: int, noise: Noise) -> State:
        total, open_sum, released, ended = (np.zeros(width, np.int64) for _ in range(4))
        margins = draw_rows(self.test_noise, noise, self.test_count, width)
        entries = np.zeros((self.shape.levels, width), np.int64)
        return State(0, total, open_sum, margins, entries, released, ended)

    def step(self, state: State, values: Ints, noise: Noise) -> AdaptiveRelease:
        state.tick += 1
        counts = self._clip_values(values)
        state.total += counts
        state.open_sum += np.clip(counts, -MAX_TESTED_VALUE, MAX_TESTED_VALUE)
        fired = self._run_tests(state, noise)
        self._end_segments(state, np.flatnonzero(fired), noise)
        return self._build_release(state, ~fired)

    def _clip_values(self, values: Ints) -> Ints:
        """Return the counts of values: each by itself, and neighbours as neighbours."""
        counts = fold_counts(values, MAX_VALUE)
        return counts if self.signed else np.maximum(counts, 0)

    def _run_tests(self, state: State, noise: Noise) -> Bools:
        """Return the groups whose test fires.

        Draws are for all groups at every tick, for any sums.
        """
        draws = draw_rows(self.test_noise, noise, self.test_count, len(state.open_sum))
        sums = np.stack([state.open_sum, -state.open_sum][: self.test_count])
        fired: Bools = np.logical_or.reduce(sums + draws - state.margins >= self.threshold_at(state.tick))
        return fired

    def _end_segments(self, state: State, groups: Ints, noise: Noise) -> None:
        """End the segments of these groups, and begin new ones. The groups are released."""
        inside = self.tree.end_segments(state.entries, state.ended_segments, groups, noise)
        state.released_sum[groups] = state.total[groups] + inside
        state.open_sum[groups] = 0
        state.margins[:, groups] = draw_rows(self.test_noise, noise, self.test_count, len(groups))

    def _build_release(self, state: State, waiting: Bools) -> AdaptiveRelease:
        value, ended = state.released_sum.astype(np.float64), state.ended_segments
        threshold = self.threshold_at(state.tick)
        bar = self.build_error_bound(self.shape.digit_sums(ended), ended + 1, waiting, threshold)
        if self.signed:
            return AdaptiveRelease(value, value, (bar,))
        return AdaptiveRelease(value, value + waiting * (threshold / 2), (bar,), 0.0)

    def build_error_bound(self, draws: Ints, ordinal: Ints, waiting: Bools, threshold: int) -> SegmentErrorBound:
        passed = threshold if self.signed else threshold / 2
        laws = self.tree.distribution, self.test_noise
        return SegmentErrorBound(draws, ordinal, waiting, passed, *laws, self.test_count)

    def error_bound(self, tick: int) -> SegmentErrorBound:
        """Return the bound with as many segments as there can be: one a tick."""
        most, ordinal = self.shape.max_digit_sum(self.check_tick(tick)), np.array([tick + 1])
        return self.build_error_bound(np.array([most]), ordinal, np.array([True]), self.threshold_at(tick))


@lru_cache(maxsize=256)
def quiet_threshold(test: DiscreteLaplace, ticks: int) -> int:
    """Return a threshold that noise exceeds once in 2 `ticks` ticks, at most.

    The noise is that of a comparison and a threshold.
    """
    return int(NoiseSum((Term(2, 1, test),)).simultaneous_half_width(0.0, ticks)) + 1
