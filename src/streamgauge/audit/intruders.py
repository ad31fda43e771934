"""Intruders: what is seen by one who looks at the memory besides the releases, and the worst of it, computed.

    peek     the tick after which the memory is looked at, unannounced (0: before the first)
    asked    the tick after which an intrusion was announced: `intrude` answers with noise, and hands over

The joint view is linear in data and draws. Both maps are found by trying, and the least cost of hiding one
unit is computed (see `costs`), for every tick of the unit and every tick of the intruder.

Promise
    A mechanism that is acquitted here loses no more than its claim to one who sees the memory once and all
    releases; by `worst_announced`, also where one intrusion besides was announced.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from streamgauge.audit.exact import Worst, worst_of
from streamgauge.audit.memories import Memory
from streamgauge.audit.worst_views import worst_tried
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats


@dataclass(frozen=True)
class Intruder:
    """When the memory is seen."""

    peek: int | None = None
    asked: int | None = None

    def __str__(self) -> str:
        seen = [f"memory seen after tick {self.peek}"] if self.peek is not None else []
        told = [f"announced after tick {self.asked}"] if self.asked is not None else []
        return ", ".join([*seen, *told])


layout = lru_cache(Memory.of)  # asked for every draw that is tried


def view(mechanism: Mechanism[Any], intruder: Intruder, values: Ints, noise: Noise) -> Floats:
    """All that one run shows of values (ticks, width): releases and memory in order, (numbers, width)."""
    width, memory = values.shape[1], layout(mechanism)
    state, seen = mechanism.initial(width, noise), []
    for tick in range(len(values) + 1):
        if tick:
            release = mechanism.step(state, values[tick - 1], noise)
            seen.append(np.asarray(release, np.float64)[None].copy())
        if tick == intruder.peek:
            seen.append(memory.of_each(state, width))
        if tick == intruder.asked:
            seen.append(memory.of_each(mechanism.intrude(state, noise), width))
    return np.concatenate(seen)


def of_one(mechanism: Mechanism[Any], intruder: Intruder, values: Ints, noise: Noise) -> Floats:
    """What is seen of one group, beside another that has nothing; what both share is seen too."""
    return view(mechanism, intruder, np.stack([values, np.zeros_like(values)], axis=1), noise)[:, 0]


def worst_to(mechanism: Mechanism[Any], ticks: int, intruder: Intruder) -> Worst:
    """The unit that loses most to an intruder, by trying."""
    return worst_tried(mechanism, partial(of_one, mechanism, intruder), ticks, str(intruder))


def worst_intrusion(mechanism: Mechanism[Any], ticks: int) -> Worst:
    """Of all ticks at which the memory may be seen, unannounced."""
    found = (worst_to(mechanism, ticks, Intruder(peek)) for peek in range(ticks + 1))
    return worst_of(found)


def worst_announced(mechanism: Mechanism[Any], ticks: int) -> Worst:
    """Of all pairs of ticks, at one of which it is seen, at the other handed over."""
    places = product(range(ticks + 1), repeat=2)
    found = (worst_to(mechanism, ticks, Intruder(peek, asked)) for peek, asked in places)
    return worst_of(found)
