"""Broken noise ahead: draws in memory that are read with the events which they should hide."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair, build_twins
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.audit.subjects.pan_private import Intruder, PanPrivateSubject
from streamgauge.continual import TwoPart
from streamgauge.continual.mechanism import Release
from streamgauge.continual.trees.past_noise import BridgedEpoch, MixedNumbers, NoiseAhead, PastNoise, PastNoiseState
from streamgauge.continual.trees.two_part import State
from streamgauge.noise import Ints, Noise

AHEAD_TICKS, AHEAD_RUNS = 4, 6_000


class LateLeaf(TwoPart):
    """Adds the noise ahead of a tick when the tick ends, so that an open tick rests exactly on the last release."""

    def _begin_tick(self, state: State, noise: Noise) -> None:
        return None

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        self.noise_ahead.begin_tick(state.sums, noise)
        return super().step(state, values, noise)


class SavedRest(TwoPart):
    """Continues from the save of a lost run with the draws that a look at the lost run has seen."""

    def rerandomize(self, state: State, noise: Noise) -> None:
        return None


class CursorNoise(PastNoise):
    """Moves a cursor past the draws of begun blocks, and overwrites nothing."""

    def _take_child(self, state: PastNoiseState, tick: int, level: int) -> Ints:
        row = self.bridge.rows[level].start + tick // self.bridge.sizes[level] % self.bridge.radices[level]
        drawn = state.draws[row].copy()
        found = super()._take_child(state, tick, level)
        state.draws[row] = drawn
        return found


class CursorAhead(NoiseAhead):
    """Noise ahead whose draws stay."""

    def epoch(self, tick: int) -> BridgedEpoch:
        epoch = super().epoch(tick)
        return replace(epoch, noise=CursorNoise(epoch.noise.bridge))


def retain_draws(honest: NoiseAhead, kind: type[NoiseAhead] = CursorAhead) -> NoiseAhead:
    """Return the same noise, whose draws stay behind a cursor."""
    return kind(*(getattr(honest, each.name) for each in fields(honest)))


class CursorTree(TwoPart):
    """Leaves the draws of begun blocks behind a cursor: with the shares, they tell each tick's noise."""

    @cached_property
    def noise_ahead(self) -> NoiseAhead:
        return retain_draws(super().noise_ahead)


@dataclass
class RecordedNoise:
    """Noise that stores copies of its draws."""

    noise: Noise
    draws: list[Ints] = field(default_factory=list)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        self.draws.append(self.noise.laplace(scale, size))
        return self.draws[-1].copy()

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        self.draws.append(self.noise.gaussian(variance, size))
        return self.draws[-1].copy()


class SummedNoise(PastNoise):
    """Stores the sum of the draws of each open block's children, beside their shares."""

    def initial(self, width: int) -> PastNoiseState:
        state = super().initial(width)
        return replace(state, shares=np.concatenate([state.shares, state.shares]))

    def add_item(self, state: PastNoiseState, tick: int, total: MixedNumbers, noise: Noise) -> None:
        recorded, width = RecordedNoise(noise), len(total.whole)
        super().add_item(state, tick, total, recorded)
        begun, radices = self.bridge.begun_level(tick), self.bridge.radices
        rows = np.concatenate([np.zeros(0, np.int64), *recorded.draws]).reshape(-1, width)[-sum(radices[:begun]) :]
        for level in reversed(range(begun)):
            state.shares[len(radices) + level] = rows[: radices[level]].sum(axis=0)
            rows = rows[radices[level] :]


class SummedAhead(NoiseAhead):
    """Noise ahead whose blocks have the sums of their draws."""

    def epoch(self, tick: int) -> BridgedEpoch:
        epoch = super().epoch(tick)
        return replace(epoch, noise=SummedNoise(epoch.noise.bridge))


class SummedTree(TwoPart):
    """Stores sums of draws: with the shares, they tell the noise of a block, and so the events in it."""

    @cached_property
    def noise_ahead(self) -> NoiseAhead:
        return retain_draws(super().noise_ahead, SummedAhead)


class LiveHandOver(TwoPart):
    """Hands its memory over as it is: with a look before, its fresh noise tells exact sums."""

    def intrude(self, state: State, noise: Noise) -> State:
        shown = deepcopy(state)
        super().intrude(state, noise)
        return shown


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    def build(intruder: Intruder) -> partial[PanPrivateSubject]:
        return partial(PanPrivateSubject, ticks=AHEAD_TICKS, intruder=intruder, noise=chance)

    settings: dict[str, Any] = {"horizon": AHEAD_TICKS, "radices": (2,), "open_ticks": True}
    late = LateLeaf(UNIT_LOSS, **settings)
    in_tick = build(Intruder(peek=1, has_open_ticks=True))
    yield build_twins("Noise ahead, added when the tick ends", in_tick, late, runs=AHEAD_RUNS)
    saved = SavedRest(UNIT_LOSS, **settings)
    lost = build(Intruder(peek=1, lost_tick=1, has_open_ticks=True))
    yield build_twins("Noise ahead, the same after a crash", lost, saved, truth=2.0001)
    cursor = CursorTree(UNIT_LOSS, **settings)
    yield build_twins("Noise ahead, draws behind a cursor", in_tick, cursor, runs=AHEAD_RUNS)
    summed = SummedTree(UNIT_LOSS, **settings)
    yield build_twins("Noise ahead, sums of its draws", in_tick, summed, runs=AHEAD_RUNS)
    live = LiveHandOver(UNIT_LOSS, **settings)
    both = build(Intruder(peek=1, announced_tick=3))
    yield build_twins("Noise ahead, handed over alive", both, live, runs=AHEAD_RUNS)
