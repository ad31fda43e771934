"""How a law is cut into outcomes, and the certified boundaries between them.

The integers are cut into buckets of width s = 2^shift, numbered ..., -2, -1, 0, 1, ...: bucket c holds
x = c s + 0 ... c s + s - 1. On either side of zero the magnitudes of bucket c run from its start
a = c s (c >= 0) or a = (-1 - c) s + 1 (c < 0) to a + s - 1, and the density falls from w = exp(-f(a))
to no less than v = exp(-f(a + s)), the top of the next bucket:

    w  +-.                 area above the curve: drawn, then rejected
       |  `-.   wedge      mass s (w - v): accept x with chance (exp(-f(x)) - v) / (w - v)
    v  +-----`---          rectangle: mass s v, every x of the bucket alike, accepted at once
       |         |
       a        a + s

So an outcome is a rectangle or a wedge; given either, x is uniform over its bucket. Buckets of width 1
have no wedge, and their rectangle is the point itself, of mass w. The outcomes stand in one row,

    rectangles of buckets 0, -1, 1, -2, 2, ...; wedges of the same; then the tail: the buckets after those,
    whole

and the bounds of outcome j are the partial sums of mass over the total. All sums are enclosed by integers.
The tail is never cut: at higher precision it is followed further out.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate

from streamgauge.noise.enclosure import Enclosure, exp_minus, product
from streamgauge.noise.laws import Law

TYPICAL = 7  # the spread of a law is below 2^7 buckets
NEGLIGIBLE = 24  # weights are followed down to 2^24 units of the precision at hand


def bucket_shift(law: Law) -> int:
    """The width that keeps both the wedges and the number of buckets small."""
    return max(0, law.spread.bit_length() - TYPICAL)


def bucket(index: int) -> int:
    """The bucket at place `index` of the row 0, -1, 1, -2, 2, ..."""
    return index >> 1 if index % 2 == 0 else -1 - (index >> 1)


def start(number: int, shift: int) -> int:
    """The smallest magnitude in a bucket."""
    return number << shift if number >= 0 else (~number << shift) + 1


@dataclass(frozen=True)
class Cut:
    """A law, the width 2^shift of its buckets, and how many of them are split in rectangle and wedge."""

    law: Law
    shift: int
    inner: int

    def rise(self, number: int, offset: int) -> Fraction:
        """By how much the exponent grows over the first `offset` places of a bucket."""
        first = start(number, self.shift)
        return self.law.exponent(first + offset) - self.law.exponent(first)


@dataclass(frozen=True)
class Side:
    """The weights exp(-f(a)) of the buckets on one side of zero, outwards, and a bound on all that follow."""

    weights: list[Enclosure]
    rest: int

    def reach(self, count: int) -> list[Enclosure]:
        """The first `count` weights; those not listed are below the last, for f never falls."""
        missing = count - len(self.weights)
        return self.weights + [Enclosure(0, self.weights[-1].high)] * missing


def side(cut: Cut, first: int, bits: int) -> Side:
    """Weights by recurrence, until they are below 2^NEGLIGIBLE units.

    The ratio of neighbours falls by a constant factor, since the second difference of f is constant; so what
    follows a weight w is at most w r/(1 - r), with r the ratio of the next weight to w.
    """
    f0, f1, f2 = (cut.law.exponent(first + (i << cut.shift)) for i in range(3))
    weight, ratio, change = (exp_minus(f, bits) for f in (f0, f1 - f0, f2 - 2 * f1 + f0))
    weights = [weight]
    while weight.high > 1 << NEGLIGIBLE:
        weight, ratio = product(weight, ratio, bits), product(ratio, change, bits)
        weights.append(weight)
    return Side(weights, -(-weight.high * ratio.high // ((1 << bits) - ratio.high)))


@dataclass(frozen=True)
class Row:
    """The masses of one law at one precision. The first `inner` buckets are split in rectangles and
    wedges."""

    cut: Cut
    bits: int

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        return side(self.cut, 0, self.bits), side(self.cut, 1, self.bits)

    @cached_property
    def weights(self) -> list[Enclosure]:
        """exp(-f(start)) of buckets 0, -1, 1, -2, ..., followed to where they are negligible at this
        precision."""
        count = max(self.cut.inner // 2 + 1, *(len(one.weights) for one in self.sides))
        pairs = zip(*(one.reach(count) for one in self.sides), strict=True)
        return [weight for pair in pairs for weight in pair]

    @cached_property
    def total(self) -> Enclosure:
        """Encloses the sum of all weights, those not listed included."""
        low = sum(weight.low for weight in self.weights)
        high = sum(weight.high for weight in self.weights)
        return Enclosure(low, high + sum(one.rest for one in self.sides))

    def masses(self) -> list[Enclosure]:
        """The row of outcomes: rectangles, wedges, tail."""
        weights, inner = self.weights, self.cut.inner
        if self.cut.shift == 0:
            return weights
        tops, nexts = weights[:inner], weights[2 : inner + 2]
        wedges = [Enclosure(max(w.low - v.high, 0), w.high - v.low) for w, v in zip(tops, nexts, strict=True)]
        return nexts + wedges + weights[inner:]

    def bounds(self, places: int, count: int | None = None) -> list[Enclosure]:
        """Floors of 2^places times the enclosed upper bounds of the first `count` outcomes, or all."""
        masses, (least, most) = self.masses()[:count], self.total
        lows = accumulate(mass.low for mass in masses)
        highs = accumulate(mass.high for mass in masses)
        top = (1 << places) - 1
        return [
            Enclosure((low << places) // most, min((high << places) // least, top))
            for low, high in zip(lows, highs, strict=True)
        ]
