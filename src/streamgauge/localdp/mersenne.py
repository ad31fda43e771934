"""Arithmetic modulo p = 2^61 - 1 on arrays of words of 64 bits, exact.

A word below p is high 2^31 + low, with high < 2^30 and low < 2^31. Since 2^61 = 1 modulo p, a product is 2
high high + middle 2^31 + low low, where middle 2^31 = (middle >> 30) + (its lowest 30 bits) 2^31.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Powers = tuple[Words, Words, Words, Words]  # halves of x^2 and of x

P = 2**61 - 1
PRIME, BITS = np.uint64(P), np.uint64(61)
HALF, LOW = np.uint64(31), np.uint64(2**31 - 1)
CARRY, CARRIED = np.uint64(30), np.uint64(2**30 - 1)


def powers_of(words: Words) -> Powers:
    high, low = _halves(words)
    total = low * low + (high + high) * high
    return *_halves(_folded(total, (high + high) * low)), high, low


def polynomial(row: Words, powers: Powers) -> Words:
    """a x^2 + b x + c of words below p; the row is (a, b, c).

    Nothing overflows: the low products of both terms sum to less than 2^63 - 2^33 + 3, the doubled high
    ones to less than 2^62 - 2^33 + 5, and c is below 2^61; the four middle ones sum to less than 2^63, of
    which less than 2^33 is carried and at most 2^61 - 2^31 stays.
    """
    a, b, c = row
    (a1, a0), (b1, b0), (y1, y0, x1, x0) = _halves(a), _halves(b), powers
    middle = a1 * y0
    middle += a0 * y1
    middle += b1 * x0
    middle += b0 * x1
    total = a0 * y0
    total += b0 * x0
    total += (a1 + a1) * y1
    total += (b1 + b1) * x1
    total += c
    return _folded(total, middle)


def _halves(words: Words) -> tuple[Words, Words]:
    return words >> HALF, words & LOW


def _folded(total: Words, middle: Words) -> Words:
    """total + middle 2^31 below p; what is below p already wraps round to more when p is taken off."""
    total += middle >> CARRY
    middle &= CARRIED
    middle <<= HALF
    total += middle
    folded = total >> BITS
    total &= PRIME
    folded += total
    return np.asarray(np.minimum(folded, folded - PRIME))
