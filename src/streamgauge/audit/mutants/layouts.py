"""Counters that forget their noise in one layout of a run only (see `streamgauge.audit.layouts`).

Each has noise in a run of many groups that is fed all ticks at once, and so would pass an audit of that
layout alone. Fast paths for small cases and states that are made in a second place are where this happens.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamgauge.audit.mechanisms import MechanismSubject
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.continual import SimpleI
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.simple import State
from streamgauge.noise import Ints, Noise
from streamgauge.testing import SilentNoise

TICKS = 5
FEW = 4000  # runs: some have starts of their own


class BareAtTwoGroups(SimpleI):
    """Draws nothing for a run of exactly two groups."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Ints:
        return super().step(state, values, SilentNoise() if len(values) == 2 else noise)

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        return super().feed(state, block, SilentNoise() if block.shape[1] == 2 else noise)


class BareInTwoTicks(SimpleI):
    """Draws nothing in a `feed` of exactly two ticks."""

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        return super().feed(state, block, SilentNoise() if len(block) == 2 else noise)


@dataclass(slots=True)
class DrawnState(State):
    """The state of a counter that draws all its noise before the first tick."""

    drawn: Ints = field(default_factory=lambda: np.zeros((0, 1), np.int64))  # one row per tick


class DrawnAhead(SimpleI):
    """Draws the noise of all ticks when a run starts; as private as Simple I, and the honest twin."""

    def initial(self, width: int, noise: Noise) -> Any:
        drawn = draw_rows(self.distribution, noise, self.horizon, width)
        return DrawnState(0, np.zeros(width, np.int64), drawn)

    def step(self, state: Any, values: Ints, noise: Noise) -> Ints:
        exact = super().step(state, values, SilentNoise())
        return np.asarray(exact + state.drawn[state.tick - 1], np.int64)

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        exact = super().feed(state, block, SilentNoise())
        return np.asarray(exact + state.drawn[state.tick - len(block) : state.tick], np.int64)


class BareWhenAdded(DrawnAhead):
    """Makes the state of groups that are added without noise."""

    def dormant(self, width: int, tick: int, noise: Noise) -> Any:
        return super().dormant(width, tick, SilentNoise())


BROKEN: tuple[tuple[str, str, type[SimpleI], type[SimpleI]], ...] = (
    (
        "Simple I, no noise in a run of two groups",
        "all other widths have it: a fast path for two groups forgets it",
        BareAtTwoGroups,
        SimpleI,
    ),
    (
        "Simple I, no noise in a feed of two ticks",
        "all other lengths have it, and steps too",
        BareInTwoTicks,
        SimpleI,
    ),
    (
        "Simple I, no noise for groups that are added",
        "their state is made by another function than that of the first groups",
        BareWhenAdded,
        DrawnAhead,
    ),
)


def every_twin(chance: Chance) -> Iterator[Twins]:
    for name, why, kind, honest_kind in BROKEN:
        broken, honest = (
            MechanismSubject(of(ONE, horizon=TICKS), TICKS, noise=chance, title=title)
            for title, of in ((name, kind), (f"{name}: honest", honest_kind))
        )
        yield Twins(broken, honest, why, runs=FEW)
