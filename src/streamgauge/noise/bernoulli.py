"""Bernoulli draws whose probability is a real number known only by enclosures, and yet exact.

A draw compares a uniform U in [0, 1), revealed bit by bit, with a threshold p enclosed ever more tightly.
As soon as the known bits of U and the enclosure of p do not overlap the comparison is certain; until then
both are refined. An undecided prefix of n bits has probability at most about 2^-n, so the loop ends with
probability 1, and the answer is that of the infinite comparison U < p: P(True) = p exactly.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from streamgauge.noise.enclosure import Enclosure, exp_minus
from streamgauge.noise.entropy import Entropy, random_bits

STEP = 64


def below(threshold: Callable[[int], Enclosure], entropy: Entropy, prefix: int = 0, known: int = 0) -> bool:
    """Whether U < p, where U starts with the `known` bits of `prefix` and `threshold(bits)` encloses p."""
    while True:
        low, high = threshold(known)
        if prefix + 1 <= low:
            return True
        if prefix >= high:
            return False
        prefix = prefix << STEP | random_bits(entropy, STEP)
        known += STEP


def bernoulli_exp(entropy: Entropy, exponent: Fraction, size: int) -> npt.NDArray[np.bool_]:
    """`size` independent draws, each True with probability exp(-exponent) exactly; exponent >= 0.

    The first 64 bits of all draws are compared at once; a tie, of chance 2^-63, goes on by itself.
    """
    if exponent < 0:
        raise ValueError(f"exponent must be at least 0, got {exponent}")
    low, high = exp_minus(exponent, STEP)
    raw = np.empty(8 * size, np.uint8)
    entropy.fill(raw)
    first = raw.view(np.uint64)
    result = first < np.uint64(min(low, 2**STEP - 1))
    for lane in np.flatnonzero((first >= min(low, 2**STEP - 1)) & (first <= min(high, 2**STEP - 1))):
        result[lane] = below(lambda bits: exp_minus(exponent, bits), entropy, int(first[lane]), STEP)
    return result
