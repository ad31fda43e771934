"""How far data have moved from what was last published, privately, and what that says of the error.

The distance of two vectors is D = sum_j |o_j - c_j|. It is taken around the circle of 64 bits, on which all
integers of this house live, and each term is cut at a bound that only the width decides, so that no sum can
overflow. A c that moves by l1 in L1 moves D by no more: both the way around the circle and the cut are
1-Lipschitz in every coordinate.

The noisy distance is paid for in full, as a number that is released: so it is, in the bar of every tick that
repeats an old publication. Each |o_j - c_j| is at most D, and D is at most the noisy distance, plus what
the noise may have taken from it.

Error
    Whether a tick is published depends on the noise of the distance. What both kinds of bar can fail by is
    therefore shared: with 1 - confidence = beta, 7/8 beta is for the noise of a publication and 1/8 beta for
    that of the distance, and the truth is missed with probability beta at most, whatever the decision.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nan

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.noise.sums import at_least

ROOM = 2**62  # what distances are kept below
TESTED = 8  # the part of a bar's failure that is for the noise of the distance is one in so many


def cut(width: int) -> int:
    """From where on a coordinate of vectors of this width is as far as any."""
    return ROOM // width


def distance(published: Ints, values: Ints) -> int:
    """D, in L1; 1-Lipschitz in `values`, modulo 2^64.

    >>> distance(np.array([5, -1]), np.array([3, 1]))
    4
    >>> distance(np.array([2**63 - 1]), np.array([-(2**63)]))
    1
    """
    around = np.abs(published - values).view(np.uint64)  # |-2^63| is itself, which is right without a sign
    return int(np.minimum(around, np.uint64(cut(len(values)))).sum())


@dataclass(frozen=True)
class Fresh:
    """The bar of a tick that was published because the noisy distance was large."""

    noise: NoiseSum

    @property
    def stddev(self) -> float:
        return self.noise.stddev

    def half_width(self, confidence: float) -> float:
        return self.noise.half_width(1 - (1 - confidence) * (TESTED - 1) / TESTED)


@dataclass(frozen=True)
class Stale:
    """The bar of a tick that repeats an old publication, at a noisy distance from the truth."""

    moved: int  # the noisy distance of all groups together
    noise: NoiseSum  # of the distance
    cut: int  # distances of one group from here on are not told apart

    @property
    def stddev(self) -> float:
        return nan

    def half_width(self, confidence: float) -> float:
        """Missed only if the noise is below minus its half width: half of what both sides have together."""
        most = max(Fraction(0), self.moved + Fraction(self.noise.simultaneous(confidence, TESTED // 2)))
        return at_least(most) if most < self.cut else inf
