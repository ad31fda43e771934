"""Broken reports of devices: coins and memories that reveal too much, and wrong estimates.

Two items differ in two signs of a vector, so that each may lose epsilon/2. The sketch of Hadamard signs sends one,
which may lose all of epsilon. Under the other's constant the first loses 2 epsilon. The second, as a survey prints it,
loses only epsilon/2, which is no breach. But estimates that are debiased with the constants of another law, or not at
all, are wrong on average, and are condemned for that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf, log
from typing import Any

import numpy as np

from streamgauge import localdp
from streamgauge.audit.broken.pairs import UNIT_LOSS, ExperimentNoise, TwinPair, build_twins
from streamgauge.audit.subjects.local import DeviceSubject, History, LocalSubject, build_daily_device
from streamgauge.audit.subjects.user_tables import KeystreamChance
from streamgauge.noise import Ints
from streamgauge.noise.bernoulli import flip_probability, keep_probability
from streamgauge.noise.coerce import Floats

ITEMS = ("a", "b", "c")
REPORT_RUNS = 4_000
DEVICE_RUNS, COMPUTED_RUNS = (600, 100)  # where each is a device of its own, and where computation tells it besides
SKETCH_SETTINGS: dict[str, Any] = {"hashes": 2, "width": 4}


class DoubledLossSketch(localdp.HadamardCountMeanSketch):
    """The coin of another claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(2 * self.loss.epsilon)}


class UnsplitSignSketch(localdp.CountMeanSketch):
    """Two signs differ, and each has the coin of one."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon)}


class MissingSideResponse(localdp.RandomisedResponse):
    """As if its own item were not among the items."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"kept": keep_probability(self.loss.epsilon, self.codes - 1)}


@dataclass(frozen=True)
class FixedRowChance:
    """Chance, but for the first die of a report."""

    row: int
    chance: Any

    def coins(self, chance: Fraction, size: int) -> Any:
        return self.chance.coins(chance, size)

    def uniform(self, sides: int, size: int) -> Ints:
        drawn: Ints = self.chance.uniform(sides, size)
        return np.full(size, self.row) if sides == SKETCH_SETTINGS["hashes"] else drawn


class ItemRowHashing(localdp.LocalHashing):
    """Every item has a hash of its own."""

    def privatise_many(self, items: Sequence[Any], noise: Any = None) -> Any:
        (row,) = {self.family.word(item) % self.hashes for item in items}  # of one item in each experiment
        chance: Any = FixedRowChance(row, noise)
        return super().privatise_many(items, chance)


class SurveyFlipSketch(localdp.HadamardCountMeanSketch):
    """The coin of the vector sketch, and the collector of this one."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon / 2)}

    @property
    def scale(self) -> float:
        return float(1 / (1 - 2 * flip_probability(self.loss.epsilon)))


class BiasedSketch(SurveyFlipSketch):
    """Sums of the entries, as they are."""

    def counts(self, table: Any, reports: int, items: Sequence[Any]) -> Floats:
        return super().counts(table, 0, items) / (self.stretch * self.scale)


class ZeroRowResponse(localdp.HadamardResponse):
    """The first item has the row of H that is 1 everywhere."""

    def find_places(self, items: Sequence[Any]) -> Ints:
        return super().find_places(items) - 1

    require_places = find_places


class PerItemMemoDevice:
    """A device that remembers its report of each item."""

    def __init__(self, claim: Any, chance: Any) -> None:
        self._claim, self._chance, self._memo = claim, chance, dict[str, bytes]()

    def report(self, item: str) -> bytes:
        if item not in self._memo:
            self._memo[item] = self._claim.privatise(item, self._chance)
        return self._memo[item]


@dataclass(frozen=True)
class BrokenReport:
    """A mistake in one report, and two items that show it."""

    name: str
    reason: str
    broken: Any
    honest: Any
    truth: float = inf
    attacked_pair: tuple[str, str] = ("a", "b")
    has_wrong_estimates: bool = False

    def build_twins(self, chance: ExperimentNoise) -> TwinPair:
        source = KeystreamChance(chance.entropy)

        def build(title: str, claim: Any) -> LocalSubject:
            return LocalSubject(claim, getattr(claim, "items", ITEMS), self.attacked_pair, noise=source, title=title)

        rest = {"truth": self.truth, "runs": REPORT_RUNS, "has_wrong_estimates": self.has_wrong_estimates}
        return build_twins(self.name, self.reason, build, self.broken, self.honest, **rest)


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    reports = (each.build_twins(chance) for each in (*list_broken_coins(), *list_broken_estimates()))
    yield from (*reports, *(each.build_twins(chance) for each in list_broken_devices()))


def list_broken_coins() -> Iterator[BrokenReport]:
    """List reports that reveal too much."""
    yield BrokenReport(
        "Count mean sketch, epsilon for epsilon/2",
        "two values differ in two signs, each of which was given the whole epsilon",
        UnsplitSignSketch(UNIT_LOSS, hashes=1, width=4),
        localdp.CountMeanSketch(UNIT_LOSS, hashes=1, width=4),
        2.0,
    )
    yield BrokenReport(
        "Hadamard count mean sketch, loss doubled",
        "the sign is turned as if it were two",
        DoubledLossSketch(UNIT_LOSS, **SKETCH_SETTINGS),
        localdp.HadamardCountMeanSketch(UNIT_LOSS, **SKETCH_SETTINGS),
        2.0,
    )
    yield BrokenReport(
        "Randomised response, one side too few",
        "the item is kept as among one item less",
        MissingSideResponse(UNIT_LOSS, items=ITEMS),
        localdp.RandomisedResponse(UNIT_LOSS, items=ITEMS),
        1 + log(2),
    )
    yield BrokenReport(
        "Local hashing, a row for each item",
        "which hash was taken tells the item",
        ItemRowHashing(UNIT_LOSS, **SKETCH_SETTINGS),
        localdp.LocalHashing(UNIT_LOSS, **SKETCH_SETTINGS),
        attacked_pair=("a", "c"),
    )


def list_broken_estimates() -> Iterator[BrokenReport]:
    """List reports that are private and estimated wrongly."""
    honest = localdp.HadamardCountMeanSketch(UNIT_LOSS, **SKETCH_SETTINGS)
    yield BrokenReport(
        "Hadamard count mean sketch, the flips of a survey",
        "flipped with 1/(1 + e^(epsilon/2)), debiased as if with 1/(1 + e^epsilon)",
        SurveyFlipSketch(UNIT_LOSS, **SKETCH_SETTINGS),
        honest,
        has_wrong_estimates=True,
    )
    yield BrokenReport(
        "Hadamard count mean sketch, not debiased",
        "entries of the transformed sketch are taken for counts, as a survey prints it",
        BiasedSketch(UNIT_LOSS, **SKETCH_SETTINGS),
        honest,
        has_wrong_estimates=True,
    )
    yield BrokenReport(
        "Hadamard response, rows from 0",
        "the first row of H has no other half",
        ZeroRowResponse(UNIT_LOSS, items=ITEMS),
        localdp.HadamardResponse(UNIT_LOSS, items=ITEMS),
        has_wrong_estimates=True,
    )


@dataclass(frozen=True)
class BrokenDevice:
    """A mistake in what is sent again, and two histories that show it. Both claim one epsilon for all that
    a device ever sends."""

    name: str
    reason: str
    broken: Any
    honest: Any
    attacked_pair: tuple[History, History]
    truth: float = inf

    def build_twins(self, chance: ExperimentNoise) -> TwinPair:
        source = KeystreamChance(chance.entropy)

        def build(title: str, made: Any) -> DeviceSubject:
            return DeviceSubject(title, UNIT_LOSS, made, ITEMS[:2], attacked_pair=self.attacked_pair, noise=source)

        runs = DEVICE_RUNS if self.truth == inf else COMPUTED_RUNS
        rest = {"truth": self.truth, "runs": runs, "is_counted": runs > COMPUTED_RUNS}
        return build_twins(self.name, self.reason, build, self.broken, self.honest, **rest)


def list_broken_devices() -> Iterator[BrokenDevice]:
    """List repeated reports that reveal too much."""
    claim = localdp.RandomisedResponse(UNIT_LOSS, items=ITEMS[:2])
    yield BrokenDevice(
        "Device, a memo for each item",
        "that an item came back is seen for certain",
        partial(PerItemMemoDevice, claim),
        partial(build_daily_device, claim, localdp.Repeat(), 1),
        (("a", "b", "a"), ("a", "a", "b")),
    )
    yield BrokenDevice(
        "Device, a daily budget taken for a total",
        "every day has another report, and each loses what all may",
        partial(build_daily_device, claim, localdp.DailyBudget(UNIT_LOSS), 3),
        partial(build_daily_device, claim, localdp.ChargeEachReport(UNIT_LOSS), 3),
        (("a", "a", "a"), ("b", "b", "b")),
        3.0,
    )
