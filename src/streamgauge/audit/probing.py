"""Code, tried at once: what each event and each draw moves, found by feeding each to a group of one run.

Group g of a run of as many groups as there are draws is the one whose draw number g is pushed, and no other;
group t of another run is the one that has an event at tick t. So hundreds of ticks are tried in two runs.
And groups of a third run have streams and draws of many kinds, which must add up (see `trying`).

That a run of many groups draws in the order of a run of one, so many groups at a time, is checked; where it
does not, nothing is said (None), and `trying.tried` is left, which asks for one draw at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamgauge.audit.linear import LinearView, Odd
from streamgauge.audit.trying import LOUD, LoudNoise, law_of, laws_of, pushed, same, streams, summed
from streamgauge.noise import Distribution, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import CountedNoise, SilentNoise

MOST_DRAWS = 4096
EACH = 10  # streams of each kind whose sums are checked: as many groups as in `layouts`

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
    laws = laws_of(counted.requests)
    events = feed(np.eye(ticks, dtype=np.int64), SilentNoise()) - silent
    if len(laws) > MOST_DRAWS:
        return None
    noise = SpikeNoise(laws)
    draws = feed(np.zeros((ticks, len(laws)), np.int64), noise) - silent if laws else np.zeros((ticks, 0))
    if not noise.in_order or noise.drawn != len(laws):
        return None
    by_noise = draws / np.array([pushed(law) for law in laws])
    odd = odd_groups(feed, silent, events, by_noise, laws)
    return summed(events, list(by_noise.T), laws, odd)


def odd_groups(
    feed: Feed, silent: Floats, events: Floats, by_noise: Floats, laws: list[Distribution]
) -> tuple[Odd, ...]:
    """The streams that are not seen as the sum of what was tried by itself; each is a group."""
    found: list[Odd] = []
    for times in LOUD:
        every, noise = list(streams(len(events), EACH)), LoudNoise(times, times)
        values = np.stack([each.stream for each in every], axis=1)
        seen = feed(values, noise)
        if laws_of(noise.asked) != [law for law in laws for _ in every]:
            return tuple(every)
        z = np.concatenate([np.zeros(0, np.int64), *noise.drawn]).reshape(len(laws), len(every))
        expected = silent + events @ values + by_noise @ z
        fits = (same(*both) for both in zip(seen.T, expected.T, strict=True))
        found += [each for each, fit in zip(every, fits, strict=True) if not fit]
    return tuple(found)
