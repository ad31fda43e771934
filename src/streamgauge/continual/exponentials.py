"""Encoders that a few numbers remember: c_0 = 1, c_k = sum_i weight_i (1 - rate_i)^(k-1).

An encoder is a lower-triangular Toeplitz matrix C with these coefficients. Rates and weights are
rationals m/2^e of small integers, so that a run can multiply by them in 64 bits and everything that a
claim rests on is exact. Weights are positive and sum to at most 1, rates lie in (0, 1]: so the
coefficients are positive and never grow, and of all units that touch n ticks the first n consecutive
ones move the encoded stream most (their columns are the longest and overlap the most).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, frexp

import numpy as np
import numpy.typing as npt

SMALL = 1 << 10  # numerators are below it
FINEST = 61  # the largest exponent of a denominator
PLACES = 320  # binary places in which norms are bounded; rounding is towards the larger norm


@dataclass(frozen=True)
class Exponential:
    """One term: rate = rate_top/2^rate_bits, weight = weight_top/2^weight_bits."""

    rate_top: int
    rate_bits: int
    weight_top: int
    weight_bits: int

    def __post_init__(self) -> None:
        if not (0 < self.rate_top < SMALL and self.rate_top <= 1 << self.rate_bits <= 1 << FINEST):
            raise ValueError(f"rate must be a small rational in (0, 1], got {self}")
        if not (0 < self.weight_top < SMALL <= 1 << self.weight_bits <= 1 << FINEST):
            raise ValueError(f"weight must be a small rational in (0, 1), got {self}")

    @classmethod
    def nearest(cls, rate: float, weight: float) -> "Exponential":
        """The term nearest to two floats."""
        return cls(*_dyadic(rate), *_dyadic(weight))

    @property
    def rate(self) -> Fraction:
        return Fraction(self.rate_top, 1 << self.rate_bits)

    @property
    def weight(self) -> Fraction:
        return Fraction(self.weight_top, 1 << self.weight_bits)


@dataclass(frozen=True)
class Encoder:
    """The matrix C of these terms, slowest first."""

    terms: tuple[Exponential, ...]

    def __post_init__(self) -> None:
        if sum(term.weight for term in self.terms) > 1:
            raise ValueError(f"weights must sum to at most 1, got {self.terms}")

    @property
    def rates(self) -> npt.NDArray[np.float64]:
        return np.array([float(term.rate) for term in self.terms])

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        return np.array([float(term.weight) for term in self.terms])

    def coefficients(self, ticks: int) -> npt.NDArray[np.float64]:
        """c_0 to c_(ticks - 1)."""
        powers = np.exp(np.arange(ticks - 1)[:, None] * np.log1p(-np.minimum(self.rates, 1 - 2.0**-53)))
        return np.concatenate([[1.0], powers @ self.weights])[:ticks]

    def norm_squared(self, ticks: int, horizon: int) -> Fraction:
        """An upper bound, off by less than 2^-60, on the squared norm of the first `ticks` columns' sum.

        With a_i = weight_i/rate_i, theta_i = 1 - rate_i and A = 1 + sum a_i, row k of that sum is
            A - sum_i a_i theta_i^k                        for k < ticks
            sum_i a_i (1 - theta_i^ticks) theta_i^(k - ticks)    for ticks <= k < horizon
        and squares of sums of powers sum in closed form. Powers are bounded from the side that makes
        the norm larger.
        """
        reach = [term.weight / term.rate for term in self.terms]
        theta = [1 - term.rate for term in self.terms]
        low = [power(t, ticks, up=False) for t in theta]
        high = [power(t, ticks, up=True) for t in theta]
        all_ = 1 + sum(reach)
        total = ticks * all_**2
        total -= _sum(2 * all_ * a * (1 - p) / (1 - t) for a, p, t in zip(reach, high, theta, strict=True))
        late = [a * (1 - p) for a, p in zip(reach, low, strict=True)]
        for i, t in enumerate(theta):
            for j, s in enumerate(theta):
                early = reach[i] * reach[j] * (1 - power(t * s, ticks, up=False))
                after = late[i] * late[j] * (1 - power(t * s, horizon - ticks, up=False))
                total += rounded_up((early + after) / (1 - t * s))
        return rounded_up(total, 64)


def _sum(terms: Iterable[Fraction]) -> Fraction:
    """Their sum, rounded down."""
    return -sum((rounded_up(-term) for term in terms), Fraction(0))


def rounded_up(value: Fraction, places: int = PLACES) -> Fraction:
    return Fraction(ceil(value * (1 << places)), 1 << places)


def power(base: Fraction, exponent: int, *, up: bool) -> Fraction:
    """base^exponent for a base in [0, 1], rounded up or down to PLACES binary places."""
    result, square = 1 << PLACES, _fixed(base, up)
    while exponent:
        if exponent & 1:
            result = _product(result, square, up)
        square = _product(square, square, up)
        exponent >>= 1
    return Fraction(result, 1 << PLACES)


def _fixed(value: Fraction, up: bool) -> int:
    scaled = value * (1 << PLACES)
    return ceil(scaled) if up else int(scaled)


def _product(a: int, b: int, up: bool) -> int:
    return -(-a * b >> PLACES) if up else a * b >> PLACES


def _dyadic(value: float) -> tuple[int, int]:
    """The nearest m/2^e with m < SMALL and e from 10 to FINEST."""
    bits = min(max(10 - frexp(value)[1], 10), FINEST)
    top = round(value * 2.0**bits)
    if top == SMALL and bits > 10:
        top, bits = SMALL // 2, bits - 1
    return max(1, min(top, SMALL - 1)), bits
