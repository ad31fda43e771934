"""An interval of how often cells were met, carried through a logarithm: how often their users came.

The value is v(T) = -sum_j w_j (l_0 + .. + l_j), where l is the logarithm, as a power series, of the steps g
of the tails T: g_0 = 1 - T_0, g_j = T_(j-1) - T_j (`compound`).

Promise
    All tails together are within h of what was told, with the confidence that is asked for: each is, but for
    a t-th of what is left. So v(T) is within h sum_j |dv/dT_j| of the value, each derivative being the
    largest between what was told and what may be true (mean value theorem): dv/dT_j = sum_i w_(i+j) r_i, with
    r = 1/g a series whose coefficients are enclosed step by step. Where g_0 may be 0, it may be anything.
    Users are not quite Poisson: a user adds log(1 + (z^n - 1)/u) to the logarithm, which is (z^n - 1)/u but
    for coefficients that are 2/(u (u - 2)) together at most, and no more than -u log g_0 users are there.

Reference
    Moore: Interval Analysis, 1966, for the enclosure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, log

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.deviations import OUTWARDS, Deviation, half_width
from streamgauge.panprivate.series import weighed_ahead

ENOUGH = 2  # cells, beyond which users are about Poisson


@dataclass(frozen=True, eq=False)
class Carried:
    """Where the value is, from where the tails are; see the module."""

    value: float
    weights: Ints
    tails: Floats
    parts: Sequence[Deviation]  # of the error of each tail
    cells: int

    def interval(self, confidence: float) -> tuple[float, float]:
        half = half_width(self.parts, 1 - (1 - confidence) / len(self.tails))
        reach = self._reach(half) * OUTWARDS
        return (self.value - reach, self.value + reach) if reach < inf else (-inf, inf)

    def _reach(self, half: float) -> float:
        """How far the value may be from the truth, if no tail is farther than `half`."""
        low, high = self._steps(half)
        if low[0] <= 0 or self.cells <= ENOUGH:
            return inf
        with np.errstate(all="ignore"):
            slopes = steepest(self.weights, *inverse(low, high))
        beyond = int(np.abs(np.cumsum(self.weights[::-1])).max())
        poisson = -2 * log(min(low[0], 1.0)) * beyond / (self.cells - ENOUGH)
        reach = half * float(slopes.sum()) + poisson
        return reach if reach >= 0 else inf  # what is no number is no bound

    def _steps(self, half: float) -> tuple[Floats, Floats]:
        """Bounds for g between what was told and what may be true, which is between 0 and 1."""
        told = -np.diff(np.concatenate([[1.0], self.tails]))
        wide = half * np.where(np.arange(len(told)) > 0, 2, 1)
        low, high = (
            np.minimum(told, np.maximum(told - wide, 0.0)),
            np.maximum(told, np.minimum(told + wide, 1.0)),
        )
        return low, high


def inverse(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds of the coefficients of one over a power series that begins above 0.

    >>> [each.tolist() for each in inverse(np.array([1.0, 0.0]), np.array([2.0, 1.0]))]
    [[0.5, -1.0], [1.0, -0.0]]
    """
    length = len(low)
    least, most = np.full(length, -inf), np.full(length, inf)  # the last first: products are of neighbours
    least[-1], most[-1] = 1 / high[0], 1 / low[0]
    room = np.empty((4, length))
    for j in range(1, length):
        done = slice(length - j, length)
        down, up = summed((low[1 : j + 1], high[1 : j + 1]), (least[done], most[done]), room[:, :j])
        if not isfinite(up - down):
            break
        ends = [total * first for total in (down, up) for first in (float(least[-1]), float(most[-1]))]
        least[length - 1 - j], most[length - 1 - j] = -max(ends), -min(ends)
    return least[::-1], most[::-1]


def summed(one: tuple[Floats, Floats], other: tuple[Floats, Floats], room: Floats) -> tuple[float, float]:
    """Bounds of the sum of products of numbers within bounds."""
    for way, (a, b) in zip(room, ((a, b) for a in one for b in other), strict=True):
        np.multiply(a, b, out=way)
    return float(room.min(0).sum()), float(room.max(0).sum())


def steepest(weights: Ints, least: Floats, most: Floats) -> Floats:
    """The largest |sum_i w_(i+j) r_i| for r within bounds, for every j."""
    up, down = np.maximum(weights, 0), np.maximum(-weights, 0)
    low = weighed_ahead(up, least) - weighed_ahead(down, most)
    high = weighed_ahead(up, most) - weighed_ahead(down, least)
    return np.maximum(-low, high)
