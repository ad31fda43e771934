"""Laws of variances: channels, interval ends and coverage."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from streamgauge.noise import DiscreteLaplace, NoiseSum
from streamgauge.noise.terms import Term
from streamgauge.statistics.moments import intervals as ratio
from streamgauge.statistics.moments import intervals as spread
from tests.support.channel_noise import noise_covariance

RUNS = 20_000
LEAST, MOST = 0.93, 0.98
SURE = 6.1 * np.sqrt(np.array([LEAST * (1 - LEAST), MOST * (1 - MOST)]) / RUNS)  # p below 1e-9
COUNTS = (5, 20, 100, 1000, 10**4, 10**6)
SHAPES = ((0.0, 0.0), (1.0, 0.0), (-0.5, 0.0), (0.0, 1.0), (0.95, 1.0), (0.2, 0.2), (-0.6, 0.5))
NOISY = [(spread.L1_VARIANCE_ROWS, 1), (spread.L1_VARIANCE_ROWS, 40), (spread.L2_VARIANCE_ROWS, 0)]
PUBLIC = [(spread.L1_PUBLIC_COUNT_ROWS, 1), (spread.L1_PUBLIC_COUNT_ROWS, 40), (spread.L2_PUBLIC_COUNT_ROWS, 0)]
Interval = Callable[[spread.SquareSums, np.ndarray, float], tuple[np.ndarray, np.ndarray]]
Noise = tuple[np.ndarray, np.ndarray, float]


def noise_of(rows: ratio.ChannelRows, draws: int) -> Noise:
    """Noise of N, S and Q, its covariance, and the factor; that of the count (or the sum) has variance 1."""
    rng, shape = np.random.default_rng(200 + draws), (len(rows), RUNS)
    values, factor = rng.normal(size=shape), NormalDist().inv_cdf(0.975)
    if draws:
        noise = NoiseSum((Term(draws, 1, DiscreteLaplace(Fraction(500))),))
        values, factor = np.zeros(shape), noise.half_width(0.95) / noise.stddev
        for _ in range(draws):
            values += rng.laplace(size=shape) / np.sqrt(2 * draws)
    decoded, covariance = np.linalg.inv(np.array(rows, float)) @ values, noise_covariance(rows)
    if len(rows) == 2:
        decoded, covariance = np.pad(decoded, ((1, 0), (0, 0))), np.pad(covariance, ((1, 0), (1, 0)))
    unit = covariance[0, 0] or covariance[1, 1]
    return decoded / np.sqrt(unit), covariance / unit, factor


def noisy(noise: Noise, n: int, shape: tuple[float, float], sd: float) -> tuple[float, spread.SquareSums]:
    """The sample variance of n values, and their sums under noise; a shape is a mean m and a share of the
    largest variance, 1 - m^2."""
    values, covariance, _ = noise
    m, share = shape
    w = share * (1 - m * m) * n / (n - 1)
    truth = np.array([n, n * m, (n - 1) * w + n * m * m])
    count, total, square = truth[:, None] + sd * values
    sn, ss, sq = (np.array([sd * np.sqrt(covariance[i, i])]) for i in range(3))
    return w, spread.SquareSums(ratio.MomentSums(count, total, sn, ss), square, sq, sd * sd * covariance[:1, 2])


def coverages(noise: Noise, interval: Interval, counts: tuple[int, ...] = COUNTS) -> np.ndarray:
    """Return the coverage of the variance, for counts, shapes and spreads."""
    found = []
    for n, shape, sd in product(counts, SHAPES, (3.0, 40.0)):
        w, squares = noisy(noise, n, shape, sd)
        low, high = interval(squares, np.array([noise[2]]), 0.95)
        found.append(((low <= w + 1e-9) & (w - 1e-9 <= high)).mean())
    return np.array(found)


def lawful(coverage: np.ndarray, most: float = MOST) -> bool:
    return bool(coverage.min() > LEAST - SURE[0] and coverage.max() < most + SURE[1])


def delta_method(squares: spread.SquareSums, factor: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    half = factor * spread.variance_error(squares)
    return squares.variance - half, squares.variance + half


def halved(squares: spread.SquareSums, factor: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    sums = replace(squares.sums, count_stddev=squares.sums.count_stddev / 2, total_stddev=squares.sums.total_stddev / 2)
    half = replace(squares, sums=sums, square_stddev=squares.square_stddev / 2, covariance=squares.covariance / 4)
    return spread.variance_interval(half, factor, confidence)


def uncorrelated(squares: spread.SquareSums, factor: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """A broken twin: it ignores noise that squares and count share."""
    return spread.variance_interval(replace(squares, covariance=np.zeros(1)), factor, confidence)


def test_event_moves_channels_by_at_most_the_charge() -> None:
    u = np.linspace(-1, 1, 401)
    event = np.stack([np.ones_like(u), u, u * u])
    change = (event[1:, :, None] - event[1:, None, :]).reshape(2, -1)
    assert np.abs(np.array(spread.L1_VARIANCE_ROWS) @ event).sum(axis=0).max() == pytest.approx(2)
    assert np.square(np.array(spread.L2_VARIANCE_ROWS) @ event).sum(axis=0).max() == pytest.approx(41)
    assert np.abs(np.array(spread.L1_PUBLIC_COUNT_ROWS) @ change).sum(axis=0).max() == pytest.approx(4)
    assert np.square(np.array(spread.L2_PUBLIC_COUNT_ROWS) @ change).sum(axis=0).max() == pytest.approx(100)


def test_the_channels_have_less_error_than_a_budget_split_evenly() -> None:
    cells = [(m, v) for m, v in product(np.linspace(-0.6, 0.6, 13), (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4))]
    gradients = np.array([(m * m - v, -2 * m, 1.0) for m, v in cells])

    def error(rows: ratio.ChannelRows, reach: float) -> float:
        g = gradients[:, -len(rows) :]
        return reach * float(np.exp(np.log(np.einsum("ij,jk,ik->i", g, noise_covariance(rows), g)).mean() / 2))

    split: ratio.ChannelRows = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    assert error(split, 3) / error(spread.L1_VARIANCE_ROWS, 2) == pytest.approx(2.17, abs=0.02)
    assert error(((8, 0, 0), (0, 8, 0), (-7, 0, 8)), 17) / error(spread.L1_VARIANCE_ROWS, 2) == pytest.approx(
        1.85, abs=0.02
    )
    assert error(split, np.sqrt(3)) / error(spread.L2_VARIANCE_ROWS, np.sqrt(41)) == pytest.approx(1.31, abs=0.02)
    assert error(((1, 0), (0, 2)), 4) / error(spread.L1_PUBLIC_COUNT_ROWS, 4) == pytest.approx(np.sqrt(2))
    assert error(((1, 0), (0, 2)), np.sqrt(8)) > 1.2 * error(spread.L2_PUBLIC_COUNT_ROWS, 10)


def test_without_noise_the_interval_is_the_sample_variance() -> None:
    none = np.zeros(1)
    data = [np.array([0.5, -0.25, 1.0]), np.array([-1.0, 1.0, 1.0, -1.0]), np.full(7, -1.0), np.zeros(9)]
    count, total, square = np.array([[len(u), u.sum(), u @ u] for u in data]).T
    squares = spread.SquareSums(ratio.MomentSums(count, total, none, none), square, none, none)
    truth = [np.var(u, ddof=1) for u in data]
    assert squares.variance == pytest.approx(truth, abs=1e-12)
    for end in spread.variance_interval(squares, np.array([2.0]), 0.95):
        assert end == pytest.approx(truth, abs=1e-7)


def test_noise_of_centred_squares_matches_its_covariance() -> None:
    rng = np.random.default_rng(3)
    covariance = noise_covariance(spread.L2_VARIANCE_ROWS)
    sn, ss, sq = (np.array([np.sqrt(covariance[i, i])]) for i in range(3))
    squares = spread.SquareSums(ratio.MomentSums(sn, ss, sn, ss), sq, sq, covariance[:1, 2])
    for m, w in rng.uniform(-1, 1, (20, 2)):
        weights = np.array([m * m - w, -2 * m, 1.0])
        exact = np.sqrt(weights @ covariance @ weights)
        assert squares.residual_stddev(np.array([m]), np.array([w])) == pytest.approx(exact)


def test_negated_data_have_the_same_interval() -> None:
    _, squares = noisy(noise_of(spread.L1_VARIANCE_ROWS, 5), 40, (0.4, 0.3), 20.0)
    turned = replace(squares, sums=replace(squares.sums, total=-squares.sums.total))
    for one, other in zip(
        spread.variance_interval(squares, np.array([2.0]), 0.95),
        spread.variance_interval(turned, np.array([2.0]), 0.95),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_interval_is_in_range_and_holds_estimate_for_any_numbers() -> None:
    wild = np.array([0.0, 1e-300, 1.0, 5.0, 1e6, 1e18, 1e200, 1e308, np.inf, np.nan])
    values = np.concatenate([wild, -wild])
    count, total, square = (grid.ravel() for grid in np.meshgrid(values, values, values))
    for count_sd, total_sd, square_sd in product((0.0, 3.0, 1e9), repeat=3):
        sums = ratio.MomentSums(count, total, np.array([count_sd]), np.array([total_sd]))
        shared = np.array([0.5 * count_sd * square_sd])
        squares = spread.SquareSums(sums, square, np.array([square_sd]), shared)
        low, high = spread.variance_interval(squares, np.array([2.0]), 0.95)
        estimate, error = squares.variance, spread.variance_error(squares)
        assert ((low >= 0) & (low <= estimate) & (estimate <= high) & (high <= 2)).all()
        assert ((error >= 0) & (error <= 1)).all()


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.99, 0.999])
def test_other_confidences_hold_at_large_counts(confidence: float) -> None:
    noise = noise_of(spread.L2_VARIANCE_ROWS, 0)
    w, squares = noisy(noise, 10**5, (0.3, 0.5), 20.0)
    factor = np.array([NormalDist().inv_cdf((1 + confidence) / 2)])
    low, high = spread.variance_interval(squares, factor, confidence)
    coverage = ((low <= w) & (w <= high)).mean()
    assert abs(coverage - confidence) < 6.5 * np.sqrt(confidence * (1 - confidence) / RUNS) + 0.001


@pytest.mark.one_of_each
@pytest.mark.parametrize(("rows", "draws"), NOISY)
def test_intervals_cover_from_93_to_98_percent_at_every_count(rows: ratio.ChannelRows, draws: int) -> None:
    assert lawful(coverages(noise_of(rows, draws), spread.variance_interval))


def at_bounds(noise: Noise, n: int, above: int, sd: float) -> float:
    """Return the coverage for n values, `above` of them at the upper bound, the others at -1."""
    w, squares = noisy(noise, n, ((2 * above - n) / n, 1.0), sd)
    low, high = spread.variance_interval(squares, np.array([noise[2]]), 0.95)
    return float(((low <= w + 1e-9) & (w - 1e-9 <= high)).mean())


@pytest.mark.one_of_each
@pytest.mark.parametrize(("rows", "draws"), NOISY)
def test_few_values_at_both_bounds_are_covered_as_stated(rows: ratio.ChannelRows, draws: int) -> None:
    """The hardest streams. Seeded, so a tolerance of half a percent suffices."""
    noise = noise_of(rows, draws)
    for n, share in product((5, 6, 7, 10, 30), (0.0, 0.2, 0.5)):
        found = [at_bounds(noise, n, int(n * share), part * n) for part in (0.05, 0.15, 0.2, 0.25, 0.4, 1.5)]
        assert LEAST - 0.003 <= min(found) <= max(found) <= MOST + 0.003, (n, share)


@pytest.mark.one_of_each
@pytest.mark.parametrize(("rows", "draws"), PUBLIC)
def test_public_count_intervals_cover_slightly_too_much(rows: ratio.ChannelRows, draws: int) -> None:
    noise = noise_of(rows, draws)
    assert lawful(coverages(noise, spread.variance_interval, counts=(5, 20, 100)), most=0.99)
    assert lawful(coverages(noise, spread.variance_interval, counts=(1000, 10**4, 10**6)))


@pytest.mark.parametrize("broken", [delta_method, halved, uncorrelated])
def test_broken_intervals_are_caught(broken: Interval) -> None:
    assert not lawful(coverages(noise_of(spread.L1_VARIANCE_ROWS, 5), broken, counts=(5, 1000)))


def test_variance_of_enough_events_is_nearly_unbiased() -> None:
    for rows, draws in (*NOISY, *PUBLIC):
        for n in (300, 10**4):
            w, squares = noisy(noise_of(rows, draws), n, (0.5, 0.4), 9.0)
            error = squares.variance - w
            claimed = float(np.median(spread.variance_error(squares)))
            assert error.std() == pytest.approx(claimed, rel=0.06)
            assert abs(error.mean()) < 0.1 * claimed + 6.5 * claimed / np.sqrt(RUNS)
