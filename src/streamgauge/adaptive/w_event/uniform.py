"""w-event privacy by a release of every tick, under noise for w ticks.

The budget of a window is shared evenly by its ticks. Groups and ticks are independent of each other.

Privacy
    A tick's vector moves by at most l1 in L1. It is released under discrete Laplace noise of scale
    w l1/epsilon: a loss of epsilon/w, w times (see `streamgauge.adaptive.w_event.budget`). This is
    `streamgauge.continual.WindowSum` with a window of one tick, under the same unit. A run remembers nothing.

Error
    Unbiased: one draw of scale w l1/epsilon, for all data.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 ("Uniform").
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease
from streamgauge.adaptive.w_event.budget import WEventMechanism, single_draw_noise
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum


@dataclass(slots=True)
class State:
    """The memory of a run: the time."""

    tick: int


@dataclass(frozen=True)
class WEventUniform(WEventMechanism[State]):
    """A claim that releases every tick under the same noise; see the module's claim."""

    ERROR_DEPENDS_ON: ClassVar[str] = "nothing: every tick is under noise of the same law"

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return self.build_law(self.epsilon / self.w)

    @cached_property
    def _error_bound(self) -> NoiseSum:
        return single_draw_noise(self.distribution)

    def error_bound(self, tick: int) -> NoiseSum:
        self.check_tick(tick)
        return self._error_bound

    def initial(self, width: int, noise: Noise) -> State:
        return State(0)

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        return State(tick)

    def step(self, state: State, values: Ints, noise: Noise) -> AdaptiveRelease:
        return self.feed(state, values[None], noise).select_tick(0)

    def feed(self, state: State, block: Ints, noise: Noise) -> AdaptiveRelease:
        state.tick += len(block)
        value = (block + self.distribution.draw(noise, block.size).reshape(block.shape)).astype(np.float64)
        return AdaptiveRelease(value, value, (self._error_bound,) * len(block))
