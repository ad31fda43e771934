"""The past-private bridge: running counts whose memory tells no more of the past than their releases.

The counts of `BridgeTree`, with a horizon, and of `EndlessBridge`, without one. There is no exact sum in memory: events
are added to the sum with the noise of their ticks.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases. For events up to
    a moment, the promise holds for the memory at that moment as well: a look at it costs nothing.
    Proof: the shift of `BridgeTree` by the blocks that hold tick t moves no release. In memory are the last release,
    shares, which no shift moves, and draws of children that have not begun. Those hold no past tick. What began is
    overwritten, and noise comes from the operating system: a key in memory would tell it again.
    It is not pan-private: draws of ticks to come are known to one who looks, so later events are bare to them. For
    that, use `TwoPart`. A save is a look, too. Two runs that continue from one save share noise of ticks to come, and
    exact sums are gone. So noise cannot be drawn again (`redraw_future_noise`): continue from one copy only.

Error
    As for `BridgeTree` and `EndlessBridge`.

Reference
    As for `BridgeTree`. We know of no published account of memory that is private for the past alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS, LinearMechanism, Release, Settings
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.bridge_tree import BridgeTree
from streamgauge.continual.trees.past_noise import NoiseAhead, PastPrivateSums, to_floats
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss

NOT_REDRAWABLE_MESSAGE = "PastBridge must draw all its noise once: no exact sum is in memory to add other noise to"


@dataclass(frozen=True, kw_only=True)
class PastBridge(Settings, LinearMechanism[PastPrivateSums]):
    """Running counts with memory that is private for the past; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = BridgeTree.LOSSES
    LOSSES_REASON: ClassVar[str] = BridgeTree.LOSSES_REASON
    EXACT_MEMORY: ClassVar[str] = "its memory is the noise to come"
    NEEDS_EPHEMERAL_NOISE: ClassVar[bool] = True
    radices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self, bounded=self.radices is not None)
        check_noise(self)
        if self.horizon is not None:
            object.__setattr__(self, "radices", self.noise_ahead.radices)

    @cached_property
    def noise_ahead(self) -> NoiseAhead:
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        loss = self.loss.additive_loss.part(Fraction(1, ticks))
        return NoiseAhead(loss, self.tick_sensitivity, self.horizon, self.radices)

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of one draw, in the first epoch without a horizon."""
        return self.noise_ahead.epoch(1).noise.bridge.distribution

    def initial(self, width: int, noise: Noise) -> PastPrivateSums:
        return self.noise_ahead.initial(width)

    def step(self, state: PastPrivateSums, values: Ints, noise: Noise) -> Release:
        self.noise_ahead.begin_tick(state, noise)
        state.sum.whole += values
        return to_floats(state.sum)

    def feed(self, state: PastPrivateSums, block: Ints, noise: Noise) -> Release:
        steps = [self.step(state, values, noise) for values in block]
        return np.stack(steps) if steps else np.zeros(block.shape)

    def redraw_refusal(self) -> str:
        return NOT_REDRAWABLE_MESSAGE

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum(self.noise_ahead.list_terms(tick))

    def memory(self) -> int:
        """Return the numbers of a group; without a horizon, up to tick 2^20."""
        return self.noise_ahead.count_numbers(self.horizon or UNBOUNDED_PLANNING_TICKS)

    def mean_variance(self, ticks: int) -> float:
        return self.noise_ahead.sum_variances(ticks) / ticks

    def matrices(self, ticks: int) -> Strategy:
        measure, decode, laws, _ = self.noise_ahead.build_matrices(ticks)
        return Strategy(measure, decode, tuple(laws), tuple(range(len(laws))))
