"""Signs of first appearances: one bit a slot, which is fair unless somebody came for the first time.

Each user has a bit, fair at first. Whoever appears leaves a sign y, drawn by the bit, and gets another bit:

    P(y = 1 | bit) = 1/2 + gap + lean if the bit is 0, 1/2 + gap - lean if it is 1
    P(bit = 1)     = 1/2 + tilt from then on, drawn anew at each appearance
    gap            = 2 tilt lean

At a first appearance the bit is fair, so P(y = 1) = 1/2 + gap. At any other it is tilted, so P(y = 1) =
1/2 + gap - 2 tilt lean = 1/2 exactly, whatever was seen before: the bit is as new as the last appearance.
An empty slot leaves a fair sign. So signs count whom they have not counted yet, and no exact set is kept.

An announced intruder is handed bits that were flipped first, each with chance (1 - keep)/2, and they are
flipped so again after. A fair bit stays fair; a tilt is multiplied by keep twice: later appearances are
drawn with what is left of it, so that all who were ever seen are alike.

Privacy (of signs and of the bits that are seen)
    Neighbours: streams that differ in which slots one user is in, any of them: not only whether in none.
    Proof: cut time at the moments when the user's bit is seen. Given what was seen last, v, which the bit
    now equals with chance (1 + known)/2 (known = 0 at first, 1 after a look, keep after a hand-over), a
    stretch of time in which the user is absent leaves fair signs, and shows w next with P(w | v) = 1/2 +-
    known told/2 (told = 1 to a look, keep at a hand-over); one in which the user appears leaves one sign
    that is not fair, 1/2 + gap +- known lean, and shows w with P(w) = 1/2 +- told tilt, whatever v was. Two
    streams may put that sign in different slots. So the worst ratio of a stretch is one of four, and that
    of all is the largest product along all w, one unannounced look being anywhere: `worst_ratio`, which is
    what enumeration of the code finds (tests/audit). Where signs are heard through a counter that keeps
    epsilon for one slot, a sign that is 1 with chance 1/2 + d counts as one of 1/2 + heard d, with heard =
    tanh(epsilon/2): (p e^epsilon + 1 - p)/((e^epsilon + 1)/2) = 1 + (2 p - 1) tanh(epsilon/2). Several signs
    that are not fair, before and after a look, multiply: make them fair one at a time, while all others keep
    their laws; each exchange is of one slot. So nothing but the counter's own promise is used.

Reference
    Dwork: Differential Privacy in New Settings, SODA 2010, figure 3: tilt = epsilon/4, lean = epsilon,
    gap = epsilon^2/2, which needs epsilon <= sqrt(2) - 1. That an exact sum of signs is private by itself,
    and what it costs, is not in the paper.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

HALF = Fraction(1, 2)
Number = Any  # a Fraction, or an array of floats in the search for the best of many
Most = Callable[[Iterable[Number]], Number]
Look = tuple[
    Number, int, Number
]  # how well the bit is known by what was seen last, that, and the ratio so far


@dataclass(frozen=True)
class Signs:
    """The law of bits and signs; see the module."""

    tilt: Number
    lean: Number
    keep: Number = Fraction(1)

    @property
    def gap(self) -> Number:
        """How much likelier than 1/2 the sign of a first appearance is to be 1."""
        return 2 * self.tilt * self.lean

    def chance(self, bit: int) -> Number:
        """Of a sign to be 1, given the bit."""
        return HALF + self.gap + (-self.lean if bit else self.lean)

    @property
    def seen(self) -> Number:
        """The chance of a bit to be 1 whose user has appeared."""
        return HALF + self.tilt

    @property
    def flipped(self) -> Number:
        """The chance of a bit to be flipped before a hand-over, and once more after."""
        return (1 - self.keep) / 2

    def after(self, intrusions: int) -> "Signs":
        """With what so many hand-overs leave of the tilt."""
        return Signs(self.tilt * self.keep ** (2 * intrusions), self.lean, self.keep)


def worst_ratio(signs: Signs, intrusions: int = 0, heard: Number = 1, most: Most = max) -> Number:
    """The largest ratio of likelihoods of all that is seen; see the module.

    >>> worst_ratio(Signs(Fraction(1, 40), Fraction(1, 10)))  # the paper's law of epsilon 1/10
    Fraction(22000, 13509)
    """
    calm: list[Look] = [(0, 0, 1)]
    looked: list[Look] = []  # after the look that nobody announced
    for done in range(intrusions + 1):
        now = signs.after(done)
        looked = looked + shown(calm, now, 1, heard, most)
        if done < intrusions:
            calm, looked = (shown(each, now, signs.keep, heard, most) for each in (calm, looked))
    last = signs.after(intrusions)
    return most(ratio * odds(shift(last, known, bit, heard)) for known, bit, ratio in calm + looked)


def shown(before: list[Look], signs: Signs, told: Number, heard: Number, most: Most) -> list[Look]:
    """After a stretch of time at whose end the bit is shown: the worst of all that led to either value."""
    found = []
    for bit, sign in ((0, -1), (1, 1)):
        there = 1 + 2 * sign * told * signs.tilt
        ways = (
            ratio * way
            for known, last, ratio in before
            for way in stretches(
                shift(signs, known, last, heard), there / (1 + (sign if last else -sign) * known * told)
            )
        )
        found.append((told, bit, most(ways)))
    return found


def stretches(shifted: Number, likelier: Number) -> Iterator[Number]:
    """A user who is there in one stream alone, in either, or in both but in other slots."""
    yield (1 + shifted) * likelier
    yield 1 / ((1 - shifted) * likelier)
    yield odds(shifted)


def odds(shifted: Number) -> Number:
    return (1 + shifted) / (1 - shifted)


def shift(signs: Signs, known: Number, last: int, heard: Number) -> Number:
    """Twice how far from 1/2 the chance of the sign of an appearance is, given what was seen last."""
    return 2 * heard * abs(signs.gap + (-known if last else known) * signs.lean)
