"""Laws of intervals: at 95 % they hold the truth in 93 to 98 % of all runs, for any stream.

Groups of one run serve as runs of one group: each has the same events and its own noise.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.noise.grid import Grid
from streamgauge.statistics import Estimate, Mean, Variance
from streamgauge.testing.noise import InsecureNoise

RUNS = 8000
SLACK = 0.005  # three standard errors of a frequency of 0.98, and two of 0.93
COUNTS = (5, 20, 100, 1000, 10**4, 10**6)
LOSSES = [sg.Pure(1), sg.Zcdp("1/20")]


def normal(count: int) -> np.ndarray:
    return np.clip(np.random.default_rng(count).normal(5, 1, count), 0, 10)


def skewed(count: int) -> np.ndarray:
    return np.clip(np.random.default_rng(count).gamma(2, 0.6, count), 0, 10)


STREAMS: dict[str, Callable[[int], np.ndarray]] = {
    "even": lambda count: np.linspace(0, 10, count),
    "normal": normal,
    "skewed": skewed,
    "all the same": lambda count: np.full(count, 3.0),
    "all in the middle": lambda count: np.full(count, 5.0),
    "all at a bound": lambda count: np.full(count, 10.0),
    "one in ten at the other bound": lambda count: np.where(np.arange(count) % 10 == 0, 10.0, 0.0),
    "half at each bound": lambda count: np.where(np.arange(count) % 2 == 0, 10.0, 0.0),
}


@cache
def totals(claim: Any, name: str, count: int) -> np.ndarray:
    """Return the exact vector of a stream, the same for every run and noise."""
    return claim.compute_totals(STREAMS[name](count))


@cache
def truths(grid: Grid, name: str, count: int) -> tuple[float, float]:
    """Return the mean and variance of a stream on a grid."""
    release = grid.reals(grid.integers(STREAMS[name](count)))
    return float(release.mean()), float(release.var(ddof=1))


def estimated(claim: Any, name: str, count: int, ticks: int = 3) -> tuple[Estimate, float]:
    """Return the estimates of RUNS runs with a stream at the first tick, and the truth."""
    run = claim.start(RUNS, InsecureNoise(count))
    vector = np.repeat(totals(claim, name, count)[:, None], RUNS, axis=1)
    for tick in range(ticks):
        counts = np.full(RUNS, count if tick == 0 else 0) if claim.has_public_counts else None
        estimate = run.step_totals(vector if tick == 0 else np.zeros_like(vector), counts)
    return estimate, truths(claim.moments.grid, name, count)[isinstance(claim, Variance)]


@cache
def after_a_tick(statistic: Any) -> list[tuple[str, int, Estimate, float]]:
    """Return one estimate of every stream at every count, with its truth."""
    claim = statistic(sg.Pure(1), lower=0, upper=10, step=0.1, horizon=1000)
    every = ((name, count) for name in STREAMS for count in COUNTS)
    return [(name, count, *estimated(claim, name, count, ticks=1)) for name, count in every]


def covered(bounds: tuple[np.ndarray, np.ndarray], truth: float) -> float:
    low, high = bounds
    return float(((low <= truth + 1e-9) & (truth <= high + 1e-9)).mean())


@pytest.mark.one_of_each("statistic", "loss")
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("statistic", [Mean, Variance])
def test_intervals_cover_from_93_to_98_percent_at_every_count(statistic: Any, loss: Any, name: str) -> None:
    claim = statistic(loss, lower=0, upper=10, step=0.1, horizon=1000)
    for count in COUNTS:
        estimate, truth = estimated(claim, name, count)
        assert 0.93 - SLACK <= covered(estimate.interval(0.95), truth) <= 0.98 + SLACK, count
        low, high = estimate.interval(0.95)
        assert ((low <= estimate.value) & (estimate.value <= high)).all()


@pytest.mark.parametrize("epsilon", [2, 4, 8])
@pytest.mark.parametrize("statistic", [Mean, Variance])
def test_few_values_at_both_bounds_are_covered_as_stated(statistic: Any, epsilon: int) -> None:
    claim = statistic(sg.Pure(epsilon), lower=0, upper=10, step=0.1, horizon=1000)
    for count in (5, 6, 8, 10):
        estimate, truth = estimated(claim, "half at each bound", count, ticks=1)
        assert 0.93 - SLACK <= covered(estimate.interval(0.95), truth) <= 0.98 + SLACK, count


@pytest.mark.one_of_each("statistic")
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("statistic", [Mean, Variance])
def test_intervals_with_public_counts_cover_from_93_to_98_percent(statistic: Any, name: str) -> None:
    unit = sg.Event(replace=True)
    claim = statistic(sg.Pure(1), lower=0, upper=10, step=0.1, horizon=1000, public_counts=True, unit=unit)
    for count in COUNTS:
        estimate, truth = estimated(claim, name, count)
        assert 0.93 - SLACK <= covered(estimate.interval(0.95), truth) <= 0.98 + SLACK, count


@pytest.mark.parametrize("statistic", [Mean, Variance])
def test_other_confidences_are_not_overstated(statistic: Any) -> None:
    for name, count, estimate, truth in after_a_tick(statistic):
        assert covered(estimate.interval(0.99), truth) > 0.975, (name, count)
        assert covered(estimate.interval(0.8), truth) > 0.77, (name, count)


@pytest.mark.parametrize("statistic", [Mean, Variance])
def test_intervals_that_ignore_small_counts_or_noise_are_caught(statistic: Any) -> None:
    """Broken twins: the delta method everywhere, and intervals of half the width."""
    wrong, narrow = [], []
    for _, _, estimate, truth in after_a_tick(statistic):
        plain = estimate.value - 1.96 * estimate.stddev, estimate.value + 1.96 * estimate.stddev
        wrong.append(covered(plain, truth))
        low, high = estimate.interval(0.95)
        narrow.append(covered(((estimate.value + low) / 2, (estimate.value + high) / 2), truth))
    assert min(wrong) < 0.9 or max(wrong) > 0.99
    assert min(narrow) < 0.9
