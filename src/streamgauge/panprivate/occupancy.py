"""Cells that random users occupy, and the number of users behind them.

With D users in u cells, of which m are observed, load = D/u:

    occupied  g = 1 - q, q = (1 - 1/u)^D      the mean part of the m cells that are occupied
    variance  [q + (m - 1) (1 - 2/u)^D]/m - q^2
    load      D/u = log(1 - g)/(u log(1 - 1/u))

The number of empty cells among the m is, in law, a sum of independent coins (Vatutin, Mikhailov 1982). Proof: with
x = z - 1, E z^empty is (1 + x)^m to which 1 - (x/u) d/dx was applied D times. Of a polynomial p that is
-(x^(u+1)/u) d/dx (p/x^u). It has a zero between any two zeros of p, all below 0, and one before the first if the
degree of p is below u, since p/x^u is then 0 at minus infinity too. So all zeros stay real, and below 0. In z they
are not above 0, since coefficients are chances: each is a factor (1 - c) + c z. So the number of occupied cells is
such a sum too, of no more coins than there are cells or users. So is the number of ones among bits that are drawn by
one of two laws, as their cells are occupied or not.

The variance, as a function of D, is a^D/m + (1 - 1/m) b^D - a^(2 D) with b < a^2 < a. Its derivative has two zeros at
most (Descartes). It is 0 at first and positive at last. So, cut at 0, it rises to one place and falls from there.

Error
    `OccupancyRegion` bounds the load, given an estimate of the occupied part. Let h(g) be the least half width
    with P(|estimate - g| > h) <= beta, if g is the mean part that is occupied. Then |estimate - g| <= h(g) with
    chance 1 - beta. A half width that holds for all g between the estimate and some end is no less than h(g)
    there. So, from the widest ends on, each end is moved to the half width of the remaining interval: no g with
    |estimate - g| <= h(g) is lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, log1p
from typing import Any

import numpy as np

from streamgauge.noise.tail_bounds import find_minimum
from streamgauge.panprivate.error_bounds import Deviation, half_width

PEAK_VARIANCE_LOADS = 0.05, 20.0  # between these loads the occupied part varies most

Number = Any  # a float, or an array of floats


@dataclass(frozen=True)
class CellOccupancy:
    """`cells` cells, of which `entries` are observed."""

    cells: int
    entries: int

    @property
    def _rate(self) -> float:
        """-u log(1 - 1/u): a little more than 1."""
        return -self.cells * log1p(-1 / self.cells) if self.cells > 1 else 1.0

    @property
    def max_load(self) -> float:
        """The load at which half a cell is left: larger ones are indistinguishable."""
        return log(2 * self.entries) / self._rate

    def occupied_part(self, load: Number) -> Number:
        return -np.expm1(-self._rate * load)

    def estimate_load(self, occupied_part: Number) -> Number:
        """Return the load of an occupied part, cut to that of half an empty cell."""
        load = -np.log1p(-np.minimum(occupied_part, 1 - 0.5 / self.entries)) / self._rate
        return np.minimum(np.maximum(load, 0.0), self.max_load)

    def occupancy_slope(self, load: Number) -> Number:
        """d occupied part / d load."""
        return self._rate * np.exp(-self._rate * load)

    def load_slope(self, load: Number) -> Number:
        """d load / d occupied part; infinite on overflow, so that all loads are possible."""
        with np.errstate(divide="ignore", over="ignore"):
            return 1 / np.asarray(self.occupancy_slope(load), np.float64)[()]

    def stddev(self, load: Number, variance: Callable[[Number], Number]) -> Number:
        """Return the standard error of the load (delta method).

        `variance` is that of the estimate of the occupied part, in addition to its own.
        """
        return np.sqrt(variance(self.occupied_part(load)) + self.variance(load)) * self.load_slope(load)

    def variance(self, load: Number) -> Number:
        """Return the variance of the part of cells that is occupied."""
        users, u, m = load * self.cells, self.cells, self.entries
        empty = np.exp(-self._rate * load)
        # q2/q^2 = (1 - 1/(u - 1)^2)^D with q2 = (1 - 2/u)^D, without cancellation
        apart = users * log1p(-1 / (u - 1) ** 2) if u > 2 else 0.0
        return np.maximum(0.0, (self.occupied_part(load) + (m - 1) * empty * np.expm1(apart)) * empty / m)

    @cached_property
    def _max_variance_load(self) -> float:
        """The load at which the occupied part varies most."""
        return find_minimum(lambda load: -float(self.variance(load)), *PEAK_VARIANCE_LOADS)

    def variance_range(self, low: float, high: float) -> tuple[float, float]:
        """Return bounds of the variance, if the mean occupied part is between these."""
        first, last = (-log1p(-part) / self._rate if part < 1 else inf for part in (low, high))
        most = self.variance(min(max(self._max_variance_load, first), last))
        fewest = min(self.variance(first), self.variance(last)) if self.cells > 2 else 0.0
        return float(fewest), float(most)


BISECTION_ROUNDS = 8
MAX_NARROWING_RATIO = 0.99  # of a half width: nearer is not worth another round


@dataclass(frozen=True, eq=False)
class OccupancyRegion:
    """The possible loads, given an estimate of the occupied part; see the module."""

    occupancy: CellOccupancy
    occupied_part: float
    build_deviations: Callable[[float, float], Sequence[Deviation]]  # if the mean part is from one number to another

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = (self._find_end(side, confidence) for side in (-1, 1))
        last = float(self.occupancy.estimate_load(high)) if high < 1 - 0.5 / self.occupancy.entries else inf
        return float(self.occupancy.estimate_load(max(low, 0.0))), last

    def _find_end(self, side: int, confidence: float) -> float:
        half, reported = inf, self.occupied_part
        for _ in range(BISECTION_ROUNDS):
            low, high = sorted(min(max(each, 0.0), 1.0) for each in (reported, reported + side * half))
            nearer = min(half, half_width(self.build_deviations(low, high), confidence))
            if nearer > MAX_NARROWING_RATIO * half:
                break
            half = nearer
        return reported + side * nearer
