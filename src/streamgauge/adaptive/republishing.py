"""Publishing anew only where data have moved: what budget distribution and budget absorption share.

Half of epsilon is for looking, the other half for publishing. At every tick the noisy distance of the data
from the last publication is compared with the error that a publication would have; only if it is larger, the
tick is published and spends what it was offered of the window's budget:

    c1 c2 c3 c4 c5 c6        data
    o1 o1 o1 o4 o4 o4        releases; at ticks 2, 3, 5 and 6 the data had not moved by more than the noise

Privacy
    The first tick is published. Tick t loses epsilon/(2w) by its noisy distance D + DLap(2 w l1/epsilon),
    since D moves by at most l1, and epsilon_t by its publication c_t + DLap(l1/epsilon_t), if there is one.
    Whether there is, and epsilon_t, follow from the noisy distance and past releases; it is charged for the
    distance whether that is used or not. The distances of a window lose epsilon/2; its publications no more
    than the other half, which is for `offered` to keep, in whole parts. The rest of the proof is in
    `streamgauge.adaptive.window_budget`.

Error
    At a published tick, one draw of scale l1/epsilon_t. At any other, the distance from the last publication:
    at most the noisy one plus the noise in that, for all groups together.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014. Ours: distances are sums, not means, so
    that they are whole numbers; the noisy distance is part of the release, as their proof lets it be;
    budgets are rounded down to few binary digits, and what that leaves is for later publications.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.bars import Bar, Unknown
from streamgauge.adaptive.dissimilarity import Fresh, Stale, cut, distance
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.window_budget import WindowClaim, coarse, one_draw
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum


@dataclass(slots=True)
class State:
    """All that a run remembers; nothing of it is more than what was released."""

    tick: int
    last: Ints  # noisy: the newest publication
    history: Ints  # public: the parts that publications took at the last 2 w ticks, the newest last


@dataclass(frozen=True)
class Republishing(WindowClaim[State]):
    """Publishes a tick if data have moved, else repeats the last publication; see the module's claim."""

    JOINT: ClassVar[bool] = True

    @property
    @abstractmethod
    def parts(self) -> int:
        """Into how many parts the budget for publications is cut."""

    @abstractmethod
    def offered(self, history: Ints, tick: int) -> int:
        """How many parts the publication after `tick` ticks may take, at most; 0 if it must not be."""

    def budget(self, parts: int) -> Fraction:
        return self.epsilon * parts / (2 * self.parts)

    def spent(self, state: State) -> Fraction:
        """What the last w ticks have spent, distances and publications together: at most epsilon."""
        looked = self.epsilon * min(state.tick, self.w) / (2 * self.w)
        return looked + self.budget(int(state.history[self.w :].sum()))

    @cached_property
    def looking(self) -> DiscreteLaplace:
        """The noise of a distance."""
        return self.law(self.epsilon / (2 * self.w))

    @cached_property
    def _looked(self) -> NoiseSum:
        return one_draw(self.looking)

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        return self.law(self.budget(1))

    def bar(self, tick: int) -> Bar:
        """Only the first tick is sure to be published."""
        return Unknown() if self.checked(tick) > 1 else self._first

    @cached_property
    def _first(self) -> NoiseSum:
        return one_draw(self.law(self.budget(coarse(self.offered(self._blank(1).history, 0)))))

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64), np.zeros(2 * self.w, np.int64))

    def step(self, state: State, values: Ints, noise: Noise) -> Released:
        moved = distance(state.last, values) + int(self.looking.draw(noise, 1)[0])
        parts = self._taken(state, moved, len(values))
        bar: Bar = Stale(moved, self._looked, cut(len(values)))
        if parts:
            law = self.law(self.budget(parts))
            bar = Fresh(one_draw(law)) if state.tick else one_draw(law)
            state.last = values + law.draw(noise, len(values))
        state.tick += 1
        state.history = np.append(state.history[1:], parts)
        value = state.last.astype(np.float64)
        return Released(value, value, (bar,))

    def _taken(self, state: State, moved: int, width: int) -> int:
        """The parts that this tick's publication takes; 0 if data have moved less than it would be off."""
        parts = coarse(self.offered(state.history, state.tick))
        first = state.tick == 0
        return parts if first or (parts and moved > width * self.law(self.budget(parts)).scale) else 0
