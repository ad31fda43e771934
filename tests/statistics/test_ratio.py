"""Laws of means: channels, interval ends and coverage."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from statistics import NormalDist

import numpy as np
import pytest

from streamgauge.noise import DiscreteLaplace, NoiseSum
from streamgauge.noise.terms import Term
from streamgauge.statistics.moments import intervals as ratio
from tests.support.channel_noise import noise_covariance

RUNS = 100_000
COUNTS = (5, 20, 100, 1000, 10**4, 10**6)
MEANS = (-1.0, -0.6, 0.0, 0.05, 0.97, 1.0)
SPREADS = (3.0, 40.0)
SURE = 6.1 * np.sqrt(0.024 * 0.976 / RUNS)  # p below 1e-9
CORNERS: ratio.ChannelRows = ((0, -1, 1), (0, 1, 1), (1, 0, -1))
PUBLIC: ratio.ChannelRows = ((1,),)
CASES = [
    (ratio.L1_MEAN_ROWS, 1),
    (ratio.L1_MEAN_ROWS, 40),
    (ratio.L2_MEAN_ROWS, 0),
    (CORNERS, 1),
    (PUBLIC, 1),
    (PUBLIC, 0),
]
Interval = Callable[[ratio.MomentSums, np.ndarray, float], tuple[np.ndarray, np.ndarray]]
Noise = tuple[np.ndarray, np.ndarray, float, float, float]


def channels(draws: int, count: int, confidence: float) -> tuple[np.ndarray, float]:
    """Return channel noise of variance 1, a Laplace sum or normal, and its half width."""
    rng = np.random.default_rng(100 + draws)
    if not draws:
        return rng.normal(size=(count, RUNS)), NormalDist().inv_cdf((1 + confidence) / 2)
    noise = NoiseSum((Term(draws, 1, DiscreteLaplace(Fraction(500))),))
    values = np.zeros((count, RUNS))
    for _ in range(draws):
        values += rng.laplace(size=(count, RUNS))
    return values / np.sqrt(2 * draws), noise.half_width(confidence) / noise.stddev


def noise_of(rows: ratio.ChannelRows, draws: int, confidence: float = 0.95) -> Noise:
    """Noise of count and sum, their standard deviations, and the factor; a public count has none."""
    values, factor = channels(draws, len(rows), confidence)
    if rows == PUBLIC:
        return np.zeros(RUNS), values[0], 0.0, 1.0, factor
    decoded = np.linalg.inv(np.array(rows, float)) @ values
    sd = np.sqrt(np.diag(noise_covariance(rows)))
    return decoded[0] / sd[0], decoded[1] / sd[0], 1.0, sd[1] / sd[0], factor


def noisy(noise: Noise, n: int, m: float, spread: float) -> ratio.MomentSums:
    """The sums of n values of mean m; `spread` is that of the count, or of the sum if the count is public."""
    count, total, sd_count, sd_total, _ = noise
    sds = np.array([spread * sd_count]), np.array([spread * sd_total])
    return ratio.MomentSums(n + spread * count, n * m + spread * total, *sds)


def covered(noise: Noise, at: tuple[int, float, float], interval: Interval, confidence: float = 0.95) -> float:
    """Return the coverage of the mean, at this count, mean and spread."""
    n, m, spread = at
    factor = noise[-1]
    sums = noisy(noise, n, m, spread)
    low, high = interval(sums, np.array([factor]), confidence)
    return float(((low <= m) & (m <= high)).mean())


def coverages(noise: Noise, interval: Interval, counts: tuple[int, ...] = COUNTS) -> np.ndarray:
    """Return the coverage for all counts, means and spreads."""
    cells = [(n, m, spread) for n in counts for m in MEANS for spread in SPREADS]
    return np.array([covered(noise, cell, interval) for cell in cells])


def delta_method(sums: ratio.MomentSums, factor: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    half = factor * ratio.mean_error(sums)
    return ratio.mean(sums) - half, ratio.mean(sums) + half


def halved(sums: ratio.MomentSums, factor: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    half = replace(sums, count_stddev=sums.count_stddev / 2, total_stddev=sums.total_stddev / 2)
    return ratio.mean_interval(half, factor, confidence)


def unfloored(sums: ratio.MomentSums, factor: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    noise, n = ratio.NoisePair(sums.total_stddev, sums.count_stddev, np.zeros(1)), np.maximum(sums.count, 0.0)
    low, minus_high = (
        ratio.find_ratio_bound(total, n, noise, factor, (-1.0, 1.0)) for total in (sums.total, -sums.total)
    )
    return low, -minus_high


def test_event_moves_channels_by_at_most_the_charge() -> None:
    u = np.linspace(-1, 1, 2001)
    event = np.stack([np.ones_like(u), u])
    assert np.abs(np.array(ratio.L1_MEAN_ROWS) @ event).sum(axis=0).max() == pytest.approx(2)
    assert np.square(np.array(ratio.L2_MEAN_ROWS) @ event).sum(axis=0).max() == pytest.approx(34)


def test_channels_have_less_error_than_budget_split_in_two() -> None:
    means = np.linspace(-0.6, 0.6, 13)

    def error(rows: ratio.ChannelRows, reach: float) -> np.ndarray:
        (vn, _), (_, vs) = noise_covariance(rows)
        return reach * np.sqrt(vs + means**2 * vn)

    split = error(((1, 0), (0, 1)), 2.0)
    assert split / error(ratio.L1_MEAN_ROWS, 2.0) == pytest.approx(np.sqrt(2))
    assert (error(((1, 0), (0, 2)), 3.0) > error(ratio.L1_MEAN_ROWS, 2.0)).all()
    split = error(((1, 0), (0, 1)), np.sqrt(2))
    assert np.log(split / error(ratio.L2_MEAN_ROWS, np.sqrt(34))).mean() > np.log(1.1)


def test_without_noise_the_interval_is_the_mean() -> None:
    sums = ratio.MomentSums(np.array([4.0, 10.0, 3.0]), np.array([1.0, -10.0, 0.0]), np.zeros(1), np.zeros(1))
    assert ratio.mean(sums).tolist() == [0.25, -1.0, 0.0]
    for end in ratio.mean_interval(sums, np.array([2.0]), 0.95):
        assert end == pytest.approx(sums.total / sums.count)


def test_both_ends_solve_fiellers_equation() -> None:
    rng = np.random.default_rng(1)
    count, m = rng.uniform(100, 1000, 500), rng.uniform(-0.6, 0.6, 500)
    sums, factor = ratio.MomentSums(count, m * count, np.array([7.0]), np.array([4.0])), np.array([2.0])
    k = ratio.critical_factor(factor, 0.95)
    for end in ratio.mean_interval(sums, factor, 0.95):
        assert np.abs(m * count - end * count) == pytest.approx(k * np.hypot(4.0, end * 7.0))


def test_negated_data_negate_the_interval() -> None:
    count, total = np.random.default_rng(2).normal(0, 50, (2, 1000))
    sums = ratio.MomentSums(count, total, np.array([9.0]), np.array([5.0]))
    low, high = ratio.mean_interval(sums, np.array([2.1]), 0.95)
    turned_low, turned_high = ratio.mean_interval(replace(sums, total=-total), np.array([2.1]), 0.95)
    assert np.array_equal(low, -turned_high)
    assert np.array_equal(high, -turned_low)


def test_interval_is_in_range_and_holds_estimate_for_any_numbers() -> None:
    wild = np.array([0.0, 1e-300, 1.0, 5.0, 1e6, 1e18, 1e200, 1e308, np.inf, np.nan])
    values = np.concatenate([wild, -wild])
    count, total = (grid.ravel() for grid in np.meshgrid(values, values))
    for sds in product((0.0, 1e-9, 3.0, 1e9), repeat=2):
        sums = ratio.MomentSums(count, total, *(np.array([sd]) for sd in sds))
        low, high = ratio.mean_interval(sums, np.array([2.0]), 0.95)
        estimate, error = ratio.mean(sums), ratio.mean_error(sums)
        assert ((low >= -1) & (low <= estimate) & (estimate <= high) & (high <= 1)).all()
        assert ((error >= 0) & (error <= 1)).all()
        assert ratio.is_reliable(sums).dtype == np.bool_


def test_more_confidence_is_a_wider_interval() -> None:
    noise = noise_of(ratio.L1_MEAN_ROWS, 5)
    for n in (5, 40, 1000):
        widths = []
        for confidence in (0.5, 0.8, 0.95, 0.99, 0.999):
            factor = channels(5, 1, confidence)[1]
            low, high = ratio.mean_interval(noisy(noise, n, 0.3, 9.0), np.array([factor]), confidence)
            widths.append(high - low)
        assert all((wide >= narrow - 1e-12).all() for narrow, wide in pairwise(widths))


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.99, 0.999])
def test_other_confidences_hold_at_large_counts(confidence: float) -> None:
    noise = noise_of(ratio.L1_MEAN_ROWS, 5, confidence)
    coverage = covered(noise, (10**4, 0.4, 20.0), ratio.mean_interval, confidence)
    assert abs(coverage - confidence) < 6.5 * np.sqrt(confidence * (1 - confidence) / RUNS) + 0.001


@pytest.mark.one_of_each
@pytest.mark.parametrize(("rows", "draws"), CASES)
def test_intervals_cover_from_93_to_98_percent_at_every_count(rows: ratio.ChannelRows, draws: int) -> None:
    coverage = coverages(noise_of(rows, draws), ratio.mean_interval)
    assert coverage.min() > 0.93 + SURE
    assert coverage.max() < 0.98 - SURE


@pytest.mark.parametrize("broken", [delta_method, halved, unfloored])
def test_broken_intervals_are_caught(broken: Interval) -> None:
    coverage = coverages(noise_of(ratio.L2_MEAN_ROWS, 0), broken, counts=(5,))
    assert coverage.min() < 0.93 - SURE or coverage.max() > 0.98 + SURE


def test_mean_of_enough_events_is_nearly_unbiased() -> None:
    noise = noise_of(ratio.L1_MEAN_ROWS, 5)
    for n in (100, 1000, 10**5):
        sums = noisy(noise, n, 0.5, 9.0)
        error = ratio.mean(sums) - 0.5
        exact = replace(sums, count=np.array([float(n)]), total=np.array([0.5 * n]))
        claimed = ratio.mean_error(exact)[0]
        assert error.std() == pytest.approx(claimed, rel=0.04)
        assert abs(error.mean()) < 0.1 * claimed + 6.5 * claimed / np.sqrt(RUNS)
