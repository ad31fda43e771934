"""Coins and dice: exact draws of small things, many at once, for tables of randomised responses.

A coin of chance p is 1 if a uniform U in [0, 1) is below p, compared word by word of 32 bits: with
p 2^32 = k + r, a first word below k says 1, one above k says 0, and the word k itself, which comes once in
2^32, leaves a coin of chance r. So P(1) = p exactly, for every rational p, and a chance of k/2^32 takes one
word a coin. A die of n sides is a uniform word below the largest multiple of n, all others being thrown
again, modulo n.
"""

from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.noise.entropy import Bytes, Entropy, Wiped
from streamgauge.noise.laws import Ints

WORD = 2**32
BATCH = 1 << 16  # coins tossed at once: their words stay in the cache
SIDES = 2**31


class Chance(Protocol):
    """What a table of randomised responses draws from: every source of noise that has coins and dice as
    well."""

    def laplace(self, scale: Fraction, size: int) -> Ints: ...

    def gaussian(self, variance: Fraction, size: int) -> Ints: ...

    def coins(self, chance: Fraction, size: int) -> Bytes:
        """0 or 1 each; P(1) = chance exactly."""
        ...

    def uniform(self, sides: int, size: int) -> Ints:
        """0 to sides - 1, each with the same probability exactly."""
        ...


def toss(entropy: Entropy, chance: Fraction, size: int) -> Bytes:
    """`size` coins; each is 1 with probability `chance` exactly."""
    if not 0 <= chance <= 1:
        raise ValueError(f"chance must be between 0 and 1, got {chance}")
    out = np.zeros(size, np.uint8)
    if chance == 1:
        out.fill(1)
    if 0 < chance < 1:
        _tossed(entropy, chance, out)
    return out


def _tossed(entropy: Entropy, chance: Fraction, out: Bytes) -> None:
    first, rest = divmod(chance * WORD, 1)
    edge = np.uint32(first)
    with Wiped() as secret:
        words = secret(np.empty(min(len(out), BATCH), np.uint32))
        for start in range(0, len(out), BATCH):
            part = out[start : start + BATCH]
            drawn = words[: len(part)]
            entropy.fill(drawn.view(np.uint8))
            np.less(drawn, edge, out=part.view(np.bool_))
            if rest:
                tied = np.flatnonzero(drawn == edge)
                part[tied] = toss(entropy, rest, len(tied))


def throw(entropy: Entropy, sides: int, size: int) -> Ints:
    """`size` dice of `sides` sides, counted from 0."""
    if not 1 <= sides <= SIDES:
        raise ValueError(f"sides must be between 1 and 2**31, got {sides}")
    out = np.zeros(size, np.int64)
    limit = np.uint32(WORD // sides * sides - 1)  # the last word of a whole round of sides
    with Wiped() as secret:
        words = secret(np.empty(min(size, BATCH), np.uint32))
        for start in range(0, size, BATCH):
            part = out[start : start + BATCH]
            drawn = words[: len(part)]
            entropy.fill(drawn.view(np.uint8))
            _thrown_again(entropy, drawn, limit)
            np.remainder(drawn, np.uint32(sides), out=drawn)
            np.copyto(part, drawn)
    return out


def _thrown_again(entropy: Entropy, words: npt.NDArray[np.uint32], limit: np.uint32) -> None:
    """Draws words beyond the limit anew until there are none."""
    beyond = np.flatnonzero(words > limit)
    while len(beyond):
        with Wiped() as secret:
            fresh = secret(np.empty(len(beyond), np.uint32))
            entropy.fill(fresh.view(np.uint8))
            words[beyond] = fresh
        beyond = beyond[words[beyond] > limit]
