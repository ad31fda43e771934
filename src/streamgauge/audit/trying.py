"""Code, tried: what each event and each draw moves, found by feeding one at a time, without any help of the
mechanism, so that a register without noise has nowhere to hide.

That code is linear is not believed either: streams of several kinds, under draws of their own, must be seen
as D x + N z says (superposition), exactly where numbers are whole. Where they are not, the view keeps the
streams (`LinearView.odd`), and nothing may be computed of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import log2

import numpy as np

from streamgauge.audit.linear import NEAR, LinearView, Odd, Source
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import CountedNoise, ImpulseNoise, InsecureKeystream, SilentNoise

LOUD = (1, 6)  # how many times as wide as they should be draws are, in turns
KINDS = 7  # of streams
FEW = 2  # streams of each kind, where they are fed one by one

View = Callable[[Ints, Noise], Floats]  # of the values of all ticks: all that is seen, in one row
Asks = list[tuple[str, Fraction, int]]  # for noise: the kind, scale or variance, and how many


@dataclass
class LoudNoise:
    """Numbers of up to so many deviations, which anybody can repeat, written down in order."""

    seed: int
    times: int = 1
    drawn: list[Ints] = field(default_factory=list)
    asked: Asks = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bytes = InsecureKeystream(f"loud {self.seed}")

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._next("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._next("gaussian", variance, size)

    def _next(self, kind: str, value: Fraction, size: int) -> Ints:
        self.asked.append((kind, value, size))
        most = self.times * (1 + 2 * pushed(law_of(kind, value)))
        self.drawn.append(evenly(self._bytes, size, 2 * most + 1) - most)
        return self.drawn[-1].copy()


def evenly(entropy: InsecureKeystream, size: int, below: int) -> Ints:
    """Whole numbers from 0."""
    drawn = np.empty(8 * size, np.uint8)
    entropy.fill(drawn)
    return (drawn.view(np.uint64) % np.uint64(below)).astype(np.int64)


@lru_cache
def streams(ticks: int, each: int) -> tuple[Odd, ...]:
    """Of every kind so many: nothing, few events, more, many, very many, and fewer than none."""
    numbers = InsecureKeystream("streams")
    found: list[Odd] = []
    for _ in range(each):
        few, small, large = (evenly(numbers, ticks, below) for below in (4, 5, 1000))
        found += [
            Odd("nothing", 0 * few),
            Odd("a count of 0 to 3 in every tick", few),
            Odd("single events", few // 3),
            Odd("a count of 1 to 5 in every tick", 1 + small),
            Odd("hundreds in every tick", 500 + large),
            Odd("millions in every tick", 10**6 * (1 + small) + large),
            Odd("counts below 0", -few),
        ]
    return tuple(found)


def tried(view: View, ticks: int) -> LinearView:
    """Any view, by trying: nothing, then one event at a time, then one draw at a time, then all together."""
    nothing = np.zeros(ticks, np.int64)
    counted = CountedNoise(SilentNoise())
    silent = view(nothing, counted)
    events = [view(one, SilentNoise()) - silent for one in np.eye(ticks, dtype=np.int64)]
    laws = laws_of(counted.requests)
    pushes = [pushed(law) for law in laws]
    draws = [
        (view(nothing, ImpulseNoise(number, push)) - silent) / push for number, push in enumerate(pushes)
    ]
    odd = superposed(view, silent, np.array(events).T, draws, laws)
    return summed(np.array(events).T, draws, laws, odd)


def superposed(
    view: View, silent: Floats, by_data: Floats, draws: Sequence[Floats], laws: Sequence[Distribution]
) -> tuple[Odd, ...]:
    """The streams that are not seen as the sum of what was tried by itself."""
    found = []
    by_noise = np.array(draws).reshape(len(draws), len(silent)).T
    for number, each in enumerate(streams(by_data.shape[1], FEW)):
        noise = LoudNoise(number, LOUD[number // KINDS % len(LOUD)])
        seen = view(each.stream, noise)
        z = np.concatenate([np.zeros(0, np.int64), *noise.drawn])
        if laws_of(noise.asked) != list(laws) or not same(
            seen, silent + by_data @ each.stream + by_noise @ z
        ):
            found.append(each)
    return tuple(found)


def same(seen: Floats, expected: Floats) -> bool:
    """Exactly, where all are whole numbers that floats can hold; else but for what rounds."""
    if seen.shape != expected.shape:
        return False
    off = np.abs(seen - expected).max(initial=0.0)
    whole = bool((seen == np.rint(seen)).all()) and float(np.abs(expected).max(initial=0.0)) < 2.0**50
    return bool(off < 0.5 if whole else off <= NEAR * np.abs(expected).max(initial=1.0))


def pushed(law: Distribution) -> int:
    """How far a draw is pushed that is tried: large enough for what rounds to pass it on."""
    return 1 << max(0, int(log2(max(1.0, law.variance))) // 2)


def laws_of(asked: Asks) -> list[Distribution]:
    """Of each draw, in order."""
    return [law for kind, value, size in asked for law in [law_of(kind, value)] * size]


@lru_cache(maxsize=1024)
def law_of(kind: str, value: Fraction) -> Distribution:
    laws: dict[str, type[DiscreteLaplace] | type[DiscreteGaussian]] = {
        "laplace": DiscreteLaplace,
        "gaussian": DiscreteGaussian,
    }
    return laws[kind](value)


def summed(
    by_data: Floats, draws: list[Floats], laws: list[Distribution], odd: tuple[Odd, ...] = ()
) -> LinearView:
    """With draws that are seen alike as one source, and those that are not seen left out."""
    alike: dict[tuple[bytes, Distribution], int] = {}
    columns: dict[tuple[bytes, Distribution], Floats] = {}
    for column, law in zip(draws, laws, strict=True):
        if column.any():
            key = (column + 0.0).tobytes(), law
            alike[key] = alike.get(key, 0) + 1
            columns[key] = column
    sources = tuple(Source(law, count) for (_, law), count in alike.items())
    return LinearView(by_data, np.array(list(columns.values())).T.reshape(len(by_data), -1), sources, odd)
