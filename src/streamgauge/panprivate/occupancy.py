"""Users in cells: how many cells are taken if users are thrown into them at random, and the way back.

With D users in u cells, of which m are looked at, load = D/u:

    taken     g = 1 - q, q = (1 - 1/u)^D      the mean part of the m cells that are taken
    variance  [q + (m - 1) (1 - 2/u)^D]/m - q^2
    load      D/u = log(1 - g)/(u log(1 - 1/u))

How many of the m cells are empty is, in law, a sum of independent coins (Vatutin, Mikhailov 1982). Proof:
with x = z - 1, E z^empty is (1 + x)^m to which 1 - (x/u) d/dx was applied D times. Of a polynomial p that is
-(x^(u+1)/u) d/dx (p/x^u), which has a zero between any two zeros of p, all below 0, and one before the first
if the degree of p is below u, since p/x^u is then 0 at minus infinity too: all zeros stay real, and below 0.
In z they are not above 0, since coefficients are chances: each is a factor (1 - c) + c z. So how many are
taken is such a sum too, of no more coins than there are cells or users; and so is how many of the bits are 1
that are drawn by one of two laws, as their cells are taken or not.

The variance, as a function of D, is a^D/m + (1 - 1/m) b^D - a^(2 D) with b < a^2 < a: its derivative has two
zeros at most (Descartes). It is 0 at first and positive at last, so that, cut at 0, it rises to one place and
falls from there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, log1p
from typing import Any

import numpy as np

from streamgauge.noise.chernoff import least

FULLEST = 0.05, 20.0  # loads between which the taken part varies most

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

    def load(self, taken: Number) -> Number:
        """Of the part of cells that is taken, cut to what half a cell can tell."""
        load = -np.log1p(-np.minimum(taken, 1 - 0.5 / self.entries)) / self._rate
        return np.minimum(np.maximum(load, 0.0), self.most)

    def rise(self, load: Number) -> Number:
        """d taken / d load."""
        return self._rate * np.exp(-self._rate * load)

    def slope(self, load: Number) -> Number:
        """d load / d taken; infinite where the numbers end, so that none is told from another."""
        with np.errstate(divide="ignore", over="ignore"):
            return 1 / np.asarray(self.rise(load), np.float64)[()]

    def stddev(self, load: Number, variance: Callable[[Number], Number]) -> Number:
        """Of the load, if the taken part is estimated with `variance` beside its own (delta method)."""
        return np.sqrt(variance(self.taken(load)) + self.variance(load)) * self.slope(load)

    def variance(self, load: Number) -> Number:
        """Of the part of cells that is taken."""
        users, u, m = load * self.cells, self.cells, self.entries
        empty = np.exp(-self._rate * load)
        # q2/q^2 = (1 - 1/(u - 1)^2)^D with q2 = (1 - 2/u)^D, without cancellation
        apart = users * log1p(-1 / (u - 1) ** 2) if u > 2 else 0.0
        return np.maximum(0.0, (self.taken(load) + (m - 1) * empty * np.expm1(apart)) * empty / m)

    @cached_property
    def _fullest(self) -> float:
        """The load at which the taken part varies most."""
        return least(lambda load: -float(self.variance(load)), *FULLEST)

    def variances(self, low: float, high: float) -> tuple[float, float]:
        """Bounds of it, if the mean part that is taken is between these."""
        first, last = (-log1p(-part) / self._rate if part < 1 else inf for part in (low, high))
        most = self.variance(min(max(self._fullest, first), last))
        fewest = min(self.variance(first), self.variance(last)) if self.cells > 2 else 0.0
        return float(fewest), float(most)
