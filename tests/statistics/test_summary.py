"""Summaries: one run for count, sum, mean and spread, each with its own error."""

from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.statistics import Count, Estimate, Mean, Sum, Summary, Variance
from streamgauge.statistics.estimate import noise_half_widths
from streamgauge.testing.noise import InsecureNoise, SilentNoise

RUNS = 12_000
LOSSES = [sg.Pure(1), sg.Pure("1/20"), sg.Zcdp("1/20"), sg.Approx(1, "1/1000000")]
BOUNDS = [(0, 10), (-3, 7), (35, 42)]
SURE = 6.1 * np.sqrt(0.05 * 0.95 / RUNS)  # p below 1e-9
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
with_squares = pytest.mark.parametrize("squares", [False, True])


def claim(loss: Any = LOSSES[0], bounds: tuple[int, int] = (0, 10), **more: Any) -> Summary:
    return Summary(loss, **{"lower": bounds[0], "upper": bounds[1], "step": 0.1, "horizon": 100, **more})


def alike(one: Estimate, two: Estimate) -> None:
    for confidence in (0.5, 0.95):
        np.testing.assert_allclose(one.interval(confidence), two.interval(confidence), rtol=1e-12)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-12)
    np.testing.assert_allclose(one.stddev, two.stddev, rtol=1e-9)
    np.testing.assert_array_equal(one.reliable, two.reliable)


@every_loss
def test_mean_and_spread_equal_those_of_mean_and_variance(loss: Any) -> None:
    settings = {"lower": 0, "upper": 10, "step": 0.1, "horizon": 100}
    values, groups = np.random.default_rng(1).gamma(2, 1.5, 900), np.arange(900) % 3
    columns = {"values": values, "groups": groups}
    view = Summary(loss, **settings).start(3, InsecureNoise(1)).step(**columns)
    spread = Summary(loss, **settings, squares=True).start(3, InsecureNoise(1)).step(**columns)
    alike(view.mean, Mean(loss, **settings).start(3, InsecureNoise(1)).step(**columns))
    alike(spread.variance, Variance(loss, **settings).start(3, InsecureNoise(1)).step(**columns))
    alike(spread.stddev, Variance(loss, **settings, root=True).start(3, InsecureNoise(1)).step(**columns))


@every_loss
@with_squares
def test_count_and_sum_without_noise_match_count_and_sum(loss: Any, squares: bool) -> None:
    values = [*np.random.default_rng(2).normal(5, 4, 500), None, float("nan"), float("inf")]
    for bounds in BOUNDS:
        made = claim(loss, bounds, squares=squares)
        view = made.start(noise=SilentNoise()).step(values)
        plain: dict[str, Any] = {"lower": bounds[0], "upper": bounds[1], "step": 0.1, "horizon": 100}
        count = Count(loss, horizon=100).start(noise=SilentNoise()).step(values)
        total = Sum(loss, **plain).start(noise=SilentNoise()).step(values)
        np.testing.assert_allclose(view.count.value, count.value, rtol=1e-12)
        np.testing.assert_allclose(view.sum.value, total.value, rtol=1e-12)
        assert view.count.reliable.all()
        assert view.sum.reliable.all()


def many(made: Summary, values: np.ndarray, ticks: int) -> tuple[Any, float]:
    """Return the summaries of RUNS groups with these values and separate noise, and the sum."""
    run, vector = made.start(RUNS, InsecureNoise(4)), made.compute_totals(values)
    totals = np.zeros((ticks, made.channels, RUNS), np.int64)
    totals[0] = vector[:, None]
    counts = np.eye(ticks, dtype=int)[0][:, None, None] * np.full(RUNS, len(values))
    view = run.feed_totals(totals, counts if made.public_counts else None).select_tick(ticks - 1)
    return view, float(made.grid.reals(made.grid.integers(values)).sum())


def covered(bounds: tuple[np.ndarray, np.ndarray], truth: float) -> float:
    return float(((bounds[0] <= truth + 1e-9) & (truth - 1e-9 <= bounds[1])).mean())


@pytest.mark.one_of_each
@every_loss
@with_squares
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_counts_and_sums_have_predicted_error_and_coverage(loss: Any, squares: bool, bounds: tuple[int, int]) -> None:
    made, ticks = claim(loss, bounds, squares=squares), 3
    view, total = many(made, np.linspace(*bounds, 40), ticks)
    for name, truth in (("count", 40.0), ("sum", total)):
        estimate, predicted = getattr(view, name), made.predict_stddev(name, ticks)
        assert estimate.stddev == pytest.approx(predicted)
        low, high = estimate.interval(0.95)
        assert (high - low) / 2 == pytest.approx(made.measure_noise_at(name, ticks).half_width(0.95), rel=1e-3)
        shown = float(np.sqrt(((estimate.value - truth) ** 2).mean()))
        assert abs(shown / predicted - 1) < 0.08  # Laplace: 6 standard errors of RUNS draws
        assert abs(shown / (0.7 * predicted) - 1) > 0.08 < abs(shown / (1.3 * predicted) - 1)
        for confidence in (0.8, 0.95):
            found = covered(estimate.interval(confidence), truth)
            assert confidence - 2 * SURE < found < confidence + 0.02


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/20")], ids=str)
@pytest.mark.parametrize("public", [False, True])
def test_means_from_variance_channels_cover_93_to_98_percent(loss: Any, public: bool) -> None:
    unit = sg.Event(replace=public)
    made = claim(loss, squares=True, horizon=1000, public_counts=public, unit=unit)
    for count in (5, 100, 10**4):
        for values in (np.full(count, 5.0), np.linspace(0, 10, count), np.full(count, 9.5)):
            view, total = many(made, values, 1)
            assert 0.93 - SURE < covered(view.mean.interval(0.95), total / count) < 0.98 + SURE, count


def test_law_without_a_channel_or_weight_is_caught() -> None:
    """The broken twins: one channel for two, and equal weights."""
    made = claim(bounds=(-3, 7))
    view, total = many(made, np.linspace(-3, 7, 40), 3)
    noises = [made.counter.noise_at(3)]
    for name, wrong, truth in (("count", (1,), 40.0), ("sum", (3, -1), total), ("sum", (10, -10), total)):
        estimate, combined = getattr(view, name), getattr(made.moments, {"sum": "total"}.get(name, name))
        right = noise_half_widths(noises, 0.95, 1, combined.weights) * combined.scale
        assert covered((estimate.value - right, estimate.value + right), truth) > 0.95 - SURE
        half = noise_half_widths(noises, 0.95, 1, wrong) * combined.scale
        found = covered((estimate.value - half, estimate.value + half), truth)
        assert found < 0.95 - SURE or found > 0.97 + SURE


def test_shared_count_costs_the_stated_factor() -> None:
    for loss, price, with_squares in ((sg.Pure("1/20"), 1.414, 2.449), (sg.Zcdp("1/20"), 1.944, 1.601)):
        alone = Count(loss, horizon=100, mechanism=sg.continual.Kary).stddev(7)
        for squares, factor in ((False, price), (True, with_squares)):
            made = claim(loss, squares=squares, mechanism=sg.continual.Kary)
            assert made.predict_stddev("count", 7) / alone == pytest.approx(factor, rel=2e-3)
    mean, variance = Mean(sg.Pure(1), lower=0, upper=10), Variance(sg.Pure(1), lower=0, upper=10)
    assert Summary(sg.Pure(1), lower=0, upper=10).tick_sensitivity == mean.tick_sensitivity
    assert Summary(sg.Pure(1), lower=0, upper=10, squares=True).tick_sensitivity == variance.tick_sensitivity
    for measure, like in (("mean", mean), ("variance", variance)):
        made = Summary(sg.Pure(1), lower=0, upper=10, squares=measure == "variance")
        expected: dict[str, Any] = {"count": 1000, "mean": 4}
        assert made.predict_stddev(measure, 9, **expected) == like.stddev(9, **expected)
    rooted = Variance(sg.Pure(1), lower=0, upper=10, root=True)
    assert made.predict_stddev("stddev", 9, count=1000, variance=2) == rooted.stddev(9, 1000, variance=2)


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/20")], ids=str)
@with_squares
def test_public_count_is_exact_and_adds_no_noise(loss: Any, squares: bool) -> None:
    made = claim(loss, (35, 42), squares=squares, public_counts=True, unit=sg.Event(replace=True))
    view, total = many(made, np.linspace(35, 42, 40), 3)
    assert (view.count.value == 40).all()
    assert (view.count.stddev == 0).all()
    assert [bound.tolist() for bound in view.count.interval(0.99)] == [view.count.value.tolist()] * 2
    assert made.predict_stddev("count", 3) == 0
    shown = float(np.sqrt(((view.sum.value - total) ** 2).mean()))
    assert shown == pytest.approx(made.predict_stddev("sum", 3), rel=0.08)
    assert 0.95 - SURE < covered(view.sum.interval(0.95), total) < 0.97 + SURE


def test_missing_values_are_counted_under_public_counts() -> None:
    values, unit = [0.31, None, 9.9, float("nan")], sg.Event(replace=True)
    for cls in (Sum, Mean, Variance, Summary):
        for public in (False, True):
            made = cls(sg.Pure(1), lower=-2, upper=10, step=0.1, public_counts=public, unit=unit)
            assert (made.absent_place is not None) == public
            whole = made.grid.integers([0.31, 9.9] + ([made.absent_place / 10] * 2 if public else []))
            sums = [np.array([(whole**power).sum()]) for power in range(made.max_power + 1)]
            np.testing.assert_array_equal(made.vectors_from_power_sums(*sums).ravel(), made.compute_totals(values))


def test_a_spread_that_was_not_measured_is_refused() -> None:
    view = claim().start(noise=SilentNoise()).step([1.0])
    with pytest.raises(ValueError, match=r"^measure must be one of count, sum, got 'mean'$"):
        claim().measure_noise_at("mean", 1)
    assert view.names == ("count", "sum", "mean")
    for name in ("variance", "stddev"):
        with pytest.raises(AttributeError, match=rf"^squares must be True for a {name}, got False$"):
            getattr(view, name)
    assert repr(view).startswith("SummaryEstimates(count=Estimate(value=array([1.")
    with pytest.raises(ValueError, match=r"^step must leave at most 4096 places between the bounds, got"):
        claim(squares=True, step="1/1000")
    assert claim(step="1/1000").moments.places == 10_000


def test_columns_of_a_summary_build_only_the_measures_read() -> None:
    release, built = claim(squares=True).start(noise=SilentNoise()).step([1.0]), []

    def build(name: str) -> sg.statistics.Estimate:
        built.append(name)
        return release.find(name)

    columns = sg.statistics.SummaryEstimates(release.names, build).columns(0.9)
    assert (columns["mean"].low <= columns["mean"].high).all()
    assert built == ["mean"]
