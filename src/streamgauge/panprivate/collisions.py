"""Visit counts of users from the counts of cells that several of them may share.

The count of a cell is the sum of the counts of its users, whose number is Poisson. With l_j the users per cell who
came j times, and g_j the part of the cells that were met j times,

    sum g_j z^j = exp(sum l_j z^j),  l_0 = -(users per cell)

as power series (up to 1/cells, since users are not quite Poisson), cut after as many coefficients as a cycle has
steps. So g_0..g_(t-1), which are the steps of the tails P(N > j) that a table of cycles estimates, give l_0..l_(t-1)
by a logarithm: every count below t is exact. The value is the users per cell, each weighed by the sum of w_j over
j < min(n, t): v(T) = -sum_j w_j (l_0 + .. + l_j), with T the tails, g_0 = 1 - T_0, g_j = T_(j-1) - T_j.

Error
    `stddev` is of first order (delta method): the gradient of the value, times the errors of the tails (bits,
    noise), and those of g among the observed cells, less the Poisson variance of users, whose number is fixed.
    It is infinite on overflow. A coefficient beyond that of half an empty cell is cut there. If errors of tails
    are not small relative to the empty part, the logarithm bends them, now and then by very much. Then an
    estimate is not `reliable`, and a prediction (`predict_stddev`) is the most that an estimate can be off.
    Intervals: all tails together are at most h from their estimates, with the requested confidence: each is, but
    for a t-th of the failure probability. So v(T) is at most h sum_j |dv/dT_j| from the value, each derivative
    being the largest between the estimate and the possible truths (mean value theorem). dv/dT_j = sum_i w_(i+j)
    r_i, with r = 1/g a series whose coefficients are enclosed step by step. If g_0 may be 0, the value may be
    anything. Users are not quite Poisson: a user adds log(1 + (z^n - 1)/u) to the logarithm, which is
    (z^n - 1)/u but for coefficients that are 2/(u (u - 2)) together at most, and there are no more than
    -u log g_0 users.

Reference
    Buchmann, Gruebel: Decompounding, Annals of Statistics 31(4), 2003, for the inversion. Moore: Interval
    Analysis, 1966, for the enclosure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, isfinite, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np

from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.noise.coerce import Floats
from streamgauge.panprivate.error_bounds import (
    OUTWARD_FACTOR,
    Deviation,
    NoiseDeviation,
    SamplingDeviation,
    build_response_deviation,
    half_width,
)
from streamgauge.panprivate.estimate import PanPrivateEstimate
from streamgauge.panprivate.randomised_response import ResponseLaw


def log_series(series: Floats, most: float = inf) -> Floats:
    """Return the logarithm of a power series that begins above 0.

    Coefficients beyond `most` are cut there.
    """
    length, first = len(series), float(series[0])
    found, inner = np.zeros(length), np.zeros(length)  # inner: j times the result
    found[0], back = log(first), series[::-1].copy()
    for j in range(1, length):
        exact = (float(series[j]) - dot_product(inner[1:j], back[length - j : -1]) / j) / first
        found[j] = min(max(exact, -most), most)
        inner[j] = j * found[j]
    return found


def inverse_series(series: Floats) -> Floats:
    """Return one over a power series."""
    length, first = len(series), float(series[0])
    back = np.zeros(length)  # the last first, so that products run over neighbours
    back[-1] = 1 / first
    for j in range(1, length):
        back[length - 1 - j] = -dot_product(series[1 : j + 1], back[length - j :]) / first
    return back[::-1]


def dot_product(one: Floats, other: Floats) -> float:
    """Return the sum of products in one thread, which is faster for short sums."""
    return float((one * other).sum())


def weighted_suffix_sums(weights: Ints, series: Floats) -> Floats:
    """Return sum_i w_(i+j) r_i for every j.

    If all weights are alike these are running sums; else there is one term for each weight that is not 0.

    >>> weighted_suffix_sums(np.array([0, 1, -1]), np.array([1.0, 10.0, 100.0])).tolist()
    [-90.0, -9.0, -1.0]
    """
    if weights[0] and np.all(weights == weights[0]):
        return np.asarray(weights[0] * np.cumsum(series)[::-1])
    found = np.zeros(len(series))
    for place in np.flatnonzero(weights):
        found[: place + 1] += weights[place] * series[place::-1]
    return found


MIN_CELLS = 2  # with more cells users are about Poisson


@dataclass(frozen=True, eq=False)
class IntervalTransform:
    """The possible values, given the possible tails; see the module."""

    value: float
    weights: Ints
    tails: Floats
    parts: Sequence[Deviation]  # of the error of each tail
    cells: int

    def interval(self, confidence: float) -> tuple[float, float]:
        half = half_width(self.parts, 1 - (1 - confidence) / len(self.tails))
        reach = self._max_error(half) * OUTWARD_FACTOR
        return (self.value - reach, self.value + reach) if reach < inf else (-inf, inf)

    def _max_error(self, half: float) -> float:
        """Return the most that the value may be off, if no tail is off by over `half`."""
        found = -np.diff(np.concatenate([[1.0], self.tails]))
        wide = half * np.where(np.arange(len(found)) > 0, 2, 1)
        low = np.minimum(found, np.maximum(found - wide, 0.0))  # between the estimate and the truth, from 0 to 1
        high = np.maximum(found, np.minimum(found + wide, 1.0))
        if low[0] <= 0 or self.cells <= MIN_CELLS:
            return inf
        with np.errstate(all="ignore"):
            slopes = max_slopes(self.weights, *invert_series_bounds(low, high))
        beyond = int(np.abs(np.cumsum(self.weights[::-1])).max())
        poisson = -2 * log(min(low[0], 1.0)) * beyond / (self.cells - MIN_CELLS)
        reach = half * float(slopes.sum()) + poisson
        return reach if reach >= 0 else inf  # NaN is no bound


def invert_series_bounds(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bounds of the coefficients of one over a power series.

    It begins above 0.

    >>> [each.tolist() for each in invert_series_bounds(np.array([1.0, 0.0]), np.array([2.0, 1.0]))]
    [[0.5, -1.0], [1.0, -0.0]]
    """
    length = len(low)
    least, most = np.full(length, -inf), np.full(length, inf)  # the last first: products are of neighbours
    least[-1], most[-1] = 1 / high[0], 1 / low[0]
    buffer = np.empty((4, length))
    for j in range(1, length):
        products = buffer[:, :j]
        for row, (a, b) in enumerate((a, b) for a in (low, high) for b in (least, most)):
            np.multiply(a[1 : j + 1], b[length - j :], out=products[row])
        down, up = float(products.min(0).sum()), float(products.max(0).sum())
        if not isfinite(up - down):
            break
        ends = [total * first for total in (down, up) for first in (float(least[-1]), float(most[-1]))]
        least[length - 1 - j], most[length - 1 - j] = -max(ends), -min(ends)
    return least[::-1], most[::-1]


def max_slopes(weights: Ints, least: Floats, most: Floats) -> Floats:
    """Return the largest |sum_i w_(i+j) r_i| for r between bounds, for every j."""
    up, down = np.maximum(weights, 0), np.maximum(-weights, 0)
    low = weighted_suffix_sums(up, least) - weighted_suffix_sums(down, most)
    high = weighted_suffix_sums(up, most) - weighted_suffix_sums(down, least)
    return np.maximum(-low, high)


MAX_FIRST_ORDER_ERROR = 0.2  # of tails, times their factor: below it first order is right to a third


@dataclass(frozen=True, eq=False)
class CollisionDecoder:
    """The map from tails to values, for weights and a table of so many entries."""

    weights: Ints
    entries: int

    def chances(self, tails: Floats) -> Floats:
        """Return g_0..g_(t-1), the first of which is at least that of half a cell."""
        steps = -np.diff(np.concatenate([[1.0], tails]))
        steps[0] = max(steps[0], 0.5 / self.entries)
        return steps

    def logarithm(self, tails: Floats) -> Floats:
        return log_series(self.chances(tails), most=log(2 * self.entries))

    def decode(self, tails: Floats) -> float:
        """Return sum_j w_j (users per cell who came more than j times)."""
        return self.weigh_logarithm(self.logarithm(tails))

    def weigh_logarithm(self, logarithm: Floats) -> float:
        return float(self.weights @ -np.cumsum(logarithm))

    def gradient(self, tails: Floats) -> Floats:
        """Return d value / d tails.

        With r = 1/g as a series, d l = r d g, so that all but one step cancel.
        """
        return weighted_suffix_sums(self.weights, inverse_series(self.chances(tails)))

    def poisson_variance(self, logarithm: Floats) -> float:
        """Return users per cell by the squares of their weights: the variance if Poisson."""
        users = np.append(logarithm[1:], -logarithm.sum())
        return float(users @ np.cumsum(self.weights) ** 2)

    def expand(self, tails: Floats) -> "Expansion":
        with np.errstate(all="ignore"):
            logarithm, chances = self.logarithm(tails), self.chances(tails)
            inverse, value = inverse_series(chances), self.weigh_logarithm(logarithm)
            gradient, certain = weighted_suffix_sums(self.weights, inverse), self.poisson_variance(logarithm)
            return Expansion(value, tails, chances, gradient, certain, dot_product(inverse, inverse))

    @property
    def max_value(self) -> float:
        """The largest distance of a value from 0: each coefficient is cut."""
        return log(2 * self.entries) * float(np.abs(np.cumsum(self.weights[::-1])).sum())


class Expansion(NamedTuple):
    """A value, its tails, and the terms of errors near them."""

    value: float
    tails: Floats
    chances: Floats
    gradient: Floats
    poisson_variance: float
    max_slope: float  # the squares of the coefficients of 1/g together


@lru_cache(maxsize=16)
def expand_expected(weights: bytes, load: float, times: int) -> Expansion:
    """Return the expansion if so many users per cell came so many times each.

    It is the same for all laws, of which many are tried. The series g is exp(load (z^times - 1)), and 1/g the same of
    -load, however small the empty part is.
    """
    weighed = np.frombuffer(weights, np.int64)
    chances, inverse = np.zeros(len(weighed)), np.zeros(len(weighed))
    chances[::times] = poisson_probabilities(load, (len(weighed) - 1) // times)
    reached = float(weighed[:times].sum())
    with np.errstate(all="ignore"):
        signs = (-1.0) ** np.arange(len(chances[::times]))
        inverse[::times] = chances[::times] * np.exp(2 * np.float64(load)) * signs
        gradient, steep = weighted_suffix_sums(weighed, inverse), dot_product(inverse, inverse)
    tails = compound_tails(load, times, len(weighed))
    return Expansion(load * reached, tails, chances, gradient, load * reached * reached, steep)


@dataclass(frozen=True, eq=False)
class CollisionEstimator:
    """Weighed users per cell, from the noisy s_j of `entries` entries among `cells`."""

    weights: Ints
    entries: int
    cells: int
    laws: ResponseLaw
    noise: DiscreteLaplace

    @property
    def _slope(self) -> float:
        """The change of a tail with s_j."""
        return len(self.weights) / (2 * float(self.laws.gap) * self.entries)

    def estimate(self, signed: Ints, universe: int) -> PanPrivateEstimate:
        resting = (1 - 2 * float(self.laws.absent)) / (2 * float(self.laws.gap))
        return self.estimate_from_tails(np.asarray(signed * self._slope + resting, np.float64), universe)

    def estimate_from_tails(self, tails: Floats, universe: int) -> PanPrivateEstimate:
        """Return the estimate that follows from estimated tails."""
        near = self.decoder.expand(tails)
        transform = IntervalTransform(near.value, self.weights, tails, self._tail_deviations(), self.cells)
        reliable = self._is_straight(near)
        return PanPrivateEstimate(near.value, self._stddev(near), universe, transform, highest=inf, reliable=reliable)

    def _tail_deviations(self) -> list[Deviation]:
        """Return the parts between one tail and its mean.

        They are the bits of a t-th of the entries, noise, and the choice of cells by the hash. The more users,
        the larger the count of a cell, so events "met more than j times" of cells are negatively associated.
        """
        chances = np.array([float(self.laws.absent), float(self.laws.present)]) / len(self.weights)
        bits = build_response_deviation(self.entries, self._slope, chances, 1 / len(self.weights) - chances)
        cells = SamplingDeviation(1.0, self.entries, inf, 0.25 / self.entries)
        return [bits, NoiseDeviation(self._slope, self.noise), cells]

    def stddev_at(self, value: float, times: int) -> float:
        """Return the error of first order at this value.

        Users who came so many times each make it.
        """
        load = value / self._reached_weight(times)
        return self._stddev(expand_expected(self.weights.astype(np.int64).tobytes(), load, times))

    def predict_stddev(self, value: float, times: int) -> float:
        """Return the larger error of frequent users and of users who came once.

        The frequent ones came so many times.

        In both cases as many users come as make this value. If users who come once make none, as many come.
        """
        often = value / self._reached_weight(times)
        once = value / (self._reached_weight(1) or self._reached_weight(times))
        return max(self._predict_error(often, times), self._predict_error(once, 1))

    def _reached_weight(self, times: int) -> int:
        return int(self.weights[:times].sum())

    def _predict_error(self, load: float, times: int) -> float:
        """Return the error of first order or, if that says little, the most possible one."""
        near = expand_expected(self.weights.astype(np.int64).tobytes(), load, times)
        first = self._stddev(near)
        return first if self._is_straight(near) else max(first, self.decoder.max_value + abs(near.value))

    def _is_straight(self, near: Expansion) -> bool:
        """Return whether errors of the tails are small relative to the empty part."""
        t = len(self.weights)
        tail = self._slope * sqrt(self.entries / t + self.noise.variance)
        return bool(tail * sqrt(t * near.max_slope) <= MAX_FIRST_ORDER_ERROR)

    @property
    def decoder(self) -> CollisionDecoder:
        return CollisionDecoder(self.weights, self.entries)

    def _stddev(self, near: Expansion) -> float:
        with np.errstate(all="ignore"):
            variance = self._variance(near) - max(near.poisson_variance, 0.0) / self.cells
        return sqrt(max(variance, 0.0)) if isfinite(variance) else inf

    def _variance(self, near: Expansion) -> float:
        """Return the variance of bits and noise, and of the choice of observed cells."""
        gradient, t = near.gradient, len(near.tails)
        chances = np.append(near.chances, near.tails[-1]).clip(0, 1)
        chances /= chances.sum()
        scaled = gradient * self._slope
        absent, gap = float(self.laws.absent), float(self.laws.gap)
        means = np.append(0.0, np.cumsum(scaled)) * 2 * gap / t + (2 * absent - 1) * scaled.sum() / t
        squares = dot_product(scaled, scaled)
        bits = self.entries * np.maximum(squares / t - dot_product(chances, means**2), 0.0)
        reached = np.append(0.0, np.cumsum(gradient))
        centre = dot_product(chances, reached)
        spread = np.maximum(dot_product(chances, reached**2) - centre * centre, 0.0) / self.entries
        return float(bits + self.noise.variance * squares + spread)


def compound_tails(load: float, times: int, length: int) -> Floats:
    """Return P(N > j) for j < length, if users come so many times each.

    A cell has a Poisson number of them.
    """
    users = np.arange(length) // times
    return np.asarray(1 - np.cumsum(poisson_probabilities(load, int(users[-1])))[users])


def poisson_probabilities(load: float, most: int) -> Floats:
    """Return the chances of 0..most users."""
    rate = log(max(load, 1e-300))
    return np.array([exp(n * rate - load - lgamma(n + 1)) for n in range(most + 1)])
