"""Power series, cut after as many coefficients as there are steps of a cycle."""

from math import inf, log

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats


def log_series(series: Floats, most: float = inf) -> Floats:
    """The logarithm of a power series that begins above 0; coefficients beyond `most` are cut there."""
    length, first = len(series), float(series[0])
    found, inner = np.zeros(length), np.zeros(length)  # inner: j times what is found
    found[0], back = log(first), series[::-1].copy()
    for j in range(1, length):
        exact = (float(series[j]) - together(inner[1:j], back[length - j : -1]) / j) / first
        found[j] = min(max(exact, -most), most)
        inner[j] = j * found[j]
    return found


def inverse_series(series: Floats) -> Floats:
    """One over a power series."""
    length, first = len(series), float(series[0])
    back = np.zeros(length)  # the last first, so that products run over neighbours
    back[-1] = 1 / first
    for j in range(1, length):
        back[length - 1 - j] = -together(series[1 : j + 1], back[length - j :]) / first
    return back[::-1]


def together(one: Floats, other: Floats) -> float:
    """The sum of products in one thread: several, for sums as short, wait for each other most of the time."""
    return float((one * other).sum())


def weighed_ahead(weights: Ints, series: Floats) -> Floats:
    """sum_i w_(i+j) r_i for every j: running sums if all weights are alike, else one for each that is not 0.

    >>> weighed_ahead(np.array([0, 1, -1]), np.array([1.0, 10.0, 100.0])).tolist()
    [-90.0, -9.0, -1.0]
    """
    if weights[0] and np.all(weights == weights[0]):
        return np.asarray(weights[0] * np.cumsum(series)[::-1])
    found = np.zeros(len(series))
    for place in np.flatnonzero(weights):
        found[: place + 1] += weights[place] * series[place::-1]
    return found
