"""Chance that takes every way: code that draws coins and dice is run once for each way that they may fall.

    every_way(act)     act is called until all ways were taken: weight and result of each

Noise with infinitely many values is not forked: draws of the discrete Laplace law are given as they are
asked for in `laplace_draws`, zeros unless told otherwise, and the scales are written down, so that who
calls can put the law in.

Promise
    The weights are exact and add up to 1. The code must draw the same when the same was drawn before.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Bytes

R = TypeVar("R")


@dataclass
class Forked:
    """One way: choices are taken from `forced`, and beyond it the first that is possible."""

    forced: Sequence[int] = ()
    laplace_draws: Sequence[int] = ()
    taken: list[tuple[int, int]] = field(default_factory=list)  # each choice, and how many there were
    weight: Fraction = Fraction(1)
    scales: list[Fraction] = field(default_factory=list)

    def coins(self, chance: Fraction, size: int) -> Bytes:
        sides = [(side, weight) for side, weight in enumerate((1 - chance, chance)) if weight]
        return np.array([self._fallen(sides) for _ in range(size)], np.uint8)

    def uniform(self, sides: int, size: int) -> Ints:
        even = [(side, Fraction(1, sides)) for side in range(sides)]
        return np.array([self._fallen(even) for _ in range(size)], np.int64)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        done = len(self.scales)
        self.scales += [scale] * size
        drawn = [*self.laplace_draws, *[0] * len(self.scales)][done : done + size]
        return np.array(drawn, np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        raise TypeError("chance must be asked for coins, dice and Laplace noise, got Gaussian noise")

    def _fallen(self, sides: Sequence[tuple[int, Fraction]]) -> int:
        place = len(self.taken)
        choice = self.forced[place] if place < len(self.forced) else 0
        self.taken.append((choice, len(sides)))
        side, weight = sides[choice]
        self.weight *= weight
        return side


@dataclass(frozen=True)
class Way(Generic[R]):
    """What came of one way that chance may take, and how likely that is."""

    weight: Fraction
    result: R
    scales: tuple[Fraction, ...]  # of all Laplace noise that was asked for
    choices: tuple[int, ...]


def every_way(act: Callable[[Forked], R]) -> Iterator[Way[R]]:
    """Calls `act` as often as chance has ways.

    >>> [(str(way.weight), way.result) for way in every_way(lambda chance: chance.uniform(2, 2).tolist())]
    [('1/4', [0, 0]), ('1/4', [0, 1]), ('1/4', [1, 0]), ('1/4', [1, 1])]
    """
    forced: list[int] | None = []
    while forced is not None:
        chance = Forked(forced)
        result = act(chance)
        choices = tuple(choice for choice, _ in chance.taken)
        yield Way(chance.weight, result, tuple(chance.scales), choices)
        forced = next_way(chance.taken)


def next_way(taken: Sequence[tuple[int, int]]) -> list[int] | None:
    """The choices that lead to the next way: the last that is not the last of its sides goes on by one."""
    for place in reversed(range(len(taken))):
        choice, sides = taken[place]
        if choice + 1 < sides:
            return [*(before for before, _ in taken[:place]), choice + 1]
    return None
