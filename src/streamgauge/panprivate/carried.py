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
from math import inf, log

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.deviations import OUTWARDS, Deviation, half_width

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
    least, most = np.zeros(len(low)), np.zeros(len(low))
    least[0], most[0] = 1 / high[0], 1 / low[0]
    for j in range(1, len(low)):
        ends = product((low[1 : j + 1], high[1 : j + 1]), (least[:j][::-1], most[:j][::-1]))
        down, up = product((ends[0].sum()[None], ends[1].sum()[None]), (least[:1], most[:1]))
        least[j], most[j] = -up[0], -down[0]
    return least, most


def product(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Bounds of products of numbers within bounds."""
    ways = np.stack([a * b for a in one for b in other])
    return ways.min(0), ways.max(0)


def steepest(weights: Ints, least: Floats, most: Floats) -> Floats:
    """The largest |sum_i w_(i+j) r_i| for r within bounds, for every j."""
    found = []
    for j in range(len(weights)):
        ways = weights[j:] * least[: len(weights) - j], weights[j:] * most[: len(weights) - j]
        found.append(max(-float(np.minimum(*ways).sum()), float(np.maximum(*ways).sum())))
    return np.array(found)
