"""Users in cells: how many cells are taken if users are thrown into them at random, and the way back.

With D users in u cells, of which m are looked at, load = D/u:

    taken     g = 1 - q, q = (1 - 1/u)^D      the mean part of the m cells that are taken
    variance  [q + (m - 1) (1 - 2/u)^D]/m - q^2
    load      D/u = log(1 - g)/(u log(1 - 1/u))

Indicators of taken cells are negatively associated (Dubhashi, Ranjan 1998).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log, log1p, sqrt
from typing import Any

import numpy as np

from streamgauge.panprivate.estimated import Within

Number = Any  # a float, or an array of floats


@dataclass(frozen=True)
class Occupied:
    """`cells` cells, of which `entries` are looked at."""

    cells: int
    entries: int

    @property
    def _rate(self) -> float:
        """-u log(1 - 1/u): a little more than 1."""
        return -self.cells * log1p(-1 / self.cells) if self.cells > 1 else 1.0

    @property
    def most(self) -> float:
        """The load at which half a cell is left: none larger is told apart."""
        return log(2 * self.entries) / self._rate

    def taken(self, load: Number) -> Number:
        return -np.expm1(-self._rate * load)

    def load(self, taken: float) -> float:
        """Of the part of cells that is taken, cut to what half a cell can tell."""
        return min(max(-log1p(-min(taken, 1 - 0.5 / self.entries)) / self._rate, 0.0), self.most)

    def rise(self, load: float) -> float:
        """d taken / d load."""
        return self._rate * exp(-self._rate * load)

    def slope(self, load: float) -> float:
        """d load / d taken."""
        return 1 / self.rise(load)

    def stddev(self, load: float, variance: Callable[[float], float]) -> float:
        """Of the load, if the taken part is estimated with `variance` beside its own (delta method)."""
        return sqrt(variance(self.taken(load)) + self.variance(load)) * self.slope(load)

    def variance(self, load: Number) -> Number:
        """Of the part of cells that is taken."""
        users, u, m = load * self.cells, self.cells, self.entries
        empty = np.exp(-self._rate * load)
        # q2 - q^2 with q2 = (1 - 2/u)^D, without cancellation
        apart = users * (log1p(-2 / u) - 2 * log1p(-1 / u)) if u > 2 else 0.0
        return np.maximum(0.0, (empty - empty**2) / m + (m - 1) / m * empty**2 * np.expm1(apart))


@dataclass(frozen=True)
class Taken:
    """Where the load is, from where the taken part is."""

    occupied: Occupied
    part: Within

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = self.part.interval(confidence)
        last = self.occupied.load(high) if high < 1 - 0.5 / self.occupied.entries else inf
        return self.occupied.load(max(low, 0.0)), last
