"""Private median: its exact law, its loss by enumeration, and twins that lose more."""

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, inf, log

import numpy as np
import pytest
from scipy.stats import chi2

import streamgauge as sg
from streamgauge.noise import exponential_coins
from streamgauge.statistics import private_median
from streamgauge.statistics.median_selection import median_scores, permute_and_flip
from streamgauge.testing.noise import InsecureNoise


def selection_law(scores: list[int], rate: float) -> list[float]:
    """Return the exact law of permute-and-flip, by summing over the number of other accepted points."""
    accept = [exp(-rate * (score - min(scores))) for score in scores]
    law = []
    for place, chance in enumerate(accept):
        counts = np.ones(1)
        for other in accept[:place] + accept[place + 1 :]:
            counts = np.convolve(counts, [1 - other, other])
        law.append(chance * float((counts / np.arange(1, len(counts) + 1)).sum()))
    return law


def worst_loss(points: int, count: int, rate: float, replace: bool) -> float:
    """Return the largest log ratio over all neighbouring lists."""
    laws = {}
    for size in (count,) if replace else (count, count + 1):
        for places in combinations_with_replacement(range(points), size):
            laws[places] = selection_law(median_scores(np.array(places), points).tolist(), rate)
    worst = 0.0
    for one, law in laws.items():
        for other, theirs in laws.items():
            common = sum((Counter(one) & Counter(other)).values())
            if (common, len(other) - len(one)) != ((count - 1, 0) if replace else (count, 1)):
                continue
            worst = max(worst, *(abs(log(p / q)) if min(p, q) > 0 else inf for p, q in zip(law, theirs, strict=True)))
    return worst


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("count", [4, 5])
def test_every_neighbour_loses_at_most_epsilon(replace: bool, count: int) -> None:
    rate = 1 / (4 if replace else 2)
    assert 0.4 < worst_loss(4, count, rate, replace) <= 1


def test_half_the_divisor_loses_more_than_epsilon() -> None:
    """Broken twin: the scores are not monotone, so the exponent keeps its 2."""
    assert worst_loss(4, 5, 1 / 2, replace=True) > 1.2


def test_draws_follow_the_exact_law() -> None:
    scores, rate, runs = [5, 1, 0, 3, 0], Fraction(1, 2), 1500
    source = InsecureNoise(1)
    found = Counter(permute_and_flip(np.array(scores), rate, source) for _ in range(runs))
    expected = [runs * chance for chance in selection_law(scores, 0.5)]
    assert sum((found[place] - each) ** 2 / each for place, each in enumerate(expected)) < chi2.isf(1e-9, 4)


@pytest.mark.statistical
@pytest.mark.parametrize("replace", [True, False])
def test_a_loss_gives_the_law_of_its_rate(replace: bool) -> None:
    """A quarter of epsilon if a value is replaced, else half of it."""
    values, points, epsilon, runs = [0, 0, 1, 2, 2, 2, 2], 4, 2, 3000
    source = InsecureNoise(1)
    draws = [
        private_median(values, range(points), sg.Pure(epsilon), replace=replace, noise=source) for _ in range(runs)
    ]
    scores, misses = median_scores(np.array(values), points).tolist(), []
    for rate in (epsilon / (4 if replace else 2), epsilon / (2 if replace else 4)):
        expected = [runs * chance for chance in selection_law(scores, rate)]
        misses.append(sum((draws.count(place) - each) ** 2 / each for place, each in enumerate(expected)))
    right, wrong = misses
    assert right < chi2.isf(1e-9, points - 1) < wrong


@pytest.mark.parametrize("exponent", ["0", "1/7", "1", "5/2", "9"])
def test_exponential_coins_have_their_exact_chance(exponent: str) -> None:
    size, chance = 200_000, exp(-float(Fraction(exponent)))
    ones = int(exponential_coins(InsecureNoise(2), Fraction(exponent), size).sum())
    assert abs(ones - size * chance) <= 6.2 * (size * chance * (1 - chance)) ** 0.5
    with pytest.raises(ValueError, match="exponent must be at least 0"):
        exponential_coins(InsecureNoise(2), Fraction(-1), 1)


def test_equal_values_between_two_points_are_found() -> None:
    assert private_median([41.9] * 61, np.arange(0.0, 1000.0, 10), sg.Pure(1), noise=InsecureNoise(1)) == 40


def test_ranks_are_off_by_at_most_the_bound() -> None:
    values = np.arange(1001)
    for seed in range(5):
        found = private_median(values, range(1001), sg.Pure(1), noise=InsecureNoise(seed))
        assert abs(found - 500) <= 2 * log(1001 / 1e-9)


def test_values_that_are_no_number_count_as_the_least_point() -> None:
    hostile = [None, float("nan"), "9", object(), -inf, inf, 10**400, -(10**400)]
    assert private_median([*hostile, 5, 5, 5, 5], range(10), sg.Pure(10**4)) in range(6)
    assert private_median([], range(3), sg.Pure(1), noise=InsecureNoise(1)) in (0, 1, 2)


def test_impossible_grids_and_losses_are_refused() -> None:
    for grid in ([], [1, 1], [2, 1], [[1, 2]]):
        with pytest.raises(ValueError, match=r"grid must be 1 to 2\*\*20 rising numbers"):
            private_median([1], grid, sg.Pure(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="grid must be finite numbers"):
        private_median([1], [0, inf], sg.Pure(1))
    with pytest.raises(ValueError, match="loss must be Pure and above 0"):
        private_median([1], [0, 1], sg.Zcdp(1))  # type: ignore[arg-type]
