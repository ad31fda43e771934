"""Broken bridges: shares of future noise that move with an event, which then shows in later releases."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair, build_twins
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.audit.subjects.mechanisms import MechanismSubject
from streamgauge.continual import BridgeTree, WindowBridge
from streamgauge.continual.mechanism import Release
from streamgauge.continual.trees.bridge import Bridge, BridgeState
from streamgauge.continual.trees.bridge_tree import State
from streamgauge.continual.trees.window_bridge import State as WindowState
from streamgauge.noise import Ints, Noise

BRIDGE_RUNS, COMPUTED_RUNS = 6_000, 100  # the last if computation finds the leak


class PinnedTwice(Bridge):
    """Shares subtract the draws of the children twice."""

    def _divide(self, level: int, block: tuple[Ints, Any], drawn: Ints) -> tuple[Ints, Ints]:
        return super()._divide(level, block, 2 * drawn)


class PinnedToSibling(Bridge):
    """Shares are of the noise of the last sibling."""

    def _take_child(self, state: BridgeState, tick: int, level: int) -> tuple[Ints, Ints]:
        last = state.children[self.rows[level].stop - 1].copy()
        _, rest = super()._take_child(state, tick, level)
        return last, rest


class TwicePinnedTree(BridgeTree):
    """Divides a block's noise less twice the draws of its children, so that an event in the block moves all shares."""

    @cached_property
    def bridge(self) -> Bridge:
        return PinnedTwice(self.radices or (), self.distribution, self.distribution)


class SiblingTree(BridgeTree):
    """Divides the noise of the last block of the same parent, which an event in another one does not move."""

    @cached_property
    def bridge(self) -> Bridge:
        return PinnedToSibling(self.radices or (), self.distribution, self.distribution)

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        return self.feed_by_steps(state, block, noise)


class FloatWindows(WindowBridge):
    """Divides the noise of a window first, and adds the exact sum to the float, whose rounding then shows it."""

    def feed(self, state: WindowState, block: Ints, noise: Noise) -> Release:
        return self.feed_by_steps(state, block, noise)

    def step(self, state: WindowState, values: Ints, noise: Noise) -> Release:
        before = state.sums.copy(), state.noises.copy(), state.rests.copy()
        super().step(state, values, noise)
        row = state.tick % self.window
        sums, noises, rests = (new[row] - old[row] for new, old in zip(self._list_rows(state), before, strict=True))
        released: Release = (noises * self.bridge.span + rests) / self.bridge.span + sums
        return released

    @staticmethod
    def _list_rows(state: WindowState) -> tuple[Ints, Ints, Ints]:
        return state.sums, state.noises, state.rests


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    def build(claim: BridgeTree | WindowBridge, title: str) -> MechanismSubject:
        return MechanismSubject(claim, claim.horizon or 1, noise=chance, title=title)

    siblings = SiblingTree(UNIT_LOSS, horizon=4, radices=(2, 2))
    yield build_twins("Bridge, pinned to another block", build, siblings, runs=BRIDGE_RUNS)
    floats = FloatWindows(UNIT_LOSS, horizon=12, window=6, radices=(5,))
    yield build_twins("Window bridge, exact sums added to floats", build, floats, runs=BRIDGE_RUNS)
    twice = TwicePinnedTree(UNIT_LOSS, horizon=8, radices=(8,))
    yield build_twins("Bridge, pinned twice", build, twice, truth=1.5, runs=COMPUTED_RUNS, is_counted=False)
