"""Every tick anew, under noise for w ticks: the plainest way to w-event privacy.

The budget of a window is shared evenly by its ticks. Groups are independent of each other, and so are ticks.

Privacy
    A tick's vector moves by at most `reach.l1` in L1 and is released under discrete Laplace noise of scale
    w l1/epsilon: a loss of epsilon/w, w times (see `streamgauge.adaptive.window_budget`). This is
    `streamgauge.continual.WindowSum` with a window of one tick, under the same unit. A run remembers nothing.

Error
    Unbiased; one draw of scale w l1/epsilon, whatever the data.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 ("Uniform").
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.released import Released
from streamgauge.adaptive.window_budget import WindowClaim, one_draw
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum


@dataclass(slots=True)
class State:
    """All that a run remembers: the time."""

    tick: int


@dataclass(frozen=True)
class WEventUniform(WindowClaim[State]):
    """Releases every tick under the same noise; see the module's claim."""

    DEPENDS: ClassVar[str] = "nothing: every tick is under noise of the same law"

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return self.law(self.epsilon / self.w)

    @cached_property
    def _bar(self) -> NoiseSum:
        return one_draw(self.distribution)

    def bar(self, tick: int) -> NoiseSum:
        self.checked(tick)
        return self._bar

    def initial(self, width: int, noise: Noise) -> State:
        return State(0)

    def dormant(self, width: int, tick: int, noise: Noise) -> State:
        return State(tick)

    def step(self, state: State, values: Ints, noise: Noise) -> Released:
        return self.feed(state, values[None], noise).of_tick(0)

    def feed(self, state: State, block: Ints, noise: Noise) -> Released:
        state.tick += len(block)
        value = (block + self.distribution.draw(noise, block.size).reshape(block.shape)).astype(np.float64)
        return Released(value, value, (self._bar,) * len(block))
