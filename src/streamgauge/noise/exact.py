"""The last resort: draws that 64 bits could not decide, settled in integers of whatever length it takes."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction

from streamgauge.noise.bernoulli import STEP, below
from streamgauge.noise.buckets import Cut, Row, bucket
from streamgauge.noise.enclosure import Enclosure, exp_minus
from streamgauge.noise.entropy import Entropy, random_bits

SLACK = 48
WRAP = 1 << 64


def wrapped(value: int) -> int:
    """`value` modulo 2^64 as int64 holds it. Wrap-around is post-processing: it harms no one's privacy."""
    return (value + WRAP // 2) % WRAP - WRAP // 2


def resolve(cut: Cut, prefix: int, entropy: Entropy) -> tuple[int, int]:
    """The outcome of the uniform that starts with the 64 bits `prefix`: its place in the row, and its bucket.

    Both the uniform and the bounds are refined until they are apart; the tail is followed as far as that
    takes.
    """
    known = STEP
    while True:
        bounds = Row(cut, known + SLACK).bounds(known)
        least = bisect_left(bounds, prefix, key=lambda bound: bound.high)
        most = bisect_right(bounds, prefix, key=lambda bound: bound.low)
        if least == most < len(bounds):
            whole = cut.shift == 0 or least < cut.inner
            return least, bucket(least if whole else least - cut.inner)
        prefix = prefix << STEP | random_bits(entropy, STEP)
        known += STEP


def fall(exponent: Fraction, bits: int) -> Enclosure:
    """Encloses 1 - exp(-exponent)."""
    low, high = exp_minus(exponent, bits)
    return Enclosure((1 << bits) - high, (1 << bits) - low)


@dataclass(frozen=True)
class Place:
    """A place in a bucket, `offset` counted outwards from its start."""

    cut: Cut
    number: int
    offset: int

    def dropped_from_wedge(self, entropy: Entropy, prefix: int = 0, known: int = 0) -> bool:
        """True with chance (1 - exp(-rise so far)) / (1 - exp(-whole rise)): the point lies above the
        curve."""
        so_far = self.cut.rise(self.number, self.offset)
        whole = self.cut.rise(self.number, 1 << self.cut.shift)

        def chance(bits: int) -> Enclosure:
            inside = bits + SLACK + STEP
            part, all_of_it = fall(so_far, inside), fall(whole, inside)
            return Enclosure(
                (part.low << bits) // all_of_it.high, (part.high << bits) // max(all_of_it.low, 1) + 1
            )

        return below(chance, entropy, prefix, known)

    def dropped_from_tail(self, entropy: Entropy) -> bool:
        """True with chance 1 - exp(-rise so far)."""
        so_far = self.cut.rise(self.number, self.offset)
        return not below(lambda bits: exp_minus(so_far, bits), entropy)


def settle(cut: Cut, prefix: int, low: int, entropy: Entropy) -> int | None:
    """The whole draw for a 64-bit prefix and uniform low bits: its value modulo 2^64, or None if rejected."""
    place, number = resolve(cut, prefix, entropy)
    here = Place(cut, number, low if number >= 0 else (1 << cut.shift) - 1 - low)
    if cut.shift > 0 and place >= 2 * cut.inner and here.dropped_from_tail(entropy):
        return None
    if cut.shift > 0 and cut.inner <= place < 2 * cut.inner and here.dropped_from_wedge(entropy):
        return None
    return wrapped((number << cut.shift) + low)
