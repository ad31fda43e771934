"""Exact fractions from untyped input: every later number is a Fraction.

A float means the shortest decimal that denotes it, which is the number its author typed: 0.1 is 1/10,
not the binary number just above it. So nothing is ever larger than typed, and 0.1 ten times is 1.
"""

from decimal import Decimal
from fractions import Fraction
from math import isqrt
from numbers import Rational, Real
from operator import index

Number = int | float | Fraction | Decimal | str


def parse_rational(value: Number, name: str = "value") -> Fraction:
    """Return the rational that `value` denotes; reject booleans and non-numbers.

    >>> parse_rational(0.1), parse_rational("1/3"), parse_rational(2)
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


def parse_positive(value: Number, name: str) -> Fraction:
    """Return the exact value, which must be above zero."""
    number = parse_rational(value, name)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {value}")
    return number


def parse_nonnegative(value: Number, name: str) -> Fraction:
    """Return the exact value, which may be zero."""
    number = parse_rational(value, name)
    if number < 0:
        raise ValueError(f"{name} must not be negative, got {value}")
    return number


def parse_whole(value: int, name: str, least: int = 1) -> int:
    """Return an integer setting of at least `least`, as a Python integer."""
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
    """Return a rational at least the square root.

    It equals a rational root, and is else less than 2**(1 - bits) above. With n = numerator * denominator the root is
    sqrt(n) / denominator, and isqrt(n 4^b) + 1 > sqrt(n) 2^b.
    """
    square = value.numerator * value.denominator
    root = isqrt(square)
    if root * root == square:
        return Fraction(root, value.denominator)
    return Fraction(isqrt(square << 2 * bits) + 1, value.denominator << bits)


def format_rational(value: Fraction) -> str:
    """Return short fractions as fractions, others as decimals if they end.

    So the text reads as typed.

    >>> format_rational(Fraction(1, 3)), format_rational(Fraction(1, 10**6)), format_rational(Fraction("4.2247123"))
    ('1/3', '1e-06', '4.2247123')
    """
    if value.denominator <= 1000 or Fraction(repr(float(value))) != value:
        return str(value)
    return repr(float(value))
