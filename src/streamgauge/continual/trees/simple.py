"""The two simple counters: noise on every count, or noise on every item.

Simple I adds a draw to each running count. One event moves all T counts, so that each draw is as wide
as the stream is long. It serves teaching only.

Simple II adds a draw to each item and sums the noisy items. One event moves one noisy item. The
error grows with the square root of t, and the stream needs no end. It is the tree of one level.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: Simple I: an event at tick 1 moves every one of T counts by at most `bound`: T bound in L1,
    T bound^2 in squared L2 (n ticks: the counts move by 1, 2, .., n, n, .. times `bound`). Simple II:
    it moves one item by at most `bound`. Memory holds the last release alone, which is public. So Simple II
    is pan-private at no cost, under any number of intrusions. With `open_ticks=True` part of a
    tick is in memory, too, and the proof is that of every tree (see `streamgauge.continual.trees.tree`).

Error
    Unbiased; Simple I has the variance of one draw at every tick, Simple II of t draws at tick t (of 2 t with
    open ticks).

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011. Some accounts print
    Lap(1/epsilon) for Simple I, which is T epsilon (docs/errata.md).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import BoundedSettings, LinearMechanism, Settings
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.tree import Tree
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Pure, Zcdp


@dataclass(slots=True)
class State:
    """All that a run of Simple I remembers, one column per group."""

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far


@dataclass(frozen=True)
class SimpleI(BoundedSettings, LinearMechanism[State]):
    """Running counts over at most `horizon` ticks, one draw each; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    EXACT_MEMORY: ClassVar[str] = "its memory is the exact total"

    @property
    def has_falling_overlaps(self) -> bool:
        return True

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_noise(self)

    @cached_property
    def distribution(self) -> Distribution:
        n, T = min(self.unit.ticks, self.horizon), self.horizon
        rising, rising_squared = n * (n + 1) // 2, n * (n + 1) * (2 * n + 1) // 6
        return self.loss.calibrate(
            l1=self.tick_sensitivity.l1 * (rising + (T - n) * n),
            l2_squared=self.tick_sensitivity.l2_squared * (rising_squared + (T - n) * n**2),
        )

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64))

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        state.tick += 1
        state.total += values
        return state.total + self.distribution.draw(noise, len(values))

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        totals = state.total + np.cumsum(block, axis=0)
        state.tick += len(block)
        state.total = state.total + block.sum(axis=0)
        return totals + self.distribution.draw(noise, block.size).reshape(block.shape)

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum((Term(1, 1, self.distribution),))

    def mean_variance(self, ticks: int) -> float:
        return self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        return Strategy(np.tri(ticks), np.eye(ticks), (self.distribution,) * ticks, tuple(range(ticks)))


@dataclass(frozen=True, kw_only=True)
class SimpleII(Settings, Tree):
    """Running counts without an end, one draw per item; see the module's claim."""

    open_ticks: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        check_noise(self)

    @property
    def branching(self) -> int:
        return 2  # never used: there are no blocks above the items

    @property
    def levels(self) -> int:
        return 1
