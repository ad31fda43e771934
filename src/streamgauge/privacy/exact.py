"""The one door through which numbers become exact: everything behind it is a Fraction.

A float stands for the shortest decimal that denotes it, which is the number its author typed: 0.1 is 1/10,
not the binary number just above it. So nothing is ever larger than what was typed, and 0.1 ten times is 1.
"""

from decimal import Decimal
from fractions import Fraction
from math import isqrt
from numbers import Rational, Real
from operator import index

Number = int | float | Fraction | Decimal | str


def exact(value: Number, name: str = "value") -> Fraction:
    """The rational that `value` denotes; refuses what is no finite number, booleans among it.

    >>> exact(0.1), exact("1/3"), exact(2)
    (Fraction(1, 10), Fraction(1, 3), Fraction(2, 1))
    """
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a number, got {value}")
    try:
        if isinstance(value, Rational):  # NumPy's integers too, which would overflow inside a Fraction
            return Fraction(int(value.numerator), int(value.denominator))
        return Fraction(str(value)) if isinstance(value, Real) else Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f"{name} must be a finite number, got {value}") from None


def positive(value: Number, name: str) -> Fraction:
    """The exact value, which must be above zero."""
    number = exact(value, name)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return number


def not_negative(value: Number, name: str) -> Fraction:
    """The exact value, which may be zero."""
    number = exact(value, name)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return number


def whole(value: int, name: str, least: int = 1) -> int:
    """An integer setting of at least `least`, as a Python integer."""
    try:
        number = index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value}") from None
    if isinstance(value, bool):
        raise ValueError(f"{name} must be a whole number, got {value}")
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return number


def sqrt_up(value: Fraction, bits: int = 64) -> Fraction:
    """A rational at least the square root: equal to it if it is rational, else less than 2**(1 - bits) above.

    With n = numerator * denominator the root is sqrt(n) / denominator, and isqrt(n 4^b) + 1 > sqrt(n) 2^b.
    """
    square = value.numerator * value.denominator
    root = isqrt(square)
    if root * root == square:
        return Fraction(root, value.denominator)
    return Fraction(isqrt(square << 2 * bits) + 1, value.denominator << bits)


def shown(value: Fraction) -> str:
    """Short fractions as fractions, others as decimals if they end, so that text reads as what was typed.

    >>> shown(Fraction(1, 3)), shown(Fraction(1, 10**6)), shown(Fraction("4.2247123"))
    ('1/3', '1e-06', '4.2247123')
    """
    if value.denominator <= 1000 or Fraction(repr(float(value))) != value:
        return str(value)
    return repr(float(value))
