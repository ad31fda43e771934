"""The endless bridge: running counts without an end, from bridges over epochs that grow.

Each epoch has a draw, which is the noise of all its items together. Inside an epoch the noise is a bridge to that end,
with radices that fit its length:

    [  48  ][  196 = 14 * 14  ][       756 = 28 * 27       ][ . . .          inner levels of the third: 2
     draw e1      draw e2               draw e3

After an epoch all draws of its inner blocks have cancelled: a count has one draw for each past epoch, and a bridge.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The stream has no end.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases.
    Proof: a tick is in one epoch, and there in one block of each of n inner levels. The shift of `BridgeTree`, which
    hides an event by its blocks alone, costs bound/b for the epoch's draw and bound/b' for each inner level. Scales are
    b = bound/(split epsilon) and b' = n bound/((1 - split) epsilon). So it costs epsilon in every epoch. A unit of n
    ticks costs n times as much, in whichever epochs they are.
    An epoch is as long as the product of its radices. If it is cut short by the horizon, its noise is unchanged.
    Memory holds the exact total and noise of the future: as for `BridgeTree`.

Error
    Unbiased. Var(t) is that of a draw of an epoch times (past epochs + p^2), p the past share of this one, and that of
    the inner levels as for `BridgeTree`. It grows with (log t)^3, as if the end were known.

Reference
    Epochs: Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011. There the p-sum of an
    epoch and the counter inside have independent noise (`Hybrid`). Here the counter ends at the noise of the p-sum.
    We know of no published account of that.
"""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod
from typing import ClassVar, NamedTuple

import numpy as np

from streamgauge.continual.mechanism import (
    MAX_CHEAP_DRAWS,
    UNBOUNDED_PLANNING_TICKS,
    LinearMechanism,
    Release,
    Settings,
    draw_sum,
)
from streamgauge.continual.strategy import Strategy, stack_strategies
from streamgauge.continual.trees.bridge import Bridge, BridgeState, to_release
from streamgauge.continual.trees.bridge_tree import MAX_RADIX, BridgeTree, State, is_too_large
from streamgauge.continual.validation import MAX_TICK, check_noise, check_settings, check_whole
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Loss, Number, parse_rational

MAX_EPOCH_TICKS = 2**57  # ticks of an epoch: rests have to fit in 64 bits
MAX_LENGTH_ERROR = 0.08  # share by which an epoch's length differs from the one wanted


class Epoch(NamedTuple):
    """One epoch: its place among all, the ticks before it, and its inner blocks."""

    number: int
    begin: int
    radices: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.begin + prod(self.radices)


@dataclass(frozen=True, kw_only=True)
class EndlessBridge(Settings, LinearMechanism[State]):
    """Running counts without an end, under pure loss; see the module's claim.

    `growth` is the ratio of the lengths of consecutive epochs, `first` the length of the first, both nearly. `split`
    is the share of the loss for the draws of epochs.
    """

    LOSSES: ClassVar[tuple[type[Loss], ...]] = BridgeTree.LOSSES
    LOSSES_REASON: ClassVar[str] = BridgeTree.LOSSES_REASON
    EXACT_MEMORY: ClassVar[str] = BridgeTree.EXACT_MEMORY
    growth: int = 4
    first: int = 48
    split: Number = Fraction(1, 4)

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        check_whole("growth", self.growth, least=2)
        check_whole("first", self.first, least=2)
        object.__setattr__(self, "split", parse_rational(self.split, "split"))
        if not 0 < parse_rational(self.split, "split") < 1:
            raise ValueError(f"split must be between 0 and 1, got {self.split}")
        check_noise(self)

    def epoch(self, tick: int) -> Epoch:
        """Return the epoch that `tick` (from 1) is in."""
        epochs = list_epochs(self.first, self.growth)
        return epochs[bisect_right(epochs, tick - 1, key=lambda each: each.begin) - 1]

    @cached_property
    def distribution(self) -> Distribution:
        """The widest noise: of an epoch, or of the inner blocks of the last one."""
        last = self.bridge(self.epoch(self.horizon or MAX_TICK))
        return max(last.distribution, last.top_distribution, key=lambda law: law.variance)

    @cached_property
    def _bridges(self) -> dict[tuple[int, ...], Bridge]:
        return {}

    def bridge(self, epoch: Epoch) -> Bridge:
        if epoch.radices not in self._bridges:
            self._bridges[epoch.radices] = self._build_bridge(epoch.radices)
        return self._bridges[epoch.radices]

    def _build_bridge(self, radices: tuple[int, ...]) -> Bridge:
        split = parse_rational(self.split, "split")
        moved = self.tick_sensitivity.l1 * min(self.unit.ticks, self.horizon or self.unit.ticks)
        inner = self.loss.part(1 - split).calibrate(l1=moved * len(radices), l2_squared=0)
        top = self.loss.part(split).calibrate(l1=moved, l2_squared=0)
        return Bridge(radices, inner, top, is_wiped=False)

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros(width, np.int64), self.bridge(self.epoch(1)).initial(width))

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return a state with the draws of past epochs and of open blocks."""
        return State(tick, np.zeros(width, np.int64), self._draw_noise(width, tick, noise))

    def _draw_noise(self, width: int, tick: int, noise: Noise) -> BridgeState:
        epoch = self.epoch(tick + 1)
        bridge = self.bridge(epoch)
        state = bridge.zero_state(width, tick - epoch.begin, noise)
        state.whole += draw_sum(bridge.top_distribution, noise, epoch.number, width)
        return state

    @property
    def cheap_zero_state(self) -> bool:
        """True if past epochs and open blocks have few draws."""
        epoch = self.epoch(self.horizon or UNBOUNDED_PLANNING_TICKS)
        return epoch.number + sum(epoch.radices) <= MAX_CHEAP_DRAWS

    def redraw_future_noise(self, state: State, noise: Noise) -> None:
        state.noise = self._draw_noise(len(state.total), state.tick, noise)

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        epoch = self.epoch(state.tick + 1)
        bridge = self.bridge(epoch)
        release, total, noises = np.empty(len(values)), state.total, state.noise
        for part in bridge.step_parts(noises, state.tick - epoch.begin, noise):
            total[part] += values[part]
            release[part] = to_release(total[part] + noises.whole[part], noises.rest[part], bridge.span)
        self._advance(state, 1, epoch)
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        sums, releases, done = state.total + np.cumsum(block, axis=0), [np.zeros((0, block.shape[1]))], 0
        while done < len(block):
            epoch = self.epoch(state.tick + 1)
            bridge = self.bridge(epoch)
            ticks = min(epoch.end - state.tick, len(block) - done)
            whole, rest = bridge.feed(state.noise, state.tick - epoch.begin, ticks, noise)
            releases.append(to_release(sums[done : done + ticks] + whole, rest, bridge.span))
            done += ticks
            self._advance(state, ticks, epoch)
        state.total = sums[-1].copy() if len(block) else state.total
        return np.concatenate(releases)

    def _advance(self, state: State, ticks: int, epoch: Epoch) -> None:
        """Count ticks of an epoch; begin the next one when it ends."""
        state.tick += ticks
        if state.tick == epoch.end:
            self.bridge(epoch).carry(state.noise)
            whole = state.noise.whole
            state.noise = self.bridge(self.epoch(state.tick + 1)).initial(len(whole))
            state.noise.whole = whole

    def noise_at(self, tick: int) -> NoiseSum:
        epoch = self.epoch(tick)
        bridge = self.bridge(epoch)
        past = Term(epoch.number, 1, bridge.top_distribution)
        return NoiseSum((past, *bridge.list_terms(tick - epoch.begin)))

    def memory(self) -> int:
        """Return the most of all epochs up to the horizon or, without one, up to tick 2^20."""
        last = self.epoch(self.horizon or UNBOUNDED_PLANNING_TICKS).number
        epochs = list_epochs(self.first, self.growth)[: last + 1]
        return max(3 + sum(epoch.radices) + len(epoch.radices) for epoch in epochs)

    def mean_variance(self, ticks: int) -> float:
        total = 0.0
        for epoch in list_epochs(self.first, self.growth)[: self.epoch(ticks).number + 1]:
            inside, bridge = min(ticks, epoch.end) - epoch.begin, self.bridge(epoch)
            total += inside * epoch.number * bridge.top_distribution.variance + bridge.sum_variances(inside)
        return total / ticks

    def matrices(self, ticks: int) -> Strategy:
        epochs = list_epochs(self.first, self.growth)[: self.epoch(ticks).number + 1]
        return stack_strategies([self._build_epoch_strategy(epoch, ticks) for epoch in epochs])

    def _build_epoch_strategy(self, epoch: Epoch, ticks: int) -> Strategy:
        inside = slice(epoch.begin, min(ticks, epoch.end))
        parts = self.bridge(epoch).build_matrices(inside.stop - inside.start)
        measure, decode = np.zeros((len(parts[2]), ticks)), np.zeros((ticks, len(parts[2])))
        measure[:, inside], decode[inside] = parts[:2]
        decode[epoch.end :, 0] = 1  # the epoch's own draw comes first
        return Strategy(measure, decode, tuple(parts[2]), tuple(range(len(parts[2]))))


@lru_cache(maxsize=64)
def list_epochs(first: int, growth: int) -> tuple[Epoch, ...]:
    """Return all epochs up to the last tick that a run reaches, and one more."""
    epochs, begin, length = list[Epoch](), 0, first
    while begin <= MAX_TICK:
        epochs.append(Epoch(len(epochs), begin, find_epoch_radices(min(length, MAX_EPOCH_TICKS))))
        begin, length = epochs[-1].end, min(length * growth, MAX_EPOCH_TICKS)
    return tuple(epochs)


@lru_cache(maxsize=1024)
def find_epoch_radices(length: int) -> tuple[int, ...]:
    """Return the radices of about this product under which the inner levels have least variance.

    All are k or k + 1. With n levels that is least n^2 times the sum of k - 1/k, nearly.
    """
    found: list[tuple[int, ...]] = [(length,)] if length <= MAX_RADIX else []
    for inner in range(1, length.bit_length()):
        k = max(2, int(length ** (1 / inner)))
        shapes = [(k + 1,) * larger + (k,) * (inner - larger) for larger in range(inner + 1)]
        found += [each for each in shapes if abs(prod(each) / length - 1) <= MAX_LENGTH_ERROR]
    fitting = [radices for radices in found if not is_too_large(radices)]
    return min(fitting, key=lambda radices: len(radices) ** 2 * sum(k - 1 / k for k in radices))
