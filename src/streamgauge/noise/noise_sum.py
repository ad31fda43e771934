"""The noise of one release: a sum of weighted draws, with error bars.

A half width h at confidence 1 - beta satisfies P(|S| > h) <= beta for the actual noise. The smallest of four
bounds is used, each rounded outwards:

stillness    narrow noise: h = 0 if the probability that any draw is not 0 is at most beta
normal       Gaussian terms: the normal quantile, corrected for the lattice; tight for large parameters
inversion    Fourier inversion of the exact moment generating function; exact if all weights are integers
             and the sum is not too wide, about a percent off otherwise
Chernoff     exp(log E exp(l S) - l x) at the best l; always available

The law of S is symmetric, so P(|S| > h) is twice P(S > h).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import exp, inf, isnan, log, nextafter, sqrt
from sys import float_info

from streamgauge.noise.tail_bounds import (
    chernoff_tail,
    chernoff_width,
    inverted_tail,
    inverted_width,
    normal_quantile,
    normal_width,
)
from streamgauge.noise.terms import MIN_PROBABILITY, Summands, Term, merge_terms, scale_to_lattice

BOUNDING_FACTOR = 1 + 2.0**-20
MIN_INVERTED_TAIL = 1e-290  # tails that floats can still invert
TIGHT_RATIO = 1.01  # a normal width this close to the normal quantile needs no second opinion


@dataclass(frozen=True)
class NoiseSum:
    """A sum of independent weighted draws; the empty sum is exact zero.

    With `is_bound`, the terms stand for the draws. They have the same variance, and their moment generating
    function is nowhere below that of the draws. Inversion needs the draws themselves and is left out. The
    normal width is stretched by BOUNDING_FACTOR for the weights' sum.

    >>> from fractions import Fraction
    >>> from streamgauge.noise import DiscreteLaplace
    >>> noise = NoiseSum((Term(1, 1, DiscreteLaplace(Fraction(10))),))
    >>> noise.half_width(0.95)
    30.0
    >>> NoiseSum(()).half_width(0.95)
    0.0
    """

    terms: tuple[Term, ...]
    is_bound: bool = False

    @property
    def variance(self) -> float:
        """Exact up to the rounding of floats."""
        return float(sum(term.variance for term in self.terms))

    @property
    def stddev(self) -> float:
        return sqrt(self.variance)

    def scale(self, factor: float) -> "NoiseSum":
        """Return the same noise on another scale."""
        if factor == 1:
            return self
        scaled = tuple(Term(t.count, t.weight * factor, t.distribution) for t in self.terms)
        return NoiseSum(scaled, self.is_bound)

    @cached_property
    def _summands(self) -> Summands:
        return merge_terms(self.terms)

    @cached_property
    def _scaled_summands(self) -> tuple[Fraction, Summands]:
        return scale_to_lattice(self._summands)

    def half_width(self, confidence: float) -> float:
        """h with P(|S| > h) <= 1 - confidence, for one release at a time fixed beforehand."""
        if not 0 <= confidence < 1:
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence}")
        return self._one_sided_width(log(2 / (1 - confidence)))

    def simultaneous_half_width(self, confidence: float, ticks: int) -> float:
        """Return h with P(|S_t| > h at any of `ticks` ticks) <= 1 - confidence.

        Every S_t must have the law of this sum or a narrower half width. The union bound gives each tick
        1 - (1 - confidence)/ticks, for any dependence between ticks.
        """
        if ticks < 1:
            raise ValueError(f"ticks must be at least 1, got {ticks}")
        if not 0 <= confidence < 1:
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence}")
        return self._one_sided_width(log(2 * ticks / (1 - confidence)))

    def _one_sided_width(self, need: float) -> float:
        if not self._summands.terms:
            return 0.0
        unit, summands = self._scaled_summands
        return round_up(Fraction(_compute_width(summands, need, self.is_bound)) * unit)

    def upper_tail(self, x: float) -> float:
        """Return a bound on P(S >= x), at least the least positive float."""
        if isnan(x):
            raise ValueError(f"x must be a number, got {x}")
        if x <= 0 or not self._summands.terms:
            return float(x <= 0)
        unit, summands = self._scaled_summands
        return _compute_tail(summands, -round_up(-Fraction(x) / unit), self.is_bound) if x < inf else MIN_PROBABILITY


def round_up(value: Fraction) -> float:
    """Return the least float that is not below `value`."""
    try:
        near = float(value)
    except OverflowError:
        return inf if value > 0 else -float_info.max
    return near if Fraction(near) >= value else nextafter(near, inf)


@lru_cache(maxsize=4096)
def _compute_width(summands: Summands, need: float, is_bound: bool) -> float:
    """h with P(S > h) <= exp(-need)."""
    if not is_bound and summands.nonzero_bound <= exp(-need):
        return 0.0
    normal = normal_width(summands, need) * (BOUNDING_FACTOR if is_bound else 1)
    if normal < inf and normal < TIGHT_RATIO * summands.stddev * normal_quantile(need, 0.0):
        return normal
    chernoff = chernoff_width(summands.log_mgf, summands.largest_weight, need)
    return min(normal, chernoff) if is_bound else min(normal, chernoff, inverted_width(summands, need))


@lru_cache(maxsize=4096)
def _compute_tail(summands: Summands, x: float, is_bound: bool) -> float:
    chernoff = max(chernoff_tail(summands.log_mgf, summands.largest_weight, x), MIN_PROBABILITY)
    if is_bound:
        return chernoff
    sure = min(chernoff, summands.nonzero_bound)
    return sure if chernoff < MIN_INVERTED_TAIL else min(sure, inverted_tail(summands, x, -log(chernoff)))
