"""Chi-square tests of integer draws against exact probabilities."""

from collections.abc import Callable

import numpy as np
from scipy.stats import chi2

NEVER = 1e-9  # a true law falls below this once in 10^9 tests; seeds are fixed besides


def p_value(draws: np.ndarray, tail: Callable[[int], float], edges: np.ndarray) -> float:
    """Return the p-value of the counts in [edge, next edge) and beyond both ends, against tail(k) = P(X >= k)."""
    above = np.array([1.0, *(tail(int(edge)) for edge in edges), 0.0])
    expected = -np.diff(above) * len(draws)
    counts = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(expected))
    return _p(counts, expected)


def two_sample_p_value(one: np.ndarray, two: np.ndarray) -> float:
    """Return the p-value of two samples having one law, over the values that occur at least 20 times."""
    values, inverse = np.unique(np.concatenate([one, two]), return_inverse=True)
    first = np.bincount(inverse[: len(one)], minlength=len(values))
    second = np.bincount(inverse[len(one) :], minlength=len(values))
    often = first + second >= 20
    first, second = (np.append(first[often], first[~often].sum()), np.append(second[often], second[~often].sum()))
    share = len(one) / (len(one) + len(two))
    both = first + second
    keep = both > 0
    statistic = (((first - share * both) ** 2) / (both * share * (1 - share) + ~keep))[keep].sum()
    return float(chi2.sf(statistic, keep.sum() - 1))


def _p(counts: np.ndarray, expected: np.ndarray) -> float:
    order = np.argsort(expected)
    rare = np.cumsum(expected[order]) < 20
    small, large = order[rare], order[~rare]
    counts = np.append(counts[large], counts[small].sum())
    expected = np.append(expected[large], expected[small].sum())
    keep = expected > 1e-3
    statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
    return float(chi2.sf(statistic, max(keep.sum() - 1, 1)))
