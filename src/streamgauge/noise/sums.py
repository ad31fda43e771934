"""The noise of one release, a sum of independent weighted draws, and error bars that are never optimistic.

A half width h at confidence 1 - beta satisfies P(|S| > h) <= beta for the actual noise. Four bounds are
known, each rounded outwards, and the least is taken:

stillness    for narrow noise: h = 0, if even the chance that any draw is not 0 is at most beta
normal       for Gaussian terms: the normal quantile, corrected for the lattice; tight for large parameters
inversion    the Fourier inversion of the exact moment generating function; exact when all weights are
             integers and the sum is not too wide, within a percent or so otherwise
Chernoff     exp(log E exp(l S) - l x) at the best l; always there

The law of S is symmetric, so P(|S| > h) is twice P(S > h).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import exp, inf, isnan, log, nextafter, sqrt
from sys import float_info

from streamgauge.noise.chernoff import chernoff_tail, chernoff_width
from streamgauge.noise.inversion import inverted_tail, inverted_width
from streamgauge.noise.normal import normal_quantile, normal_width
from streamgauge.noise.terms import LEAST, Summands, Term, in_units, merged

STRETCH = 1 + 2.0**-20
FARTHEST = 1e-290  # tails that floats can still invert
TIGHT = 1.01  # a normal width this close to the normal quantile needs no second opinion


@dataclass(frozen=True)
class NoiseSum:
    """A sum of independent weighted draws; the empty sum is exact zero.

    With `bounding`, the terms are not the draws themselves but fewer kinds that stand for them: of the same
    variance, and of a moment generating function that is nowhere below. Inversion needs the draws
    themselves, so it is left out, and the normal width is stretched by STRETCH for the weights' sum.

    >>> from fractions import Fraction
    >>> from streamgauge.noise import DiscreteLaplace
    >>> noise = NoiseSum((Term(1, 1, DiscreteLaplace(Fraction(10))),))
    >>> noise.half_width(0.95)
    30.0
    >>> NoiseSum(()).half_width(0.95)
    0.0
    """

    terms: tuple[Term, ...]
    bounding: bool = False

    @property
    def variance(self) -> float:
        """Exact up to the rounding of floats."""
        return float(sum(term.variance for term in self.terms))

    @property
    def stddev(self) -> float:
        return sqrt(self.variance)

    def times(self, factor: float) -> "NoiseSum":
        """The same noise on another scale."""
        if factor == 1:
            return self
        scaled = tuple(Term(t.count, t.weight * factor, t.distribution) for t in self.terms)
        return NoiseSum(scaled, self.bounding)

    @cached_property
    def _summands(self) -> Summands:
        return merged(self.terms)

    @cached_property
    def _in_units(self) -> tuple[Fraction, Summands]:
        return in_units(self._summands)

    def half_width(self, confidence: float) -> float:
        """h with P(|S| > h) <= 1 - confidence, for one release at a time fixed beforehand."""
        if not 0 <= confidence < 1:
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence}")
        return self._width(log(2 / (1 - confidence)))

    def simultaneous(self, confidence: float, ticks: int) -> float:
        """h with P(|S_t| > h at any of `ticks` ticks) <= 1 - confidence, if every S_t has the law of this
        sum or a narrower half width: the union bound, at 1 - (1 - confidence)/ticks each, whatever their
        dependence."""
        if ticks < 1:
            raise ValueError(f"ticks must be at least 1, got {ticks}")
        if not 0 <= confidence < 1:
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence}")
        return self._width(log(2 * ticks / (1 - confidence)))

    def _width(self, need: float) -> float:
        if not self._summands.terms:
            return 0.0
        unit, summands = self._in_units
        return at_least(Fraction(_width(summands, need, self.bounding)) * unit)

    def upper_tail(self, x: float) -> float:
        """A bound on P(S >= x), never too small: chances below the least float are the least float."""
        if isnan(x):
            raise ValueError(f"x must be a number, got {x}")
        if x <= 0 or not self._summands.terms:
            return float(x <= 0)
        unit, summands = self._in_units
        return _tail(summands, -at_least(-Fraction(x) / unit), self.bounding) if x < inf else LEAST


def at_least(value: Fraction) -> float:
    """The least float that is not below `value`."""
    try:
        near = float(value)
    except OverflowError:
        return inf if value > 0 else -float_info.max
    return near if Fraction(near) >= value else nextafter(near, inf)


@lru_cache(maxsize=4096)
def _width(summands: Summands, need: float, bounding: bool) -> float:
    """h with P(S > h) <= exp(-need)."""
    if not bounding and summands.stirred <= exp(-need):
        return 0.0
    normal = normal_width(summands, need) * (STRETCH if bounding else 1)
    if normal < inf and normal < TIGHT * summands.stddev * normal_quantile(need, 0.0):
        return normal
    chernoff = chernoff_width(summands.log_mgf, summands.largest, need)
    return min(normal, chernoff) if bounding else min(normal, chernoff, inverted_width(summands, need))


@lru_cache(maxsize=4096)
def _tail(summands: Summands, x: float, bounding: bool) -> float:
    chernoff = max(chernoff_tail(summands.log_mgf, summands.largest, x), LEAST)
    if bounding:
        return chernoff
    sure = min(chernoff, summands.stirred)
    return sure if chernoff < FARTHEST else min(sure, inverted_tail(summands, x, -log(chernoff)))
