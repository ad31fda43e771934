"""One tick in w, under little noise, repeated until the next: for streams that hardly change.

    x1 x2 x3 x4 x5 x6 x7        w = 3
    o1 o1 o1 o4 o4 o4 o7        published at ticks 1, w + 1, 2 w + 1, ...

Privacy
    Every window of w ticks has exactly one tick that is published, under discrete Laplace noise of scale
    l1/epsilon; repeating is post-processing (see `streamgauge.adaptive.window_budget`). Which ticks are
    published follows from w alone.

Error
    At a published tick one draw of scale l1/epsilon. At all others nothing bounds it: nobody has looked.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 ("Sample").
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.bars import Bar, Unknown
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.window_budget import WindowClaim, one_draw
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    last: Ints  # noisy: the newest publication


@dataclass(frozen=True)
class WEventSample(WindowClaim[State]):
    """Publishes one tick in w, and repeats it; see the module's claim."""

    DEPENDS: ClassVar[str] = "how far data move in the w - 1 ticks in which the last publication is repeated"

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return self.law(self.epsilon)

    @cached_property
    def _bar(self) -> NoiseSum:
        return one_draw(self.distribution)

    def bar(self, tick: int) -> Bar:
        return Unknown() if (self.checked(tick) - 1) % self.w else self._bar

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64))

    def dormant(self, width: int, tick: int, noise: Noise) -> State:
        """Of all that zeros would have published, the newest."""
        return State(tick, self.distribution.draw(noise, width)) if tick else self.initial(width, noise)

    def step(self, state: State, values: Ints, noise: Noise) -> Released:
        if state.tick % self.w == 0:
            state.last = values + self.distribution.draw(noise, len(values))
        state.tick += 1
        value = state.last.astype(np.float64)
        return Released(value, value, (self.bar(state.tick),))
