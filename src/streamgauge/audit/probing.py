"""Code, tried: what each event and each draw moves, found by feeding one at a time to groups of one run.

Group g of a run of as many groups as there are draws is the one whose draw number g is pushed, and no other;
group t of another run is the one that has an event at tick t. So hundreds of ticks are tried in two runs.

That a run of many groups draws in the order of a run of one, so many groups at a time, is checked; where it
does not, nothing is said (None), and `linear.tried` is left, which asks for one draw at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamgauge.audit.linear import LinearView, law_of, pushed, summed
from streamgauge.noise import Distribution, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import CountedNoise, SilentNoise

MOST_DRAWS = 4096

Feed = Callable[[Ints, Noise], Floats]  # of values (ticks, groups): releases (ticks, groups)


@dataclass
class SpikeNoise:
    """Zeros, but for one draw of each group: the first of the first, the second of the next, and so on.

    >>> from streamgauge.noise import DiscreteLaplace
    >>> SpikeNoise([DiscreteLaplace(1)] * 2).laplace(Fraction(1), 4)
    array([1, 0, 0, 1])
    """

    laws: list[Distribution]
    drawn: int = 0
    in_order: bool = field(default=True, repr=False)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._next("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._next("gaussian", variance, size)

    def _next(self, kind: str, value: Fraction, size: int) -> Ints:
        rows, rest = divmod(size, len(self.laws))
        now = slice(self.drawn, self.drawn + rows)
        self.in_order &= not rest and self.laws[now] == [law_of(kind, value)] * rows
        out = np.zeros((rows + bool(rest), len(self.laws)), np.int64)
        if self.in_order:
            places = np.arange(self.drawn, self.drawn + rows)
            out[np.arange(rows), places] = [pushed(law) for law in self.laws[now]]
        self.drawn += rows
        return out.ravel()[:size]


def tried_at_once(feed: Feed, ticks: int) -> LinearView | None:
    """The maps of releases, if they can be had so."""
    counted = CountedNoise(SilentNoise())
    silent = feed(np.zeros((ticks, 1), np.int64), counted)
    laws = [law_of(kind, value) for kind, value, size in counted.requests for _ in range(size)]
    events = feed(np.eye(ticks, dtype=np.int64), SilentNoise()) - silent
    if not laws or len(laws) > MOST_DRAWS:
        return None if laws else summed(events, [], [])
    noise = SpikeNoise(laws)
    draws = feed(np.zeros((ticks, len(laws)), np.int64), noise) - silent
    if not noise.in_order or noise.drawn != len(laws):
        return None
    return summed(events, list((draws / [pushed(law) for law in laws]).T), laws)
