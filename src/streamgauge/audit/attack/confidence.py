"""Bounds that hold with a stated confidence, from counts of sightings.

Promise
    Whatever the two laws are, each bound here exceeds the truth with probability at most 1 - confidence over the runs.
    Proofs: a rate lies in its Clopper-Pearson interval, whose two ends use half of the doubt each. A mean of numbers in
    an interval is below its empirical Bernstein bound (Maurer and Pontil, 2009) as rarely.

The approximate rates are Pratt's closed form of the Clopper-Pearson interval (Blyth, 1986). They choose between
thousands of events, and no reported number is made of them. They are exact to a few parts in a thousand, except for a
handful of hits, where they are more cautious.
"""

from math import exp, log

import numpy as np
from scipy.special import betaincinv, ndtri

from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats

MIN_HITS = 1e-9  # hits that are not looked at
MAX_EPSILON = 700.0  # epsilon that a float has an exponential for


def lowest_rates(hits: Floats | Ints, runs: int, doubt: float) -> Floats:
    """Return rates that are each above the true one with probability at most `doubt`.

    >>> lowest_rates(np.array([50, 0]), 100, 0.025).round(3)
    array([0.398, 0.   ])
    """
    return np.where(hits > 0, betaincinv(np.maximum(hits, MIN_HITS), runs - hits + 1, doubt), 0.0)


def highest_rates(hits: Floats | Ints, runs: int, doubt: float) -> Floats:
    """Return rates that are each below the true one with probability at most `doubt`."""
    return 1 - lowest_rates(runs - hits, runs, doubt)


def bound_rates(one: int, other: int, runs: int, doubt: float) -> tuple[float, float]:
    """Return a lower bound of the first rate and an upper bound of the second."""
    low = lowest_rates(np.array([one]), runs, doubt / 2)
    return float(low[0]), float(highest_rates(np.array([other]), runs, doubt / 2)[0])


def bound_epsilon(one: int, other: int, runs: int, doubt: float, delta: float = 0.0) -> float:
    """Return a lower bound of epsilon at this delta, from sightings of one event under two neighbours.

    >>> round(bound_epsilon(73_000, 27_000, 100_000, 0.001), 2)
    0.97
    """
    low, high = bound_rates(one, other, runs, doubt)
    return max(0.0, log((low - delta) / high)) if low > delta else 0.0


def bound_delta(one: int, other: int, runs: int, doubt: float, epsilon: float) -> float:
    """Return a lower bound of delta at this epsilon, from the same sightings."""
    low, high = bound_rates(one, other, runs, doubt)
    return max(0.0, low - exp(min(epsilon, MAX_EPSILON)) * high)


def lowest_mean(values: Floats, counts: Floats | Ints, doubt: float) -> Floats:
    """Return, for each row of values, a number that exceeds the mean with probability at most `doubt`.

    `counts` says how often each of the possible values was seen.
    """
    runs, wide = float(counts.sum()), log(2 / doubt)
    mean = values @ counts / runs
    variance = np.square(values - mean[..., None]) @ counts / (runs - 1)
    reach = values.max(axis=-1) - values.min(axis=-1)
    lowest = mean - np.sqrt(2 * variance * wide / runs) - 7 * reach * wide / (3 * (runs - 1))
    return np.asarray(lowest, np.float64)


def bound_rho(evidence: Floats, one: Floats | Ints, other: Floats | Ints, doubt: float) -> Floats:
    """Return a lower bound of rho, from sightings of each outcome under two neighbours.

    For every g, KL(P, Q) >= E_P[g] - log E_Q[e^g] (Donsker and Varadhan), and zCDP bounds KL by rho. Here
    g is `evidence`, a number for each outcome, chosen without these runs; or each row of it, one by one.
    """
    mean = lowest_mean(evidence, one, doubt / 2)
    tilted = -lowest_mean(-np.exp(evidence), other, doubt / 2)
    return np.maximum(0.0, mean - np.log(tilted))


def bound_integer_rho(evidence: Floats, one: Floats | Ints, other: Floats | Ints, doubt: float) -> Floats:
    """Return a lower bound of the rho of zCDP at integer orders, from the same sightings.

    KL says nothing of them. By Cauchy and Schwarz (E_P f)^2 <= E_Q[f^2] e^(D_2) for every f = e^g, and D_2 <= 2 rho.
    """
    lowest = np.maximum(lowest_mean(np.exp(evidence), one, doubt / 2), MIN_HITS)
    tilted = -lowest_mean(-np.exp(2 * evidence), other, doubt / 2)
    return np.maximum(0.0, np.log(lowest) - np.log(tilted) / 2)


def approximate_highest_rates(hits: Floats | Ints, runs: Floats | Ints | float, doubt: float) -> Floats:
    """
    >>> approximate_highest_rates(np.array([0, 50, 100]), 100, 0.025).round(3)
    array([0.036, 0.602, 1.   ])
    """
    z, more, missed = -float(ndtri(doubt)), hits + 1.0, np.maximum(runs - hits, 0.0)
    spread = np.sqrt(np.maximum(9 * more * missed * (9 * runs + 5 - z * z) + runs + 1, 0.0))
    below = 81 * more * more - 9 * more * (2 + z * z) + 1
    ratio = (81 * more * missed - 9 * runs - 8 - 3 * z * spread) / below
    with np.errstate(divide="ignore", over="ignore"):
        odds = np.square(more / missed) * ratio * ratio * ratio
    rates = np.where(hits <= 0, -np.expm1(np.log(doubt) / runs), np.clip(1 / (1 + odds), 0.0, 1.0))
    return np.asarray(np.where(missed <= 0, 1.0, rates), np.float64)


def approximate_lowest_rates(hits: Floats | Ints, runs: Floats | Ints | float, doubt: float) -> Floats:
    """
    >>> approximate_lowest_rates(np.array([0, 50, 100]), 100, 0.025).round(3)
    array([0.   , 0.398, 0.964])
    """
    return 1 - approximate_highest_rates(np.asarray(runs - hits, np.float64), runs, doubt)
