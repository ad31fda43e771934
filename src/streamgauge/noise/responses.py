"""Chances of randomised responses, as coins can toss them: k/2^32, rounded towards no information.

    flip(e)       1/(1 + e^e), rounded up           a sign or a bit is turned round
    kept(e, s)    e^e/(e^e + s - 1), rounded down   one of s sides is kept; else one of the s - 1 others

Privacy
    In exact arithmetic the two laws of a flipped sign are within (1 - flip)/flip <= e^e of each other, and
    any two of an s-sided response within kept (s - 1)/(1 - kept) <= e^e: both are rounded to the side where
    the ratio is smaller, from an enclosure of e^-e. A side is not kept with a chance of at least 2^-32, so
    that a loss beyond 22.2 + ln(s - 1) changes nothing.
"""

from fractions import Fraction

from streamgauge.noise.chance import SIDES, WORD
from streamgauge.noise.enclosure import exp_minus

BITS = 96


def dyadic(number: Fraction) -> Fraction:
    """The largest k/2^32 that is not above a number."""
    return Fraction(number * WORD // 1, WORD)


def flip(epsilon: Fraction) -> Fraction:
    """P(flip) of a sign that loses at most epsilon.

    >>> float(flip(Fraction(2)))
    0.119202922098338...
    """
    return 1 - kept(epsilon, 2)


def kept(epsilon: Fraction, sides: int) -> Fraction:
    """P(kept) of one of `sides` sides that loses at most epsilon; every other side has (1 - kept)/(sides -
    1)."""
    if not 2 <= sides <= SIDES:
        raise ValueError(f"sides must be between 2 and 2**31, got {sides}")
    less = exp_minus(epsilon, BITS).high  # at least 2^BITS e^-e
    chance = min(dyadic(Fraction(2**BITS, 2**BITS + (sides - 1) * less)), 1 - Fraction(1, WORD))
    if chance * sides <= 1:
        raise ValueError(f"loss must be large enough for a chance of k/2**32 to tell, got {epsilon}")
    return chance
