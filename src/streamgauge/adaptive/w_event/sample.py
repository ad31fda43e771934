"""One tick in w, under little noise, repeated until the next.

It is for streams that hardly change.

    x1 x2 x3 x4 x5 x6 x7        w = 3
    o1 o1 o1 o4 o4 o4 o7        published at ticks 1, w + 1, 2 w + 1, ...

Privacy
    Every window of w ticks has exactly one tick that is published, under discrete Laplace noise of scale
    l1/epsilon. Repeating is post-processing (see `streamgauge.adaptive.w_event.budget`). The published ticks
    follow from w alone.

Error
    At a published tick one draw of scale l1/epsilon. At all others nothing bounds it: the data are not read.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 ("Sample").
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease, ErrorBound, UnknownErrorBound
from streamgauge.adaptive.w_event.budget import WEventMechanism, single_draw_noise
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum


@dataclass(slots=True)
class State:
    """The memory of a run, one column per group."""

    tick: int
    last_published: Ints  # noisy: the newest publication


@dataclass(frozen=True)
class WEventSample(WEventMechanism[State]):
    """A claim that publishes one tick in w, and repeats it; see the module's claim."""

    ERROR_DEPENDS_ON: ClassVar[str] = "how far data move in the w - 1 ticks in which the last publication is repeated"

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return self.build_law(self.epsilon)

    @cached_property
    def _error_bound(self) -> NoiseSum:
        return single_draw_noise(self.distribution)

    def error_bound(self, tick: int) -> ErrorBound:
        return UnknownErrorBound() if (self.check_tick(tick) - 1) % self.w else self._error_bound

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64))

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return the newest publication of zeros."""
        return State(tick, self.distribution.draw(noise, width)) if tick else self.initial(width, noise)

    def step(self, state: State, values: Ints, noise: Noise) -> AdaptiveRelease:
        if state.tick % self.w == 0:
            state.last_published = values + self.distribution.draw(noise, len(values))
        state.tick += 1
        value = state.last_published.astype(np.float64)
        return AdaptiveRelease(value, value, (self.error_bound(state.tick),))
