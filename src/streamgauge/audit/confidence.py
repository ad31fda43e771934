"""From counts of what was seen to bounds that hold with a stated confidence.

Promise
    Whatever the two laws are, each bound here is larger than the truth with probability at most 1 -
    confidence over the runs. Proofs: a rate lies in its Clopper-Pearson interval, whose two ends take half
    of the doubt each; a mean of numbers in an interval is below its empirical Bernstein bound (Maurer and
    Pontil, 2009) as often.
"""

from math import exp, log

import numpy as np
from scipy.special import betaincinv

from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats

NONE = 1e-9  # hits that are not looked at
LARGEST = 700.0  # epsilon that a float has an exponential for


def lowest_rates(hits: Floats | Ints, runs: int, doubt: float) -> Floats:
    """Rates that are each above the true one with probability at most `doubt`.

    >>> lowest_rates(np.array([50, 0]), 100, 0.025).round(3)
    array([0.398, 0.   ])
    """
    return np.where(hits > 0, betaincinv(np.maximum(hits, NONE), runs - hits + 1, doubt), 0.0)


def highest_rates(hits: Floats | Ints, runs: int, doubt: float) -> Floats:
    """Rates that are each below the true one with probability at most `doubt`."""
    return 1 - lowest_rates(runs - hits, runs, doubt)


def between(one: int, other: int, runs: int, doubt: float) -> tuple[float, float]:
    """The least that the first rate may be, and the most that the second may be."""
    low = lowest_rates(np.array([one]), runs, doubt / 2)
    return float(low[0]), float(highest_rates(np.array([other]), runs, doubt / 2)[0])


def epsilon_seen(one: int, other: int, runs: int, doubt: float, delta: float = 0.0) -> float:
    """What an event that was seen so often under two neighbours shows: epsilon at this delta is at least it.

    >>> round(epsilon_seen(73_000, 27_000, 100_000, 0.001), 2)
    0.97
    """
    low, high = between(one, other, runs, doubt)
    return max(0.0, log((low - delta) / high)) if low > delta else 0.0


def delta_seen(one: int, other: int, runs: int, doubt: float, epsilon: float) -> float:
    """The same of delta at this epsilon."""
    low, high = between(one, other, runs, doubt)
    return max(0.0, low - exp(min(epsilon, LARGEST)) * high)


def lowest_mean(values: Floats, counts: Floats | Ints, doubt: float) -> Floats:
    """A number that is above the true mean with probability at most `doubt`; of each row of values.

    `counts` says how often each of the possible values was seen.
    """
    runs, wide = float(counts.sum()), log(2 / doubt)
    mean = values @ counts / runs
    variance = np.square(values - mean[..., None]) @ counts / (runs - 1)
    reach = values.max(axis=-1) - values.min(axis=-1)
    lowest = mean - np.sqrt(2 * variance * wide / runs) - 7 * reach * wide / (3 * (runs - 1))
    return np.asarray(lowest, np.float64)


def rho_seen(evidence: Floats, one: Floats | Ints, other: Floats | Ints, doubt: float) -> Floats:
    """What so many sightings of each outcome under two neighbours show of zCDP: rho is at least it.

    For every g, KL(P, Q) >= E_P[g] - log E_Q[e^g] (Donsker and Varadhan), and zCDP bounds KL by rho. Here
    g is `evidence`, a number for each outcome, chosen without these runs; or each row of it, one by one.
    """
    mean = lowest_mean(evidence, one, doubt / 2)
    tilted = -lowest_mean(-np.exp(evidence), other, doubt / 2)
    return np.maximum(0.0, mean - np.log(tilted))
