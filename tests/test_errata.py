"""Errors of the sources about counters and means, with their constants and ours.

The list is docs/errata.md.

Losses are enumerated and exact. If the releases determine every noisy p-sum, the loss of an event is the
maximum of sum |z + move| - |z| for all noises z, divided by the scale: `worst_loss`. With a peek at the
memory, it is at most the cheapest integer shift of the draws that hides the event in the view:
`cheapest_shift`.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import ceil, comb, exp, log, log2, pi
from typing import Any

import numpy as np
import pytest

from streamgauge import Event, Pure
from streamgauge.continual import Binary, Kary, LinearMechanism, Segments, SimpleI, SmoothBinary, Strategy, TwoLevel
from streamgauge.noise import Ints, Noise, laplace_variance
from streamgauge.statistics import Mean, Variance
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise

EPSILON = Fraction(1, 2)
LOSS = Pure(EPSILON)
ONE = Fraction(1)


def worst_loss(strategy: Strategy, scale: Fraction, move: int = 1) -> Fraction:
    """Return the worst loss of an item that moves by `move`, for all ticks, signs and noise."""
    whole = strategy.measure.astype(np.int64)
    assert (whole == strategy.measure).all()
    assert np.linalg.matrix_rank(strategy.decode) == len(whole), "the releases must determine what is measured"
    return max(column_loss(column[column != 0] * move, scale) for column in whole.T)


def column_loss(moves: Ints, scale: Fraction) -> Fraction:
    reach = int(np.abs(moves).max())
    noises = np.array(list(product((-reach, 0, reach), repeat=len(moves))))
    ratios = (np.abs(noises + moves) - np.abs(noises)).sum(axis=1)
    return int(np.abs(ratios).max()) / scale


def own_loss(mechanism: LinearMechanism[Any], ticks: int) -> Fraction:
    strategy = mechanism.strategy(ticks)
    (distribution,) = set(strategy.distributions)
    return worst_loss(strategy, distribution.scale)  # pure: discrete Laplace


def dyadic_blocks(ticks: int) -> Strategy:
    """Return all p-sums [(k - 1) 2^i + 1, k 2^i] of counts up to `ticks`: LN 3.5, PA Algorithm 2."""
    return Kary(LOSS, branching=2, levels=ticks.bit_length(), horizon=ticks).strategy(ticks)


def all_nodes(ticks: int) -> Strategy:
    """Return the strategy that releases every node of the complete binary tree: SU section 3.4.1."""
    sizes = [2**i for i in range(ticks.bit_length())]
    rows = [(size, begin) for size in sizes for begin in range(0, ticks, size)]
    measure = np.array([[begin <= t < begin + size for t in range(ticks)] for size, begin in rows], float)
    return Strategy(measure, np.eye(len(rows)), (), tuple(range(len(rows))))


@pytest.mark.parametrize("ticks", range(1, 8))
def test_simple_counting_with_noise_1_by_epsilon_loses_t_epsilon(ticks: int) -> None:
    counts = SimpleI(LOSS, horizon=ticks)
    assert worst_loss(counts.strategy(ticks), 1 / EPSILON) == ticks * EPSILON
    assert own_loss(counts, ticks) == EPSILON


@pytest.mark.parametrize("ticks", range(2, 33))
def test_binary_counting_with_log_t_levels_loses_more_than_epsilon(ticks: int) -> None:
    printed = Fraction(log2(ticks)) / EPSILON
    loss = worst_loss(dyadic_blocks(ticks), printed)
    assert loss == ticks.bit_length() / printed > EPSILON
    assert own_loss(Binary(LOSS, horizon=ticks), ticks) == EPSILON


@pytest.mark.parametrize("ticks", range(2, 33))
def test_rounded_up_log_t_exceeds_epsilon_at_powers_of_two(ticks: int) -> None:
    loss = worst_loss(dyadic_blocks(ticks), ceil(log2(ticks)) / EPSILON)
    assert (loss > EPSILON) == (ticks.bit_count() == 1)
    assert loss >= EPSILON


@pytest.mark.parametrize(("ticks", "times"), [(2, 2 * ONE), (4, 3 * ONE / 2), (8, 4 * ONE / 3), (16, 5 * ONE / 4)])
def test_releasing_every_node_under_log_t_noise_loses_as_much(ticks: int, times: Fraction) -> None:
    assert worst_loss(all_nodes(ticks), Fraction(int(log2(ticks))) / EPSILON) == times * EPSILON


def test_log_t_levels_give_no_noise_for_one_tick() -> None:
    with pytest.raises(ZeroDivisionError):
        EPSILON / Fraction(int(log2(1)))  # PA Algorithm 2: epsilon' = epsilon/(N log T)
    assert own_loss(Binary(LOSS, horizon=1), 1) == EPSILON


def test_factor_n_of_algorithm_2_is_wasted_on_events() -> None:
    ticks, most = 16, 10
    printed = most * Fraction(int(log2(ticks))) / EPSILON
    assert worst_loss(dyadic_blocks(ticks), printed, move=most) == 5 * EPSILON / 4
    assert worst_loss(dyadic_blocks(ticks), printed, move=1) == EPSILON / 8
    assert own_loss(Binary(LOSS, horizon=ticks), ticks) == EPSILON


def test_value_up_to_n_with_unit_noise_loses_n_epsilon() -> None:
    point = Strategy(np.ones((1, 1)), np.ones((1, 1)), (), (0,))
    assert worst_loss(point, 1 / EPSILON, move=10) == 10 * EPSILON


def test_two_levels_with_noise_scale_1_by_epsilon_lose_double() -> None:
    counter = TwoLevel(LOSS, horizon=12, block_size=3)
    assert worst_loss(counter.strategy(12), 1 / EPSILON) == 2 * EPSILON
    assert own_loss(counter, 12) == EPSILON


class PrintedBinary:
    """PA Algorithm 2 as printed, for bits: memory has exact p-sums and noisy ones."""

    def __init__(self, ticks: int) -> None:
        self.scale = Fraction(int(log2(ticks))) / EPSILON
        self.exact = [0] * ticks.bit_length()
        self.noisy = [0] * ticks.bit_length()
        self.tick = 0

    def step(self, value: int, noise: Noise) -> int:
        self.tick += 1
        low = (self.tick & -self.tick).bit_length() - 1
        self.exact[low] = sum(self.exact[:low]) + value
        self.exact[:low] = self.noisy[:low] = [0] * low
        self.noisy[low] = self.exact[low] + int(noise.laplace(self.scale, 1)[0])
        return sum(noisy for i, noisy in enumerate(self.noisy) if self.tick >> i & 1)


View = Callable[[list[int], Noise], list[int]]  # (values, noise) -> view of a run
Intruded = Callable[[list[int], Noise, int], list[int]]  # (values, noise, tick of the intrusion) -> view


def seen_of_printed(values: list[int], noise: Noise, peek: int) -> list[int]:
    """Return the releases, and the memory after tick `peek`."""
    run, seen = PrintedBinary(len(values)), []
    for value in values:
        seen.append(run.step(value, noise))
        if run.tick == peek:
            seen += run.exact + run.noisy
    return seen


def seen_of_ours(mechanism: LinearMechanism[Any], values: list[int], noise: Noise, peek: int) -> list[int]:
    state, seen = mechanism.initial(1, noise), []
    for tick in range(len(values) + 1):
        if tick:
            seen += mechanism.step(state, np.array([values[tick - 1]]), noise).tolist()
        if tick == peek:
            arrays = [getattr(state, name) for name in state.__slots__]
            seen += [int(x) for array in arrays if isinstance(array, np.ndarray) for x in array.ravel()]
    return seen


def responses(view: View, ticks: int) -> tuple[np.ndarray, list[np.ndarray], list[Fraction]]:
    """Return the effect of each draw on the view (columns), of each event, and the scales."""
    zeros, counted = [0] * ticks, CountedNoise(SilentNoise())
    still = np.array(view(zeros, counted))
    scales = [scale for _, scale, size in counted.requests for _ in range(size)]
    draws = [np.array(view(zeros, ImpulseNoise(i, 1))) - still for i in range(len(scales))]
    events = [np.array(view([int(t == s) for t in range(ticks)], SilentNoise())) - still for s in range(ticks)]
    return np.array(draws).T, events, scales


def cheapest_shift(draws: np.ndarray, event: np.ndarray, scales: list[Fraction]) -> Fraction | None:
    """Return the least cost of shifts of draws by -1, 0 or 1 that equal the event's effect."""
    shifts = np.array(list(product((-1, 0, 1), repeat=len(scales))))
    hiding = shifts[(shifts @ draws.T == event).all(axis=1)]
    costs = (sum(abs(int(s)) / scale for s, scale in zip(row, scales, strict=True)) for row in hiding)
    return min(costs, default=None)


def shifts(view: Intruded, ticks: int) -> Iterator[tuple[int, int, Fraction | None]]:
    """Yield (intrusion, event, cheapest hiding shift). Intrusion 0 is before the first tick."""
    for peek in range(ticks + 1):
        draws, events, scales = responses(lambda values, noise, peek=peek: view(values, noise, peek), ticks)
        for tick, event in enumerate(events, 1):
            yield peek, tick, cheapest_shift(draws, event, scales)


def test_exact_p_sums_in_memory_reveal_all_earlier_events() -> None:
    for peek, tick, cost in shifts(seen_of_printed, 4):
        assert (cost is None) == (tick <= peek), "no noise hides it: the loss has no bound"


@pytest.mark.parametrize("seed", range(5))
def test_peek_at_exact_p_sums_distinguishes_neighbours(seed: int) -> None:
    here = seen_of_printed([0, 1, 0, 0], InsecureNoise(seed), peek=2)
    gone = seen_of_printed([0, 0, 0, 0], InsecureNoise(seed), peek=2)
    levels = slice(2, 5)  # two releases, then the exact p-sums of levels 0, 1 and 2
    assert here[levels] == [0, 1, 0]
    assert gone[levels] == [0, 0, 0]


@pytest.mark.parametrize(
    "mechanism",
    [
        Binary(LOSS, horizon=4, pan_private=True),
        Kary(LOSS, horizon=4, branching=3, pan_private=True),
        Segments(LOSS, horizon=4),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_noisy_registers_hide_every_event_in_releases_and_memory_together(mechanism: LinearMechanism[Any]) -> None:
    costs = [cost for *_, cost in shifts(lambda *seen: seen_of_ours(mechanism, *seen), 4)]
    assert None not in costs
    assert max(cost for cost in costs if cost is not None) == EPSILON


def test_pan_private_tree_needs_no_second_draw_for_items() -> None:
    mechanism = Kary(Pure(1), horizon=40, branching=4, pan_private=True)
    plain = Kary(Pure(1), horizon=40, branching=4)
    draws = [round(mechanism.noise_at(t).variance / mechanism.distribution.variance) for t in range(1, 41)]
    assert draws == [2 * sum(plain.digits(t)) - t % 4 for t in range(1, 41)]
    assert mechanism.distribution == plain.distribution


def test_printed_variance_of_the_segment_counter_is_too_small() -> None:
    for m in range(1, 21):
        counter = Segments(Pure(1), horizon=2**m)
        assert counter.distribution.scale == 1 + m
        assert len(counter.strategy(1).draws) == 1 + m
        continuous = (1 + m) * 2 * (1 + m) ** 2
        assert continuous - (1 + m) / 6 - 1 < counter.noise_at(1).variance < continuous
        assert counter.noise_at(1).variance > (1 + m) * 2 * m**2


def test_smooth_binary_needs_fewer_memberships_than_half_its_even_depth() -> None:
    """Items with a next leaf that never starts with 1 are in one p-sum less than d/2."""
    spared = 0
    for horizon in range(1, 301):
        depth = next(d for d in range(2, 20, 2) if comb(d, d // 2) > horizon)
        ours = SmoothBinary(Pure(1), horizon=horizon)
        never_begins_with_one = comb(depth - 1, depth // 2) > horizon
        assert ours.zero_count == depth // 2 - never_begins_with_one
        spared += never_begins_with_one
    assert spared == 125
    strategy = SmoothBinary(LOSS, horizon=9).strategy(9)
    assert strategy.measure.sum(axis=0).max() == 2  # the printed d = 6 says 3


def test_discrete_noise_of_scale_1_has_less_error_than_continuous() -> None:
    assert laplace_variance(ONE) == pytest.approx(1.8413, abs=1e-4)
    assert (laplace_variance(ONE) / 2) ** 0.5 == pytest.approx(0.9595, abs=1e-4)
    assert (laplace_variance(5 * ONE) / 50) ** 0.5 > 0.998


def series_power(series: np.ndarray, exponent: float) -> np.ndarray:
    """Return the coefficients of a power of a series that starts with 1."""
    result = np.zeros(len(series))
    result[0] = 1
    for n in range(1, len(series)):
        k = np.arange(1, n + 1)
        result[n] = ((exponent * k - (n - k)) * series[1 : n + 1]) @ result[n - 1 :: -1][:n] / n
    return result


def test_infinite_horizon_norm_far_exceeds_that_of_prefixes() -> None:
    """(1 - z)^-1/2 (ln(1/(1 - z))/z)^g, g = -0.51: r_t^2 -> (ln t)^2g/(pi t), whose tail hardly falls."""
    gamma, terms = -0.51, 2**11
    root = series_power(np.concatenate([[1.0, -1.0], np.zeros(terms - 2)]), -0.5)
    r = np.convolve(root, series_power(1 / np.arange(1.0, terms + 1), gamma))[:terms]
    places = np.arange(2**8, terms)
    share = r[places] ** 2 / (np.log(places) ** (2 * gamma) / (pi * places))
    assert (np.diff(share) > 0).all()  # r_t^2 climbs towards its asymptote, of which it has 74 % here
    assert 0.70 < share[-1] < 1

    def tail(first: float) -> float:
        return log(first) ** (2 * gamma + 1) / (pi * -(2 * gamma + 1))

    known = float(r @ r)
    whole = known + share[-1] * tail(terms), known + tail(terms)  # between these
    assert 12 < whole[0] < 16.6 < whole[1] < 17
    assert known + tail(terms) - tail(2.0**50) < 2 < whole[0] / 6


def printed_average(ticks: int, value: int) -> Fraction:
    """Return the loss of an event of this value in both counters of PA Algorithm 3, by eq. 7."""
    scale = 2 * Fraction(log2(ticks)) / EPSILON
    return sum((worst_loss(dyadic_blocks(ticks), scale, move=move) for move in (1, value)), Fraction(0))


@pytest.mark.parametrize("ticks", [2, 4, 16, 21])
@pytest.mark.parametrize("value", [1, 2, 9])
def test_average_without_a_range_loses_proportionally_to_value(ticks: int, value: int) -> None:
    levels = ticks.bit_length() / Fraction(log2(ticks))
    assert printed_average(ticks, value) == levels * Fraction(1 + value, 2) * EPSILON > EPSILON


@pytest.mark.parametrize("value", [10.0**4, 10.0**8, 10.0**16])
def test_average_alone_reveals_a_value_without_a_range(value: float) -> None:
    """At tick 1 of 2: P(|(x + z) / (n + z')| > m) is 1/(1 + m) for n = x = 0."""
    scale, m = 2 / float(EPSILON), value**0.5
    large, small = 1 - exp(-value / 2 / scale), 1 - exp(-(value / (2 * m) - 1) / scale)
    assert log(large * small * (1 + m)) > 4  # grows with the value, without a bound; declared is 1/2


@pytest.mark.parametrize("ticks", [2, 4, 16])
@pytest.mark.parametrize("value", [1, 3])
def test_variance_from_count_and_two_averages_loses_three_epsilon(ticks: int, value: int) -> None:
    levels = ticks.bit_length() / Fraction(log2(ticks))
    count = worst_loss(dyadic_blocks(ticks), Fraction(log2(ticks)) / EPSILON)
    assert count == levels * EPSILON
    lost = count + printed_average(ticks, value) + printed_average(ticks, value**2)
    assert lost == levels * (1 + Fraction(1 + value, 2) + Fraction(1 + value**2, 2)) * EPSILON
    assert lost >= levels * 3 * EPSILON  # 3 epsilon as the authors count, for values up to 1


def test_sign_of_a_value_counts_zero_as_missing() -> None:
    values = np.array([0, 0, 4, 4] * 500)
    assert values.sum() / np.sign(np.abs(values)).sum() == 4  # PA Algorithm 3, without any noise
    run = Mean(LOSS, lower=-1, upper=9, step=1, horizon=1).start(noise=SilentNoise())
    assert run.step(values).value == pytest.approx(2)


@pytest.mark.parametrize("statistic", [Mean, Variance])
@pytest.mark.parametrize("bounds", [(0, 1), (-3, 5), (0, 100)])
@pytest.mark.parametrize("public_counts", [False, True])
def test_means_and_variances_of_any_range_lose_epsilon(
    statistic: Any, bounds: tuple[int, int], public_counts: bool
) -> None:
    lower, upper = bounds
    claim = statistic(
        LOSS,
        lower=lower,
        upper=upper,
        step=1,
        horizon=5,
        mechanism=Binary,
        public_counts=public_counts,
        unit=Event(replace=public_counts),
    )
    added = np.array([claim.compute_totals([x]) for x in range(lower, upper + 1)])
    moves = (added[:, None] - added).reshape(-1, claim.channels) if public_counts else added
    strategy = claim.counter.strategy(5)
    (distribution,) = set(strategy.distributions)
    most = int(np.abs(moves).sum(axis=1).max()) * int(strategy.measure.sum(axis=0).max())
    assert most / distribution.scale == EPSILON
