"""Intervals of doubles: where the value of an expression can lie, before any record is seen.

Promise
    If the operands lie in their intervals, the double that the engine computes lies in the result, with not
    an ulp to spare: ends are computed by the engine's own IEEE operations at the corners, each operation is
    monotone in each operand between corners, and so is rounding. So nothing needs to be rounded outwards.
    Exact fractions would promise less: 0.1 * 3 is 3/10 to them, and 0.30000000000000004 to the engine.

An infinite end means "any finite number": the expressions of this room turn what is not finite into NULL.
"""

import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

HUGE = 1e300  # ends beyond this are as good as none: sums of squares could not be told


@dataclass(frozen=True)
class Interval:
    """All doubles from `lower` to `upper`.

    >>> Interval(-1.0, 2.0) * Interval(3.0, 4.0)
    Interval(lower=-4.0, upper=8.0)
    >>> (Interval(35.0, 42.0) / Interval(0.0, 2.0)).bounded
    False
    """

    lower: float = -math.inf
    upper: float = math.inf

    @property
    def bounded(self) -> bool:
        return self.lower >= -HUGE and self.upper <= HUGE

    @property
    def finite(self) -> bool:
        """Whether no operand can bring a result here that is not a finite number."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    @property
    def largest(self) -> float:
        return max(abs(self.lower), abs(self.upper))

    def holds(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __neg__(self) -> "Interval":
        return Interval(-self.upper, -self.lower)

    def __add__(self, other: "Interval") -> "Interval":
        return hull((self.lower + other.lower, self.upper + other.upper))

    def __sub__(self, other: "Interval") -> "Interval":
        return self + -other

    def __mul__(self, other: "Interval") -> "Interval":
        return hull(a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper))

    def __truediv__(self, other: "Interval") -> "Interval":
        """Division by 0 is NULL; but who can come near it can get anywhere."""
        if other.holds(0.0):
            return Interval()
        return hull(a / b for a in (self.lower, self.upper) for b in (other.lower, other.upper))

    def __mod__(self, other: "Interval") -> "Interval":
        """The remainder of division towards zero: smaller than the divisor, with the sign of the dividend."""
        most = min(self.largest, other.largest)
        return Interval(-most if self.lower < 0 else 0.0, most if self.upper > 0 else 0.0)

    def __abs__(self) -> "Interval":
        return Interval(0.0 if self.holds(0.0) else min(abs(self.lower), abs(self.upper)), self.largest)

    def floor(self) -> "Interval":
        return Interval(whole(self.lower, math.floor), whole(self.upper, math.floor))

    def ceil(self) -> "Interval":
        return Interval(whole(self.lower, math.ceil), whole(self.upper, math.ceil))

    def round(self) -> "Interval":
        return Interval(whole(self.lower, half_away), whole(self.upper, half_away))

    def __or__(self, other: "Interval") -> "Interval":
        return Interval(min(self.lower, other.lower), max(self.upper, other.upper))

    def __and__(self, other: "Interval") -> "Interval | None":
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        return Interval(lower, upper) if lower <= upper else None


ANYWHERE = Interval()


def hull(ends: Iterable[float]) -> Interval:
    """The interval of some corners; 0 times infinity is 0, since a factor is only arbitrarily large."""
    known = [0.0 if math.isnan(end) else end for end in ends]
    return Interval(min(*known, sys.float_info.max), max(*known, -sys.float_info.max))


def point(value: float) -> Interval:
    return Interval(value, value)


def half_away(value: float) -> float:
    """SQL's ROUND: the nearest whole number, halves away from zero."""
    below = math.floor(abs(value))
    return math.copysign(below + (abs(value) - below >= 0.5), value)


def whole(value: float, rounding: Callable[[float], float]) -> float:
    return float(rounding(value)) if math.isfinite(value) else value


def decimal(value: float) -> Fraction:
    """An end for people: 107.60000000000001 is 107.6 in 15 digits. The engine clamps: ulps do not matter."""
    return Fraction(f"{value:.15g}")
