"""Memory that an intruder finds: registers of a pan-private counter that start without noise."""

from collections.abc import Iterator

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins, twins_of
from streamgauge.continual import Kary
from streamgauge.noise import Ints
from streamgauge.testing import SilentNoise

COUNTER = Kary(ONE, branching=2, levels=2, horizon=4, pan_private=True)


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield twins_of(
        seized,
        chance,
        "Pan-private tree, registers without noise",
        "the open block is exact in memory until it is released",
        one=1,
        other=0,
        pair="an event before the intrusion",
    )


def seized(chance: Chance, broken: bool, item: int, runs: int) -> Ints:
    """A tick, the memory, and the other ticks."""
    state = COUNTER.initial(runs, SilentNoise() if broken else chance)
    first = COUNTER.step(state, np.full(runs, item), chance)
    memory = [state.total.copy(), *state.entries.copy()]
    later = [COUNTER.step(state, np.zeros(runs, np.int64), chance) for _ in range(3)]
    return np.array([first, *memory, *later]).T
