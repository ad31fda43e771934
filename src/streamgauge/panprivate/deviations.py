"""How far an estimate is from the truth: sums of independent deviations, and half widths never too narrow.

A half width h has P(|S| > h) <= beta for the actual S, by whichever is least of these bounds:

Chernoff       from the moment generating functions, each the largest over all that users may have done
Berry-Esseen   P(|S| > h) <= 2 P(N > h/s) + 2 (0.56) R/s^3 with s^2 the variance and R the sum of third
               absolute moments of the summands, where all are known (Shevtsova 2010): tight for large tables
both           the latter for what is independent, given all else, and the former for the rest: beta is shared

Variances and moments are not known exactly, since they depend on the users: upper bounds, and for the s of
the last term a lower one, take their place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, sqrt
from typing import Protocol

import numpy as np

from streamgauge.noise.chernoff import chernoff_width
from streamgauge.noise.distributions import DiscreteLaplace
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats

ESSEEN = 0.56
SHARES = 1 / 4, 1 / 32, 1 / 256, 1 / 4096  # of beta, for what is not independent
OUTWARDS = 1 + 1e-9


class Deviation(Protocol):
    """One part of the error, in the units of the estimate."""

    @property
    def weight(self) -> float:
        """What its summands are counted in."""
        ...

    @property
    def variances(self) -> tuple[float, float]:
        """Bounds of its variance."""
        ...

    @property
    def third(self) -> float:
        """At least the sum of the third absolute moments of its summands; infinite if they are not
        independent."""
        ...

    def log_mgf(self, tilt: float) -> float:
        """At least log E exp(tilt S) and log E exp(-tilt S)."""
        ...


@dataclass(frozen=True, eq=False)
class Responses:
    """`count` entries, each 1, 0 or -1 less its mean: `plus` and `minus` are the chances of 1 and of -1,
    for all that a user may have done. Times `weight`."""

    count: float
    weight: float
    plus: Floats
    minus: Floats

    @cached_property
    def _values(self) -> Floats:
        return np.array([[1.0], [0.0], [-1.0]]) - (self.plus - self.minus)

    @cached_property
    def _chances(self) -> Floats:
        return np.stack([self.plus, 1 - self.plus - self.minus, self.minus])

    def _moment(self, power: int) -> Floats:
        return np.asarray((self._chances * np.abs(self._values) ** power).sum(0)) * abs(self.weight) ** power

    @property
    def variances(self) -> tuple[float, float]:
        each = self._moment(2)
        return self.count * float(each.min()), self.count * float(each.max())

    @property
    def third(self) -> float:
        return self.count * float(self._moment(3).max())

    def log_mgf(self, tilt: float) -> float:
        return self.count * max(self._one(tilt * self.weight), self._one(-tilt * self.weight))

    def _one(self, tilt: float) -> float:
        exponents = np.where(self._chances > 0, tilt * self._values, -inf)
        top = exponents.max(0)
        return float((np.log((self._chances * np.exp(exponents - top)).sum(0)) + top).max())


@dataclass(frozen=True)
class Noise:
    """One draw of a discrete Laplace law, times `weight`."""

    weight: float
    law: DiscreteLaplace

    @property
    def variances(self) -> tuple[float, float]:
        exact = self.weight**2 * self.law.variance
        return exact, exact

    @property
    def third(self) -> float:
        """At most sqrt(E X^2 E X^4), and E X^4 = 6 v^2 + v where v is the variance."""
        v = self.law.variance
        return abs(self.weight) ** 3 * sqrt(v * (6 * v * v + v))

    def log_mgf(self, tilt: float) -> float:
        return float(self.law.log_mgf(np.array([tilt * self.weight]))[0])


@dataclass(frozen=True)
class Drawn:
    """The mean over a sample without replacement, each member within `weight`; or that of cells under a hash.

    log E exp(l S) <= l^2 weight^2 (1 - (m - 1)/n)/(8 m) for m of n (Serfling 1974), and with n infinite for
    what is negatively associated, as the occupation of cells is (Hoeffding 1963; Dubhashi, Ranjan 1998).
    """

    weight: float
    drawn: int
    among: float
    variance: float

    @property
    def variances(self) -> tuple[float, float]:
        return 0.0, self.variance

    @property
    def third(self) -> float:
        return inf

    def log_mgf(self, tilt: float) -> float:
        return (tilt * self.weight) ** 2 * (1 - (self.drawn - 1) / self.among) / (8 * self.drawn)


def sampled(drawn: int, among: int) -> float:
    """What a variance among so many is in the mean of a sample of them without replacement."""
    return (among - drawn) / (max(1, among - 1) * drawn)


def drawn(width: float, drawn: int, among: int) -> list[Deviation]:
    """The deviation of a sample, if it is not all; of members within an interval of this width."""
    return [Drawn(width, drawn, among, sampled(drawn, among) * width**2 / 4)] if drawn < among else []


def half_width(parts: Sequence[Deviation], confidence: float) -> float:
    """h with P(|S| > h) <= 1 - confidence, for one estimate at a time fixed beforehand."""
    if not parts:
        return 0.0
    beta = 1 - confidence
    return min(_chernoff(parts, beta), _berry_esseen(parts, beta), _apart(parts, beta)) * OUTWARDS


def _chernoff(parts: Sequence[Deviation], beta: float) -> float:
    largest = max(abs(part.weight) for part in parts)
    return chernoff_width(lambda tilt: sum(part.log_mgf(tilt) for part in parts), largest, log(2 / beta))


def _apart(parts: Sequence[Deviation], beta: float) -> float:
    """Berry-Esseen's for what is independent, whatever the rest is, and Chernoff's for the rest."""
    known = [part for part in parts if _third(part) < inf]
    rest = [part for part in parts if _third(part) == inf]
    if not known or not rest:
        return inf
    return min(_berry_esseen(known, beta * (1 - share)) + _chernoff(rest, beta * share) for share in SHARES)


def _third(part: Deviation) -> float:
    """Infinite where the numbers end, too: Chernoff's bound needs no third moment."""
    try:
        return part.third
    except OverflowError:
        return inf


def _berry_esseen(parts: Sequence[Deviation], beta: float) -> float:
    third = sum(map(_third, parts))
    if third == inf:
        return inf
    least, most = (sum(part.variances[i] for part in parts) for i in range(2))
    if least <= 0:
        return inf
    tail = beta / 2 - ESSEEN * third / least / sqrt(least)
    return sqrt(most) * normal_point(tail) if 0 < tail < 0.5 else 0.0 if tail >= 0.5 else inf


def largest(first: float, last: float, bent: float) -> float:
    """Where first (1 - f) + last f + bent f (1 - f), with bent >= 0, is largest for f between 0 and 1."""
    if bent <= abs(last - first):
        return float(last > first)
    return (1 + (last - first) / bent) / 2


@dataclass(frozen=True, eq=False)
class Around:
    """The truth is near a value."""

    value: float
    parts: Sequence[Deviation]

    def interval(self, confidence: float) -> tuple[float, float]:
        half = half_width(self.parts, confidence)
        return self.value - half, self.value + half
