"""The private-partition counter loses at most its claim, by enumeration of all cuts.

All noise of the test has P(k) proportional to Q^|k|, Q = 1/8, so that a draw moved by 1 costs a factor of 8,
and all probabilities are rational. Threshold noise is enumerated up to REACH. The known remainder is added to the
neighbour's probability, so a valid claim cannot fail. Given the cuts, the releases are those of a tree, and its
matrices determine the loss.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure, User, WEvent
from streamgauge.adaptive.sparse.sparse_counter import SegmentTree, SegmentTreeShape, SparseCounter, State
from streamgauge.noise import Ints, Noise
from streamgauge.testing.noise import ImpulseNoise, InsecureNoise
from tests.support.commanded import FAR, CommandedNoise
from tests.support.saved_states import read_state

Q = Fraction(1, 8)
REACH = 10
LEFT_OUT = 2 * Q ** (REACH + 1) / (1 + Q)
Stream = tuple[int, ...]
Cuts = tuple[bool, ...]
ENDED = 72  # segments of an enumerated tree


MARGINS = {k: (1 - Q) / (1 + Q) * Q ** abs(k) for k in range(-REACH, REACH + 1)}


@cache
def stays(k: int) -> Fraction:
    """P(draw < k)."""
    return 1 - Q**k / (1 + Q) if k >= 1 else 1 - stays(1 - k)


@cache
def silent(sums: Stream, threshold: int, margin: int) -> Fraction:
    """Return the probability that a test with this threshold noise never fires."""
    return stays(threshold + margin - sums[-1]) * silent(sums[:-1], threshold, margin) if sums else Fraction(1)


@dataclass(frozen=True)
class Test:
    """The cuts of the counter; every field but the first two breaks it."""

    __test__ = False
    threshold: int = 1
    signed: bool = False
    bare: bool = False  # the threshold has no noise
    reuses: bool = False  # one noise of the threshold for all segments
    twice: bool = False  # the tick that fires is in the next segment too

    @property
    def margins(self) -> dict[int, Fraction]:
        """Return the possible threshold noise values with their probabilities."""
        return {0: Fraction(1)} if self.bare else MARGINS

    def chance(self, stream: Stream, cuts: Cuts) -> Fraction:
        segments = list(self._segments(stream, cuts))
        if self.reuses:
            return sum((p * self._with(m, segments) for m, p in self.margins.items()), Fraction(0))
        whole = Fraction(1)
        for sums, fired in segments:
            whole *= self._silent(sums[:-1]) - self._silent(sums) if fired else self._silent(sums)
        return whole

    def _segments(self, stream: Stream, cuts: Cuts) -> Any:
        """Yield the sums that each test reads, and True if it fires at the last one."""
        sums, total = [], 0
        for value, cut in zip(stream, cuts, strict=True):
            total += value
            sums.append(total)
            if cut:
                yield tuple(sums), True
                sums, total = [], value if self.twice else 0
        if sums:
            yield tuple(sums), False

    def _silent(self, sums: Stream) -> Fraction:
        below = tuple(-total for total in sums)
        return self._one(sums) * (self._one(below) if self.signed else 1)

    @cache  # noqa: B019 - a handful of frozen twins
    def _one(self, sums: Stream) -> Fraction:
        return sum((p * silent(sums, self.threshold, m) for m, p in self.margins.items()), Fraction(0))

    def _with(self, margin: int, segments: Any) -> Fraction:
        whole = Fraction(1)
        for sums, fired in segments:
            before, after = (silent(part, self.threshold, margin) for part in (sums[:-1], sums))
            whole *= before - after if fired else after
        return whole

    def loses(self, factor: Fraction, values: Stream, ticks: int) -> bool:
        """Return whether some cuts are more than `factor` times as likely as in a neighbour."""
        return any(
            self.chance(one, cuts) > factor * (self.chance(other, cuts) + ticks * 2 * LEFT_OUT)
            for one, other in neighbours(values, ticks)
            for cuts in product((False, True), repeat=ticks)
        )


def neighbours(values: Stream, ticks: int) -> Any:
    """Yield all pairs of streams that differ by 1 in one tick, in both directions."""
    for stream in product(values, repeat=ticks):
        for tick, move in product(range(ticks), (-1, 1)):
            yield stream, (*stream[:tick], stream[tick] + move, *stream[tick + 1 :])


@pytest.mark.parametrize("threshold", [1, 3])
@pytest.mark.parametrize("ticks", [1, 2, 3, 4])
def test_cuts_of_counts_lose_at_most_one_draw(ticks: int, threshold: int) -> None:
    counts, values = Test(threshold), (0, 1, 4) if ticks < 4 else (0, 2)
    assert not counts.loses(1 / Q, values, ticks)
    assert ticks == 1 or counts.loses(Fraction(7), values, ticks), "all but tight"


@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_cuts_of_signed_values_lose_at_most_two_draws(ticks: int) -> None:
    signed = Test(1, signed=True)
    assert not signed.loses(1 / Q**2, (-3, 0, 1), ticks)


TWINS = {
    "one noise of the threshold for all segments": (Test(reuses=True), 1 / Q),
    "the tick that fires in two tests": (Test(twice=True), 1 / Q),
    "a threshold without noise": (Test(bare=True), 1 / Q),
    "signed values at the noise of counts": (Test(signed=True), 1 / Q),
}


@pytest.mark.parametrize("name", TWINS)
def test_enumeration_catches_broken_test(name: str) -> None:
    twin, factor = TWINS[name]
    assert any(twin.loses(factor, (-3, 0, 1, 4), ticks) for ticks in (2, 3))


def claim(**settings: Any) -> SparseCounter:
    return SparseCounter(Pure(2), **{"horizon": 64, "threshold": 1, **settings})


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("unit", [None, WEvent(3), User(2, 2)])
def test_every_draw_has_the_scale_required_by_the_proof(signed: bool, unit: Any) -> None:
    made = claim(signed=signed, split="1/5", segments=500, bound=2, **({"unit": unit} if unit else {}))
    share = Fraction(2) / (2 * (unit.ticks if unit else 1))
    assert (1 + signed) / made.test_noise.scale + made.shape.levels / made.tree.distribution.scale == share
    assert (1 + signed) / made.test_noise.scale == share / 5


def p_sums(tree: SegmentTree, ended: int) -> np.ndarray:
    """Return C of releases B (C sums + noise), found with one draw at a time."""
    decode = np.zeros((ended, ended))
    for draw in range(ended):
        entries, count = np.zeros((tree.shape.levels, 1), np.int64), np.zeros(1, np.int64)
        noise = ImpulseNoise(draw, 1)
        decode[:, draw] = [tree.end_segments(entries, count, np.zeros(1, np.int64), noise)[0] for _ in range(ended)]
    return np.linalg.solve(decode, np.tri(ended))


@pytest.mark.parametrize("segments", [1, 60, 1000])
def test_segment_is_in_as_many_p_sums_as_levels(segments: int) -> None:
    tree = claim(segments=segments).tree
    memberships = np.abs(p_sums(tree, ENDED)).sum(axis=0).round(9)
    assert memberships.max() == min(tree.shape.levels, memberships.max())
    assert segments > ENDED or memberships.max() == tree.shape.levels
    unscaled = replace(tree, distribution=claim().tree.distribution)
    loses = memberships.max() / float(unscaled.distribution.scale)
    assert (loses <= 1) == (tree.shape.levels == 1), "a tree whose noise is not scaled by its levels"


def test_groups_with_different_segment_ends_have_separate_trees() -> None:
    tree, noise = SegmentTree(SegmentTreeShape(2, 3), claim().tree.distribution), InsecureNoise(4)
    entries, ended = np.zeros((3, 20_000), np.int64), np.zeros(20_000, np.int64)
    last = np.zeros(20_000, np.int64)
    for rotation in range(9):
        groups = np.flatnonzero(np.arange(20_000) % (1 + rotation % 3) == 0)
        last[groups] = tree.end_segments(entries, ended, groups, noise)
    for count in np.unique(ended):
        draws, release = int(tree.shape.digit_sums(np.array([count]))[0]), last[ended == count]
        expected = draws * tree.distribution.variance
        assert abs(release.var() / expected - 1) < 6.5 * sqrt(5 / len(release))


MOST = 2**63 - 1
ENDS = np.array([-MOST - 1, -MOST, -(2**62), -(2**40) - 1, -(2**40), -2, -1, 0, 1, 2**40 - 1, 2**40, MOST - 1, MOST])


def counted(cls: type[SparseCounter], signed: bool, values: Ints) -> Ints:
    """Return the released and the tested sums after one tick in which no test fires."""
    never = CommandedNoise(*[FAR] * len(values) * 2)
    run = cls(Pure(2), signed=signed).start(len(values), never)
    run.step(values)
    return np.stack([read_state(run).total, read_state(run).open_sum])


def farthest(cls: type[SparseCounter], signed: bool) -> int:
    """Return the largest change of sums for a unit move of values modulo 2**64."""
    extra = (ENDS.astype(np.uint64) + np.uint64(1)).astype(np.int64)
    total, tested = counted(cls, signed, extra) - counted(cls, signed, ENDS)
    return max(abs(int(moved)) for moved in (*total, *tested))


@pytest.mark.parametrize("signed", [False, True])
def test_unit_move_changes_sums_by_one_even_across_64_bits(signed: bool) -> None:
    assert farthest(SparseCounter, signed) == 1
    assert farthest(Clipping, signed) > 1


class Clipping(SparseCounter):
    """A broken twin: clips without folding, so that both ends of 64 bits are far apart."""

    def _clip_values(self, values: Ints) -> Ints:
        return values if self.signed else np.maximum(values, 0)


class Reusing(SparseCounter):
    """A broken twin: the first noise of a threshold serves all segments."""

    def _end_segments(self, state: State, groups: Ints, noise: Noise) -> None:
        margins = state.margins.copy()
        super()._end_segments(state, groups, noise)
        state.margins[:] = margins


def strangest(made: SparseCounter, stream: Stream) -> float:
    """Return the largest deviation of cut frequencies from enumeration, in standard errors."""
    width = 40_000
    releases = made.start(width, InsecureNoise(8)).feed(np.repeat(np.array(stream)[:, None], width, axis=1))
    ended = np.stack([bar.ordinal[: len(bar.is_waiting)] for bar in releases.error_bounds])
    cuts = np.diff(ended, axis=0, prepend=1) > 0
    worst = 0.0
    for pattern in product((False, True), repeat=len(stream)):
        likely = float(Test(made.threshold or 0, made.signed).chance(stream, pattern))
        release = (cuts == np.array(pattern)[:, None]).all(axis=0).mean()
        worst = max(worst, abs(release - likely) / sqrt(max(likely, 1e-4) / width))
    return worst


def dyadic(cls: type[SparseCounter], signed: bool) -> SparseCounter:
    """Return a counter with test noise of Q = 1/8, up to a millionth."""
    return cls(Pure(2 * (1 + signed) * Fraction(np.log(8))), horizon=9, threshold=1, split="1/2", signed=signed)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("stream", [(0, 0, 0, 0), (1, 1, 0, 1), (0, 2, 0, 3)])
def test_the_counter_cuts_with_the_chances_that_were_enumerated(signed: bool, stream: Stream) -> None:
    assert strangest(dyadic(SparseCounter, signed), stream) < 6.5


def test_counter_that_reuses_threshold_noise_is_caught() -> None:
    assert strangest(dyadic(Reusing, False), (0, 2, 0, 3)) > 20
