"""Certified enclosures: a real number held between two integers over a power of two.

An `Enclosure` (low, high) at `bits` says low <= 2^bits x <= high. Only Python integers are used, every
rounding is directed outwards, and any precision can be had, so a comparison against an enclosure is
either certainly right or known to be undecided. No float takes part.
"""

from fractions import Fraction
from typing import NamedTuple

REDUCTION = 8
GUARD = 48


class Enclosure(NamedTuple):
    """low <= 2^bits x <= high, for the `bits` that the caller asked for."""

    low: int
    high: int


def product(x: Enclosure, y: Enclosure, bits: int) -> Enclosure:
    """Encloses x y for nonnegative x and y."""
    return Enclosure(x.low * y.low >> bits, -(-x.high * y.high >> bits))


def exp_minus(exponent: Fraction, bits: int) -> Enclosure:
    """Encloses exp(-exponent), exponent >= 0, with high - low <= 2 at any precision.

    Proof. Beyond `bits` the value is below e^-bits < 2^-bits. Else let w = bits + h + GUARD be the working
    precision, y = exponent / 2^h < 2^-REDUCTION and Y = floor(2^w y): replacing y by Y/2^w moves exp(-y) by
    less than 2^-w. The terms T_n = floor(T_(n-1) Y / (n 2^w)) are each less than 2 units low; after the
    first that is 0 the rest sums to less than 2. So N terms are off by less than 2 N + 4 units, and
    squaring h times, rounded outwards, at most doubles a width and adds 2: the width stays below 2^(h+1) (4
    N + 12) units, which GUARD makes less than one unit of 2^-bits for every `bits` below 2^40.
    """
    if exponent > bits:
        return Enclosure(0, 1)
    halvings = int(exponent).bit_length() + REDUCTION
    work = bits + halvings + GUARD
    y = (exponent.numerator << work) // (exponent.denominator << halvings)
    total = term = 1 << work
    count = 0
    while term:
        count += 1
        term = term * y // (count << work)
        total += -term if count % 2 else term
    slack = 2 * count + 4
    low, high = max(total - slack, 0), min(total + slack, 1 << work)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return Enclosure(low >> (work - bits), -(-high >> (work - bits)))
