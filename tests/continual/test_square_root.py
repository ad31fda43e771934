"""The square-root factorisation: exact integers until noised, and the table's errors."""

from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual.factorizations.square_root import SquareRoot, square_root_coefficients
from streamgauge.continual.factorizations.toeplitz import Factors, build_noise_sum, grow_rows, sum_of_squares
from streamgauge.continual.run import LimitExceededError
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, NoiseSum
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.saved_states import read_state

HALF = sg.Zcdp(Fraction(1, 2))


def stream(ticks: int, width: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 9, (ticks, width))


def charged(claim: SquareRoot, rows: np.ndarray) -> Fraction:
    """Return the rho that is lost if the measurements move by these integers."""
    moved = sum(int(v) ** 2 for v in rows)
    return Fraction(claim.bound**2 * moved) / (2 * claim.distribution.parameter)


@pytest.mark.parametrize("k", [0, 1, 2, 100, 255, 256, 257, 1000, 5000])
def test_coefficients_are_central_binomials_divided_by_powers_of_four(k: int) -> None:
    assert square_root_coefficients(k + 1)[k] == pytest.approx(float(Fraction(comb(2 * k, k), 4**k)), rel=4e-15)


@pytest.mark.parametrize(("log", "mean", "last"), [(10, 3.110, 3.273), (16, 4.434, 4.596), (20, 5.318, 5.479)])
def test_error_matches_the_table_to_a_thousandth(log: int, mean: float, last: float) -> None:
    claim = SquareRoot(HALF, horizon=2**log)
    assert claim.rmse() == pytest.approx(mean, rel=1e-3)
    assert claim.stddev(2**log) == pytest.approx(last, rel=1e-3)
    assert claim.noise_at(2**log).stddev == pytest.approx(last, rel=1e-3)


@pytest.mark.parametrize("horizon", [1, 2, 3, 50, 1000])
def test_the_first_column_in_integers_costs_exactly_the_declared_loss(horizon: int) -> None:
    claim = SquareRoot(HALF, horizon=horizon, bound=3)
    assert charged(claim, claim.factors.encoder) == HALF.rho
    strategy = claim.strategy(min(horizon, 50))
    np.testing.assert_array_equal(strategy.measure[:, 0] * claim.factors.grid, claim.factors.encoder[:50])


def test_the_norm_of_unrounded_coefficients_would_charge_too_little() -> None:
    """A broken twin: exact integers prevent this."""
    claim = SquareRoot(HALF, horizon=1000)
    ideal = sum(Fraction(float(r)) ** 2 for r in square_root_coefficients(1000)) * claim.factors.grid**2
    twin = DiscreteGaussian(ideal / (2 * HALF.rho))
    lost = Fraction(sum_of_squares(claim.factors.encoder)) / (2 * twin.parameter)
    assert lost != HALF.rho


@pytest.mark.parametrize("unit", [sg.WEvent(5), sg.User(1, 5), sg.WEvent(40)], ids=repr)
def test_unit_of_many_ticks_loses_claim_at_first_ticks(unit: Any) -> None:
    claim = SquareRoot(HALF, horizon=40, unit=unit)
    encoder = claim.factors.encoder
    columns = np.array([np.concatenate([np.zeros(j, np.int64), encoder[: 40 - j]]) for j in range(40)])
    assert charged(claim, columns[: unit.ticks].sum(axis=0)) == HALF.rho
    sets = np.random.default_rng(1)
    for _ in range(200):
        chosen = sets.choice(40, unit.ticks, replace=False)
        signs = sets.choice([-1, 1], unit.ticks)
        assert charged(claim, signs @ columns[chosen]) <= HALF.rho


def test_a_native_unit_is_charged_far_less_than_a_group() -> None:
    """Thirty ticks lose 602 rho instead of 900, at T = 4096."""
    one, many = (SquareRoot(HALF, horizon=4096, unit=unit) for unit in (sg.Event(), sg.WEvent(30)))
    assert many.distribution.variance / one.distribution.variance == pytest.approx(602, abs=1)


@pytest.mark.parametrize("horizon", [1, 7, 3000])
def test_silent_noise_gives_count_up_to_deviation(horizon: int) -> None:
    claim, values = SquareRoot(HALF, horizon=horizon), stream(horizon, 2)
    released = claim.start(2, SilentNoise()).feed(values)
    sums = np.cumsum(values, axis=0)
    bounds = sums.T * [claim.deviation(t) for t in range(1, horizon + 1)]
    assert (bounds - np.abs(released - sums).T >= 0).all()
    assert claim.deviation(2**20) < 2**-33


@pytest.mark.usefixtures("transforms_only")
def test_feed_from_any_tick_measures_the_same_integers_as_steps() -> None:
    claim, values = SquareRoot(HALF, horizon=900), stream(900, 2)
    stepped = claim.start(2, InsecureNoise(4))
    one = np.array([stepped.step(row) for row in values])
    fed = claim.start(2, InsecureNoise(4))
    cuts = [0, 1, 1, 300, 640, 900]
    two = np.concatenate([fed.feed(values[a:b]) for a, b in pairwise(cuts)])
    np.testing.assert_array_equal(read_state(stepped).measurements[:900], read_state(fed).measurements[:900])
    np.testing.assert_array_equal(read_state(stepped).items[:900], read_state(fed).items[:900])
    np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-9)


class FloatMeasured(SquareRoot):
    """A broken twin: raw data convolved by a float FFT."""

    def feed(self, state: Any, block: np.ndarray, noise: Any) -> np.ndarray:
        points = 2 * len(block)
        spectrum = np.fft.rfft(self.factors.encoder[: len(block)], points)
        floats = np.fft.irfft(np.fft.rfft(block[:, 0], points) * spectrum, points)[: len(block)]
        state.measurements = floats[:, None] + noise.gaussian(Fraction(1), len(block))[:, None]
        return state.measurements


def test_a_twin_that_measures_in_floats_is_caught() -> None:
    values = 2**30 + stream(900)
    exact, twin = (cls(HALF, horizon=900).start(1, SilentNoise()) for cls in (SquareRoot, FloatMeasured))
    exact.feed(values)
    twin.feed(values)
    assert (read_state(exact).measurements[:900] != read_state(twin).measurements).any()


def test_saved_run_continues_bit_for_bit_up_to_the_horizon() -> None:
    claim, values, noise = SquareRoot(HALF, horizon=150), stream(150, 2), InsecureNoise(9)
    run = claim.start(2, noise)
    run.feed(values[:70])
    twin = claim.load(run.save(), noise.clone())
    np.testing.assert_array_equal(run.feed(values[70:]), twin.feed(values[70:]))
    with pytest.raises(LimitExceededError, match="tick must be at most the horizon 150, got 151"):
        run.step([1, 1])


def test_arrays_grow_with_the_stream_and_never_past_the_horizon() -> None:
    run = SquareRoot(HALF, horizon=2**20).start(3, SilentNoise())
    run.step([1, 2, 3])
    assert len(read_state(run).items) == len(read_state(run).measurements) == 64
    grown = grow_rows(np.ones((64, 3), np.int64), 65, 100)
    assert grown.shape == (100, 3)
    assert grown[:64].all()
    assert not grown[64:].any()


def test_an_impossible_promise_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"loss must be Zcdp or Approx for SquareRoot \(in L1 .*, got Pure"):
        SquareRoot(sg.Pure(1), horizon=10)
    with pytest.raises(ValueError, match=r"pan_private must be False for SquareRoot \(its memory is all exact"):
        SquareRoot(HALF, horizon=10, pan_private=True)
    with pytest.raises(ValueError, match="horizon must be at most 16777216"):
        SquareRoot(HALF, horizon=2**24 + 1)
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        SquareRoot(HALF, horizon=0)


def test_encoder_decreases_even_if_the_root_does_not() -> None:
    factors = Factors.from_root(np.array([1.0, 0.5, 0.5 + 1e-6, -1e-9]))
    assert factors.encoder.tolist() == [2**26, 2**25, 2**25, 0]


def test_sums_of_squares_are_exact() -> None:
    values = np.random.default_rng(2).integers(0, 2**54, 5000)
    assert sum_of_squares(values) == sum(int(v) ** 2 for v in values)


def test_merged_weights_preserve_variance_and_bound_moments() -> None:
    weights = np.arange(1.0, 5001) ** -0.7
    for law in (DiscreteLaplace(Fraction(3)), DiscreteGaussian(Fraction(50))):
        terms = build_noise_sum(weights, law).terms
        assert len(terms) < 700
        assert sum(term.count for term in terms) == len(weights)
        assert NoiseSum(terms).variance == pytest.approx(law.variance * (weights @ weights), rel=1e-12)
        for x in (0.01, 0.1, 0.3):
            true = sum(law.log_mgf(w * x) for w in weights)
            few = sum(term.count * law.log_mgf(term.weight * x) for term in terms)
            assert true * (1 - 1e-12) <= few <= true * (1 + 1e-4)


def test_simulation_agrees_with_the_standard_error() -> None:
    claim = SquareRoot(HALF, horizon=40)
    released = claim.start(4000, InsecureNoise(6)).feed(np.zeros((40, 4000), int))
    for tick in (1, 7, 40):
        ratio = (released[tick - 1] ** 2).mean() / claim.stddev(tick) ** 2
        assert abs(ratio - 1) < 6.5 * (2 / 4000) ** 0.5
        for wrong in (0.7, 1.3):
            assert abs(ratio / wrong**2 - 1) > 6.5 * (2 / 4000) ** 0.5


class Cached(SquareRoot):
    @cached_property
    def factors(self) -> Factors:
        raise AssertionError("a claim must not compute unused values")


def test_a_claim_is_cheap_until_it_is_used() -> None:
    assert Cached(HALF, horizon=2**24).horizon == 2**24
