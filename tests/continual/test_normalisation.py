"""Column normalisation: exact lengths, units of several ticks, error, and what it may never do."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from streamgauge.audit.broken.constants import LongColumns, PlainCharge
from streamgauge.continual import BufferedToeplitz, choose
from streamgauge.continual.factorizations.encoder import Encoder
from streamgauge.continual.factorizations.normalisation import ColumnScales, build_scales, list_short_numbers
from streamgauge.privacy import Sensitivity, User, WEvent, Zcdp
from streamgauge.testing.noise import InsecureNoise, SilentNoise

HALF = Zcdp("1/2")


def normalised(horizon: int, **settings: object) -> BufferedToeplitz:
    return BufferedToeplitz(**{"loss": HALF, "horizon": horizon, "normalised": True, **settings})


def exact_coefficients(encoder: Encoder, ticks: int) -> list[Fraction]:
    later = (sum(t.weight * (1 - t.rate) ** k for t in encoder.terms) for k in range(ticks - 1))
    return [Fraction(1), *later]


def longest_excess(claim: BufferedToeplitz, scales: ColumnScales, coefficients: list[Fraction]) -> Fraction:
    """Return the largest exact squared norm of a scaled column, less the charged one."""
    squares = np.cumsum([c * c for c in coefficients[: claim.horizon]])[::-1]
    tops = scales.list_tops(0, claim.horizon).tolist()
    lengths = [square * top**2 / 4**scales.bits for square, top in zip(squares, tops, strict=True)]
    return max(lengths) - claim.norm_squared(1)


@pytest.mark.slow
def test_no_exact_column_exceeds_the_charge_at_horizons_to_300() -> None:
    for horizon in range(1, 301):
        claim = normalised(horizon)
        assert claim.scales is not None
        found = exact_coefficients(claim.encoder, horizon)
        assert -Fraction(1, 2**50) < longest_excess(claim, claim.scales, found) <= 0


@pytest.mark.parametrize("horizon", [2, 7, 33, 100])
@pytest.mark.parametrize("bits", [1, 4, 20])
def test_scales_rounded_up_make_a_column_longer_than_the_charge(horizon: int, bits: int) -> None:
    claim = normalised(horizon)
    scales, found = build_scales(claim.encoder, horizon, bits), exact_coefficients(claim.encoder, horizon)
    assert longest_excess(claim, scales, found) <= 0
    up = replace(scales, tops=(scales.tops[0], *(top + 1 for top in scales.tops[1:])))
    assert longest_excess(claim, up, found) > 0


def gram(claim: BufferedToeplitz) -> np.ndarray:
    columns = claim.strategy(claim.horizon).measure
    return np.asarray(columns.T @ columns)


@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 8, 17, 64, 100, 256, 300])
def test_windows_of_ticks_never_move_more_than_the_charge(horizon: int) -> None:
    table, claim = gram(normalised(horizon)), normalised(horizon)
    for ticks in {1, 2, 3, 7, 16, horizon // 2, horizon} & {*range(1, horizon + 1)}:
        sums = [table[s : s + ticks, s : s + ticks].sum() for s in range(horizon - ticks + 1)]
        charged = float(claim.norm_squared(ticks))
        assert max(sums) <= charged * (1 + 1e-12)
        assert 8 * ticks > horizon or charged <= max(sums) * 1.005


@pytest.mark.parametrize("horizon", [4, 7, 10])
def test_any_set_of_ticks_never_moves_more_than_the_charge(horizon: int) -> None:
    table, claim = gram(normalised(horizon)), normalised(horizon)
    for ticks in range(1, horizon + 1):
        sums = [table[np.ix_(chosen, chosen)].sum() for chosen in combinations(range(horizon), ticks)]
        assert max(sums) <= float(claim.norm_squared(ticks)) * (1 + 1e-12)


@pytest.mark.slow
def test_gram_entries_stay_below_bounds_at_horizons_to_300() -> None:
    """Two ticks, whatever their distance, for which the bounds of all lags are what is added up."""
    for horizon in range(2, 301):
        claim = normalised(horizon)
        assert claim.scales is not None
        table = gram(claim)
        largest = [float(np.diagonal(table, lag).max()) for lag in range(horizon)]
        for lag in [lag for lag in list_short_numbers(horizon - 1, 4) if lag]:
            bound = float(claim.scales.bound_entry(lag))
            assert max(largest[lag:]) <= bound * (1 + 1e-12)


def test_the_published_figure_of_sixteen_ticks_is_met() -> None:
    """The plain columns charge less than scaled ones move: a twin that charges them is caught."""
    for horizon, unit in ((4, WEvent(4)), (16, WEvent(8)), (256, WEvent(16)), (30, User(1, 4))):
        honest, twin = normalised(horizon, unit=unit), PlainCharge(HALF, horizon=horizon, normalised=True, unit=unit)
        ticks, table = unit.ticks, gram(honest)
        moved = max(table[s : s + ticks, s : s + ticks].sum() for s in range(horizon - ticks + 1))
        assert float(twin.norm_squared(ticks)) < moved <= float(honest.norm_squared(ticks)) * (1 + 1e-12)


def test_long_columns_lose_more_than_is_charged() -> None:
    twin = LongColumns(HALF, horizon=9, normalised=True)
    lengths = (twin.strategy(9).measure ** 2).sum(axis=0)
    assert lengths.max() > 1.2 * float(twin.norm_squared(1))


@pytest.mark.parametrize(("scale", "mean", "worst"), [(10, 3.0, 3.1), (16, 4.33, 4.42), (20, 5.25, 5.42)])
def test_choose_takes_scaled_columns_and_meets_the_bar(scale: int, mean: float, worst: float) -> None:
    claim = choose(HALF, horizon=2**scale)
    assert claim == normalised(2**scale, buffers=6)
    assert claim.rmse() <= mean
    ticks = {2**scale - 2**k for k in range(scale)} | {2**scale * k // 64 for k in range(1, 65)}
    assert max(claim.stddev(tick) for tick in ticks) <= worst


@pytest.mark.parametrize("unit", [WEvent(3), WEvent(60), User(2, 5)])
def test_units_of_several_ticks_gain_too(unit: object) -> None:
    plain = BufferedToeplitz(HALF, horizon=2**12, unit=unit, bound=unit.events)
    assert normalised(2**12, unit=unit, bound=unit.events).rmse() < 0.995 * plain.rmse()


@pytest.mark.parametrize("horizon", [1, 2, 31, 300])
def test_variances_are_the_squared_norms_of_the_decoder(horizon: int) -> None:
    claim = normalised(horizon)
    rows = (claim.strategy(horizon).decode ** 2).sum(axis=1) * claim.distribution.variance / 4.0**claim.grid_bits
    assert np.allclose([claim.stddev(t) ** 2 for t in range(1, horizon + 1)], rows, rtol=1e-9)
    for ticks in {1, horizon // 2 or 1, horizon}:
        assert claim.mean_variance(ticks) == pytest.approx(rows[:ticks].mean(), rel=1e-12)


def test_the_matrices_multiply_to_running_sums() -> None:
    assert np.allclose(normalised(200).strategy(200).workload, np.tri(200), atol=1e-12)


@pytest.mark.parametrize("width", [1, 3, 40])
def test_silent_noise_gives_the_exact_counts(width: int) -> None:
    values = np.random.default_rng(0).integers(-(2**40), 2**40, (300, width))
    assert np.array_equal(normalised(300).start(width, SilentNoise()).feed(values), np.cumsum(values, axis=0))


@pytest.mark.parametrize("bits", [1, 7, 20])
def test_one_item_scales_its_noise_to_a_whole_item(bits: int) -> None:
    """The bijection of the proof: u - M 2^(G - bits) D turns into one D units lower, rounding and all."""
    claim, grid = normalised(90), 42
    scales = build_scales(claim.encoder, 90, bits)
    noise = np.random.default_rng(1).integers(-(2**47), 2**47, (90, 5))
    moves = np.random.default_rng(2).integers(-9, 9, (90, 5))
    moved = noise - scales.list_tops(0, 90)[:, None] * moves * 2 ** (grid - bits)
    scales.divide(0, noise)
    scales.divide(0, moved)
    assert np.array_equal(moved, noise - moves * 2**grid)


@pytest.mark.parametrize("bits", [1, 20])
def test_division_rounds_to_the_nearest_grid_point(bits: int) -> None:
    scales = build_scales(normalised(64).encoder, 64, bits)
    noise = np.random.default_rng(3).integers(-(2**50), 2**50, (64, 20))
    quotients = noise.copy()
    scales.divide(0, quotients)
    tops = scales.list_tops(0, 64).tolist()
    for row, divided, top in zip(noise.tolist(), quotients.tolist(), tops, strict=True):
        assert all(abs(Fraction(u << bits, top) - q) <= Fraction(1, 2) for u, q in zip(row, divided, strict=True))


@pytest.mark.parametrize("width", [1, 40])
def test_feeding_equals_stepping_and_loading_bit_for_bit(width: int) -> None:
    claim, values = normalised(90), np.random.default_rng(2).integers(0, 9, (90, width))
    noise = InsecureNoise(4)
    fed, stepped = claim.start(width, noise), claim.start(width, InsecureNoise(4))
    first = fed.feed(values[:37])
    loaded = claim.load(fed.save(), noise.clone())
    releases = np.concatenate([first, loaded.feed(values[37:])])
    assert np.array_equal(releases, np.array([stepped.step(row) for row in values]))


def test_a_large_bound_has_coarser_scales_and_the_same_claim() -> None:
    """Noise of 2^30 units has few grid points to a unit, and scales no finer than that."""
    bits, errors = [], []
    for exponent in (0, 20, 24, 30, 40):
        claim = normalised(500, bound=Sensitivity(2**exponent, 4**exponent, 1))
        assert claim.scales is not None
        assert claim.scales.bits == min(20, claim.grid_bits)
        bits.append(claim.scales.bits)
        errors.append(claim.rmse() / 2**exponent)
    assert bits[0] == 20 > bits[2] > bits[3] > bits[4] >= 0
    assert all(a <= b * (1 + 1e-6) for a, b in pairwise(errors))
    assert errors[-1] <= BufferedToeplitz(HALF, horizon=500).rmse() * 1.002


def test_a_pan_private_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^pan_private must be False for BufferedToeplitz \(its buffers"):
        normalised(10, pan_private=True)
    with pytest.raises(ValueError, match=r"^normalised must be True or False, got 1"):
        BufferedToeplitz(HALF, horizon=10, normalised=1)


def test_far_horizons_have_as_many_pieces_as_their_logarithm() -> None:
    claim = normalised(2**40)
    assert claim.scales is not None
    assert len(claim.scales.starts) < 700
    assert claim.memory() == 10
    assert claim.rmse() < BufferedToeplitz(HALF, horizon=2**40).rmse()
