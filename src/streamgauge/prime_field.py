"""Arithmetic modulo p = 2^61 - 1 on arrays of words of 64 bits, exact.

A word below p is high 2^31 + low, with high < 2^30 and low < 2^31. Since 2^61 = 1 modulo p, a product is
2 high high + middle 2^31 + low low, where middle 2^31 = (middle >> 30) + (its lowest 30 bits) 2^31.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

P = 2**61 - 1
PRIME, PRIME_BITS = np.uint64(P), np.uint64(61)
HALF_BITS, LOW_MASK = np.uint64(31), np.uint64(2**31 - 1)
CARRY_BITS, CARRY_MASK = np.uint64(30), np.uint64(2**30 - 1)


def split_halves(words: Words) -> tuple[Words, Words]:
    return words >> HALF_BITS, words & LOW_MASK


def reduce_sum(total: Words, middle: Words) -> Words:
    """Return total + middle 2^31 below p, and overwrite both.

    A number that is below p already wraps to a larger one when p is subtracted.
    """
    total += middle >> CARRY_BITS
    middle &= CARRY_MASK
    middle <<= HALF_BITS
    total += middle
    folded = total >> PRIME_BITS
    total &= PRIME
    folded += total
    return np.asarray(np.minimum(folded, folded - PRIME))


def multiply_add(a: Words, x: Words, c: Words) -> Words:
    """Return a x + c of words below p, broadcast against each other.

    Nothing overflows: a0 x0 < 2^62, 2 a1 x1 < 2^61, c < 2^61, and the two middle products sum to less than 2^62.
    """
    (a1, a0), (x1, x0) = split_halves(a), split_halves(x)
    middle = a1 * x0
    middle += a0 * x1
    total = a0 * x0
    total += (a1 + a1) * x1
    total += c
    return reduce_sum(total, middle)


def reduce_words(words: Words) -> Words:
    """Return words of 64 bits modulo p."""
    folded = (words >> PRIME_BITS) + (words & PRIME)
    return np.asarray(np.minimum(folded, folded - PRIME))
