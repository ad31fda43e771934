"""The noise of many ticks, worked out once for each law that it has.

Ticks share their laws: over a tree there are as many as a release can have blocks; of a Toeplitz counter
there is one, on another scale at every tick. A law is told from another by its draws, and its scale is taken
off where all draws have one weight. Half widths are rounded outwards after it is put on again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, overload

import numpy as np

from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, NoiseSum, Term
from streamgauge.noise.numbers import Floats

NARROW = 2.0  # steps of the grid: noise below it is far from any continuous law


@dataclass(frozen=True)
class NoisesOf(Sequence[NoiseSum]):
    """The noise in each of some ticks' releases, worked out when it is asked for."""

    mechanism: Mechanism[Any]
    first: int
    ticks: int

    def __len__(self) -> int:
        return self.ticks

    @cached_property
    def _all(self) -> list[NoiseSum]:
        return [self.mechanism.noise_at(tick) for tick in range(self.first, self.first + self.ticks)]

    @cached_property
    def laws(self) -> "Laws":
        return Laws.found(self._all)

    def __iter__(self) -> Iterator[NoiseSum]:
        return iter(self._all)

    @overload
    def __getitem__(self, place: int) -> NoiseSum: ...

    @overload
    def __getitem__(self, place: slice) -> "NoisesOf": ...

    def __getitem__(self, place: int | slice) -> "NoiseSum | NoisesOf":
        ticks = range(self.first, self.first + self.ticks)[place]
        if isinstance(ticks, int):
            return self.mechanism.noise_at(ticks)
        return NoisesOf(self.mechanism, ticks.start, len(ticks))


@dataclass(frozen=True, eq=False)
class Laws:
    """The distinct laws of some ticks' noise, which of them each tick has, and on which scale."""

    distinct: tuple[NoiseSum, ...]
    which: Ints
    scales: Floats

    @classmethod
    def of(cls, noises: Sequence[NoiseSum]) -> "Laws":
        known = getattr(noises, "laws", None)
        return known if isinstance(known, Laws) else cls.found(noises)

    @classmethod
    def found(cls, noises: Sequence[NoiseSum]) -> "Laws":
        places: dict[NoiseSum, int] = {}
        rows = [unscaled(noise) for noise in noises]
        which = [places.setdefault(law, len(places)) for law, _ in rows]
        return cls(tuple(places), np.array(which, np.int64), np.array([scale for _, scale in rows], float))

    def combined(self, weights: Sequence[int]) -> "Laws":
        """Those of a sum of independent channels, each times its weight."""
        laws = [added(law, [(1, weight) for weight in weights]) for law in self.distinct]
        return Laws(tuple(laws), self.which, self.scales)

    def rows(self) -> Iterator[tuple[NoiseSum, Ints]]:
        """Every law with the ticks (rows) that have it."""
        for place, law in enumerate(self.distinct):
            yield law, np.flatnonzero(self.which == place)

    def each(self, number: Callable[[NoiseSum], float]) -> Floats:
        """A number of each tick's noise that grows with its scale."""
        return np.array([number(law) for law in self.distinct], float)[self.which] * self.scales

    def wide(self, number: Callable[[NoiseSum], float]) -> Floats:
        """The same of a bound, rounded outwards."""
        return outwards(self.each(number), self.scales)


def unscaled(noise: NoiseSum) -> tuple[NoiseSum, float]:
    """A law, and how many times as large the noise is: 1 unless all draws have one weight."""
    terms = noise.terms
    weight = abs(terms[0].weight) if terms else 0
    if weight in (0, 1) or any(abs(term.weight) != weight for term in terms):
        return noise, 1.0
    return NoiseSum(tuple(Term(term.count, 1, term.distribution) for term in terms), noise.bounding), weight


def outwards(widths: Floats, scales: Floats) -> Floats:
    """Products of widths and scales that are not below the exact ones."""
    return np.where((scales == 1) | (widths == 0), widths, np.nextafter(widths, inf))


def added(noise: NoiseSum, blocks: Sequence[tuple[int, float]], *, fast: bool = False) -> NoiseSum:
    """The noise of so many blocks, each times its weight.

    With `fast`, error bars are those of the Chernoff bound alone: still valid, wider by a tenth where chances
    are small, and ten times sooner there.
    """
    terms = tuple(
        Term(term.count * int(count), float(term.weight * weight), term.distribution)
        for count, weight in blocks
        if count and weight
        for term in noise.terms
    )
    return NoiseSum(terms, noise.bounding or fast)


def spreads(noises: Sequence[NoiseSum], axes: int = 2, weights: Sequence[int] = (1,)) -> Floats:
    """The standard deviation of each tick's noise, shaped to multiply arrays of so many axes."""
    found = Laws.of(noises).combined(weights).each(lambda law: law.stddev)
    return found.reshape(-1, *[1] * (axes - 1))


def half_widths(
    noises: Sequence[NoiseSum], confidence: float, axes: int = 2, weights: Sequence[int] = (1,)
) -> Floats:
    """The half width of each tick's noise, shaped alike."""
    found = Laws.of(noises).combined(weights).wide(lambda law: law.half_width(confidence))
    return found.reshape(-1, *[1] * (axes - 1))


def factors(noises: Sequence[NoiseSum], confidence: float, channels: int) -> Floats:
    """How many standard deviations a half width is, tick by tick.

    Noise that is 0 most of the time is not so in one of several channels: there, that of all at once.
    """
    laws = Laws.of(noises)
    found = np.zeros(len(laws.which))
    for law, rows in laws.rows():
        if law.stddev:
            narrow = law.stddev * laws.scales[rows] < NARROW
            found[rows[narrow]] = law.simultaneous(confidence, channels) / law.stddev if narrow.any() else 0.0
            found[rows[~narrow]] = 0.0 if narrow.all() else law.half_width(confidence) / law.stddev
    return found.reshape(-1, 1)
