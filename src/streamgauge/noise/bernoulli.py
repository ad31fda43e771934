"""Exact Bernoulli draws, uniform integers, and randomised-response probabilities.

Real probabilities
    `draw_below` compares a uniform U in [0, 1), revealed bit by bit, with enclosures of p.
    Both are refined until they do not overlap. The result is that of the infinite comparison U < p, so
    P(True) = p exactly. An undecided prefix of n bits has probability about 2^-n, so the loop ends with
    probability 1.

Rational probabilities
    `bernoulli` compares U with p in words of 32 bits. Let p 2^32 = k + r. A first word below k gives 1, a
    word above k gives 0. The word k itself, of probability 2^-32, gives a draw of probability r.
    So P(1) = p exactly, and a probability k/2^32 takes one word a draw.
    `uniform_int` takes a word below the largest multiple of n, modulo n. It redraws all other words.

Randomised response
    Probabilities are multiples of 2^-32, rounded towards no information.

    flip(e)       1/(1 + e^e), rounded up           the sign or bit is flipped
    keep(e, s)    e^e/(e^e + s - 1), rounded down   the side is reported; else one of the s - 1 others

Privacy
    In exact arithmetic the two laws of a flipped sign differ by a factor (1 - flip)/flip <= e^e.
    Any two laws of an s-sided response differ by a factor keep (s - 1)/(1 - keep) <= e^e.
    Both probabilities are rounded to the side of the smaller ratio, from an enclosure of e^-e.
    A side is replaced with probability at least 2^-32, so a loss above 22.2 + ln(s - 1) changes nothing.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.memory import WipedArrays
from streamgauge.noise.entropy import Bytes, Entropy, draw_bits, draw_bytes
from streamgauge.noise.sampler_table import Enclosure, Ints, enclose_exp_minus

STEP_BITS = 64


def draw_below(threshold: Callable[[int], Enclosure], entropy: Entropy, prefix: int = 0, known_bits: int = 0) -> bool:
    """Return whether U < p, if `threshold(bits)` encloses p.

    U starts with the `known_bits` bits of `prefix`.
    """
    while True:
        low, high = threshold(known_bits)
        if prefix + 1 <= low:
            return True
        if prefix >= high:
            return False
        prefix = prefix << STEP_BITS | draw_bits(entropy, STEP_BITS)
        known_bits += STEP_BITS


def bernoulli_exp(entropy: Entropy, exponent: Fraction, size: int) -> npt.NDArray[np.bool_]:
    """Draw `size` values, each True with probability exp(-exponent) exactly.

    The first 64 bits of all draws are compared at once. A tie, of probability 2^-63, is decided alone.
    """
    if exponent < 0:
        raise ValueError(f"exponent must be at least 0, got {exponent}")
    low, high = enclose_exp_minus(exponent, STEP_BITS)
    first = draw_bytes(entropy, 8 * size).view(np.uint64)
    result = first < np.uint64(min(low, 2**STEP_BITS - 1))
    for lane in np.flatnonzero((first >= min(low, 2**STEP_BITS - 1)) & (first <= min(high, 2**STEP_BITS - 1))):
        result[lane] = draw_below(lambda bits: enclose_exp_minus(exponent, bits), entropy, int(first[lane]), STEP_BITS)
    return result


WORD_RANGE = 2**32
BATCH_DRAWS = 1 << 16  # coins tossed at once: their words stay in the cache
MAX_SIDES = 2**31


class RandomSource(Protocol):
    """A source of noise that also draws coins and uniform integers."""

    def laplace(self, scale: Fraction, size: int) -> Ints: ...

    def gaussian(self, variance: Fraction, size: int) -> Ints: ...

    def coins(self, chance: Fraction, size: int) -> Bytes:
        """Draw zeros and ones; P(1) = chance exactly."""
        ...

    def uniform(self, sides: int, size: int) -> Ints:
        """Draw 0 to sides - 1, each with the same probability exactly."""
        ...


def bernoulli(entropy: Entropy, chance: Fraction, size: int) -> Bytes:
    """Draw `size` coins, each 1 with probability `chance` exactly."""
    if not 0 <= chance <= 1:
        raise ValueError(f"chance must be between 0 and 1, got {chance}")
    out = np.zeros(size, np.uint8)
    if chance == 1:
        out.fill(1)
    if 0 < chance < 1:
        _fill_bernoulli(entropy, chance, out)
    return out


def _fill_bernoulli(entropy: Entropy, chance: Fraction, out: Bytes) -> None:
    first, rest = divmod(chance * WORD_RANGE, 1)
    edge = np.uint32(first)
    with WipedArrays() as secret:
        words = secret(np.empty(min(len(out), BATCH_DRAWS), np.uint32))
        for start in range(0, len(out), BATCH_DRAWS):
            part = out[start : start + BATCH_DRAWS]
            drawn = words[: len(part)]
            entropy.fill(drawn.view(np.uint8))
            np.less(drawn, edge, out=part.view(np.bool_))
            if rest:
                tied = np.flatnonzero(drawn == edge)
                part[tied] = bernoulli(entropy, rest, len(tied))


def uniform_int(entropy: Entropy, sides: int, size: int) -> Ints:
    """Draw `size` uniform integers from 0 to `sides` - 1."""
    if not 1 <= sides <= MAX_SIDES:
        raise ValueError(f"sides must be between 1 and 2**31, got {sides}")
    out = np.zeros(size, np.int64)
    limit = np.uint32(WORD_RANGE // sides * sides - 1)  # the last word of a whole round of sides
    with WipedArrays() as secret:
        words = secret(np.empty(min(size, BATCH_DRAWS), np.uint32))
        for start in range(0, size, BATCH_DRAWS):
            part = out[start : start + BATCH_DRAWS]
            drawn = words[: len(part)]
            entropy.fill(drawn.view(np.uint8))
            _redraw_rejected(entropy, drawn, limit)
            np.remainder(drawn, np.uint32(sides), out=drawn)
            np.copyto(part, drawn)
    return out


def _redraw_rejected(entropy: Entropy, words: npt.NDArray[np.uint32], limit: np.uint32) -> None:
    """Redraw words above the limit until there are none."""
    beyond = np.flatnonzero(words > limit)
    while len(beyond):
        with WipedArrays() as secret:
            fresh = secret(np.empty(len(beyond), np.uint32))
            entropy.fill(fresh.view(np.uint8))
            words[beyond] = fresh
        beyond = beyond[words[beyond] > limit]


def exponential_coins(source: RandomSource, exponent: Fraction, size: int) -> Bytes:
    """Draw `size` coins from the coins of a source, each 1 with probability exp(-exponent) exactly.

    A coin of e^-1 for each whole part, and one of e^-f for the rest f: with K the first k whose coin of chance f/k is
    0, K is odd with probability e^-f (Canonne, Kamath and Steinke 2020).
    """
    if exponent < 0:
        raise ValueError(f"exponent must be at least 0, got {exponent}")
    out = np.zeros(size, np.uint8)
    active = np.arange(size)
    whole, rest = divmod(exponent, 1)
    for part in [Fraction(1)] * int(whole) + [rest]:
        active = active[_toss_exp(source, part, len(active))]
        if not len(active):
            return out
    out[active] = 1
    return out


def _toss_exp(source: RandomSource, rest: Fraction, size: int) -> npt.NDArray[np.bool_]:
    """Return `size` draws, True with probability exp(-rest), for a rest of at most 1."""
    odd = np.ones(size, np.bool_)
    active, number = np.arange(size), 1
    while len(active) and rest:
        active = active[source.coins(rest / number, len(active)) == 1]
        odd[active] = ~odd[active]
        number += 1
    return odd


PRECISION_BITS = 96


def round_down_dyadic(number: Fraction) -> Fraction:
    """Return the largest k/2^32 that is not above a number."""
    return Fraction(number * WORD_RANGE // 1, WORD_RANGE)


def flip_probability(epsilon: Fraction) -> Fraction:
    """Return P(flip) of a sign that loses at most epsilon.

    >>> float(flip_probability(Fraction(2)))
    0.119202922098338...
    """
    return 1 - keep_probability(epsilon, 2)


def keep_probability(epsilon: Fraction, sides: int) -> Fraction:
    """Return P(keep) of one of `sides` sides that loses at most epsilon.

    Every other side has probability (1 - keep)/(sides - 1).
    """
    if not 2 <= sides <= MAX_SIDES:
        raise ValueError(f"sides must be between 2 and 2**31, got {sides}")
    less = enclose_exp_minus(epsilon, PRECISION_BITS).high  # at least 2^BITS e^-e
    chance = min(
        round_down_dyadic(Fraction(2**PRECISION_BITS, 2**PRECISION_BITS + (sides - 1) * less)),
        1 - Fraction(1, WORD_RANGE),
    )
    if chance * sides <= 1:
        raise ValueError(f"loss must be large enough for a chance of k/2**32 to tell, got {epsilon}")
    return chance
