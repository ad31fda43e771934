"""Bounds hold as often as stated: checked against exact binomial probabilities."""

from math import exp, log

import numpy as np
import pytest
from scipy.stats import binom

from streamgauge.audit.attack.confidence import (
    bound_delta,
    bound_epsilon,
    bound_integer_rho,
    bound_rho,
    highest_rates,
    lowest_mean,
    lowest_rates,
)

RUNS, DOUBT = 60, 0.05
RATES = [0.001, 0.02, 0.1, 0.3, 0.5, 0.77, 0.95, 0.999]


@pytest.mark.parametrize("rate", RATES)
def test_rate_is_outside_its_bounds_as_seldom_as_stated(rate: float) -> None:
    hits = np.arange(RUNS + 1)
    chance = binom.pmf(hits, RUNS, rate)
    assert chance[lowest_rates(hits, RUNS, DOUBT) > rate].sum() <= DOUBT
    assert chance[highest_rates(hits, RUNS, DOUBT) < rate].sum() <= DOUBT


@pytest.mark.parametrize("hits", [1, 5, 59, 60])
def test_lowest_rate_has_the_stated_tail_probability(hits: int) -> None:
    low = float(lowest_rates(np.array([hits]), RUNS, DOUBT)[0])
    assert binom.sf(hits - 1, RUNS, low) == pytest.approx(DOUBT)


def test_zero_hits_give_trivial_bounds() -> None:
    assert lowest_rates(np.array([0]), RUNS, DOUBT)[0] == 0
    assert highest_rates(np.array([RUNS]), RUNS, DOUBT)[0] == 1
    assert bound_epsilon(0, 0, RUNS, DOUBT) == bound_delta(0, 0, RUNS, DOUBT, 1.0) == 0


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.6, 0.2), (0.05, 0.01)])
def test_epsilon_and_delta_exceed_truth_as_seldom_as_stated(one: float, other: float) -> None:
    hits = np.arange(RUNS + 1)
    chances = np.outer(binom.pmf(hits, RUNS, one), binom.pmf(hits, RUNS, other))
    epsilon = np.array([[bound_epsilon(int(a), int(b), RUNS, DOUBT, 0.01) for b in hits] for a in hits])
    delta = np.array([[bound_delta(int(a), int(b), RUNS, DOUBT, 0.5) for b in hits] for a in hits])
    assert chances[epsilon > max(0.0, log((one - 0.01) / other))].sum() <= DOUBT
    assert chances[delta > max(0.0, one - exp(0.5) * other)].sum() <= DOUBT


@pytest.mark.parametrize("rate", RATES)
def test_mean_is_below_its_bound_as_seldom_as_stated(rate: float) -> None:
    hits = np.arange(RUNS + 1)
    bounds = np.array([lowest_mean(np.array([2.0, 5.0]), np.array([RUNS - h, h]), DOUBT) for h in hits])
    assert binom.pmf(hits, RUNS, rate)[bounds > 2 + 3 * rate].sum() <= DOUBT


def test_rho_bound_is_below_true_divergence_of_two_coins() -> None:
    one, other, runs = 0.6, 0.4, 10**7
    evidence = np.log([one / other, (1 - one) / (1 - other)])
    truth = one * evidence[0] + (1 - one) * evidence[1]
    counts = [np.array([rate, 1 - rate]) * runs for rate in (one, other)]
    assert 0.98 * truth < bound_rho(evidence, *counts, 1e-6) < truth
    wrong = bound_rho(np.array([1.0, -3.0]), *counts, 1e-6)
    assert wrong < truth, "evidence that is wrong shows less, never more"


def test_integer_rho_is_bounded_by_order_two_not_by_kl() -> None:
    """Laws whose KL is above half of their divergence of order 2: the bound stays below the latter."""
    one, other = np.array([0.5, 0.5 - 1e-3, 1e-3]), np.array([0.25, 0.75 - 1e-3, 1e-3])
    truth = log((one**2 / other).sum()) / 2
    runs, evidence = 10**7, np.log(one / other)
    counts = np.rint(one * runs), np.rint(other * runs)
    assert 0.98 * truth < bound_integer_rho(evidence, *counts, 1e-6) < truth
    assert bound_integer_rho(np.array([1.0, -3.0, 0.0]), *counts, 1e-6) < truth
    assert bound_integer_rho(evidence, counts[0], counts[0], 1e-6) == 0
    gaussian = np.exp(-((np.arange(-40, 42)[:, None] - [0, 1]) ** 2) / 18).T
    gaussian /= gaussian.sum(axis=1, keepdims=True)
    best = np.clip(np.log(gaussian[1] / gaussian[0]), -2, 2)
    assert bound_integer_rho(best, *(np.rint(law * 10**8) for law in gaussian[::-1]), 1e-6) < 1 / 18
