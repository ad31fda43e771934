"""What readings of blocks add to windows of groups. Public: it sees releases alone.

Groups are cut where blocks end. What a block's reading B has beyond its groups, and beyond its ticks, is

    rest = B - what the smoother says of its groups           lift = B - the sum of its noisy counts

and a window W, with blocks that are whole in it, the edge of one, and the ticks since the last one ended,

    blocks      |--------|--------|--------|--------|---
    window           |-----------------------------------|
                 edge  whole    whole    whole        open

is estimated from groups as before, and then the rests are added: all of those of whole blocks, and of the
edge's block a share for its ticks in W. So a whole block counts as its reading, and groups say where in a
block its events are. Where rests are levels (quiet groups), open ticks have a like share of the newest one,
drawn towards what their own noisy counts have beyond groups, by the weights of least squares, if levels move
from block to block as they did so far. The smoother may shrink the sum, which has the noise of few blocks.

Without bias, W is the sum of its noisy counts and of the lifts of whole blocks; that of the edge's block too,
where its reading without the ticks before W is better known than the ticks in W are.

Privacy
    None is spent: a function of releases.

Error
    Depends on data: shares are right where a block is even, apart from what its groups say.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from streamgauge.adaptive.blocks import Blocks, Cover
from streamgauge.adaptive.group_windows import Estimate, Smoothed, Smoothing, Window
from streamgauge.adaptive.ragged import Ints
from streamgauge.adaptive.smoothers import Smoother
from streamgauge.noise.numbers import Bools, Floats

ENDLESS = 2**62  # ticks
LEAST = 2.0**-1000  # a variance that is none


@dataclass(slots=True)
class Rests:
    """The blocks that are in the window; block k in row k modulo their number."""

    grouped: Ints  # noisy: two times the groups of the open block before its last
    counted: Ints  # noisy: the noisy counts of the open block
    rest: Ints  # noisy: two times the rest of each block
    lift: Ints  # noisy: the lift of each block
    rests: Ints  # noisy: two times the rests of whole blocks together
    lifts: Ints  # noisy: their lifts
    moved: Floats  # noisy: the squares of all steps from rest to rest


@dataclass(slots=True)
class TwoScaled:
    """All that is remembered of releases."""

    smoothed: Smoothed
    blocks: Rests


@dataclass(frozen=True)
class TwoScales:
    """A smoother at work on a window that is no shorter than a block, with readings of blocks."""

    groups: Smoothing
    blocks: Blocks

    @property
    def smoother(self) -> Smoother:
        return self.groups.smoother

    @property
    def window(self) -> Window[Any]:
        return self.groups.window

    def cover(self, tick: int) -> Cover:
        return self.blocks.cover(self.window.ticks(tick), tick)

    def draws(self, tick: int) -> tuple[int, int]:
        return self.cover(tick).draws

    @property
    def rows(self) -> int:
        """How many blocks are to be remembered: of a window without an edge, the newest alone."""
        ticks = self.window.ticks(ENDLESS)
        return 1 if ticks == ENDLESS else ticks // self.blocks.size + 1

    def initial(self, width: int) -> TwoScaled:
        flat = [np.zeros(width, np.int64) for _ in range(4)]
        rest, lift = (np.zeros((self.rows, width), np.int64) for _ in range(2))
        past = Rests(flat[0], flat[1], rest, lift, flat[2], flat[3], np.zeros(width))
        return TwoScaled(self.groups.initial(width), past)

    def step(
        self, state: TwoScaled, noisy: Ints, started: Bools, tick: int, reading: Ints | None = None
    ) -> Estimate:
        """Takes the noisy counts of `tick`, which columns began a group, and the reading of a block's end."""
        first = tick % self.blocks.size == 1
        started = started | first
        self._close(state, started, first)
        value, centre = self.groups.estimate(state.smoothed, noisy, started, tick)
        state.blocks.counted += noisy
        if reading is not None and tick % self.blocks.size == 0:
            self._end(state, reading, tick // self.blocks.size - 1)
        return self._corrected(state, value, centre, self.cover(tick), self.cover(tick - 1).first)

    def _close(self, state: TwoScaled, started: Bools, first: bool) -> None:
        """Takes the groups that end before the tick; those of another block are no longer of interest."""
        group, past = state.smoothed.group, state.blocks
        past.grouped += np.where(started & (group.length > 0), self.smoother.twice(group), 0)
        if first:
            past.grouped[:] = past.counted[:] = 0

    def _end(self, state: TwoScaled, reading: Ints, block: int) -> None:
        past, row = state.blocks, block % self.rows
        rest = 2 * reading - past.grouped - self.smoother.twice(state.smoothed.group)
        past.moved += ((rest - past.rest[(block - 1) % self.rows]) / 2) ** 2
        past.rest[row] = rest
        past.lift[row] = reading - past.counted
        past.rests += past.rest[row]
        past.lifts += past.lift[row]

    def _corrected(
        self, state: TwoScaled, value: Floats, centre: Ints, cover: Cover, before: int
    ) -> Estimate:
        """Adds what blocks say; without the one that was first `before`, if it has left the window."""
        past, edge = state.blocks, (cover.first - 1) % self.rows
        if before < cover.first:
            past.rests -= past.rest[edge]
            past.lifts -= past.lift[edge]
        value = value + past.rests / 2 + cover.edge / self.blocks.size * (past.rest[edge] / 2)
        if self.smoother.LEVEL and cover.open:
            value = value + self._open(state, cover)
        centre = centre + past.lifts + (past.lift[edge] if cover.trimmed else 0)
        value = self.smoother.shrunk(value, cover.stddev)
        return self.smoother.guarded(value, centre, cover.as_ticks), centre

    def _open(self, state: TwoScaled, cover: Cover) -> Floats:
        """What open ticks have beyond their groups, by the newest rest and by their noisy counts."""
        past, share = state.blocks, cover.open / self.blocks.size
        level = share * past.rest[(cover.ended - 1) % self.rows] / 2
        own = past.counted - (past.grouped + self.smoother.twice(state.smoothed.group)) / 2
        moved = share**2 * past.moved / max(1, cover.ended)
        either = moved + cover.open * self.blocks.each.variance
        return np.asarray(level + moved / np.maximum(either, LEAST) * (own - level))


class Scaled(Protocol):
    """A smoother at work on a window, be it with readings of blocks or without."""

    def initial(self, width: int) -> Any: ...

    def step(
        self, state: Any, noisy: Ints, started: Bools, tick: int, reading: Ints | None = None
    ) -> Estimate: ...

    def draws(self, tick: int) -> tuple[int, int]: ...


def with_blocks(groups: Smoothing, blocks: Blocks | None) -> Scaled:
    """With readings of blocks, if there are any and the window has room for one."""
    if blocks is None or groups.window.ticks(ENDLESS) < blocks.size:
        return groups
    return TwoScales(Smoothing(groups.smoother.beside(blocks.size), groups.window), blocks)
