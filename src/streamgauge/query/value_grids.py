"""Where the numbers of an aggregate are put: on their own grid, or on one that is fine enough.

    value of its own grid        temperature by 0.1: kept, where doubles tell its places apart
    any other                    a power of two; noise does not grow with the number of places

Bounds are rounded outwards to multiples of the step, so that no value is cut off that was not before.
"""

from fractions import Fraction
from math import ceil, floor, log2
from typing import Any

from streamgauge.query.query import Refused, Value

FINE = 2**20  # places of a grid for what has no natural step
FARTHEST = 10**15  # numbers that can be put on a grid
NARROWEST = Fraction(1, 10**12)  # how far apart their bounds are at least


def bounds_of(value: Value, places: int | None = None) -> dict[str, Any]:
    """The bounds of an expression as settings; a constant one is given room down to, or up to, 0."""
    if value.lower is None or value.upper is None:
        raise Refused("an aggregate must be of a bounded expression, got one without bounds")
    low, high = value.lower, value.upper
    if low == high:
        low, high = min(low, Fraction(0)), max(high, Fraction(0)) or Fraction(1)
    check_size(low, high)
    step = value.step
    if step is None or low % step or high % step or not usable(step, low, high, places):
        step = fine_step(low, high, places or FINE)
        low, high = floor(low / step) * step, ceil(high / step) * step
    return {"lower": low, "upper": high, "step": step}


def check_size(low: Fraction, high: Fraction) -> None:
    """Refuses numbers that no grid of doubles holds."""
    got = f"got {float(low):g} to {float(high):g}"
    if max(abs(low), abs(high)) > FARTHEST:
        raise Refused(f"an aggregate must be of numbers within {float(FARTHEST):g} of 0, {got}: divide it")
    if high - low < NARROWEST:
        rule = f"an aggregate must be of numbers with bounds at least {float(NARROWEST):g} apart"
        raise Refused(f"{rule}, {got}: multiply it")


def usable(step: Fraction, low: Fraction, high: Fraction, places: int | None) -> bool:
    """Whether doubles tell all multiples of a step apart, and there are not too many of them."""
    largest = step.numerator * (2 * max(abs(low), abs(high)) / step + 3)
    few = places is None or (high - low) / step <= places
    return few and largest < 2**52 and step.denominator < 2**52


def fine_step(low: Fraction, high: Fraction, places: int) -> Fraction:
    """A power of two that cuts a range, rounded outwards, into at most so many places, and almost half.

    Where doubles do not tell so many apart, which is far from 0 and where the range is narrow, into fewer.

    >>> fine_step(Fraction(0), Fraction(1, 3), 1024)
    Fraction(1, 2048)
    """
    farthest = max(abs(low), abs(high))
    finest = max((high - low) / (places - 2), farthest / FARTHEST, Fraction(1, 2**50))
    return Fraction(2) ** ceil(log2(finest))
