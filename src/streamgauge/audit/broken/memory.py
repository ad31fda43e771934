"""Broken memories: pan-private trees and tables of users that an intruder finds exact.

The first table is as printed: the share of ones is multiplied by 4/epsilon, and noise of scale 1/(epsilon m) is added
to the product. In ones that is noise of scale 1/4, for a user who moves them by 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair, build_twins
from streamgauge.audit.exact.kernels import ESTIMATE_ACT, INTRUDE_ACT, ActStreams
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.audit.subjects.pan_private import Intruder, PanPrivateSubject
from streamgauge.audit.subjects.user_tables import UserTableSubject
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
    """Begins with registers without noise, as the source papers do: the open block is exact until it is released."""

    def initial(self, width: int, noise: Noise) -> State:
        return super().initial(width, SilentNoise())


@dataclass(slots=True)
class CountingState(State):
    """A state that knows how many events there were, for a progress bar."""

    events: int = 0  # exact


class TotalKeepingTree(Kary):
    """Stores the exact number of all events of all groups with the registers."""

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
    """Stores the items themselves, groups first, which are exact until others come."""

    def initial(self, width: int, noise: Noise) -> Any:
        return extend_state(LoggingState, super().initial(width, noise), np.zeros((width, MEMORY_TICKS), np.int64))

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        state.log[:, state.tick % MEMORY_TICKS] = values
        return super().step(state, values, noise)


def extend_state(kind: type[Any], state: Any, *more: Any) -> Any:
    """Return the state as one of a larger class."""
    return kind(*(getattr(state, name) for name in state.__dataclass_fields__), *more)


BROKEN_TREES: tuple[tuple[str, type[Kary], int], ...] = (
    ("Pan-private tree, registers without noise", BareRegisters, MEMORY_RUNS),
    ("Pan-private tree, a total beside it", TotalKeepingTree, SINGLE_START_RUNS),
    ("Pan-private tree, its items beside it", LogKeepingTree, MEMORY_RUNS),
)


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    build = partial(PanPrivateSubject, ticks=MEMORY_TICKS, intruder=Intruder(1), noise=chance)
    for name, kind, runs in BROKEN_TREES:
        claim = kind(UNIT_LOSS, branching=2, levels=2, horizon=MEMORY_TICKS, pan_private=True)
        yield build_twins(name, build, claim, runs=runs)


PLAIN_LEAK_RUNS, RARE_LEAK_RUNS, COMPUTED_LEAK_RUNS = 600, 1_500, 100  # the last if computation finds the leak
FLOAT_TOLERANCE = 1e-9  # of computation in floats
HALF = Fraction(1, 2)
NO_VISIT, ONE_VISIT = (), (0,)
ABSENT_TICK, PRESENT_TICK = (-1,), (0,)


class UnscaledNoiseDensity(Density):
    """Multiplies the ones by 4/epsilon, but not the noise."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.response.gap / self.output_loss.epsilon)


class UnnoisedTableDensity(Density):
    """Begins with bits of 0: a bit that is 1 was drawn for somebody."""

    def initial(self, noise: Any) -> NoisyTable:
        return NoisyTable(np.zeros(self.entries, np.uint8))


class UnsplitIncidence(ModularIncidence):
    """Gives two histograms of one table the noise of one each."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise.scale / self.releases)


class LateOffsetIncidence(ModularIncidence):
    """Hands residues over as they are: one who looked unannounced before has the same offsets twice."""

    def initial(self, noise: Any) -> NoisyTable:
        table = self.blank_table(self.entries)
        super().rerandomize(table, 0, noise)
        return table

    def rerandomize(self, state: NoisyTable, before: int, noise: Any) -> None:
        if before % 2:
            super().rerandomize(state, before, noise)


class RetainedOffsetIncidence(ModularIncidence):
    """Continues with the state that it handed over: one who looks unannounced later has the same offsets twice."""

    def rerandomize(self, state: NoisyTable, before: int, noise: Any) -> None:
        if before % 2 == 0:
            super().rerandomize(state, before, noise)


class HalfNoiseDensity(Density):
    """Draws noise for twice the loss: bits that are handed over later show which bit the estimates were of."""

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(super().noise.scale / 2)


class OneBinIncidence(ModularIncidence):
    """Draws noise for a user who moves one bin; one who goes from one bin to another moves two."""

    BIN_SENSITIVITY = 1


class AbsencePricedDensity(ContinualDensity):
    """Keeps the loss only to those who compare with a user who was never there.

    Two streams that both have a user, in other slots, differ by more than either and none.
    """

    @cached_property
    def signs(self) -> SignLaw:
        return SignLaw(Fraction(1, 40), Fraction(1, 10))


def build_user_table_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    """Build tables whose releases have too little noise, then those whose memory reveals a user."""

    def pair(name: str, broken: Any, streams: ActStreams, truth: float = inf, runs: int = PLAIN_LEAK_RUNS) -> TwinPair:
        build = partial(UserTableSubject, streams=streams, noise=chance)
        return build_twins(name, build, broken, truth=truth, runs=runs, is_counted=runs > COMPUTED_LEAK_RUNS)

    split: dict[str, Any] = {"universe": 1, "split": HALF}
    comes = ActStreams((NO_VISIT, ONE_VISIT, ESTIMATE_ACT), (NO_VISIT, NO_VISIT, ESTIMATE_ACT), 0)
    scaled = UnscaledNoiseDensity(UNIT_LOSS, law="paper", **split)
    yield pair("Density table, noise added after scaling", scaled, comes, 4.0, RARE_LEAK_RUNS)
    one_bin = OneBinIncidence(UNIT_LOSS, modulus=2, **split)
    yield pair("Modular incidence, noise for one bin", one_bin, comes, 1.5 + FLOAT_TOLERANCE, COMPUTED_LEAK_RUNS)
    unsplit = UnsplitIncidence(UNIT_LOSS, modulus=2, releases=2, **split)
    twice = ActStreams((*comes.one, ESTIMATE_ACT), (*comes.other, ESTIMATE_ACT), 0)
    name = "Modular incidence, a second release not charged"
    yield pair(name, unsplit, twice, 1.5 + FLOAT_TOLERANCE, COMPUTED_LEAK_RUNS)
    half = HalfNoiseDensity(UNIT_LOSS, universe=1, intrusions=1, releases=2, split=Fraction(1, 3))
    later = (ESTIMATE_ACT, NO_VISIT, ESTIMATE_ACT, NO_VISIT, INTRUDE_ACT)
    shown = ActStreams((NO_VISIT, ONE_VISIT, *later), (ONE_VISIT, NO_VISIT, *later), 1)
    yield pair("Density table, half the noise beside a hand-over", half, shown, 1.7505, COMPUTED_LEAK_RUNS)
    absent, present = ABSENT_TICK, PRESENT_TICK
    slots = ActStreams((absent, absent, absent, present), (present, absent, present, absent), 1)
    priced = AbsencePricedDensity(Pure("3/10"), universe=1)
    yield pair("Continual density, priced for absence alone", priced, slots, 0.5, COMPUTED_LEAK_RUNS)

    stays = ActStreams((ONE_VISIT, NO_VISIT, ESTIMATE_ACT), (NO_VISIT, NO_VISIT, ESTIMATE_ACT), 1)
    yield pair("Density table, bits from 0", UnnoisedTableDensity(UNIT_LOSS, **split), stays)
    announced: dict[str, Any] = {"modulus": 3, "intrusions": 1, **split}
    nothing = (NO_VISIT, NO_VISIT, INTRUDE_ACT, NO_VISIT, ESTIMATE_ACT)
    before = ActStreams((NO_VISIT, ONE_VISIT, INTRUDE_ACT, NO_VISIT, ESTIMATE_ACT), nothing, 1)
    late = LateOffsetIncidence(UNIT_LOSS, **announced)
    yield pair("Modular incidence, no noise before the hand-over", late, before)
    after = ActStreams((NO_VISIT, NO_VISIT, INTRUDE_ACT, ONE_VISIT, ESTIMATE_ACT), nothing, 4)
    chosen = RetainedOffsetIncidence(UNIT_LOSS, **announced)
    yield pair("Modular incidence, no noise after the hand-over", chosen, after)
