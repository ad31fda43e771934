"""Intervals: exact coverage over every sum of reports, and ends that are the outermost counts that fit."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from streamgauge import Pure
from streamgauge.localdp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomisedResponse,
    UnaryEncoding,
)
from streamgauge.localdp.collector import Frequencies, lower_end, upper_end
from streamgauge.localdp.collisions import ErrorModel
from streamgauge.testing.noise import InsecureNoise
from tests.support.replicates import FLUKE

TAIL = 0.025
LISTS = [RandomisedResponse, UnaryEncoding, HadamardResponse]
SKETCHES = [HadamardCountMeanSketch, CountMeanSketch, LocalHashing]


def listed(kind, epsilon, size):
    return kind(Pure(epsilon), items=tuple(range(size)))


def intervals(claim, reports, **errors):
    """Return the intervals for every number of supporting reports."""
    count = claim.support.counts(np.arange(reports + 1.0), reports)
    told = ErrorModel(claim.spread, None, reports, float(reports), **{"value_spacing": claim.value_spacing, **errors})
    return Frequencies(tuple(range(reports + 1)), count, told.stddev(count), reports, told)


def chances(claim, reports, count):
    """Return the exact chance of each number: own coins plus those of others."""
    own, other = (
        binom(tossed, float(chance)).pmf(np.arange(tossed + 1))
        for tossed, chance in ((count, claim.support.own), (reports - count, claim.support.other))
    )
    return np.convolve(own, other)


def coverage(claim, reports, count, ends):
    low, high = ends
    return float(chances(claim, reports, count)[(low <= count + 1e-6) & (high >= count - 1e-6)].sum())


@pytest.mark.parametrize(("confidence", "epsilon"), [(0.95, "3.358"), (0.99, "3.934"), (0.999, "4.439")])
def test_worst_known_coverage_is_the_predicted_one(confidence, epsilon):
    """Two items have one report each. A wrong sum has the chance 1/(4 z^2)."""
    claim = listed(RandomisedResponse, epsilon, 2)
    worst = 1 - 1 / (2 * norm.isf((1 - confidence) / 2)) ** 2
    found = coverage(claim, 2, 1, intervals(claim, 2).interval(confidence))
    assert found == pytest.approx(worst, abs=2e-4)


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", LISTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("epsilon", [1, 4, 8])
@pytest.mark.parametrize("size", [2, 10, 1000])
def test_intervals_have_their_coverage_with_few_reports(kind, epsilon, size):
    claim = listed(kind, epsilon, size)
    for reports in (1, 10, 100, 1000):
        ends = intervals(claim, reports).interval(0.95)
        for count in {0, 1, reports // 20, reports // 2, reports - 1, reports}:
            assert coverage(claim, reports, count, ends) > 0.94, (reports, count)


@pytest.mark.parametrize(
    ("claim", "reports", "count", "by_estimate"),
    [
        (listed(RandomisedResponse, 8, 1000), 1000, 1, 0.79),
        (listed(UnaryEncoding, 8, 10), 100, 1, 0.52),
        (listed(RandomisedResponse, 8, 2), 3000, 1500, 0.89),
    ],
    ids=["response", "vector", "coin"],
)
def test_normal_intervals_at_the_estimate_have_less_coverage(claim, reports, count, by_estimate):
    found = intervals(claim, reports)
    wide = 1.96 * found.stddev
    assert coverage(claim, reports, count, (found.count - wide, found.count + wide)) < by_estimate
    assert coverage(claim, reports, count, found.interval(0.95)) > 0.97


def test_intervals_without_value_spacing_have_too_little_coverage():
    claim = listed(RandomisedResponse, 8, 2)
    assert coverage(claim, 3000, 1500, intervals(claim, 3000, value_spacing=0.0).interval(0.95)) < 0.89


def test_intervals_of_many_reports_are_as_narrow_as_normal_ones():
    for kind in LISTS:
        claim = listed(kind, 1, 10)
        low, high = intervals(claim, 3000).interval(0.95)
        normal = 2 * 1.96 * claim.stddev(300, 3000)
        assert ((high - low) @ chances(claim, 3000, 300)) < normal + 3 * claim.value_spacing
        assert coverage(claim, 3000, 300, (low, high)) < 0.96


@pytest.mark.parametrize("kind", [*LISTS, *SKETCHES], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("copies", [1, 7])
def test_ends_are_the_outermost_counts_that_fit_the_estimate(kind, copies):
    made = {"items": tuple(range(50))} if kind in LISTS else {"hashes": 16, "width": 64}
    claim, counts = kind(Pure(4), **made), np.arange(1001.0)
    errors = ErrorModel(claim.spread, claim.hash_shape, 1000, 3e5, copies, claim.value_spacing)
    above, below = counts + errors.upper_margin(counts, TAIL), counts - errors.lower_margin(counts, TAIL)
    asked = np.linspace(below.min(), above.max(), 60)
    low, high = lower_end(errors, asked, TAIL), upper_end(errors, asked, TAIL)
    for place, estimate in enumerate(asked):
        assert -1 < counts[above >= estimate][0] - low[place] < 1 + 1e-6
        assert -1 < high[place] - counts[below <= estimate][-1] < 1 + 1e-6


def test_estimates_differ_by_multiples_of_value_spacing():
    for kind in (*LISTS, *SKETCHES):
        made = {"items": ("a", "b", "c")} if kind in LISTS else {"hashes": 2, "width": 4}
        claim, found = kind(Pure(1), **made), set()
        for seed in range(40):
            collector = claim.build_collector()
            collector.add(claim.privatise_many(["a", "b", "c"] * 3, InsecureNoise(seed)))
            found.add(float(collector.estimate(["a"]).count[0]))
        steps = np.diff(sorted(found)) / claim.value_spacing
        assert steps == pytest.approx(steps.round()), kind
        assert steps.min() == pytest.approx(1), kind


def test_intervals_of_local_hashing_hold_with_ten_reports():
    held = 0
    for seed in range(200):
        claim = LocalHashing(Pure(6), hashes=64, seed=seed)
        collector = claim.build_collector()
        collector.add(claim.privatise_many(["a", *(f"other {one}" for one in range(9))], InsecureNoise(seed)))
        low, high = collector.estimate(["a"]).interval(0.95)
        held += int(low[0] <= 1 <= high[0])
    assert binom(200, 0.95).cdf(held) > FLUKE
    assert binom(200, 0.6).sf(held - 1) < FLUKE
