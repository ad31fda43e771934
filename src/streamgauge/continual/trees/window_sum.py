"""Sliding sums over the last W ticks, for ever, from p-sums of k^i items.

Level i cuts time into blocks of k^i ticks, for i = 0 .. h - 1. The largest have S = k^(h-1) <= W ticks.
Each block's p-sum is drawn once, when its last item arrives. A window is tiled from its beginning by ever
larger blocks, then by the largest, then by ever smaller ones (see `continual.trees.window_tiles`):

    x1 x2 x3 x4   x5 x6 x7 x8   x9 x10 x11 x12        k = 2, h = 3, S = 4, W = 8
       [] [---]   [---------]   []                    t = 9: window 2 .. 9

Let P_t be the noisy count of the items up to t, tiled from the left: blocks of S, then ever smaller ones. Let
Q_s be the count that begins with P at the next multiple of S and subtracts the tiles after s. The
release at t is P_t - Q_(t-W). All blocks before the window cancel in it, as integers.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole, endless stream, even if values are chosen in view of past releases.
    Proof: one tick is in one block of each of h levels, so that it moves h p-sums, each by at most `bound`:
    h bound in L1, h bound^2 in squared L2. Each p-sum is drawn when its last item arrives, so that adaptive
    composition holds for discrete Gaussian noise as well. n ticks move most when they follow the
    beginning of blocks of all levels: n // s blocks of s = k^i ticks by s, and one by n mod s.

Pan-privacy
    With `pan_private=True` the open block of level i >= 1 is a register that starts with a draw. Its p-sum
    gets another. An intruder who reads the registers once, unannounced, sees the items before under the first
    draw, and those after only under the second. So the loss is unchanged. A block of one item never stays in
    memory and has the second draw only. All other state are sums of p-sums, as if released. An announced
    intrusion adds a draw to every register before the hand-over and after it. With `open_ticks=True` a tick
    may come in parts (`add_partial`). Level 0 has a register too, and the promise holds for a view at any moment.
    A run that continues from the save of one that was lost must `rerandomize`: the register of an open block
    becomes the sum of its closed tiles, as if released, and a fresh draw. So an item is visible in the lost
    registers or in the new ones, which share no draw (see `streamgauge.continual.trees.tree`). The loss is
    unchanged.

Error
    Unbiased; the variance is that of one draw times the number of tiles (pan-private: those of level 1 and up
    count twice, with open ticks all of them; a rerandomised block has the draws of its tiles until
    then). There are (h - 1)(k - 1) + (W + 1)/S - 1 tiles on average, and nearly so at every tick if S divides
    W. Without `branching`, k and h are those of least mean variance. A run stores fewer than
    W + 3 S + 2 h numbers a group.

Reference
    Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed predicate sums on streams, ICDT 2013. With
    branching=2 and W = 2^m it is their tree, without its root, which would serve one tick in W: popcount(p) +
    popcount(W - p) tiles for p = t mod W > 0, from m levels instead of m + 1.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import ClassVar, TypeVar

import numpy as np

from streamgauge.continual.mechanism import LinearMechanism, Settings, draw_rows
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.window_tiles import Tiling, least_levels
from streamgauge.continual.validation import check_settings, check_whole
from streamgauge.memory import WipedArrays
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Pure, Zcdp

MAX_WINDOW_TICKS = 2**26  # ticks of a window, since as many numbers are remembered for each group
MAX_BRANCHING = 256  # the most branches that are tried

Count = TypeVar("Count", int, float, Ints)


def check_window(window: int) -> None:
    check_whole("window", window)
    if window > MAX_WINDOW_TICKS:
        why = "a run remembers as many numbers for each group"
        raise ValueError(f"window must be at most 2**26 ticks ({why}), got {window}")


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; S is the size of the largest blocks."""

    tick: int
    open_sums: Ints = field(repr=False)  # exact: sums of open blocks, from level 1 or 0 up; pan-private: noisy
    heads: Ints  # noisy: P at the last multiple of each block size
    nodes: Ints  # noisy: p-sums in the open block of S, level by level
    tails: Ints  # noisy: Q at the ticks of the closed blocks of S that windows still begin in
    intrusions: Ints  # public: the ticks of announced intrusions whose draws are left
    rerandomized_ticks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # public: ticks of rerandomisations


@dataclass(frozen=True, kw_only=True)
class WindowSum(Settings, LinearMechanism[State]):
    """Sums of the last `window` ticks, by default the best tree; see the module."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    window: int
    branching: int = 0
    levels: int = 0
    open_ticks: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        check_window(self.window)
        check_whole("branching", self.branching or 2, least=2)
        check_whole("levels", self.levels or 1)
        branching, levels = min(self._list_shapes(), key=self.relative_variance)
        object.__setattr__(self, "branching", branching)
        object.__setattr__(self, "levels", levels)
        if branching ** (levels - 1) > self.window:
            raise ValueError(f"levels must leave blocks of at most the window {self.window}, got {levels}")

    def _list_shapes(self) -> Iterator[tuple[int, int]]:
        """Yield the trees to choose from: all that the settings leave open."""
        if self.branching and self.levels:
            yield self.branching, self.levels
        elif self.branching:
            yield self.branching, least_levels(self.branching, self.window)
        else:
            widest = max(2, min(MAX_BRANCHING, self.window))
            most = self.levels or self.window.bit_length()
            yield from ((k, h) for h in range(self.levels or 1, most + 1) for k in range(2, widest + 1))

    def relative_variance(self, shape: tuple[int, int]) -> float:
        """Return the mean variance of a tree of this shape, in a common unit.

        It is infinite for a tree that is too large.
        """
        tiling = Tiling(self.window, *shape)
        if tiling.span > self.window:
            return inf
        noise = tiling.levels**2 if isinstance(self.loss, Pure) else tiling.overlap(self.unit.ticks)
        return noise * self.count_draws(*tiling.mean_tile_counts())

    def count_draws(self, tiles: Count, single: Count) -> Count:
        """Return how many draws are in so many tiles, so many of which are single items."""
        if not self.pan_private:
            return tiles
        return 2 * tiles - (0 if self.open_ticks else single)

    @property
    def lowest_register(self) -> int:
        """The lowest level whose open block rests in a register."""
        return 0 if self.open_ticks else 1

    @cached_property
    def tiling(self) -> Tiling:
        return Tiling(self.window, self.branching, self.levels)

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of one p-sum."""
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        l2_squared = self.tick_sensitivity.l2_squared * self.tiling.overlap(ticks)
        return self.loss.calibrate(l1=self.tick_sensitivity.l1 * ticks * self.levels, l2_squared=l2_squared)

    def initial(self, width: int, noise: Noise) -> State:
        opens = np.zeros((self.levels - self.lowest_register, width), np.int64)
        if self.pan_private:
            self._add_register_noise(opens, noise)
        sizes = self.levels, sum(self.tiling.sizes), self.tiling.slots * self.tiling.span
        heads, nodes, tails = (np.zeros((size, width), np.int64) for size in sizes)
        return State(0, opens, heads, nodes, tails, np.zeros(0, np.int64))

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return the state of a stream that begins with the window's first block of S.

        All earlier blocks cancel.
        """
        state, span = self.initial(width, noise), self.tiling.span
        state.tick = max(0, tick - self.window) // span * span
        return self.feed_zeros(state, width, tick - state.tick, noise)

    @property
    def cheap_zero_state(self) -> bool:
        """True: a new group needs no more draws than a window and a block of S."""
        return True

    def memory(self) -> int:
        return 2 * self.levels - self.lowest_register + sum(self.tiling.sizes) + self.tiling.slots * self.tiling.span

    def add_partial(self, state: State, values: Ints) -> None:
        if not self.open_ticks:
            return super().add_partial(state, values)
        state.open_sums += values
        return None

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        state.tick += 1
        level = self.tiling.level(state.tick)
        ended = level + 1 - self.lowest_register  # registers
        with WipedArrays() as secret:
            draws = draw_rows(self.distribution, noise, 1 + level + self.pan_private * ended, len(values))
            return self._advance(state, level, values, secret(draws))

    def _advance(self, state: State, level: int, values: Ints, draws: Ints) -> Ints:
        """Return the release of a step, from the draws of p-sums and of new registers."""
        ended = level + 1 - self.lowest_register
        state.open_sums += values
        sums = draws[: level + 1]
        sums[: self.lowest_register] += values
        sums[self.lowest_register :] += state.open_sums[:ended]
        state.open_sums[:ended] = draws[level + 1 :] if self.pan_private else 0
        for i, part in enumerate(self.tiling.slices[: level + 1]):
            state.nodes[part][(state.tick // self.branching**i - 1) % self.tiling.sizes[i]] = sums[i]
        if level == self.levels - 1:
            self._close_block(state, np.stack([state.heads[-1], state.heads[-1] + sums[level]]))
        now = np.add(state.heads[level], sums[level], out=state.heads[0])
        state.heads[1 : level + 1] = now
        release: Ints = now - state.tails[(state.tick - self.window) % len(state.tails)]
        return release

    def _close_block(self, state: State, ends: Ints) -> None:
        """Store Q at the ticks of the block of S that ends now."""
        span = self.tiling.span
        slot = (state.tick // span - 1) % self.tiling.slots
        nodes = [state.nodes[part] for part in self.tiling.slices]
        state.tails[slot * span : (slot + 1) * span] = self.tiling.from_ends(nodes, ends)[:-1]
        state.nodes[:] = 0

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        if self.open_ticks or len(block) < self.tiling.span:
            return self.feed_by_steps(state, block, noise)
        span, inside = self.tiling.span, state.tick % self.tiling.span
        last = inside + len(block)
        *nodes, tops = self._draw_sums(state, block, noise)
        ends = np.concatenate([state.heads[-1:], state.heads[-1] + np.cumsum(tops, axis=0)])
        heads = self.tiling.from_beginnings(nodes, ends)
        tails = self._build_tails(state, nodes, ends[: last // span + 1])
        first = self.tiling.slots * span + inside + 1 - self.window
        state.heads = heads[[last - last % self.branching**i for i in range(self.levels)]]
        for i, part in enumerate(self.tiling.slices):
            rest = nodes[i][last // span * span // self.branching**i :]
            state.nodes[part] = rest if len(rest) else 0
        state.tick += len(block)
        return heads[inside + 1 : last + 1] - tails[first : first + len(block)]

    def _build_tails(self, state: State, nodes: list[Ints], ends: Ints) -> Ints:
        """Return Q from the oldest stored block of S to the newest closed one."""
        span, closed = self.tiling.span, len(ends) - 1
        whole = [sums[: closed * span // self.branching**i] for i, sums in enumerate(nodes)]
        offset = state.tick // span % self.tiling.slots
        old, new = np.roll(state.tails, -offset * span, axis=0), self.tiling.from_ends(whole, ends)[:-1]
        tails = np.concatenate([old, new])
        state.tails = np.roll(tails[closed * span :], (offset + closed) * span, axis=0)
        return tails

    def _draw_sums(self, state: State, block: Ints, noise: Noise) -> list[Ints]:
        """Return the p-sums by level in the blocks of S that the fed ticks touch.

        Sums of open blocks are 0.
        """
        ticks, width = block.shape
        levels = self.tiling.find_levels(np.arange(state.tick + 1, state.tick + ticks + 1))
        counts = 1 + levels + self.pan_private * (levels + 1 - self.lowest_register)
        first = np.cumsum(counts) - counts
        draws = draw_rows(self.distribution, noise, int(counts.sum()), width)
        sums = np.concatenate([np.zeros((1, width), np.int64), np.cumsum(block, axis=0)])
        found = []
        for level in range(self.levels):
            rows, register = np.flatnonzero(levels >= level), level - self.lowest_register
            rests = register >= 0
            begun = draws[first[rows] + levels[rows] + 1 + register] if self.pan_private and rests else 0
            parts = np.concatenate([sums[rows + 1], sums[-1:]])  # up to the end of each block, and now
            parts[1:] += begun - sums[rows + 1]
            parts[:1] += state.open_sums[register] if rests else 0
            parts[:-1] += draws[first[rows] + level]
            found.append(self._place_sums(state, level, parts[:-1], ticks))
            if rests:
                state.open_sums[register] = parts[-1]
        return found

    def _place_sums(self, state: State, level: int, sums: Ints, ticks: int) -> Ints:
        """Return the p-sums of one level in whole blocks of S, with those before."""
        inside, size = state.tick % self.tiling.span, self.branching**level
        blocks, before = -(-(inside + ticks) // self.tiling.span), inside // size
        placed = np.zeros((blocks * self.tiling.span // size, sums.shape[1]), np.int64)
        if before:
            placed[:before] = state.nodes[self.tiling.slices[level]][:before]
        placed[before : before + len(sums)] = sums
        return placed

    def noise_at(self, tick: int) -> NoiseSum:
        tiles = self.tiling.tiles(tick)
        return self._build_noise_sum(self.count_draws(len(tiles), sum(level == 0 for level, _ in tiles)))

    def current_noise(self, state: State) -> NoiseSum:
        if not len(state.intrusions) and not len(state.rerandomized_ticks):
            return self.noise_at(state.tick)
        return self._build_noise_sum(sum(self._count_tile_draws(tile, state) for tile in self.tiling.tiles(state.tick)))

    def _build_noise_sum(self, draws: int) -> NoiseSum:
        return NoiseSum((Term(draws, 1, self.distribution),))

    def _count_tile_draws(self, tile: tuple[int, int], state: State) -> int:
        """Return how many draws are in a p-sum, with all that happened while its block was open."""
        level, begin = tile
        if level < self.lowest_register:
            return 1
        end, start, earlier = begin + self.branching**level, begin, 0
        if len(
            since := state.rerandomized_ticks[(state.rerandomized_ticks >= begin) & (state.rerandomized_ticks < end)]
        ):
            start = int(since[-1])
            before = replace(self.tiling, window=start - begin).tiles(start)
            earlier = sum(self._count_tile_draws(each, state) for each in before)
        intrusions = (state.intrusions >= start) & (state.intrusions < end)
        return earlier + 2 + 2 * int(intrusions.sum())

    def intrude(self, state: State, noise: Noise) -> State:
        if not self.pan_private:
            return super().intrude(state, noise)
        self._add_register_noise(state.open_sums, noise)
        shown = deepcopy(state)
        self._add_register_noise(state.open_sums, noise)
        state.intrusions = np.append(state.intrusions, state.tick)
        return shown

    def rerandomize(self, state: State, noise: Noise) -> None:
        if not self.open_ticks:
            return super().rerandomize(state, noise)
        np.subtract(state.heads[0], state.heads, out=state.open_sums)
        self._add_register_noise(state.open_sums, noise)
        state.intrusions = state.intrusions[state.intrusions < state.tick]
        state.rerandomized_ticks = np.append(
            state.rerandomized_ticks[state.rerandomized_ticks < state.tick], state.tick
        )
        return None

    def _add_register_noise(self, opens: Ints, noise: Noise) -> None:
        """Add a fresh draw to every register; see `tree` for the reason to wipe it."""
        with WipedArrays() as secret:
            opens += secret(draw_rows(self.distribution, noise, *opens.shape))

    def mean_variance(self, ticks: int) -> float:
        """Return the mean variance; from tick W on, counts repeat every S ticks."""
        early = min(ticks, self.window)
        span = min(ticks - early, self.tiling.span)
        periods, rest = divmod(ticks - early, span or 1)
        counts = self.count_draws(*self.tiling.count_tiles(np.arange(1, early + 1 + span)))
        later = counts[early:]
        total = int(counts[:early].sum()) + periods * int(later.sum()) + int(later[:rest].sum())
        return total / ticks * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        rows: dict[tuple[int, int], int] = {}  # (level, beginning) of a block -> its row of C
        registers = range(self.lowest_register, self.levels if self.pan_private else 0)
        draws = [rows.setdefault((level, 0), len(rows)) for level in registers]
        for tick in range(1, ticks + 1):
            top = self.tiling.level(tick)
            begun = [(level, tick) for level in registers if level <= top]
            ended = [(level, tick - self.branching**level) for level in range(top + 1)]
            draws += [rows.setdefault(tile, len(rows)) for tile in ended + begun]
        measure, decode = np.zeros((len(rows), ticks)), np.zeros((ticks, len(rows)))
        for (level, begin), row in rows.items():
            measure[row, begin : begin + self.branching**level] = 1
        for tick in range(1, ticks + 1):
            decode[tick - 1, [rows[tile] for tile in self.tiling.tiles(tick)]] = 1
        return Strategy(measure, decode, (self.distribution,) * len(rows), tuple(draws))
