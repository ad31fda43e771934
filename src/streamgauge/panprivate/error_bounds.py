"""Half widths that are never too narrow, and the best split of a loss.

The error S is a sum of independent deviations. A half width h has P(|S| > h) <= beta for the actual S, by the least
of these bounds:

Chernoff       from the moment generating functions, each the largest over all behaviour of users
Berry-Esseen   P(|S| > h) <= 2 P(N > h/s) + 2 (0.56) R/s^3 with s^2 the variance and R the sum of third
               absolute moments of the summands, if all are known (Shevtsova 2010): tight for large tables
both           the latter for independent parts, given all else, and the former for the rest: beta is shared

Variances and moments depend on the users, so they are not known exactly. Upper bounds, and for the s of the last
term a lower one, replace them.

Independent coins are a part whose mean number of heads and its variance are known, but not the chance of each coin:

    log E exp(l S) <= count [log(1 - p + p e^l) - l p]    p their mean chance: the logarithm is concave
    log E exp(l S) <= variance (e^|l| - 1 - |l|)          since none is off by more than 1 (Bennett 1962)

The loss is split between the table and the releases by the least predicted error. The share of the releases is
searched among 2^-k and 1 - 2^-k, and then between the neighbours of the best.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, inf, log, log1p, sqrt

import numpy as np

from streamgauge.noise.coerce import Floats
from streamgauge.noise.distributions import DiscreteLaplace
from streamgauge.noise.tail_bounds import chernoff_width, normal_point

BERRY_ESSEEN_CONSTANT = 0.56
DEPENDENT_BETA_SHARES = 1 / 4, 1 / 32, 1 / 256, 1 / 4096  # share of beta for dependent terms
OUTWARD_FACTOR = 1 + 1e-9
MAX_EXPONENT = 500.0  # beyond it e^l overflows soon, and l itself is the bound


@dataclass(frozen=True, eq=False)
class EntryDeviation:
    """`count` independent entries, each of these values less its mean, times `weight`.

    `chances` has a column for each value, and a row for each behaviour of a user.
    """

    count: float
    weight: float
    values: Floats
    chances: Floats

    @cached_property
    def _differences(self) -> Floats:
        return np.asarray(self.values - (self.chances @ self.values)[:, None])

    def moments(self, power: int) -> Floats:
        """Return absolute central moments of one entry, for each behaviour of its user."""
        return np.asarray((self.chances * np.abs(self._differences) ** power).sum(1)) * abs(self.weight) ** power

    @property
    def variance_range(self) -> tuple[float, float]:
        each = self.moments(2)
        return self.count * float(each.min()), self.count * float(each.max())

    @property
    def third_moment(self) -> float:
        return self.count * float(self.moments(3).max())

    def log_mgf(self, tilt: float) -> float:
        return self.count * max(self._entry_log_mgf(tilt * self.weight), self._entry_log_mgf(-tilt * self.weight))

    def _entry_log_mgf(self, tilt: float) -> float:
        exponents = np.where(self.chances > 0, tilt * self._differences, -inf)
        top = exponents.max(1)
        return float((np.log((self.chances * np.exp(exponents - top[:, None])).sum(1)) + top).max())


def build_response_deviation(count: float, weight: float, plus: Floats, minus: Floats) -> EntryDeviation:
    """Return the deviation of entries 1, -1 or 0, by their chances of 1 and of -1."""
    chances = np.stack([plus, 1 - plus - minus, minus], axis=1)
    return EntryDeviation(count, weight, np.array([1.0, 0.0, -1.0]), chances)


@dataclass(frozen=True)
class NoiseDeviation:
    """`count` draws of a discrete Laplace law, times `weight` each."""

    weight: float
    law: DiscreteLaplace
    count: int = 1

    @property
    def variance_range(self) -> tuple[float, float]:
        exact = self.count * (self.weight**2 * self.law.variance)
        return exact, exact

    @property
    def third_moment(self) -> float:
        """At most sqrt(E X^2 E X^4) a draw, and E X^4 = 6 v^2 + v where v is the variance."""
        v = self.law.variance
        return self.count * (abs(self.weight) ** 3 * sqrt(v * (6 * v * v + v)))

    def log_mgf(self, tilt: float) -> float:
        return self.count * float(self.law.log_mgf(np.array([tilt * self.weight]))[0])


@dataclass(frozen=True)
class Coins:
    """`count` independent coins less their means, times `weight`; see the module."""

    count: int
    weight: float
    chances: tuple[float, float]  # bounds of their mean chance
    variance_bounds: tuple[float, float]  # bounds of the variance of the number of heads
    min_variance: float = 0.0  # of each coin
    is_independent: bool = True  # True if all other parts of the error are independent of them

    @property
    def variance_range(self) -> tuple[float, float]:
        low, high = self.variance_bounds
        return low * self.weight**2, high * self.weight**2

    @property
    def third_moment(self) -> float:
        """A coin of variance v has v (1 - 2 v)."""
        if not self.is_independent:
            return inf
        return self.variance_bounds[1] * (1 - 2 * self.min_variance) * abs(self.weight) ** 3

    def log_mgf(self, tilt: float) -> float:
        size = abs(tilt * self.weight)
        if size > MAX_EXPONENT:
            return self.count * size
        both = max(self._coin_log_mgf(size), self._coin_log_mgf(-size))
        return min(self.count * both, self.variance_bounds[1] * max(expm1(size) - size, 0.0))

    def _coin_log_mgf(self, tilt: float) -> float:
        """Return the maximum of log(1 - p + p e^l) - l p, which is concave in p."""
        if not tilt:
            return 0.0
        low, high = self.chances
        chance = min(max(1 / tilt - 1 / expm1(tilt), low), high)
        if tilt > 1:
            return log(chance + (1 - chance) * exp(-tilt)) + tilt * (1 - chance) if chance > 0 else 0.0
        return max(log1p(chance * expm1(tilt)) - tilt * chance, 0.0) if chance < 1 else 0.0


@dataclass(frozen=True)
class SamplingDeviation:
    """The mean of a sample without replacement, or of cells under a hash.

    Each member is in an interval of width `weight`. log E exp(l S) <= l^2 weight^2 (1 - (m - 1)/n)/(8 m) for m of n
    (Serfling 1974). With n infinite it holds for negatively associated members, as the occupation of cells is
    (Hoeffding 1963; Dubhashi, Ranjan 1998).
    """

    weight: float
    sample_size: int
    population: float
    variance: float

    @property
    def variance_range(self) -> tuple[float, float]:
        return 0.0, self.variance

    @property
    def third_moment(self) -> float:
        return inf

    def log_mgf(self, tilt: float) -> float:
        return (tilt * self.weight) ** 2 * (1 - (self.sample_size - 1) / self.population) / (8 * self.sample_size)


# A part of the error, in the units of the estimate, of which `weight` is what its summands are counted in.
# `variance_range` bounds its variance. `third_moment` is at least the sum of the third absolute moments of its
# summands, and infinite if they are not independent. `log_mgf` is at least log E exp(+-tilt S).
Deviation = EntryDeviation | NoiseDeviation | Coins | SamplingDeviation


def sampling_factor(sample_size: int, population: int) -> float:
    """Return the factor of a population's variance in the mean of a sample of it.

    The sample is without replacement.
    """
    return (population - sample_size) / (max(1, population - 1) * sample_size)


def build_sampling_deviation(width: float, sample_size: int, population: int) -> list[Deviation]:
    """Return the deviation of a sample; none if it is the whole population.

    Members are in an interval of this width.
    """
    if sample_size == population:
        return []
    variance = sampling_factor(sample_size, population) * width**2 / 4
    return [SamplingDeviation(width, sample_size, population, variance)]


def half_width(parts: Sequence[Deviation], confidence: float) -> float:
    """Return h with P(|S| > h) <= 1 - confidence, for one estimate.

    Its time is fixed beforehand.
    """
    if not parts:
        return 0.0
    beta = 1 - confidence
    widths = [_chernoff_half_width(parts, beta), _berry_esseen_half_width(parts, beta)]
    known = [part for part in parts if _third_moment(part) < inf]
    rest = [part for part in parts if _third_moment(part) == inf]
    if known and rest:
        widths += [
            _berry_esseen_half_width(known, beta * (1 - share)) + _chernoff_half_width(rest, beta * share)
            for share in DEPENDENT_BETA_SHARES
        ]
    return min(widths) * OUTWARD_FACTOR


def _chernoff_half_width(parts: Sequence[Deviation], beta: float) -> float:
    largest = max(abs(part.weight) for part in parts)
    return chernoff_width(lambda tilt: sum(part.log_mgf(tilt) for part in parts), largest, log(2 / beta))


def _third_moment(part: Deviation) -> float:
    """Return the third moment; infinite on overflow, as Chernoff's bound needs none."""
    try:
        return part.third_moment
    except OverflowError:
        return inf


def _berry_esseen_half_width(parts: Sequence[Deviation], beta: float) -> float:
    third = sum(map(_third_moment, parts))
    if third == inf:
        return inf
    least, most = (sum(part.variance_range[i] for part in parts) for i in range(2))
    if least <= 0:
        return inf
    tail = beta / 2 - BERRY_ESSEEN_CONSTANT * third / least / sqrt(least)
    return sqrt(most) * normal_point(tail) if 0 < tail < 0.5 else 0.0 if tail >= 0.5 else inf


def max_quadratic(first: float, last: float, gain: float) -> float:
    """Return f in [0, 1] that maximises first (1 - f) + last f + gain f (1 - f).

    `gain` is at least 0.
    """
    if gain <= abs(last - first):
        return float(last > first)
    return (1 + (last - first) / gain) / 2


@dataclass(frozen=True, eq=False)
class SymmetricRegion:
    """The truth is near a value."""

    value: float
    deviations: Sequence[Deviation]

    def interval(self, confidence: float) -> tuple[float, float]:
        half = half_width(self.deviations, confidence)
        return self.value - half, self.value + half


MAX_HALVINGS = 20
COARSE_SHARES = [Fraction(1, 2**k) for k in range(MAX_HALVINGS, 0, -1)]
COARSE_SHARES += [1 - Fraction(1, 2**k) for k in range(2, MAX_HALVINGS)]
FINE_STEPS = 16


def find_best_split(stddev: Callable[[Fraction], float]) -> Fraction:
    """Return the table's share with the least error.

    A share that `stddev` rejects, or cannot compute, is no choice.
    """

    def tried(released: Fraction) -> float:
        try:
            return stddev(1 - released)
        except (ValueError, ArithmeticError):
            return inf

    place = min(range(len(COARSE_SHARES)), key=lambda place: tried(COARSE_SHARES[place]))
    low, high = COARSE_SHARES[max(place - 1, 0)], COARSE_SHARES[min(place + 1, len(COARSE_SHARES) - 1)]
    near = [low + (high - low) * Fraction(i, FINE_STEPS) for i in range(FINE_STEPS + 1)]
    return 1 - min([COARSE_SHARES[place], *near], key=tried)
