"""Finite mechanisms from the papers, and broken twins of them, with probabilities as Fractions."""

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

Law = dict[Any, Fraction]


@dataclass(frozen=True)
class RandomisedResponse:
    """Each tick's bit is published as it is with probability `truth`: ln(truth / (1 - truth)) for one event."""

    truth: Fraction = Fraction(3, 4)

    def initial(self) -> Law:
        return {(): Fraction(1)}

    def step(self, state: Hashable, value: Any) -> Law:
        return {(state, value): self.truth, (state, 1 - value): 1 - self.truth}


@dataclass(frozen=True)
class Memoised(RandomisedResponse):
    """A broken twin: the flip is drawn once, and tells how bits differ from one another."""

    def initial(self) -> Law:
        return {0: self.truth, 1: 1 - self.truth}

    def step(self, state: Any, value: Any) -> Law:
        return {(state, value ^ state): Fraction(1)}


@dataclass(frozen=True)
class Density:
    """Dwork et al.'s table: a bit for every person, drawn evenly, and drawn again when the person comes.

    Only the state is shown, to an intruder, and at the last tick the number of ones, under noise.
    """

    people: int
    bias: Fraction  # of a bit whose person has come
    told_at: int
    quotient: Fraction  # of the noise: each step away is so much less likely
    reach: int = 6  # noise and count are clamped to what is below it

    def initial(self) -> Law:
        bits = list(product((0, 1), repeat=self.people))
        return {(0, *table): Fraction(1, len(bits)) for table in bits}

    def step(self, state: Any, value: Any) -> Law:
        tick, *bits = state
        law: Law = {}
        for bit, chance in self.redrawn(bits, value).items():
            table = list(bits)
            if value is not None:
                table[value] = bit
            for told, weight in self.told(tick + 1, sum(table)).items():
                law[(tick + 1, *table), told] = law.get(((tick + 1, *table), told), 0) + chance * weight
        return law

    def redrawn(self, bits: list[int], value: Any) -> Law:
        if value is None:
            return {None: Fraction(1)}
        return {1: Fraction(1, 2) + self.bias, 0: Fraction(1, 2) - self.bias}

    def told(self, tick: int, ones: int) -> Law:
        if tick != self.told_at:
            return {None: Fraction(1)}
        return clamped_laplace(ones, self.quotient, self.reach)

    def intrude(self, state: Any) -> Law:
        """Export a table whose every bit was drawn again by itself, as is the table that stays."""
        law: Law = {}
        for handed, first in self.stirred(state).items():
            for kept, second in self.stirred(handed).items():
                law[kept, handed] = law.get((kept, handed), 0) + first * second
        return law

    def stirred(self, state: Any) -> Law:
        tick, *bits = state
        keeps = Fraction(1, 2) + self.bias
        law: Law = {}
        for table in product((0, 1), repeat=self.people):
            chance = Fraction(1)
            for old, new in zip(bits, table, strict=True):
                chance *= keeps if old == new else 1 - keeps
            law[(tick, *table)] = chance
        return law


class Bare(Density):
    """A broken twin: the table begins with zeros."""

    def initial(self) -> Law:
        return {(0, *[0] * self.people): Fraction(1)}


class Remembered(Density):
    """A broken twin: a person who comes leaves a one, without a draw."""

    def redrawn(self, bits: list[int], value: Any) -> Law:
        return {None: Fraction(1)} if value is None else {1: Fraction(1)}


class ExactCount(Density):
    """A broken twin: the number of ones is published as it is."""

    def told(self, tick: int, ones: int) -> Law:
        return {None if tick != self.told_at else ones: Fraction(1)}


class NoiseAfterScaling(Density):
    """A broken twin: noise as wide as the estimate needs is added after the count was multiplied by 4."""

    def told(self, tick: int, ones: int) -> Law:
        return {None: Fraction(1)} if tick != self.told_at else clamped_laplace(4 * ones, self.quotient, 12)


def clamped_laplace(centre: int, quotient: Fraction, reach: int) -> Law:
    """Discrete Laplace noise on `centre`, clamped to 0..reach: clamping is post-processing."""
    scale = (1 - quotient) / (1 + quotient)
    law: Law = {place: scale * quotient ** abs(place - centre) for place in range(1, reach)}
    law[0] = quotient**centre / (1 + quotient)
    law[reach] = quotient ** (reach - centre) / (1 + quotient)
    return law
