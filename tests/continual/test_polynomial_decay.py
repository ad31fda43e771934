"""Polynomially decayed sums: the root of the weights, noisy items, and stored state."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual.decay.polynomial import PolynomialDecay, compute_weights_root, series_product, series_root
from streamgauge.continual.decay.weighted_counts import WeightedCounts, polynomial_weights
from streamgauge.continual.factorizations.square_root import square_root_coefficients
from streamgauge.continual.run import LimitExceededError
from streamgauge.noise import EphemeralNoise
from streamgauge.testing.noise import ImpulseNoise, InsecureNoise, SilentNoise
from tests.support.saved_states import read_state

PURE, HALF = sg.Pure(1), sg.Zcdp(Fraction(1, 2))
EXPONENTS = [Fraction(1, 20), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(7, 2)]


def stream(ticks: int, width: int = 1) -> np.ndarray:
    return np.random.default_rng(8).integers(0, 9, (ticks, width))


def decayed(values: np.ndarray, exponent: Fraction) -> np.ndarray:
    lags = np.subtract.outer(np.arange(len(values)), np.arange(len(values)))
    return np.where(lags >= 0, np.maximum(lags + 1.0, 1) ** -float(exponent), 0) @ values


def by_recurrence(exponent: Fraction, count: int) -> np.ndarray:
    """r_0 = 1; r_n = (g_n - sum_(0<i<n) r_i r_(n-i)) / 2."""
    g, r = polynomial_weights(exponent, count), np.ones(count)
    for n in range(1, count):
        r[n] = (g[n] - r[1:n] @ r[n - 1 : 0 : -1]) / 2
    return r


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_newton_iteration_matches_the_recurrence(exponent: Fraction) -> None:
    np.testing.assert_allclose(compute_weights_root(exponent, 400), by_recurrence(exponent, 400), atol=2e-15)


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("count", [1, 2, 3, 2**15])
def test_squared_root_equals_weights_and_decreases_to_zero(exponent: Fraction, count: int) -> None:
    r = compute_weights_root(exponent, count)
    np.testing.assert_allclose(series_product(r, r), polynomial_weights(exponent, count), atol=1e-14)
    assert (r > -1e-15).all()
    assert (np.diff(r) < 1e-15).all()
    encoder = PolynomialDecay(HALF, exponent=exponent, horizon=count).implementation.factors.encoder
    assert (np.diff(encoder) <= 0).all()
    assert encoder[-1] >= 0


def test_root_of_constant_weights_is_that_of_running_count() -> None:
    np.testing.assert_allclose(series_root(np.ones(200)), square_root_coefficients(200), rtol=1e-13)


@pytest.mark.parametrize("loss", [PURE, HALF, sg.Approx(1, 1e-6)], ids=repr)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_silent_noise_gives_decayed_sum_up_to_deviation(loss: Any, exponent: Fraction) -> None:
    claim, values = PolynomialDecay(loss, exponent=exponent, horizon=600), stream(600, 2)
    released = claim.start(2, SilentNoise()).feed(values)
    bounds = np.array([claim.deviation(t) for t in range(1, 601)])[:, None] * np.cumsum(values, axis=0)
    assert (np.abs(released - decayed(values, exponent)) <= bounds).all()


@pytest.mark.usefixtures("transforms_only")
@pytest.mark.parametrize(("loss", "exponent"), [(PURE, 1), (PURE, "1/10"), (HALF, "1/3")])
def test_feed_equals_steps_from_any_tick(loss: Any, exponent: Any) -> None:
    claim, values = PolynomialDecay(loss, exponent=exponent, horizon=500), stream(500, 2)
    stepped = claim.start(2, InsecureNoise(4))
    one = np.array([stepped.step(row) for row in values])
    fed = claim.start(2, InsecureNoise(4))
    two = np.concatenate([fed.feed(values[:7]), fed.feed(values[7:300]), fed.feed(values[300:])])
    for name in ("measurements", "items", "counts"):
        if hasattr(read_state(fed), name):
            rows = (getattr(read_state(run), name)[:500] for run in (stepped, fed))
            np.testing.assert_array_equal(*rows)
    np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-9)


def test_noisy_items_have_the_variance_of_the_weights() -> None:
    claim = PolynomialDecay(PURE, exponent=1, horizon=1000, bound=2)
    assert claim.implementation.distribution.scale == 2
    squares = sum(1 / k**2 for k in range(1, 101))
    assert claim.stddev(100) ** 2 == pytest.approx(claim.implementation.distribution.variance * squares)
    assert claim.noise_at(100).variance == pytest.approx(claim.implementation.distribution.variance * squares)


def test_noise_of_items_scales_with_ticks_of_the_unit() -> None:
    unit = sg.WEvent(5)
    pure, zcdp = (PolynomialDecay(loss, exponent=1, horizon=50, unit=unit, pan_private=True) for loss in (PURE, HALF))
    assert pure.implementation.distribution.scale == 5
    assert zcdp.implementation.distribution.parameter == 5


@pytest.mark.parametrize("loss", [PURE, HALF], ids=repr)
def test_pan_private_run_stores_only_noisy_items(loss: Any) -> None:
    claim = PolynomialDecay(loss, exponent=1, horizon=50, pan_private=True)
    run = claim.start(2)
    assert type(run.source) is EphemeralNoise
    run.feed(stream(20, 2))
    run.step([1, 2])
    assert read_state(run).items.size == 0
    before = read_state(run).measurements.copy()
    np.testing.assert_array_equal(run.intrude().measurements, before)
    np.testing.assert_array_equal(read_state(run).measurements, before)


def test_a_factored_run_is_more_accurate_than_noisy_items() -> None:
    """Both have rho = 1/2: the gain comes from exact memory."""
    for exponent, gain in [("1/10", 5.0), ("1/2", 1.5)]:
        settings = {"exponent": exponent, "horizon": 2**12}
        factored, items = (PolynomialDecay(HALF, pan_private=pan, **settings) for pan in (False, True))
        assert items.rmse() / factored.rmse() > gain


@pytest.mark.parametrize(
    ("exponent", "horizon", "by_counts"), [("1/10", 1024, True), ("1/10", 40, False), (1, 1024, False)]
)
def test_pure_implementation_is_the_one_with_less_error(exponent: Any, horizon: int, by_counts: bool) -> None:
    claim = PolynomialDecay(PURE, exponent=exponent, horizon=horizon)
    counts = WeightedCounts(PURE, exponent=exponent, horizon=horizon)
    items = PolynomialDecay(PURE, exponent=exponent, horizon=horizon, pan_private=True)
    assert isinstance(claim.implementation, WeightedCounts) == by_counts
    assert claim.rmse() == min(counts.rmse(), items.rmse())


@pytest.mark.parametrize("horizon", [1, 5, 40, 130])
def test_the_error_of_weighed_counts_is_that_of_the_matrices(horizon: int) -> None:
    claim = WeightedCounts(PURE, exponent="1/5", horizon=horizon)
    variances = (claim.strategy(horizon).decode ** 2).sum(axis=1) * claim.distribution.variance
    predicted = [claim.noise_at(t).variance for t in range(1, horizon + 1)]
    np.testing.assert_allclose(predicted, variances, rtol=1e-9)
    for ticks in {1, (horizon + 1) // 2, horizon}:
        assert claim.mean_variance(ticks) == pytest.approx(variances[:ticks].mean(), rel=1e-9)


def test_weighed_counts_refuse_gaussian_losses_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"loss must be Pure for WeightedCounts \(its noise looks ahead"):
        WeightedCounts(HALF, exponent=1, horizon=10)


def test_one_draw_weighs_as_the_strategy_says() -> None:
    claim = PolynomialDecay(HALF, exponent=2, horizon=30)
    strategy = claim.strategy(30)
    for draw in (0, 11, 29):
        released = claim.start(1, ImpulseNoise(draw, claim.implementation.factors.grid)).feed(np.zeros(30, int))
        np.testing.assert_allclose(released, strategy.decode[:, draw], atol=1e-12)


def test_saved_run_continues_bit_for_bit_up_to_the_horizon() -> None:
    claim, values, noise = PolynomialDecay(PURE, exponent=0.5, horizon=90), stream(90, 2), InsecureNoise(9)
    run = claim.start(2, noise)
    run.feed(values[:31])
    twin = claim.load(run.save(), noise.clone())
    np.testing.assert_array_equal(run.feed(values[31:]), twin.feed(values[31:]))
    with pytest.raises(LimitExceededError, match="tick must be at most the horizon 90, got 91"):
        run.step([1, 1])


def test_invalid_exponents_are_refused() -> None:
    for wrong in (0, -1, "-1/2"):
        with pytest.raises(ValueError, match=f"exponent must be positive, got {wrong}"):
            PolynomialDecay(PURE, exponent=wrong, horizon=10)
    with pytest.raises(ValueError, match="exponent must be a finite number, got nan"):
        PolynomialDecay(PURE, exponent=float("nan"), horizon=10)
    with pytest.raises(ValueError, match="horizon must be at most 16777216"):
        PolynomialDecay(PURE, exponent=1, horizon=2**24 + 1)
    assert PolynomialDecay(PURE, exponent=0.5, horizon=9) == PolynomialDecay(PURE, exponent="1/2", horizon=9)
