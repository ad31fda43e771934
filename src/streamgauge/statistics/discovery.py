"""Thresholds that keys must pass to be discovered from the data: one unit's key does by chance delta.

Imagine a noisy counter for every key that anybody could ever think of. A key is *eligible* at a tick if the
window has at least `at_least` events of it; it is published at the first tick at which it is eligible and its
noisy count is above a threshold, and stays published. Of other keys nothing is told, not even 0.

    threshold at tick t     V + at_least - 1 + h_t     with P(noise of tick t > h_t) <= share_t
    V                       the most that one unit adds to one key within a window
    share_t                 delta over all (key, tick) pairs at which one unit can make a key eligible:
                            K keys (twice as many if events are replaced) times all ticks; in windows
                            of W ticks, W for each tick of each key; 6 delta/(pi^2 t^2 K) without an end

Privacy
    Neighbours: streams x, x' that differ in one unit, chosen in view of what was released. Promise: counters
    that keep (epsilon, delta_1) and thresholds that take delta_2 keep (epsilon, delta_1 + delta_2).
    Proof: what is released is f_x(counters on x), where f_x knows of x only which keys are eligible when. So

        P(f_x'(counters on x') in S) <= P(f_x(counters on x') in S) + P(f_x' and f_x differ on x')
                                     <= e^epsilon P(f_x(counters on x) in S) + delta_1 + delta_2.

    The first step costs no e^epsilon; the second is the counters' promise, f_x being post-processing. The two
    differ only if a key crosses its threshold at a tick at which it is eligible in one stream and not in
    the other. There one stream has fewer than `at_least` events of it, so that x' has at most
    V + at_least - 1, and its noise alone is above h_t; the union over all such pairs is delta_2. Adaptivity:
    before a key is published nothing is told that depends on its noise, but that it has not crossed; so along
    the one history in which it has not, all pairs are chosen without its noise. x and x' may change places.

    Columns of a run are counters of no key yet: their noise depends on no data, and a key that comes takes
    the next free one. The number of keys is not capped: a cap would let one key displace another.

Reference
    Cardoso, Rogers: Differentially private histograms under continual observation, 2021; the key selection of
    DP-SQLP, 2023. Discrete noise equals h_t with a chance that counts: the comparison is strict. The h_t are
    half widths of the tick's own noise, certified, not of the widest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from streamgauge.continual import Mechanism
from streamgauge.noise import NoiseSum
from streamgauge.privacy import Reach, Unit

BASEL = Fraction(6079, 10000)  # below 6/pi^2, so that BASEL/t^2 over all ticks sum to less than 1
SURE = 1 + Fraction(1, 2**40)  # more than the logarithm in a half width may be off


@dataclass(frozen=True)
class Exposure:
    """What one unit can make eligible: so many keys, so much of each, so many (key, tick) pairs."""

    keys: int  # K
    most: int  # V
    events: int  # of the unit, in either world
    pairs: int | None  # None: every tick of a stream without an end

    @classmethod
    def of(
        cls,
        unit: Unit,
        span: int | None,
        horizon: int | None,
        max_keys: int | None = None,
        max_per_key: int | None = None,
    ) -> "Exposure":
        """`span` is the window in ticks, None if it has no end; the other bounds are those of users."""
        touched = 1 if getattr(unit, "moves", False) else unit.ticks
        ticks, worlds = min(touched, horizon or touched), 2 if unit.replace else 1
        most = min(unit.events * ticks, max_per_key or unit.events * ticks)
        keys = min(unit.events * ticks, max_keys or unit.events * ticks)
        events = min(unit.events * ticks, keys * most)
        if span is None:
            return cls(keys * worlds, most, events, None if horizon is None else keys * worlds * horizon)
        pairs = span * min(events, keys * ticks)
        within = min(pairs, keys * horizon) if horizon else pairs
        return cls(keys * worlds, min(most, unit.events * min(ticks, span)), events, within * worlds)

    def share(self, delta: Fraction, tick: int) -> Fraction:
        """What one pair at `tick` may take of delta."""
        return delta / self.pairs if self.pairs else delta * BASEL / (self.keys * tick**2)

    def reach(self) -> Reach:
        """How far a unit moves the counters if it adds at most V to one key: as if all of it at one tick.

        Proof where V is over the whole stream: what it adds to a key over ticks, d >= 0 with sum at most V,
        is V times a mean of single ticks, so that |C d| is at most V times the longest column, in L1 and in
        L2. The events of all keys sum to `events`; their squares are largest in as few keys as can hold them.
        In windows, V is over a window only, and a key may get more over the stream. It holds all the same:
        the one counter of windows is WindowSum, whose blocks are no longer than the window. So every p-sum of
        a key moves by at most V, and the p-sums of each level, over all keys and blocks, by `events` in all:
        the squares of a level sum to what they sum to here.
        """
        full, rest = divmod(self.events, self.most)
        return Reach(self.events, full * self.most**2 + rest**2, self.events)


@dataclass(frozen=True)
class Selection:
    """A counter, and the part of delta that its thresholds take."""

    counter: Mechanism[Any]
    delta: Fraction
    exposure: Exposure
    at_least: int

    def threshold(self, tick: int) -> float:
        """A key is published if its noisy count is above."""
        most = self.exposure.most + self.at_least - 1
        off = most * self.counter.deviation(tick)
        return most + off + above(self.counter.noise_at(tick), self.exposure.share(self.delta, tick))


def lowest(selections: Sequence[Selection], tick: int) -> Selection:
    """The one of least threshold at `tick`."""
    return min(selections, key=lambda selection: selection.threshold(tick))


@lru_cache(maxsize=4096)
def above(noise: NoiseSum, share: Fraction) -> float:
    """h with P(noise > h) <= share: half of what a half width leaves out, the law being symmetric."""
    asked = 2 * min(share, Fraction(1, 4)) / SURE
    parts = int(1 / asked)
    return noise.simultaneous(float(1 - asked * parts), parts)
