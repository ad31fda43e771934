"""Broken memories: pan-private trees and tables of users that an intruder finds exact.

The first table is as printed: the share of ones is multiplied by 4/epsilon, and noise of scale 1/(epsilon m) is added
to the product. In ones that is noise of scale 1/4, for a user who moves them by 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.broken.pairs import UNIT_LOSS, ExperimentNoise, TwinPair, build_twins
from streamgauge.audit.subjects.pan_private import PanPrivateSubject
from streamgauge.audit.subjects.user_table_search import ESTIMATE_ACT, INTRUDE_ACT, ActStreams
from streamgauge.audit.subjects.user_tables import KeystreamChance, UserTableSubject
from streamgauge.continual import Kary
from streamgauge.continual.trees.tree import State
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.panprivate import ContinualDensity, Density, ModularIncidence
from streamgauge.panprivate.run import NoisyTable
from streamgauge.panprivate.sign_bits import SignLaw
from streamgauge.privacy import Pure
from streamgauge.testing.noise import SilentNoise

MEMORY_TICKS = 4
MEMORY_RUNS = 6000
SINGLE_START_RUNS = 500  # runs that have starts of their own


class BareRegisters(Kary):
    """Registers begin without noise, as the source papers have them."""

    def initial(self, width: int, noise: Noise) -> State:
        return super().initial(width, SilentNoise())


@dataclass(slots=True)
class CountingState(State):
    """A state that knows how many events there were, for a progress bar."""

    events: int = 0  # exact


class TotalKeepingTree(Kary):
    """A tree that stores the exact number of all events with the registers."""

    def initial(self, width: int, noise: Noise) -> Any:
        return extend_state(CountingState, super().initial(width, noise))

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        state.events += int(values.sum())
        return super().step(state, values, noise)


@dataclass(slots=True)
class LoggingState(State):
    """A state that knows its last items, a row for each group."""

    log: Ints = field(default_factory=lambda: np.zeros((0, MEMORY_TICKS), np.int64))  # exact


class LogKeepingTree(Kary):
    """A tree that stores the items themselves, groups first."""

    def initial(self, width: int, noise: Noise) -> Any:
        return extend_state(LoggingState, super().initial(width, noise), np.zeros((width, MEMORY_TICKS), np.int64))

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        state.log[:, state.tick % MEMORY_TICKS] = values
        return super().step(state, values, noise)


def extend_state(kind: type[Any], state: Any, *more: Any) -> Any:
    """Return the state as one of a larger class."""
    return kind(*(getattr(state, name) for name in state.__dataclass_fields__), *more)


BROKEN_TREES: tuple[tuple[str, str, type[Kary], int], ...] = (
    (
        "Pan-private tree, registers without noise",
        "the open block is exact in memory until it is released",
        BareRegisters,
        MEMORY_RUNS,
    ),
    (
        "Pan-private tree, a total beside it",
        "it is exact, for all groups together",
        TotalKeepingTree,
        SINGLE_START_RUNS,
    ),
    ("Pan-private tree, its items beside it", "they are exact until others come", LogKeepingTree, MEMORY_RUNS),
)


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    def build(title: str, kind: type[Kary]) -> PanPrivateSubject:
        claim = kind(UNIT_LOSS, branching=2, levels=2, horizon=MEMORY_TICKS, pan_private=True)
        return PanPrivateSubject(claim, MEMORY_TICKS, peek=1, noise=chance, title=title)

    for name, why, broken, runs in BROKEN_TREES:
        yield build_twins(name, why, build, broken, Kary, runs=runs)


PLAIN_LEAK_RUNS, RARE_LEAK_RUNS, COMPUTED_LEAK_RUNS = 600, 1_500, 100  # the last if computation finds the leak
FLOAT_TOLERANCE = 1e-9  # of computation in floats
HALF = Fraction(1, 2)
NO_VISIT, ONE_VISIT = (), (0,)
ABSENT_TICK, PRESENT_TICK = (-1,), (0,)


class UnscaledNoiseDensity(Density):
    """Noise that does not know that the ones are multiplied."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.response.gap / self.output_loss.epsilon)


class UnnoisedTableDensity(Density):
    """All bits are 0 until a user comes."""

    def initial(self, noise: Any) -> NoisyTable:
        return NoisyTable(np.zeros(self.entries, np.uint8))


class UnsplitIncidence(ModularIncidence):
    """Every release has the noise of the only one."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise.scale / self.releases)


class LateOffsetIncidence(ModularIncidence):
    """Residues are handed over as they are, and get another offset later."""

    def initial(self, noise: Any) -> NoisyTable:
        table = self.blank_table(self.entries)
        super().rerandomize(table, 0, noise)
        return table

    def rerandomize(self, state: NoisyTable, before: int, noise: Any) -> None:
        if before % 2:
            super().rerandomize(state, before, noise)


class KeptOffsetIncidence(ModularIncidence):
    """The run continues with the state that was handed over."""

    def rerandomize(self, state: NoisyTable, before: int, noise: Any) -> None:
        if before % 2 == 0:
            super().rerandomize(state, before, noise)


class HalfNoiseDensity(Density):
    """Noise for twice the loss. It shows best to one who looked before an estimate and gets bits after it."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise.scale / 2)


class OneBinIncidence(ModularIncidence):
    """Noise for a user who moves one bin."""

    BIN_SENSITIVITY = 1


class AbsencePricedDensity(ContinualDensity):
    """The law that keeps the loss to those who compare with a user who was never there."""

    @cached_property
    def signs(self) -> SignLaw:
        return SignLaw(Fraction(1, 40), Fraction(1, 10))


@dataclass(frozen=True)
class BrokenUserTable:
    """A mistake, and two streams that show it."""

    name: str
    reason: str
    broken: Any
    honest: Any
    streams: ActStreams
    truth: float = inf
    runs: int = PLAIN_LEAK_RUNS

    def build_twins(self, chance: ExperimentNoise) -> TwinPair:
        source = KeystreamChance(chance.entropy)
        return build_twins(
            self.name,
            self.reason,
            lambda title, claim: UserTableSubject(claim, self.streams, noise=source, title=title),
            self.broken,
            self.honest,
            truth=self.truth,
            runs=self.runs,
            is_counted=self.runs > COMPUTED_LEAK_RUNS,
        )


def build_user_table_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    for each in (*list_broken_releases(), *list_broken_memories()):
        yield each.build_twins(chance)


def list_broken_releases() -> Iterator[BrokenUserTable]:
    """List tables whose releases have too little noise."""
    settings: dict[str, Any] = {"universe": 1, "split": HALF}
    comes = ActStreams((NO_VISIT, ONE_VISIT, ESTIMATE_ACT), (NO_VISIT, NO_VISIT, ESTIMATE_ACT), 0)
    yield BrokenUserTable(
        "Density table, noise added after scaling",
        "the ones are multiplied by 4/epsilon, the noise is not",
        UnscaledNoiseDensity(UNIT_LOSS, law="paper", **settings),
        Density(UNIT_LOSS, law="paper", **settings),
        comes,
        4.0,
        RARE_LEAK_RUNS,
    )
    yield BrokenUserTable(
        "Modular incidence, noise for one bin",
        "a user who goes from one bin to another moves two",
        OneBinIncidence(UNIT_LOSS, modulus=2, **settings),
        ModularIncidence(UNIT_LOSS, modulus=2, **settings),
        comes,
        1.5 + FLOAT_TOLERANCE,
        COMPUTED_LEAK_RUNS,
    )
    yield BrokenUserTable(
        "Modular incidence, a second release not charged",
        "two histograms of one table, each with the noise of one",
        UnsplitIncidence(UNIT_LOSS, modulus=2, releases=2, **settings),
        ModularIncidence(UNIT_LOSS, modulus=2, releases=2, **settings),
        ActStreams(
            (NO_VISIT, ONE_VISIT, ESTIMATE_ACT, ESTIMATE_ACT), (NO_VISIT, NO_VISIT, ESTIMATE_ACT, ESTIMATE_ACT), 0
        ),
        1.5 + FLOAT_TOLERANCE,
        COMPUTED_LEAK_RUNS,
    )
    others: dict[str, Any] = {"universe": 1, "intrusions": 1, "releases": 2, "split": "1/3"}
    seen = (ESTIMATE_ACT, NO_VISIT, ESTIMATE_ACT, NO_VISIT, INTRUDE_ACT)
    yield BrokenUserTable(
        "Density table, half the noise beside a hand-over",
        "what is handed over later tells which bit the estimates were of",
        HalfNoiseDensity(UNIT_LOSS, **others),
        Density(UNIT_LOSS, **others),
        ActStreams((NO_VISIT, ONE_VISIT, *seen), (ONE_VISIT, NO_VISIT, *seen), 1),
        1.7505,
        COMPUTED_LEAK_RUNS,
    )
    yield BrokenUserTable(
        "Continual density, priced for absence alone",
        "two streams that both have a user, in other slots, differ by more than either and none",
        AbsencePricedDensity(Pure("3/10"), universe=1),
        ContinualDensity(Pure("3/10"), universe=1),
        ActStreams(
            (ABSENT_TICK, ABSENT_TICK, ABSENT_TICK, PRESENT_TICK),
            (PRESENT_TICK, ABSENT_TICK, PRESENT_TICK, ABSENT_TICK),
            1,
        ),
        0.5,
        COMPUTED_LEAK_RUNS,
    )


def list_broken_memories() -> Iterator[BrokenUserTable]:
    """List tables whose memory reveals a user, by itself or with an earlier seizure."""
    settings: dict[str, Any] = {"universe": 1, "split": HALF}
    yield BrokenUserTable(
        "Density table, bits from 0",
        "a bit that is 1 was drawn for somebody",
        UnnoisedTableDensity(UNIT_LOSS, **settings),
        Density(UNIT_LOSS, **settings),
        ActStreams((ONE_VISIT, NO_VISIT, ESTIMATE_ACT), (NO_VISIT, NO_VISIT, ESTIMATE_ACT), 1),
    )
    announced: dict[str, Any] = {"modulus": 3, "intrusions": 1, **settings}
    yield BrokenUserTable(
        "Modular incidence, no noise before the hand-over",
        "one who looked unannounced before has the same offsets twice",
        LateOffsetIncidence(UNIT_LOSS, **announced),
        ModularIncidence(UNIT_LOSS, **announced),
        ActStreams(
            (NO_VISIT, ONE_VISIT, INTRUDE_ACT, NO_VISIT, ESTIMATE_ACT),
            (NO_VISIT, NO_VISIT, INTRUDE_ACT, NO_VISIT, ESTIMATE_ACT),
            1,
        ),
    )
    yield BrokenUserTable(
        "Modular incidence, no noise after the hand-over",
        "one who looks unannounced later has the same offsets twice",
        KeptOffsetIncidence(UNIT_LOSS, **announced),
        ModularIncidence(UNIT_LOSS, **announced),
        ActStreams(
            (NO_VISIT, NO_VISIT, INTRUDE_ACT, ONE_VISIT, ESTIMATE_ACT),
            (NO_VISIT, NO_VISIT, INTRUDE_ACT, NO_VISIT, ESTIMATE_ACT),
            4,
        ),
    )
