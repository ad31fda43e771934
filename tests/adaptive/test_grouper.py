"""Laws of the Grouper: its exact loss for all short streams, and code that matches the model."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytest

from streamgauge.adaptive.pegasus.grouper import Grouper, OpenGroups, deviations, fold_counts
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise

EPSILON = Fraction(2)
FAR = 150  # threshold noise exceeds it with probability below e^-75
PLACES = np.arange(-FAR, FAR + 1)
MOST = 2**63 - 1


@dataclass(frozen=True)
class Model:
    """Exact probabilities of groupings, for all streams and one list of answers at a time."""

    level: int = 1
    opening: Fraction = 4 / EPSILON
    asking: Fraction = 8 / EPSILON
    longest: int = 99
    closes_at_once: bool = True
    fresh: bool = True

    def chances(self, streams: np.ndarray) -> np.ndarray:
        """Return a row per stream and a column per list of refused ticks, 0 if impossible."""
        ticks = range(streams.shape[1])
        lists = chain.from_iterable(combinations(ticks, many) for many in ticks)
        return np.stack([self.chance(streams, refused) for refused in lists], axis=1)

    def chance(self, streams: np.ndarray, refused: Sequence[int]) -> np.ndarray:
        """Return the probability that exactly these ticks are refused.

        Each column of `weight` is a value of the threshold.
        """
        weight, first = np.eye(1, len(PLACES), FAR).repeat(len(streams), axis=0), None
        for tick in range(streams.shape[1]):
            if first is not None:
                yes = self.yes(floor_dev(streams[:, first : tick + 1]))
                weight = weight * (1 - yes if tick in refused else yes)
                first = None if tick in refused or tick + 1 - first == self.longest else first
            elif tick in refused:
                return np.zeros(len(streams))
            else:
                weight, first = self.opened(weight), tick if self.longest > 1 else None
            if tick in refused and not self.closes_at_once:
                weight, first = self.opened(weight), tick
        return weight.sum(axis=1)

    def opened(self, weight: np.ndarray) -> np.ndarray:
        law = np.array([DiscreteLaplace(self.opening).pmf(int(k)) for k in PLACES])
        if self.fresh:
            return weight.sum(axis=1, keepdims=True) * law
        return np.stack([np.convolve(row, law, "same") for row in weight])

    def yes(self, dev: np.ndarray) -> np.ndarray:
        """Return the probability to stay below each value of the threshold."""
        most, law = int(dev.max()), DiscreteLaplace(self.asking)
        below = np.array([1 - law.tail(k) for k in range(self.level - FAR - most, self.level + FAR + 1)])
        return below[most + FAR + PLACES[None, :] - dev[:, None]]


def floor_dev(counts: np.ndarray) -> np.ndarray:
    n = counts.shape[1]
    return np.abs(n * counts - counts.sum(axis=1, keepdims=True)).sum(axis=1) // n


def loss(model: Model, ticks: int = 5, most: int = 3) -> float:
    """Return the worst loss of all neighbours and groupings, with counts from 0 to `most`."""
    streams = np.array(list(product(range(most + 1), repeat=ticks)))
    chances = model.chances(streams)
    log = np.log(chances[:, chances[0] > 0]).reshape(*[most + 1] * ticks, -1)
    return max(float(np.abs(np.diff(log, axis=tick)).max()) for tick in range(ticks))


def loss_of(model: Model, stream: list[int], moved: int, refused: Sequence[int]) -> float:
    """Return the loss of one grouping if one count moves by 1."""
    pair = np.array([stream, stream])
    pair[1, moved] += 1
    return float(abs(np.diff(np.log(model.chance(pair, refused)))[0]))


@pytest.mark.parametrize(("level", "longest"), [(0, 9), (1, 9), (3, 9), (1, 2), (1, 1)])
def test_no_grouping_of_any_short_stream_loses_more_than_epsilon(level: int, longest: int) -> None:
    assert loss(Model(level=level, longest=longest)) <= EPSILON + 1e-12


def test_probabilities_of_all_groupings_sum_to_one() -> None:
    streams = np.array(list(product(range(3), repeat=5)))
    np.testing.assert_allclose(Model().chances(streams).sum(axis=1), 1, rtol=1e-12)


LONG = [2, *[0] * 20, 1, 0, 0, 1, *[0] * 10]  # a group of 24 ticks, then five that end at once
ODD = [13, 20, 5, 0, 0, 0, 3, 4, 5, 4, 5, 5, 5, 5, 5, 5]
WORST = {
    "threshold noise adds up": (Model(fresh=False), LONG, 0, range(24, 35, 2)),
    "scales are inverted": (Model(opening=EPSILON / 4, asking=EPSILON / 8), ODD, 0, [15]),
    "a deviation moves by 1": (Model(opening=2 / EPSILON, asking=4 / EPSILON), ODD, 0, [15]),
}


@pytest.mark.parametrize("mistake", WORST)
def test_only_published_mistakes_lose_more_than_epsilon(mistake: str) -> None:
    wrong, stream, moved, refused = WORST[mistake]
    assert loss_of(wrong, stream, moved, refused) > EPSILON + 0.05
    assert loss_of(Model(), stream, moved, refused) <= EPSILON


class Scripted:
    """Noise with scripted draws, which records the requested scales."""

    def __init__(self, draws: list[np.ndarray]) -> None:
        self.draws = draws
        self.scales: list[Fraction] = []

    def laplace(self, scale: Fraction, size: int) -> Ints:
        draws = self.draws.pop(0)
        assert len(draws) == size
        self.scales.append(scale)
        return draws

    gaussian = laplace


def by_hand(counts: list[int], draws: list[int], active: list[bool], grouper: Grouper) -> list[str]:
    """Return the events at each tick of one column, in words; dev in fractions, from the paper."""
    answer, group, threshold = [], [], Fraction(0)
    for count, draw, here in zip(counts, draws, active, strict=True):
        if not here:
            answer, group = [*answer, "pauses"], []
        elif not group:
            answer, group, threshold = [*answer, "opens"], [count], grouper.theta / grouper.epsilon + draw
        else:
            both = [*group, count]
            dev = sum(abs(c - Fraction(sum(both), len(both))) for c in both)
            joins = dev.__floor__() + draw < threshold
            answer, group = [*answer, "joins" if joins else "alone"], both if joins else []
        group = [] if len(group) == grouper.max_group_ticks else group
    return answer


def run(grouper: Grouper, counts: np.ndarray, draws: np.ndarray, active: np.ndarray) -> tuple[Any, Any]:
    """Return the events of every column by hand, and the groups that began by the code."""
    columns = range(counts.shape[1])
    answer = np.array([by_hand(*(a[:, c].tolist() for a in (counts, draws, active)), grouper) for c in columns]).T
    state, began = grouper.initial(counts.shape[1]), []
    for tick in range(len(counts)):
        request = np.isin(answer[tick], ["joins", "alone"])
        noise = Scripted([draws[tick, request], draws[tick, answer[tick] == "opens"]])
        began.append(grouper.step(state, counts[tick], noise, active[tick]))
        assert noise.scales == [8 / grouper.epsilon, 4 / grouper.epsilon]
    return answer, np.array(began)


@pytest.mark.parametrize("longest", [1, 2, 5, 40])
@pytest.mark.parametrize("theta", [Fraction(0), Fraction(7, 3), Fraction(30)])
def test_groups_begin_as_in_the_paper_for_any_draws(longest: int, theta: Fraction) -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, (50, 40)) * rng.choice([1, 1, 1, 9], (50, 40))
    draws = rng.integers(-12, 13, (50, 40))
    for pause in (0.0, 0.1):
        answer, began = run(Grouper(Fraction(2, 3), theta, longest), counts, draws, rng.random((50, 40)) >= pause)
        np.testing.assert_array_equal(began, np.isin(answer, ["opens", "alone"]))
        assert {"opens"} <= set(answer.ravel()) <= {"opens", "joins", "alone", "pauses"}


class StaysOpen(Grouper):
    """A broken twin: a refused count opens the next group and enters its queries."""

    def _close_groups(self, state: OpenGroups, ended: np.ndarray) -> None:
        last = np.maximum(state.length - 1, 0)
        rest = np.where(ended, state.items[last, np.arange(len(ended))], 0)
        super()._close_groups(state, ended)
        state.items[0] += rest
        state.total += rest
        state.length += ended
        state.threshold[ended] = self.max_deviation


def later_groups(grouper: Grouper) -> np.ndarray:
    """Return the groups if query noise refuses tick 4; columns differ in its count."""
    counts = np.zeros((12, 21), np.int64)
    counts[4] = np.arange(-10, 11)
    state, began = grouper.initial(21), []
    for tick in range(12):
        noise = Constant(1000 if tick == 4 else 0)
        began.append(grouper.step(state, counts[tick], noise))
    return np.array(began)


class Constant(SilentNoise):
    def __init__(self, value: int) -> None:
        self.value = value

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return np.full(size, self.value)


def test_refused_count_is_in_no_later_query() -> None:
    """Each count is in the queries of one group. In the broken twin it is in two."""
    began = later_groups(Grouper(EPSILON, Fraction(4), 99))
    assert began[4].all()
    assert (began == began[:, :1]).all()
    wrong = later_groups(StaysOpen(EPSILON, Fraction(4), 99))
    assert wrong[4].all()
    assert (wrong != wrong[:, :1]).any()


def test_grouping_frequencies_match_correct_model_and_no_mistake() -> None:
    stream, width = [0, 3, 1, 0, 2], 100_000
    grouper = Grouper(EPSILON, Fraction(2), 99)
    state, noise = grouper.initial(width), InsecureNoise(9)
    began = [grouper.step(state, np.full(width, count), noise) for count in stream]
    ticks = range(len(stream))
    release = Counter(map(bytes, np.array(began).T))

    def deviance(model: Model) -> float:
        """Return twice the log likelihood ratio of observed and modelled frequencies."""
        expected: Counter[bytes] = Counter()
        for refused in chain.from_iterable(combinations(ticks, many) for many in ticks):
            row = bytes(starts(len(stream), refused))
            expected[row] += float(model.chance(np.array([stream]), refused)[0])
        return 2 * sum(n * math.log(n / (width * expected[row])) for row, n in release.items())

    bound = 90.0  # of a chi-square with at most 15 degrees of freedom: p below 1e-11
    assert deviance(Model()) < bound
    for wrong in (Model(fresh=False), Model(closes_at_once=False)):
        assert deviance(wrong) > 2 * bound
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        assert deviance(Model(opening=4 * factor / EPSILON, asking=8 * factor / EPSILON)) > 2 * bound


def starts(ticks: int, refused: Sequence[int]) -> list[bool]:
    """Return the starts of groups: the first tick, rejected ticks, and those after them."""
    return [tick == 0 or tick in refused or tick - 1 in refused for tick in range(ticks)]


def test_folded_counts_move_by_one_even_across_64_bits() -> None:
    ends = np.array([-MOST - 1, -MOST, -(2**62), -1001, -1000, -2, -1, 0, 1, 998, 999, 1000, 2**62, MOST - 1])
    for limit in (1000, 2**46):
        extra = ends.astype(np.uint64) + np.uint64(1)
        moved = fold_counts(extra.astype(np.int64), limit) - fold_counts(ends, limit)
        assert (np.abs(moved) <= 1).all()
        assert (
            abs(int(fold_counts(np.array([MOST]), limit)[0]) - int(fold_counts(np.array([-MOST - 1]), limit)[0])) <= 1
        )
        assert np.abs(fold_counts(ends, limit)).max() == limit
    np.testing.assert_array_equal(fold_counts(np.arange(-9, 10), 2**46), np.arange(-9, 10))


@pytest.mark.parametrize("longest", [2, 3, 255, 256])
def test_deviations_are_exact_for_largest_counts_in_longest_groups(longest: int) -> None:
    grouper = Grouper(EPSILON, Fraction(2**20), longest)
    rng = np.random.default_rng(4)
    counts = rng.choice([-grouper.max_count, grouper.max_count, grouper.max_count - 1, 0], (longest, 6))
    counts[:, 0] = np.where(np.arange(longest) % 2, grouper.max_count, -grouper.max_count)
    state = OpenGroups(np.full(6, longest), np.zeros(6, np.int64), counts.sum(axis=0), counts)
    for column, dev in enumerate(deviations(state).tolist()):
        exact = [int(c) for c in counts[:, column]]
        assert dev == sum(abs(longest * c - sum(exact)) for c in exact) // longest


def test_unit_move_changes_deviation_by_at_most_its_sensitivity() -> None:
    streams = np.array(list(product(range(4), repeat=5)))
    dev = floor_dev(streams).reshape([4] * 5)
    assert max(int(np.abs(np.diff(dev, axis=tick)).max()) for tick in range(5)) == Grouper.SENSITIVITY


def test_number_of_draws_does_not_depend_on_counts() -> None:
    """Silent noise, so that the groups are the same: one draw for each tick of each active column."""
    for counts in (np.zeros((9, 4), np.int64), np.arange(36).reshape(9, 4) ** 3):
        noise = CountedNoise(SilentNoise())
        grouper = Grouper(EPSILON, Fraction(2), 99)
        state = grouper.initial(4)
        for tick, row in enumerate(counts):
            grouper.step(state, row, noise, np.array([True, True, True, tick % 3 == 0]))
        assert noise.total == 3 * 9 + 3


def test_nothing_remains_of_an_ended_group() -> None:
    grouper = Grouper(EPSILON, Fraction(10**6), 5)
    state = grouper.initial(2)
    for _ in range(5):
        grouper.step(state, np.array([7, 9]), SilentNoise())
    assert not state.items.any()
    grouper.step(state, np.array([7, 9]), SilentNoise())
    grouper.step(state, np.array([7, 9]), SilentNoise(), np.array([True, False]))
    assert state.length.tolist() == [2, 0]
    assert state.items.sum(axis=0).tolist() == state.total.tolist() == [14, 0]
    assert "14" not in repr(state)
