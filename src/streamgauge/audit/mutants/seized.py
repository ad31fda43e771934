"""Tables that an intruder seizes: estimators of users whose memory, or whose releases beside it, tell too
much.

The first is as printed: the share of ones is multiplied by 4/epsilon, and noise of scale 1/(epsilon m) is
added to the product. In ones that is noise of scale 1/4, for a user who moves them by 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.audit.seized import OneKey, SeizedSubject
from streamgauge.audit.seized_kernels import ESTIMATE, INTRUDE
from streamgauge.audit.seized_search import Streams
from streamgauge.noise import DiscreteLaplace
from streamgauge.panprivate import ContinualDensity, Density, ModularIncidence
from streamgauge.panprivate.signs import Signs
from streamgauge.panprivate.table import Table
from streamgauge.privacy import Pure

RUNS, MANY, FEW = 600, 1_500, 100  # where a leak is plain, where it is rare, where computation tells it
SLACK = 1e-9  # of computation in floats
HALF = Fraction(1, 2)
NOBODY, COMES = (), (0,)
ABSENT, THERE = (-1,), (0,)


class AfterScaling(Density):
    """Noise that does not know that the ones are multiplied."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.response.gap / self.output_loss.epsilon)


class BareTable(Density):
    """All bits are 0 until somebody comes."""

    def initial(self, noise: Any) -> Table:
        return Table(np.zeros(self.entries, np.uint8))


class Uncharged(ModularIncidence):
    """Every release has the noise of the only one."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise.scale / self.releases)


class NoiseAfterOnly(ModularIncidence):
    """Residues are handed over as they are, and get another offset later."""

    def initial(self, noise: Any) -> Table:
        table = self.blank(self.entries)
        super().rerandomise(table, 0, noise)
        return table

    def rerandomise(self, state: Table, before: int, noise: Any) -> None:
        if before % 2:
            super().rerandomise(state, before, noise)


class NoiseBeforeOnly(ModularIncidence):
    """What was handed over is what the run goes on with."""

    def rerandomise(self, state: Table, before: int, noise: Any) -> None:
        if before % 2 == 0:
            super().rerandomise(state, before, noise)


class HalfNoise(Density):
    """Noise as for twice the loss, which is heard best by who looked before an estimate, and is handed bits
    after it."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise.scale / 2)


class OneBin(ModularIncidence):
    """Noise for a user who moves one bin."""

    MOVED = 1


class PricedForAbsence(ContinualDensity):
    """The law that keeps the loss to those who compare with a user who was never there."""

    @cached_property
    def signs(self) -> Signs:
        return Signs(Fraction(1, 40), Fraction(1, 10))


@dataclass(frozen=True)
class Broken:
    """A mistake, and two streams that show it."""

    name: str
    why: str
    broken: Any
    honest: Any
    streams: Streams
    truth: float = inf
    runs: int = RUNS

    def twins(self, chance: Chance) -> Twins:
        source = OneKey(chance.entropy)
        broken = SeizedSubject(self.broken, self.name, self.streams, source)
        honest = SeizedSubject(self.honest, f"{self.name}: honest", self.streams, source)
        return Twins(broken, honest, self.why, self.truth, self.runs, counted=self.runs > FEW)


def every_twin(chance: Chance) -> Iterator[Twins]:
    for each in (*releases(), *memories()):
        yield each.twins(chance)


def releases() -> Iterator[Broken]:
    """What is told has too little noise."""
    settings: dict[str, Any] = {"universe": 1, "split": HALF}
    comes = Streams((NOBODY, COMES, ESTIMATE), (NOBODY, NOBODY, ESTIMATE), 0)
    yield Broken(
        "Density table, noise added after scaling",
        "the ones are multiplied by 4/epsilon, the noise is not",
        AfterScaling(ONE, law="paper", **settings),
        Density(ONE, law="paper", **settings),
        comes,
        4.0,
        MANY,
    )
    yield Broken(
        "Modular incidence, noise for one bin",
        "a user who goes from one bin to another moves two",
        OneBin(ONE, modulus=2, **settings),
        ModularIncidence(ONE, modulus=2, **settings),
        comes,
        1.5 + SLACK,
        FEW,
    )
    yield Broken(
        "Modular incidence, a second release not charged",
        "two histograms of one table, each with the noise of one",
        Uncharged(ONE, modulus=2, releases=2, **settings),
        ModularIncidence(ONE, modulus=2, releases=2, **settings),
        Streams((NOBODY, COMES, ESTIMATE, ESTIMATE), (NOBODY, NOBODY, ESTIMATE, ESTIMATE), 0),
        1.5 + SLACK,
        FEW,
    )
    beside: dict[str, Any] = {"universe": 1, "intrusions": 1, "releases": 2, "split": "1/3"}
    seen = (ESTIMATE, NOBODY, ESTIMATE, NOBODY, INTRUDE)
    yield Broken(
        "Density table, half the noise beside a hand-over",
        "what is handed over later tells which bit the estimates were of",
        HalfNoise(ONE, **beside),
        Density(ONE, **beside),
        Streams((NOBODY, COMES, *seen), (COMES, NOBODY, *seen), 1),
        1.7505,
        FEW,
    )
    yield Broken(
        "Continual density, priced for absence alone",
        "two streams that both have a user, in other slots, differ by more than either and none",
        PricedForAbsence(Pure("3/10"), universe=1),
        ContinualDensity(Pure("3/10"), universe=1),
        Streams((ABSENT, ABSENT, ABSENT, THERE), (THERE, ABSENT, THERE, ABSENT), 1),
        0.5,
        FEW,
    )


def memories() -> Iterator[Broken]:
    """What is seized tells, by itself or beside what was seized before."""
    settings: dict[str, Any] = {"universe": 1, "split": HALF}
    yield Broken(
        "Density table, bits from 0",
        "a bit that is 1 was drawn for somebody",
        BareTable(ONE, **settings),
        Density(ONE, **settings),
        Streams((COMES, NOBODY, ESTIMATE), (NOBODY, NOBODY, ESTIMATE), 1),
    )
    announced: dict[str, Any] = {"modulus": 3, "intrusions": 1, **settings}
    yield Broken(
        "Modular incidence, no noise before the hand-over",
        "one who looked unannounced before has the same offsets twice",
        NoiseAfterOnly(ONE, **announced),
        ModularIncidence(ONE, **announced),
        Streams((NOBODY, COMES, INTRUDE, NOBODY, ESTIMATE), (NOBODY, NOBODY, INTRUDE, NOBODY, ESTIMATE), 1),
    )
    yield Broken(
        "Modular incidence, no noise after the hand-over",
        "one who looks unannounced later has the same offsets twice",
        NoiseBeforeOnly(ONE, **announced),
        ModularIncidence(ONE, **announced),
        Streams((NOBODY, NOBODY, INTRUDE, COMES, ESTIMATE), (NOBODY, NOBODY, INTRUDE, NOBODY, ESTIMATE), 4),
    )
