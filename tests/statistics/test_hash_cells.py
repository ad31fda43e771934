"""Distinct values from occupied hash cells: exact laws, seeded coverage, and the ends of tables."""

from fractions import Fraction
from functools import cache
from math import inf, sqrt
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.adaptive import Pegasus
from streamgauge.noise import DiscreteLaplace
from streamgauge.plan.aggregates.distinct import build_distinct
from streamgauge.plan.aggregates.function import PartSettings
from streamgauge.sql.query import Codes
from streamgauge.statistics import Count, Distinct
from streamgauge.statistics.keys.hash_cells import HashCells
from streamgauge.statistics.statistic import NoisySums
from streamgauge.testing.noise import InsecureNoise, SilentNoise

RUNS = 4000
NOISY = [Fraction(1, 50), Fraction(1, 4), Fraction(1, 3), Fraction(1)]


@cache
def occupied_law(cells: int, values: int) -> np.ndarray:
    """Return the exact probabilities of 0, 1, ... occupied cells."""
    most = min(cells, values)
    law, occupied = np.eye(1, most + 1)[0], np.arange(most + 1) / cells
    for _ in range(values):
        law = law * occupied + np.append(0.0, (law * (1 - occupied))[:-1])
    return law


def released(statistic: Any, counts: Any, tick: int = 1) -> Any:
    """Return the estimate of noisy counts, one of each group."""
    sums = np.asarray(counts, float)[None]
    noises = [statistic.counter.noise_at(tick)]
    return statistic.release(NoisySums(sums, noises, sums.shape[1], None, np.zeros((0, 1)))).select_tick(0)


@pytest.mark.parametrize(("cells", "values"), [(3, 2), (5, 4), (50, 10), (50, 123), (1000, 410)])
def test_mean_and_variance_are_those_of_the_exact_law(cells: int, values: int) -> None:
    law, table = occupied_law(cells, values), HashCells(cells)
    occupied = np.arange(len(law))
    mean = law @ occupied
    assert table.mean_occupied(values) == pytest.approx(mean)
    assert table.variance(values) == pytest.approx(law @ (occupied - mean) ** 2)
    assert table.values(mean) == pytest.approx(values)


@pytest.mark.parametrize("scale", NOISY, ids=str)
@pytest.mark.parametrize("cells", [2, 3, 5, 50, 150, 1000])
def test_intervals_hold_enough_of_the_exact_joint_law(cells: int, scale: Fraction) -> None:
    """Exact: the law of hash and noise is enumerated."""
    statistic = Count(sg.Pure(1 / scale), horizon=1, window="each", cells=cells)
    noise = DiscreteLaplace(scale)
    masses = np.array([noise.pmf(place) for place in range(-60, 61)])
    low, high = released(statistic, np.arange(-60, cells + 61)).interval()
    for values in (0, 1, 2, 3, 5, 10, 50, 123, 410, 600, 2000):
        joint = np.convolve(occupied_law(cells, values), masses)
        holds = ((low <= values) & (values <= high))[: len(joint)]
        assert joint[holds].sum() > 0.95 - 1e-9, values


def grid() -> list[Any]:
    """Return tables, numbers of values, losses, windows and units."""
    tables = [(2**12, load) for load in (0.01, 0.1, 1.0, 3.0)] + [(2**16, load) for load in (0.01, 0.1)]
    request = ("each", sg.User(4, 8)), ("each", sg.Event()), ("running", sg.Event()), ("running", sg.User(4, 8))
    return [
        pytest.param(cells, round(load * cells), epsilon, *each, id=f"{cells}-{load}-{epsilon}-{each[0]}-{each[1]}")
        for cells, load in tables
        for epsilon in (Fraction(1, 10), 1, 50)
        for each in request
    ]


@pytest.mark.parametrize(("cells", "values", "epsilon", "window", "unit"), grid())
def test_intervals_hold_the_number_of_values_as_often_as_stated(
    cells: int, values: int, epsilon: Any, window: str, unit: Any
) -> None:
    """Seeded. Few cells without noise have few possible counts, so coverage is higher."""
    rng, law = np.random.default_rng(5), occupied_law(cells, values)
    codes = Codes("x", cells, "x", is_hashed=True)
    statistic: Any = build_distinct(codes, PartSettings(sg.Pure(epsilon), 8, window, None, unit, 1))
    run = statistic.counter.start(RUNS, InsecureNoise(7))
    sums = run.step(rng.choice(len(law), RUNS, p=law / law.sum()))
    if window == "running":
        sums = run.step(np.zeros(RUNS, np.int64))
    estimate = released(statistic, sums, run.tick)
    low, high = estimate.interval()
    most = 0.995 if epsilon != Fraction(1, 10) and values < 100 else 0.98
    assert 0.94 <= np.mean((low <= values) & (values <= high)) <= most
    assert np.all((low <= estimate.value) & (estimate.value <= high))


def test_estimate_is_nearly_unbiased_with_known_error() -> None:
    law, table = occupied_law(4096, 2995), HashCells(4096)
    statistic = Count(sg.Pure(50), horizon=1, window="each", cells=4096)
    estimate = released(statistic, np.arange(len(law)))
    assert law @ estimate.value == pytest.approx(2995, abs=2)
    error = sqrt(law @ (estimate.value - 2995) ** 2)
    assert statistic.predict_stddev("value", 1, count=2995) == pytest.approx(error, rel=0.02)
    assert table.stddev(2995, 0.0) == pytest.approx(error, rel=0.02)
    likely = int(law.argmax())
    assert estimate.stddev[likely] == pytest.approx(error, rel=0.02)
    low, high = estimate.interval()
    assert low[likely] < 2995 < high[likely]


@pytest.mark.parametrize("cells", [2, 3, 10, 4096])
def test_a_full_table_has_a_lower_bound_only(cells: int) -> None:
    statistic = Count(sg.Pure(50), horizon=1, window="each", cells=cells)
    answer = released(statistic, [cells, cells + 1, 10 * cells]).columns()["value"]
    assert answer.high.tolist() == [inf] * 3
    assert not answer.reliable.any()
    assert np.all((answer.low > 0) & (answer.low <= answer.value) & np.isfinite(answer.value))
    assert np.all(answer.low <= HashCells(cells).max_values)
    assert np.isfinite(answer.stddev).all()


def test_counts_below_zero_are_estimates_as_they_are() -> None:
    estimate = released(Count(sg.Pure(1), horizon=1, window="each", cells=2**20), [-40, -1, 0])
    low, high = estimate.interval()
    assert estimate.value == pytest.approx([-40, -1, 0], abs=1e-4)
    assert low == pytest.approx([-43, -4, -3], abs=1e-4)
    assert high == pytest.approx([-37, 2, 3], abs=1e-4)


def test_large_table_changes_estimates_very_little() -> None:
    plain = released(Count(sg.Pure("1/10"), horizon=1, window="each"), [5, 80])
    hashed = released(Count(sg.Pure("1/10"), horizon=1, window="each", cells=2**40), [5, 80])
    assert hashed.value == pytest.approx(plain.value)
    assert hashed.stddev == pytest.approx(plain.stddev)
    assert np.array(hashed.interval()) == pytest.approx(np.array(plain.interval()), abs=1e-3)


def test_adaptive_counters_hold_hash_and_noise_together() -> None:
    law, values = occupied_law(4096, 2000), 2000
    statistic = Count(sg.Pure(20), horizon=4, window="each", mechanism=Pegasus, cells=4096)
    plain = Count(sg.Pure(20), horizon=4, window="each", mechanism=Pegasus)
    counts = np.random.default_rng(2).choice(len(law), 1000, p=law / law.sum())
    estimate = statistic.start(1000, InsecureNoise(3)).step_totals(counts[None])
    low, high = estimate.interval()
    first, last = plain.start(1000, InsecureNoise(3)).step_totals(counts[None]).interval()
    assert 0.95 <= np.mean((low <= values) & (values <= high)) < 1
    assert np.all(high - low > last - first), "those of the count of cells are narrower: a twin"
    assert not np.any((first <= values) & (values <= last))


def test_values_are_counted_across_ticks_groups_and_saves() -> None:
    claim = Distinct(sg.Pure(50), universe=64, horizon=8, hashed=True)
    run = claim.start(groups=["a", "b"], noise=SilentNoise())
    run.step(users=[1, 2, 2, 3], groups=["a", "a", "b", "b"])
    again = claim.load(run.save(), SilentNoise())
    found = again.step(users=[1, 9, 64, -1], groups=["a", "b", "b", "b"])
    assert found.value == pytest.approx(HashCells(64).values(np.array([2.0, 3.0])))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HashCells(1), "cells must be at least 2, got 1"),
        (lambda: Count(sg.Pure(1), cells=9), 'window must be "each" where cells are counted'),
        (lambda: Count(sg.Pure(1), window="each", cells=0), "cells must be a whole number of at least 1"),
        (lambda: Distinct(sg.Pure(1), universe=1, hashed=True), "cells must be at least 2, got 1"),
        (
            lambda: Distinct(sg.Pure(1), universe=9, hashed=True, unit=sg.User(1, 1)),
            "unit must be events or ticks where values are hashed",
        ),
    ],
)
def test_settings_without_a_meaning_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
