"""Memory that an intruder finds: a pan-private tree that keeps something exact, wherever it keeps it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.audit.pan_private import PanPrivateSubject
from streamgauge.continual import Kary
from streamgauge.continual.tree import State
from streamgauge.noise import Ints, Noise
from streamgauge.testing import SilentNoise

TICKS = 4
ENOUGH = 6000
FEW = 500  # runs that have starts of their own


class BareRegisters(Kary):
    """Registers begin without noise, as the source papers have them."""

    def initial(self, width: int, noise: Noise) -> State:
        return super().initial(width, SilentNoise())


@dataclass(slots=True)
class Counting(State):
    """A state that knows how many events there were, for a progress bar."""

    events: int = 0  # exact


class KeepsTotal(Kary):
    """The number of all events, in one plain number beside the registers."""

    def initial(self, width: int, noise: Noise) -> Any:
        return with_more(Counting, super().initial(width, noise))

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        state.events += int(values.sum())
        return super().step(state, values, noise)


@dataclass(slots=True)
class Logging(State):
    """A state that knows its last items, a row for each group."""

    log: Ints = field(default_factory=lambda: np.zeros((0, TICKS), np.int64))  # exact


class KeepsLog(Kary):
    """The items themselves, the other way round: groups first."""

    def initial(self, width: int, noise: Noise) -> Any:
        return with_more(Logging, super().initial(width, noise), np.zeros((width, TICKS), np.int64))

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        state.log[:, state.tick % TICKS] = values
        return super().step(state, values, noise)


def with_more(kind: type[Any], state: Any, *more: Any) -> Any:
    """The same state, as one that holds more."""
    return kind(*(getattr(state, name) for name in state.__dataclass_fields__), *more)


BROKEN: tuple[tuple[str, str, type[Kary], int], ...] = (
    (
        "Pan-private tree, registers without noise",
        "the open block is exact in memory until it is released",
        BareRegisters,
        ENOUGH,
    ),
    ("Pan-private tree, a total beside it", "it is exact, for all groups together", KeepsTotal, FEW),
    ("Pan-private tree, its items beside it", "they are exact until others come", KeepsLog, ENOUGH),
)


def every_twin(chance: Chance) -> Iterator[Twins]:
    for name, why, kind, runs in BROKEN:
        broken, honest = (
            seized(chance, title, of) for title, of in ((name, kind), (f"{name}: honest", Kary))
        )
        yield Twins(broken, honest, why, runs=runs)


def seized(chance: Chance, title: str, kind: type[Kary]) -> PanPrivateSubject:
    """A tick, the memory, and the other ticks."""
    claim = kind(ONE, branching=2, levels=2, horizon=TICKS, pan_private=True)
    return PanPrivateSubject(claim, TICKS, peek=1, noise=chance, title=title)
