"""Windows of ticks: estimates from noisy counts, groups and readings of blocks.

A window W ends at the newest tick: that tick alone ("each"), the last N ("sliding N") or all ("running"). It is
estimated from whole groups, also if it contains a part of one only, as

    the sum over groups G of |G and W| * median(y over all of G)             (or another smoother)

and from its own noisy counts, without bias, as their sum. Sums are of whole numbers, doubled if a median needs it,
so that nothing drifts, however long a stream is. Parts of groups are computed afresh.

    groups      [------][----][---------][------        W = the last 11 ticks
    window          |-----------------------|
                 edge     full groups     last

Blocks are the second scale of a Perturber, which reads each block of `size` ticks once more, as one count:

    ticks      1   2   3   4 | 5   6   7   8 | 9  10
    readings   y   y   y   y | y   y   y   y | y   y       one for each tick, by the Perturber
               B ----------> | B ----------> | (open)      one for each block, when it ends

A long window then needs few draws: a block of 64 ticks has one where its ticks have 64. Groups are cut where blocks
end. The excess of a block's reading B over its groups, and over its ticks, is

    residual = B - the smoother's estimate of its groups      lift = B - the sum of its noisy counts

A window W has blocks that are whole in it, the edge of one, and the ticks since the last one ended:

    blocks      |--------|--------|--------|--------|---
    window           |-----------------------------------|
                 edge  whole    whole    whole        open

It is estimated from groups as before, and then residuals are added: all of those of whole blocks, and of the edge's
block a share for its ticks in W. So a whole block counts as its reading, and groups locate the events in a block.
If residuals are levels (quiet groups), open ticks have a like share of the newest one. It is drawn towards the
excess of their own noisy counts over groups, by the weights of least squares, if levels move from block to block as
they did so far. The smoother may shrink the sum, which has the noise of few blocks.

Without bias, W is the sum of its noisy counts and of the lifts of whole blocks. The lift of the edge's block is
added too, if its reading without the ticks before W has less noise than the ticks in W.

Privacy
    Windows spend none: they are functions of releases. Readings of blocks do.
    Neighbours: one count of one column moves by 1. Public: the number of ticks, so the ends of blocks. Promise:
    pure DP at 1/scale of the `block_law`, even if counts are chosen in view of past readings.
    Proof: blocks do not overlap, so the count is in one block, whose sum moves by 1, modulo 2^64 too. That sum
    is read once, under discrete Laplace noise. The exact sum of the open block is in memory until then.

Error
    Depends on data: shares are right if a block is even, apart from its groups.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, section 4. It has no blocks.
"""

from dataclasses import dataclass, field, fields
from math import sqrt
from typing import Any

import numpy as np

from streamgauge.adaptive.pegasus.smoothers import LastGroup, Smoother, empty_group, extend_group
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.coerce import Bools, Floats


@dataclass(slots=True)
class OpenBlock:
    """The block of each column that has not ended."""

    total: Ints = field(repr=False)  # exact: the sum of its counts


@dataclass(frozen=True)
class Blocks:
    """Readings of aligned blocks of `size` ticks, in addition to those of ticks.

    Their noise is of `block_law`.
    """

    size: int
    block_law: DiscreteLaplace  # of a block
    tick_law: DiscreteLaplace  # of a tick

    def initial(self, width: int) -> OpenBlock:
        return OpenBlock(np.zeros(width, np.int64))

    def step(self, state: OpenBlock, values: Ints, tick: int, noise: Noise) -> Ints:
        """Add one tick's counts.

        Return the readings of the blocks that end with it, else 0.
        """
        state.total += values
        if tick % self.size:
            return np.zeros_like(values)
        reading = state.total + self.block_law.draw(noise, len(values))
        state.total[:] = 0
        return reading

    def cover_window(self, ticks: int, tick: int) -> "BlockCover":
        """Split the last `ticks` ticks into blocks.

        They are at least as many as a block has, or all.
        """
        before, ended = tick - ticks, tick // self.size
        first = -(-before // self.size)
        return BlockCover(self, first, ended, first * self.size - before, tick - ended * self.size)


@dataclass(frozen=True)
class BlockCover:
    """A window as blocks [first, ended), an edge and open ticks.

    The edge is the last ticks of the block before them.

    >>> from fractions import Fraction
    >>> law = DiscreteLaplace(Fraction(2))
    >>> Blocks(4, law, law).cover_window(7, 10)  # doctest: +ELLIPSIS
    BlockCover(blocks=..., first_block=1, ended_blocks=2, edge_ticks=1, open_ticks=2)
    """

    blocks: Blocks
    first_block: int
    ended_blocks: int
    edge_ticks: int
    open_ticks: int

    @property
    def whole_blocks(self) -> int:
        """The number of blocks that are in the window from their first tick to their last."""
        return self.ended_blocks - self.first_block

    @property
    def is_edge_trimmed(self) -> bool:
        """True if the edge has less noise as its block without the ticks before it."""
        spared = 2 * self.edge_ticks - self.blocks.size
        return spared * self.blocks.tick_law.variance > self.blocks.block_law.variance

    @property
    def draws(self) -> tuple[int, int]:
        """The numbers of blocks and ticks that the window is the unbiased sum of."""
        edge = self.blocks.size - self.edge_ticks if self.is_edge_trimmed else self.edge_ticks
        return self.whole_blocks + self.is_edge_trimmed, edge + self.open_ticks

    @property
    def equivalent_ticks(self) -> float:
        """The number of ticks with as much noise as that sum."""
        blocks, ticks = self.draws
        one = self.blocks.tick_law.variance
        return ticks + blocks * (self.blocks.block_law.variance / one if one else 1.0)

    @property
    def stddev(self) -> float:
        """The standard error of the sum with shares of blocks.

        Ticks in no whole block count as shares of the blocks next to them.
        """
        edge, rest = self.edge_ticks / self.blocks.size, self.open_ticks / self.blocks.size
        newest = (1 if self.whole_blocks else edge) + rest if self.ended_blocks else 0.0
        others = self.whole_blocks - 1 + edge**2 if self.whole_blocks else 0.0
        return sqrt((newest**2 + others) * self.blocks.block_law.variance)


MAX_WINDOW_TICKS = 2**30  # ticks of a sliding window, all of which are in memory
MAX_SIZE_DIGITS = 20  # digits
WindowEstimate = tuple[Floats, Ints]  # from groups; the sum of noisy counts


@dataclass(slots=True)
class EmptyPast:
    """No memory."""


@dataclass(frozen=True)
class TickWindow:
    """The newest tick.

    As of all windows, `past` is its memory of groups before the last.
    """

    def initial(self, width: int) -> EmptyPast:
        return EmptyPast()

    def close_groups(self, past: Any, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        """Add the groups that ended just before `tick`."""

    def add_tick(self, past: Any, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother) -> WindowEstimate:
        """Add the tick's noisy counts, which the last groups have already.

        Return the estimates.
        """
        return smoother.estimate_newest(group, noisy), noisy

    def count_ticks(self, tick: int) -> int:
        """Return the number of ticks in the window at `tick`."""
        return 1


@dataclass(slots=True)
class RunningSums:
    """Sums over all ticks so far."""

    doubled_groups: Ints  # noisy: two times the groups before the last
    noisy_total: Ints  # noisy: the counts


@dataclass(frozen=True)
class RunningWindow:
    """All ticks so far."""

    def initial(self, width: int) -> RunningSums:
        return RunningSums(np.zeros(width, np.int64), np.zeros(width, np.int64))

    def close_groups(self, past: RunningSums, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        past.doubled_groups += np.where(ended, smoother.doubled_total(group), 0)

    def add_tick(
        self, past: RunningSums, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother
    ) -> WindowEstimate:
        past.noisy_total += noisy
        return np.asarray((past.doubled_groups + smoother.doubled_total(group)) / 2), past.noisy_total.copy()

    def count_ticks(self, tick: int) -> int:
        return tick


@dataclass(slots=True)
class WindowRing:
    """The last N ticks, tick t in row t mod N, and the group across the edge.

    The group is stored if it has ended.
    """

    noisy_counts: Ints  # noisy: the counts
    length: Ints  # noisy: of the group that began in this row, once it has ended; else 0
    doubled_groups: Ints  # noisy: two times its estimate
    sums: Ints  # noisy: the counts together
    doubled_ended_groups: Ints  # noisy: two times the groups that are in the window and have ended
    edge_ticks: Ints  # noisy: the ticks of the group across the edge that are in the window
    edge_length: Ints  # noisy: all its ticks
    edge_doubled_group: Ints  # noisy: two times its estimate
    edge_sum: Ints  # noisy: those counts of it that are in the window


@dataclass(frozen=True)
class SlidingWindow:
    """The last `size` ticks."""

    size: int

    def initial(self, width: int) -> WindowRing:
        rows = (np.zeros((self.size, width), np.int64) for _ in range(3))
        flat = (np.zeros(width, np.int64) for _ in range(len(fields(WindowRing)) - 3))
        return WindowRing(*rows, *flat)

    def close_groups(self, past: WindowRing, group: LastGroup, ended: Bools, tick: int, smoother: Smoother) -> None:
        twice, inside = smoother.doubled_total(group), np.flatnonzero(ended & (group.length <= self.size))
        rows = (tick - group.length[inside]) % self.size
        past.length[rows, inside] = group.length[inside]
        past.doubled_groups[rows, inside] = twice[inside]
        past.doubled_ended_groups[inside] += twice[inside]
        wider = np.flatnonzero(ended & (group.length > self.size))
        self._set_edge(past, wider, group.length[wider], twice[wider], past.sums[wider])
        past.edge_ticks[wider] = self.size

    def add_tick(
        self, past: WindowRing, group: LastGroup, noisy: Ints, tick: int, smoother: Smoother
    ) -> WindowEstimate:
        self._drop_tick(past, tick % self.size)
        past.noisy_counts[tick % self.size] = noisy
        past.sums += noisy
        ticks = np.minimum(group.length, self.size)
        own = np.where(group.length > self.size, past.sums, group.total)
        last = smoother.estimate_part(smoother.doubled_total(group), group.length, ticks, own)
        length = np.maximum(past.edge_length, 1)
        edge = smoother.estimate_part(past.edge_doubled_group, length, past.edge_ticks, past.edge_sum)
        return past.doubled_ended_groups / 2 + np.where(past.edge_ticks > 0, edge, 0) + last, past.sums.copy()

    def _drop_tick(self, past: WindowRing, row: int) -> None:
        """Remove the tick in this row.

        It is of the edge, the first of an ended group, or neither.
        """
        past.sums -= past.noisy_counts[row]
        on_edge = past.edge_ticks > 0
        past.edge_ticks -= on_edge
        past.edge_sum -= np.where(on_edge, past.noisy_counts[row], 0)
        cut = np.flatnonzero(~on_edge & (past.length[row] > 0))
        length, twice = past.length[row, cut], past.doubled_groups[row, cut]
        past.doubled_ended_groups[cut] -= twice
        self._set_edge(past, cut, length, twice, twice // 2 - past.noisy_counts[row, cut])
        past.edge_ticks[cut] = length - 1
        past.length[row] = past.doubled_groups[row] = 0

    def _set_edge(self, past: WindowRing, columns: Ints, length: Ints, twice: Ints, own: Ints) -> None:
        past.edge_length[columns], past.edge_doubled_group[columns], past.edge_sum[columns] = length, twice, own

    def count_ticks(self, tick: int) -> int:
        return min(tick, self.size)


GroupWindow = TickWindow | RunningWindow | SlidingWindow


def parse_window(text: str) -> GroupWindow:
    """Return the window that "each", "sliding N" or "running" requests."""
    kind, _, size = str(text).partition(" ")
    if kind == "sliding" and size.isdecimal() and len(size) <= MAX_SIZE_DIGITS and int(size) > 0:
        if int(size) > MAX_WINDOW_TICKS:
            raise ValueError(f"window must be of at most 2**30 ticks, got {text!r}")
        return SlidingWindow(int(size))
    if text not in ("each", "running"):
        raise ValueError(f'window must be "each", "running" or "sliding TICKS", got {text!r}')
    return TickWindow() if text == "each" else RunningWindow()


@dataclass(slots=True)
class SmoothingState:
    """The memory of releases."""

    group: LastGroup
    past: Any


@dataclass(frozen=True)
class GroupSmoothing:
    """A smoother at work on a window."""

    smoother: Smoother
    window: GroupWindow

    def initial(self, width: int) -> SmoothingState:
        return SmoothingState(empty_group(self.smoother, width), self.window.initial(width))

    def step(self, state: Any, noisy: Ints, started: Bools, tick: int, reading: Ints | None = None) -> WindowEstimate:
        """Add the noisy counts of `tick`, and the columns that began a group with it.

        Read no blocks.
        """
        value, centre = self.estimate(state, noisy, started, tick)
        return self.smoother.clip_to_centre(value, centre, self.window.count_ticks(tick)), centre

    def draws(self, tick: int) -> tuple[int, int]:
        """Return the numbers of blocks and ticks that the window is the unbiased sum of."""
        return 0, self.window.count_ticks(tick)

    def estimate(self, state: SmoothingState, noisy: Ints, started: Bools, tick: int) -> WindowEstimate:
        """Return the estimate from groups, and the sum of noisy counts."""
        ended = started & (state.group.length > 0)
        self.window.close_groups(state.past, state.group, ended, tick, self.smoother)
        extend_group(state.group, noisy, started)
        return self.window.add_tick(state.past, state.group, noisy, tick, self.smoother)


UNBOUNDED_TICKS = 2**62  # ticks
MIN_VARIANCE = 2.0**-1000  # a variance that is none


@dataclass(slots=True)
class BlockResiduals:
    """The blocks that are in the window; block k in row k modulo their number."""

    doubled_groups: Ints  # noisy: two times the groups of the open block before its last
    noisy_total: Ints  # noisy: the noisy counts of the open block
    residual: Ints  # noisy: two times the rest of each block
    lift: Ints  # noisy: the lift of each block
    residual_sum: Ints  # noisy: two times the rests of whole blocks together
    lift_sum: Ints  # noisy: their lifts
    squared_moves: Floats  # noisy: the squares of all steps from rest to rest


@dataclass(slots=True)
class TwoScaleState:
    """The memory of releases."""

    smoothing: SmoothingState
    blocks: BlockResiduals


@dataclass(frozen=True)
class TwoScaleSmoothing:
    """A smoother at work on a window, with readings of blocks.

    The window is no shorter than a block.
    """

    groups: GroupSmoothing
    blocks: Blocks

    @property
    def smoother(self) -> Smoother:
        return self.groups.smoother

    @property
    def window(self) -> GroupWindow:
        return self.groups.window

    def cover(self, tick: int) -> BlockCover:
        return self.blocks.cover_window(self.window.count_ticks(tick), tick)

    def draws(self, tick: int) -> tuple[int, int]:
        return self.cover(tick).draws

    @property
    def rows(self) -> int:
        """The number of blocks in memory; for a window without an edge, the newest alone."""
        ticks = self.window.count_ticks(UNBOUNDED_TICKS)
        return 1 if ticks == UNBOUNDED_TICKS else ticks // self.blocks.size + 1

    def initial(self, width: int) -> TwoScaleState:
        flat = [np.zeros(width, np.int64) for _ in range(4)]
        rest, lift = (np.zeros((self.rows, width), np.int64) for _ in range(2))
        past = BlockResiduals(flat[0], flat[1], rest, lift, flat[2], flat[3], np.zeros(width))
        return TwoScaleState(self.groups.initial(width), past)

    def step(self, state: Any, noisy: Ints, started: Bools, tick: int, reading: Ints | None = None) -> WindowEstimate:
        """Add the noisy counts of `tick`, starts of groups, and readings of blocks."""
        first = tick % self.blocks.size == 1
        started = started | first
        self._close_groups(state, started, first)
        value, centre = self.groups.estimate(state.smoothing, noisy, started, tick)
        state.blocks.noisy_total += noisy
        if reading is not None and tick % self.blocks.size == 0:
            self._end_block(state, reading, tick // self.blocks.size - 1)
        return self._correct_estimate(state, value, centre, self.cover(tick), self.cover(tick - 1).first_block)

    def _close_groups(self, state: TwoScaleState, started: Bools, first: bool) -> None:
        """Add the groups that end before the tick.

        At the start of a block, clear the sums.
        """
        group, past = state.smoothing.group, state.blocks
        past.doubled_groups += np.where(started & (group.length > 0), self.smoother.doubled_total(group), 0)
        if first:
            past.doubled_groups[:] = past.noisy_total[:] = 0

    def _end_block(self, state: TwoScaleState, reading: Ints, block: int) -> None:
        past, row = state.blocks, block % self.rows
        rest = 2 * reading - past.doubled_groups - self.smoother.doubled_total(state.smoothing.group)
        past.squared_moves += ((rest - past.residual[(block - 1) % self.rows]) / 2) ** 2
        past.residual[row] = rest
        past.lift[row] = reading - past.noisy_total
        past.residual_sum += past.residual[row]
        past.lift_sum += past.lift[row]

    def _correct_estimate(
        self, state: TwoScaleState, value: Floats, centre: Ints, cover: BlockCover, before: int
    ) -> WindowEstimate:
        """Add the corrections of blocks.

        Subtract the block that was first `before`, if it is out of the window.
        """
        past, edge = state.blocks, (cover.first_block - 1) % self.rows
        if before < cover.first_block:
            past.residual_sum -= past.residual[edge]
            past.lift_sum -= past.lift[edge]
        value = value + past.residual_sum / 2 + cover.edge_ticks / self.blocks.size * (past.residual[edge] / 2)
        if self.smoother.LEAVES_LEVEL and cover.open_ticks:
            value = value + self._estimate_open_ticks(state, cover)
        centre = centre + past.lift_sum + (past.lift[edge] if cover.is_edge_trimmed else 0)
        value = self.smoother.shrink(value, cover.stddev)
        return self.smoother.clip_to_centre(value, centre, cover.equivalent_ticks), centre

    def _estimate_open_ticks(self, state: TwoScaleState, cover: BlockCover) -> Floats:
        """Estimate the excess of open ticks over their groups.

        It is from the newest residual and their noisy counts.
        """
        past, share = state.blocks, cover.open_ticks / self.blocks.size
        level = share * past.residual[(cover.ended_blocks - 1) % self.rows] / 2
        own = past.noisy_total - (past.doubled_groups + self.smoother.doubled_total(state.smoothing.group)) / 2
        moved = share**2 * past.squared_moves / max(1, cover.ended_blocks)
        either = moved + cover.open_ticks * self.blocks.tick_law.variance
        return np.asarray(level + moved / np.maximum(either, MIN_VARIANCE) * (own - level))


WindowSmoothing = GroupSmoothing | TwoScaleSmoothing


def build_window_smoothing(groups: GroupSmoothing, blocks: Blocks | None) -> WindowSmoothing:
    """Return a smoothing, with readings of blocks if they are of use.

    They are if the window is as long as a block.
    """
    if blocks is None or groups.window.count_ticks(UNBOUNDED_TICKS) < blocks.size:
        return groups
    return TwoScaleSmoothing(GroupSmoothing(groups.smoother.adapt_to_block(blocks.size), groups.window), blocks)
