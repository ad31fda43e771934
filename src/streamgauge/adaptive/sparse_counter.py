"""The private-partition counter: a sparse vector decides when to look, a tree counts what was seen.

The stream is cut into segments where it moves. A test compares the sum since the last cut with a threshold,
both under noise; where it fires, the segment ends with that tick, its sum goes into a tree of p-sums over
segments, and a new test begins with the next tick, from 0 and with a threshold noise of its own:

    0 0 1 0 0 2 0 1 | 0 0 0 0 0 0 3 1 | 0 0 1 ..      segments, where the noisy sum has passed the threshold
    [   segment 1   ] [   segment 2   ]   open        the release repeats until the next one ends

So noise comes with segments, not with ticks: with few events there are few of either.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks, the thresholds and
    when each group's segments end are public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases.
    Proof, for one number moved by 1 at tick t and eps = `share`: with the cuts given, t is in one segment,
    hence in one test and one leaf of the tree. The tree loses (1 - split) eps (see `segment_tree`). The test
    fires where q + v >= threshold + r, with q the sum since the cut, r drawn once a segment, v once a tick.
    All q from t on, the one that fires too, move by the same 1. Up: r + 1 hides it, as tests that were silent
    before t stay silent, and those from t on are as they were. Down: silent tests stay silent, and v + 1 at
    the tick that fired hides it. Never both, so that Lap(1/(split eps)) for r and v loses split eps.
    With `signed` a second test with its own r and v asks whether the sum is as far below 0. Of a move up,
    the first needs r + 1, and if the second fired it needs v + 1: both, so that the scale is twice that.
    Values are first `folded` to +-2^62, without `signed` then raised to 0, and for the test alone clipped to
    2^40, so that its sums do not leave 64 bits: fixed functions of one value each, which move by at most 1 if
    that does, also where 64 bits wrap around.

Error
    Between cuts a release misses what the open segment holds: of that, nothing is known but that the test
    has not fired, which bounds it by the threshold and the noise of two draws; `centre` and its bar say so.
    The threshold is such that the test of a silent stream fires at one tick or so until the horizon (without
    one, until the next power of two): about (ln T + ln ln T)/(split eps), twice that if `signed`.
    The bar holds even if values are chosen in view of past releases. How many segments have ended, and
    whether this tick has ended one, may then depend on all noise so far; so half of beta is for the noise of
    the p-sums after any number of segments, and half for the test in any segment, be it used or not. Of both
    halves the i-th segment has its part (`parts`), and the parts add up to 1.

Reference
    Dwork, Naor, Reingold, Rothblum: Pure differential privacy for rectangle queries via private partitions,
    ASIACRYPT 2015, for the idea. The general sparse vector has noise of 2/eps' and 4/eps', eps' = split eps;
    here one event moves all sums the same way, and 1/eps' is enough. The tree is k-ary with its top left
    open, and fitted to the segments expected, not to T; no value need be positive.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import nan
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.adaptive import Adaptive
from streamgauge.adaptive.bars import parts
from streamgauge.adaptive.folding import folded
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.segment_tree import SegmentTree, Shape, fitted
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.settings import check_noise, check_settings, check_whole
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum, Term
from streamgauge.noise.numbers import Bools, Floats, rational

LIMIT = 2**62  # of one tick's value
CLIP = 2**40  # of one tick's value, in the test alone
HIGHEST = 2**38  # thresholds that every clipped value passes


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; `margins` has a row for each test."""

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far
    open: Ints = field(repr=False)  # exact: the sum since the last cut
    margins: Ints = field(repr=False)  # noise alone: that of the thresholds
    entries: Ints = field(repr=False)  # noise alone: in the release at the last multiple of k^i segments
    released: Ints  # noisy: the release of the last cut
    ended: Ints  # public: how many segments


@dataclass(frozen=True, eq=False)
class SegmentBar:
    """The noise of so many p-sums, and of groups that wait for a cut what their test has let pass."""

    draws: Ints
    ordinal: Ints  # of the open segment
    waiting: Bools
    passed: float  # that a test without noise lets pass, to either side of the centre
    tree: DiscreteLaplace
    test: DiscreteLaplace
    tests: int

    @property
    def stddev(self) -> Floats:
        variance = np.where(self.waiting, nan, self.draws * self.tree.variance)
        return np.asarray(np.sqrt(variance))

    def half_width(self, confidence: float) -> Floats:
        """Groups at the same segment have the same, but for what those that wait have besides."""
        _, first, places = np.unique(self.ordinal, return_index=True, return_inverse=True)
        few = [(int(self.draws[at]), int(self.ordinal[at])) for at in first]
        noise = np.array([self._p_sums(*each, confidence) for each in few])[places]
        held = np.array([self._held(ordinal, confidence) for _, ordinal in few])[places]
        return np.asarray(noise + np.where(self.waiting, held, 0.0))

    def _p_sums(self, draws: int, ordinal: int, confidence: float) -> float:
        """How far the noise after the last segment that has ended may be off; half of the chance to miss."""
        return NoiseSum((Term(draws, 1, self.tree),)).simultaneous(confidence, 2 * parts(max(1, ordinal - 1)))

    def _held(self, ordinal: int, confidence: float) -> float:
        """What the open segment may hold; the other half, and all of it for one side of each test."""
        pair = NoiseSum((Term(2, 1, self.test),))
        return self.passed + pair.simultaneous(confidence, parts(ordinal) * self.tests)


@dataclass(frozen=True, kw_only=True)
class SparseCounter(Adaptive[State]):
    """Running counts of few events; see the module's claim.

    Without `signed`, values below 0 count as 0. `segments` is what the tree is fitted to.
    """

    RESTS_EXACT: ClassVar[str] = "the sum of all ticks and that of the open segment rest in memory"
    DEPENDS: ClassVar[str] = "how many segments the stream is cut into, and what the open one holds"
    WINDOWS: ClassVar[tuple[str, ...]] = ("running",)
    split: Fraction = Fraction(1, 2)
    threshold: int | None = None
    segments: int = 32
    signed: bool = True

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        object.__setattr__(self, "split", rational("split", self.split))
        if not 0 < self.split < 1:
            raise ValueError(f"split must be above 0 and below 1, got {self.split}")
        check_whole("segments", self.segments)
        if self.threshold is not None:
            check_whole("threshold", self.threshold)
        check_noise(self)
        farthest = max(self.threshold or 0, quiet(self.test, self.horizon or 2**62))
        if farthest > HIGHEST:
            raise ValueError(f"threshold must be at most 2**38, got {farthest}")

    @property
    def tests(self) -> int:
        return 2 if self.signed else 1

    @cached_property
    def test(self) -> DiscreteLaplace:
        """The noise of a threshold, and of one comparison."""
        return DiscreteLaplace(self.tests / (self.split * self.share.epsilon))

    @cached_property
    def shape(self) -> Shape:
        return fitted(self.segments)

    @cached_property
    def tree(self) -> SegmentTree:
        scale = self.shape.levels / ((1 - self.split) * self.share.epsilon)
        return SegmentTree(self.shape, DiscreteLaplace(scale))

    @property
    def distribution(self) -> DiscreteLaplace:
        return max(self.test, self.tree.distribution, key=lambda law: law.scale)

    def threshold_at(self, tick: int) -> int:
        """What the sum since the cut is compared with: from the settings and the tick alone."""
        if self.threshold is not None:
            return self.threshold
        return quiet(self.test, self.horizon or 1 << tick.bit_length())

    def initial(self, width: int, noise: Noise) -> State:
        total, still, released, ended = (np.zeros(width, np.int64) for _ in range(4))
        margins = draw_rows(self.test, noise, self.tests, width)
        return State(0, total, still, margins, self._no_entries(width), released, ended)

    def _no_entries(self, width: int) -> Ints:
        return np.zeros((self.shape.levels, width), np.int64)

    def step(self, state: State, values: Ints, noise: Noise) -> Released:
        state.tick += 1
        counted = self._counted(values)
        state.total += counted
        state.open += np.clip(counted, -CLIP, CLIP)
        fired = self._fired(state, noise)
        self._cut(state, np.flatnonzero(fired), noise)
        return self._released(state, ~fired)

    def _counted(self, values: Ints) -> Ints:
        """What values count as: each by itself, and neighbours as neighbours."""
        turned = folded(values, LIMIT)
        return turned if self.signed else np.maximum(turned, 0)

    def _fired(self, state: State, noise: Noise) -> Bools:
        """Draws for all groups at every tick, whatever their sums are."""
        draws = draw_rows(self.test, noise, self.tests, len(state.open))
        sums = np.stack([state.open, -state.open][: self.tests])
        fired: Bools = np.logical_or.reduce(sums + draws - state.margins >= self.threshold_at(state.tick))
        return fired

    def _cut(self, state: State, groups: Ints, noise: Noise) -> None:
        """Ends the segments of these groups, and begins new ones; which they are is released."""
        inside = self.tree.end(state.entries, state.ended, groups, noise)
        state.released[groups] = state.total[groups] + inside
        state.open[groups] = 0
        state.margins[:, groups] = draw_rows(self.test, noise, self.tests, len(groups))

    def _released(self, state: State, waiting: Bools) -> Released:
        value = state.released.astype(np.float64)
        threshold = self.threshold_at(state.tick)
        bar = self._bar(self.shape.digits(state.ended), state.ended + 1, waiting, threshold)
        if self.signed:
            return Released(value, value, (bar,))
        return Released(value, value + waiting * (threshold / 2), (bar,), 0.0)

    def _bar(self, draws: Ints, ordinal: Ints, waiting: Bools, threshold: int) -> SegmentBar:
        passed = threshold if self.signed else threshold / 2
        return SegmentBar(draws, ordinal, waiting, passed, self.tree.distribution, self.test, self.tests)

    def bar(self, tick: int) -> SegmentBar:
        """With as many segments as there can be: one a tick."""
        most, ordinal = self.shape.most_digits(self.checked(tick)), np.array([tick + 1])
        return self._bar(np.array([most]), ordinal, np.array([True]), self.threshold_at(tick))


@lru_cache(maxsize=256)
def quiet(test: DiscreteLaplace, ticks: int) -> int:
    """What the noise of a comparison and a threshold exceeds once in 2 `ticks` ticks, at most."""
    return int(NoiseSum((Term(2, 1, test),)).simultaneous(0.0, ticks)) + 1
