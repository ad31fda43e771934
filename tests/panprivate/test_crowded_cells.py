"""Cells of many users: errors beyond first order, and the series of long cycles."""

from dataclasses import replace
from functools import partial
from math import inf, isfinite, log

import numpy as np
import pytest

from streamgauge.panprivate import (
    ContinualDensity,
    CroppedMean,
    Density,
    HeavyFraction,
    Incidence,
    MultiplicativeDensity,
)
from streamgauge.panprivate.collisions import (
    CollisionDecoder,
    compound_tails,
    expand_expected,
    inverse_series,
    invert_series_bounds,
    log_series,
    max_slopes,
    weighted_suffix_sums,
)
from streamgauge.privacy import Pure
from streamgauge.testing.noise import InsecureNoise

SETTINGS = {"universe": 1000, "hashed": True}
BEFORE = {"universe": 1000, "hashed": "before"}
STDDEVS = {
    "density": Density(Pure(1), **SETTINGS).stddev,
    "density, hashed before": Density(Pure(1), **BEFORE).stddev,
    "density of one cell": Density(Pure(1), universe=1, hashed=True).stddev,
    "density of two cells": Density(Pure(1), universe=2, hashed=True).stddev,
    "heavy fraction": HeavyFraction(Pure(1), at_least=3, **SETTINGS).stddev,
    "heavy fraction, hashed before": HeavyFraction(Pure(1), at_least=3, **BEFORE).stddev,
    "cropped mean": CroppedMean(Pure(1), limit=3, **SETTINGS).stddev,
    "incidence": Incidence(Pure(1), exactly=2, **SETTINGS).stddev,
    "continual density": partial(ContinualDensity(Pure(1), **SETTINGS).stddev, slots=10),
    "multiplicative density": MultiplicativeDensity(Pure(1), **SETTINGS).stddev,
}
WEIGHTS = {"cropped": [1] * 9, "heavy": [0] * 8 + [1], "incidence": [0] * 7 + [1, -1]}


@pytest.mark.parametrize("name", STDDEVS)
@pytest.mark.filterwarnings("error")
def test_errors_are_defined_for_every_load_and_grow(name):
    """The largest estimate is log(2 cells) per cell, so the error grows with a larger truth."""
    values = [1.0, 5.0, 30.0, 100.0, 700.0, 745.0, 1e3, 1e6, 1e300]
    found = [STDDEVS[name](value) for value in values]
    assert found == sorted(found)
    assert all(stddev >= value - 3 * log(2000) for value, stddev in zip(values, found, strict=True))


@pytest.mark.parametrize("name", [name for name in STDDEVS if not name.startswith("multiplicative")])
def test_first_order_errors_are_infinite_on_overflow(name):
    assert isfinite(STDDEVS[name](100.0))
    assert STDDEVS[name](1e6) == inf


@pytest.mark.parametrize(("cells", "intrusions", "reliable"), [(20_000, 0, True), (2_000, 1, False)])
@pytest.mark.parametrize("cycle", [partial(HeavyFraction, at_least=2), partial(Incidence, exactly=1)])
def test_estimate_is_unreliable_if_first_order_error_fails(cycle, cells, intrusions, reliable):
    claim = cycle(Pure(4), universe=cells, hashed="before", intrusions=intrusions)
    run = claim.start(InsecureNoise(3))
    run.add(np.repeat(np.arange(cells // 4), 2))
    for _ in range(intrusions):
        run.intrude()
    assert run.estimate().reliable == reliable


def logarithm_as_defined(series, most):
    found = [log(series[0])]
    for j in range(1, len(series)):
        inner = sum(i * found[i] * series[j - i] for i in range(1, j))
        found.append(min(max((series[j] - inner / j) / series[0], -most), most))
    return found


def inverse_as_defined(series):
    found = [1 / series[0]]
    for j in range(1, len(series)):
        found.append(-sum(series[i] * found[j - i] for i in range(1, j + 1)) / series[0])
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 40])
def test_series_are_those_of_their_definitions(length):
    series = np.random.default_rng(length).uniform(-0.2, 0.2, length)
    series[0] = 0.3
    for most in (inf, 0.5):
        assert log_series(series, most) == pytest.approx(logarithm_as_defined(series, most), rel=1e-9)
    assert inverse_series(series) == pytest.approx(inverse_as_defined(series), rel=1e-9)


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_ahead_are_sums_of_products(name):
    weights, series = np.array(WEIGHTS[name]), np.random.default_rng(1).normal(size=9)
    ahead = [float(weights[j:] @ series[: 9 - j]) for j in range(9)]
    assert weighted_suffix_sums(weights, series) == pytest.approx(ahead, rel=1e-12, abs=1e-12)


def enclosed_as_defined(low, high):
    least, most = [1 / high[0]], [1 / low[0]]
    for j in range(1, len(low)):
        ways = [[a * b for a in (low[i], high[i]) for b in (least[j - i], most[j - i])] for i in range(1, j + 1)]
        ends = [sum(map(end, ways)) for end in (min, max)]
        firsts = [end * first for end in ends for first in (least[0], most[0])]
        least.append(-max(firsts))
        most.append(-min(firsts))
    return least, most


@pytest.mark.parametrize("name", WEIGHTS)
def test_enclosed_inverses_are_those_of_interval_arithmetic(name):
    chance = np.random.default_rng(2)
    told, wide = chance.normal(0, 0.1, 9), chance.uniform(0, 0.05, 9)
    told[0] = 0.5
    least, most = invert_series_bounds(told - wide, told + wide)
    expected = enclosed_as_defined(told - wide, told + wide)
    assert least == pytest.approx(expected[0], rel=1e-9)
    assert most == pytest.approx(expected[1], rel=1e-9)
    weights = np.array(WEIGHTS[name])
    ends = [(weights[j:] * least[: 9 - j], weights[j:] * most[: 9 - j]) for j in range(9)]
    slopes = [max(-np.minimum(*both).sum(), np.maximum(*both).sum()) for both in ends]
    assert max_slopes(weights, least, most) == pytest.approx(slopes, rel=1e-9)


def test_diverging_bounds_stay_infinite():
    low, high = np.full(2000, -1.0), np.full(2000, 1.0)
    low[0] = high[0] = 0.5
    with np.errstate(over="raise"):
        least, most = invert_series_bounds(low, high)
    assert least[-1] == -inf
    assert most[-1] == inf


@pytest.mark.parametrize("times", [1, 2, 8, 9])
@pytest.mark.parametrize("load", [0.0, 0.01, 1.0, 4.0])
@pytest.mark.parametrize("name", WEIGHTS)
def test_expected_expansion_matches_that_of_its_tails(name, load, times):
    """More than half a cell stays empty, so nothing is clipped."""
    weights = np.array(WEIGHTS[name], np.int64)
    expected = expand_expected(weights.tobytes(), load, times)
    told = CollisionDecoder(weights, 10**6).expand(compound_tails(load, times, 9))
    assert expected.value == pytest.approx(told.value, rel=1e-6, abs=1e-9)
    assert expected.poisson_variance == pytest.approx(told.poisson_variance, rel=1e-6, abs=1e-9)
    for one, other in zip(expected[1:4], told[1:4], strict=True):
        assert one == pytest.approx(other, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", [partial(HeavyFraction, at_least=8), partial(CroppedMean, limit=8)])
def test_predictions_cover_the_error_if_first_order_fails(kind):
    """Users who came once each, in a table with too much noise for its cells."""
    claim = kind(Pure(1), releases=5, **SETTINGS)
    found, truth = [], 0.3 * (claim.weights[0] > 0)
    for seed in range(200):
        run = claim.start(InsecureNoise(seed))
        run.add(np.arange(300))
        found.append(run.estimate().value - truth)
    error = np.sqrt(np.mean(np.square(found)))
    assert claim.stddev(0.3) > error
    assert claim.rough_stddev(0) < error


@pytest.mark.parametrize("kind", [partial(HeavyFraction, at_least=8), partial(CroppedMean, limit=8)])
def test_prediction_is_the_maximum_for_single_and_repeated_visits(kind):
    claim = kind(Pure(4), universe=10**6, hashed=True)
    compound, once = claim.build_collision_estimator(0), expand_expected(claim.weights.tobytes(), 0.5, 1)
    assert claim.stddev(0.5) == max(compound._stddev(once), compound.stddev_at(0.5, 8))
    assert claim.stddev(0.5) > compound.stddev_at(0.5, 8)


def test_predictions_for_single_visits_match_simulation():
    claim = HeavyFraction(Pure(8), at_least=4, universe=5000, hashed=True)
    found = []
    for seed in range(150):
        run = replace(claim, seed=seed, split=claim.split).start(InsecureNoise(seed))
        run.add(np.arange(2500))
        found.append(run.estimate().value)
    assert 0.75 < np.sqrt(np.mean(np.square(found))) / claim.stddev(0.5) < 1.3
