"""Broken reports of devices: coins and memories that reveal too much, and wrong estimates.

Two items differ in two signs of a vector, so that each may lose epsilon/2. The sketch of Hadamard signs sends one,
which may lose all of epsilon. Under the other's constant the first loses 2 epsilon. The second, as a survey prints it,
loses only epsilon/2, which is no breach. But estimates that are debiased with the constants of another law, or not at
all, are wrong on average, and are condemned for that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import log
from typing import Any

import numpy as np

from streamgauge import localdp
from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair, build_twins, read_reason
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.audit.subjects.local import ITEMS, LocalSubject, build_daily_device, build_device_subject
from streamgauge.noise import Ints
from streamgauge.noise.bernoulli import flip_probability, keep_probability
from streamgauge.noise.coerce import Floats

REPORT_RUNS = 4_000
DEVICE_RUNS, COMPUTED_RUNS = (600, 100)  # where each is a device of its own, and where computation tells it besides
Device = Callable[[Any], Any]  # of its chance
SKETCH_SETTINGS: dict[str, Any] = {"hashes": 2, "width": 4}


class DoubledLossSketch(localdp.HadamardCountMeanSketch):
    """Flips the sign as if it were two: the coin is that of another claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(2 * self.loss.epsilon)}


class UnsplitSignSketch(localdp.CountMeanSketch):
    """Gives each of the two signs in which values differ the whole epsilon."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon)}


class MissingSideResponse(localdp.RandomisedResponse):
    """Keeps the item as among one item less."""

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
    """Has a hash for every item: the hash of a report shows the item."""

    def privatise_many(self, items: Sequence[Any], noise: Any = None) -> Any:
        (row,) = {self.family.word(item) % self.hashes for item in items}  # of one item in each experiment
        chance: Any = FixedRowChance(row, noise)
        return super().privatise_many(items, chance)


class SurveyFlipSketch(localdp.HadamardCountMeanSketch):
    """Flips with 1/(1 + e^(epsilon/2)), as a survey prints it, and debiases as if with 1/(1 + e^epsilon)."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon / 2)}

    @property
    def scale(self) -> float:
        return float(1 / (1 - 2 * flip_probability(self.loss.epsilon)))


class BiasedSketch(SurveyFlipSketch):
    """Takes entries of the transformed sketch for counts, as a survey prints it."""

    def counts(self, table: Any, reports: int, items: Sequence[Any]) -> Floats:
        return super().counts(table, 0, items) / (self.stretch * self.scale)


class ZeroRowResponse(localdp.HadamardResponse):
    """Gives the first item the row of H that is 1 everywhere, and has no other half."""

    def find_places(self, items: Sequence[Any]) -> Ints:
        return super().find_places(items) - 1

    require_places = find_places


class PerItemMemoDevice:
    """Remembers its report of each item: that an item came back is visible for certain."""

    def __init__(self, claim: Any, chance: Any) -> None:
        self._claim, self._chance, self._memo = claim, chance, dict[str, bytes]()

    def report(self, item: str) -> bytes:
        if item not in self._memo:
            self._memo[item] = self._claim.privatise(item, self._chance)
        return self._memo[item]


def build_report_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    """Build reports that reveal too much, then reports that are private and estimated wrongly."""
    pair = partial(pair_reports, chance)
    unsplit = UnsplitSignSketch(UNIT_LOSS, hashes=1, width=4)
    yield pair("Count mean sketch, epsilon for epsilon/2", unsplit, truth=2.0)
    doubled = DoubledLossSketch(UNIT_LOSS, **SKETCH_SETTINGS)
    yield pair("Hadamard count mean sketch, loss doubled", doubled, truth=2.0)
    missing = MissingSideResponse(UNIT_LOSS, items=ITEMS)
    yield pair("Randomised response, one side too few", missing, truth=1 + log(2))
    rows = ItemRowHashing(UNIT_LOSS, **SKETCH_SETTINGS)
    yield pair("Local hashing, a row for each item", rows, ("a", "c"))
    survey = SurveyFlipSketch(UNIT_LOSS, **SKETCH_SETTINGS)
    yield pair("Hadamard count mean sketch, the flips of a survey", survey, has_wrong_estimates=True)
    biased = BiasedSketch(UNIT_LOSS, **SKETCH_SETTINGS)
    yield pair("Hadamard count mean sketch, not debiased", biased, has_wrong_estimates=True)
    zero = ZeroRowResponse(UNIT_LOSS, items=ITEMS)
    yield pair("Hadamard response, rows from 0", zero, has_wrong_estimates=True)


def pair_reports(
    chance: ExperimentNoise, name: str, broken: Any, attacked_pair: tuple[str, str] = ("a", "b"), **options: Any
) -> TwinPair:
    """Build twins of one report, and two items that show its mistake."""

    build = partial(LocalSubject, items=getattr(broken, "items", ITEMS), attacked_pair=attacked_pair, noise=chance)
    return build_twins(name, build, broken, runs=REPORT_RUNS, **options)


def build_device_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    """Build repeated reports that reveal too much; all claim one epsilon for all that a device ever sends."""
    claim = localdp.RandomisedResponse(UNIT_LOSS, items=ITEMS[:2])
    device = partial(build_daily_device, claim)

    build = partial(build_device_subject, loss=UNIT_LOSS, noise=chance)
    yield build_twins(
        "Device, a memo for each item",
        partial(build, attacked_pair=(("a", "b", "a"), ("a", "a", "b"))),
        partial(PerItemMemoDevice, claim),
        partial(device, localdp.Repeat(), 1),
        runs=DEVICE_RUNS,
        reason=read_reason(PerItemMemoDevice),
    )
    yield build_twins(
        "Device, a daily budget taken for a total",
        partial(build, attacked_pair=(("a", "a", "a"), ("b", "b", "b"))),
        partial(device, localdp.DailyBudget(UNIT_LOSS), 3),
        partial(device, localdp.ChargeEachReport(UNIT_LOSS), 3),
        truth=3.0,
        runs=COMPUTED_RUNS,
        is_counted=False,
        reason="Sends another report every day, each of which loses what all may.",
    )
