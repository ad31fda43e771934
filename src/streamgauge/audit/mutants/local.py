"""Reports of devices that trust nobody: coins that tell too much, memories that do, and estimates that are
wrong.

Two items differ in two signs of a vector, so that each may lose epsilon/2; the sketch of Hadamard signs
sends one, which may lose all of epsilon. Each under the other's constant: the first loses 2 epsilon; the
second, as a survey prints it, only epsilon/2, which is no breach. But what is debiased with the constants of
another law, or not at all, is wrong on average, and is condemned for that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf, log
from typing import Any

import numpy as np

from streamgauge.audit.local_devices import DeviceSubject, History, in_days
from streamgauge.audit.local_reports import LocalSubject
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.audit.seized import OneKey
from streamgauge.localdp import (
    Charge,
    CountMeanSketch,
    DailyWithoutTotal,
    HadamardCountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomisedResponse,
    Repeat,
)
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.noise.responses import flip, kept

ITEMS = ("a", "b", "c")
RUNS = 4_000
MANY, FEW = 600, 100  # where each is a device of its own, and where computation tells it besides
SKETCH: dict[str, Any] = {"hashes": 2, "width": 4}


class TwiceTheLoss(HadamardCountMeanSketch):
    """The coin of another claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip(2 * self.loss.epsilon)}


class WholeForEachSign(CountMeanSketch):
    """Two signs differ, and each has the coin of one."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip(self.loss.epsilon)}


class OneSideTooFew(RandomisedResponse):
    """As if its own item were not among the items."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"kept": kept(self.loss.epsilon, self.codes - 1)}


@dataclass(frozen=True)
class RowOf:
    """Chance, but for the first die of a report."""

    row: int
    chance: Any

    def coins(self, chance: Fraction, size: int) -> Any:
        return self.chance.coins(chance, size)

    def uniform(self, sides: int, size: int) -> Ints:
        drawn: Ints = self.chance.uniform(sides, size)
        return np.full(size, self.row) if sides == SKETCH["hashes"] else drawn


class RowByItem(LocalHashing):
    """Every item has a hash of its own."""

    def privatise_many(self, items: Sequence[Any], noise: Any = None) -> Any:
        (row,) = {self.family.word(item) % self.hashes for item in items}  # of one item in each experiment
        chance: Any = RowOf(row, noise)
        return super().privatise_many(items, chance)


class SurveyFlips(HadamardCountMeanSketch):
    """The coin of the vector sketch, and the collector of this one."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip(self.loss.epsilon / 2)}

    @property
    def scale(self) -> float:
        return float(1 / (1 - 2 * flip(self.loss.epsilon)))


class NotDebiased(SurveyFlips):
    """Sums of the entries, as they are."""

    def counts(self, table: Any, reports: int, items: Sequence[Any]) -> Floats:
        return super().counts(table, 0, items) / (self.stretch * self.scale)


class RowsFromZero(HadamardResponse):
    """The first item has the row of H that is 1 everywhere."""

    def places(self, items: Sequence[Any]) -> Ints:
        return super().places(items) - 1

    asked = places


class MemoForEach:
    """A device that remembers its report of each item."""

    def __init__(self, claim: Any, chance: Any) -> None:
        self._claim, self._chance, self._memo = claim, chance, dict[str, bytes]()

    def report(self, item: str) -> bytes:
        if item not in self._memo:
            self._memo[item] = self._claim.privatise(item, self._chance)
        return self._memo[item]


@dataclass(frozen=True)
class Broken:
    """A mistake in one report, and two items that show it."""

    name: str
    why: str
    broken: Any
    honest: Any
    truth: float = inf
    attacked: tuple[str, str] = ("a", "b")
    wrong: bool = False

    def twins(self, chance: Chance) -> Twins:
        source = OneKey(chance.entropy)
        broken, honest = (
            LocalSubject(claim, getattr(claim, "items", ITEMS), title, self.attacked, source)
            for claim, title in ((self.broken, self.name), (self.honest, f"{self.name}: honest"))
        )
        return Twins(broken, honest, self.why, self.truth, RUNS, wrong=self.wrong)


def every_twin(chance: Chance) -> Iterator[Twins]:
    reports = (each.twins(chance) for each in (*coins(), *estimates()))
    yield from (*reports, *(each.twins(chance) for each in devices()))


def coins() -> Iterator[Broken]:
    """What is sent tells too much."""
    yield Broken(
        "Count mean sketch, epsilon for epsilon/2",
        "two values differ in two signs, each of which was given the whole epsilon",
        WholeForEachSign(ONE, hashes=1, width=4),
        CountMeanSketch(ONE, hashes=1, width=4),
        2.0,
    )
    yield Broken(
        "Hadamard count mean sketch, loss doubled",
        "the sign is turned as if it were two",
        TwiceTheLoss(ONE, **SKETCH),
        HadamardCountMeanSketch(ONE, **SKETCH),
        2.0,
    )
    yield Broken(
        "Randomised response, one side too few",
        "the item is kept as among one item less",
        OneSideTooFew(ONE, items=ITEMS),
        RandomisedResponse(ONE, items=ITEMS),
        1 + log(2),
    )
    yield Broken(
        "Local hashing, a row for each item",
        "which hash was taken tells the item",
        RowByItem(ONE, **SKETCH),
        LocalHashing(ONE, **SKETCH),
        attacked=("a", "c"),
    )


def estimates() -> Iterator[Broken]:
    """What is sent is private; what is made of it is wrong."""
    honest = HadamardCountMeanSketch(ONE, **SKETCH)
    yield Broken(
        "Hadamard count mean sketch, the flips of a survey",
        "flipped with 1/(1 + e^(epsilon/2)), debiased as if with 1/(1 + e^epsilon)",
        SurveyFlips(ONE, **SKETCH),
        honest,
        wrong=True,
    )
    yield Broken(
        "Hadamard count mean sketch, not debiased",
        "entries of the transformed sketch are taken for counts, as a survey prints it",
        NotDebiased(ONE, **SKETCH),
        honest,
        wrong=True,
    )
    yield Broken(
        "Hadamard response, rows from 0",
        "the first row of H has no other half",
        RowsFromZero(ONE, items=ITEMS),
        HadamardResponse(ONE, items=ITEMS),
        wrong=True,
    )


@dataclass(frozen=True)
class BrokenDevice:
    """A mistake in what is sent again, and two histories that show it. Both claim one epsilon for all that
    a device ever sends."""

    name: str
    why: str
    broken: Any
    honest: Any
    attacked: tuple[History, History]
    truth: float = inf

    def twins(self, chance: Chance) -> Twins:
        source = OneKey(chance.entropy)
        broken, honest = (
            DeviceSubject(title, ONE, made, ITEMS[:2], attacked=self.attacked, noise=source)
            for made, title in ((self.broken, self.name), (self.honest, f"{self.name}: honest"))
        )
        runs = MANY if self.truth == inf else FEW
        return Twins(broken, honest, self.why, self.truth, runs, counted=runs > FEW)


def devices() -> Iterator[BrokenDevice]:
    """What is sent again tells too much."""
    claim = RandomisedResponse(ONE, items=ITEMS[:2])
    yield BrokenDevice(
        "Device, a memo for each item",
        "that an item came back is seen for certain",
        partial(MemoForEach, claim),
        partial(in_days, claim, Repeat(), 1),
        (("a", "b", "a"), ("a", "a", "b")),
    )
    yield BrokenDevice(
        "Device, a daily budget taken for a total",
        "every day has another report, and each loses what all may",
        partial(in_days, claim, DailyWithoutTotal(ONE), 3),
        partial(in_days, claim, Charge(ONE), 3),
        (("a", "a", "a"), ("b", "b", "b")),
        3.0,
    )
