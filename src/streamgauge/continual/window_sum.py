"""Sliding sums: what happened in the last W ticks, for ever, from p-sums of k^i items.

Level i cuts time into blocks of k^i ticks, for i = 0 .. h - 1; the largest have S = k^(h-1) <= W ticks.
Each block's p-sum is drawn once, when its last item arrives. A window is tiled from its beginning by ever
larger blocks, then by the largest, then by ever smaller ones (see `streamgauge.continual.window_tiles`):

    x1 x2 x3 x4   x5 x6 x7 x8   x9 x10 x11 x12        k = 2, h = 3, S = 4, W = 8
       [] [---]   [---------]   []                    t = 9: window 2 .. 9

Let P_t be the noisy count of the items up to t, tiled from the left: blocks of S, then ever smaller ones. Let
Q_s be the one that begins with P at the next multiple of S and takes away the tiles after s. The
release at t is P_t - Q_(t-W): in it all blocks before the window cancel, as integers.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole, endless stream, even if values are chosen in view of past releases.
    Proof: one tick is in one block of each of h levels, so that it moves h p-sums, each by at most `bound`:
    h bound in L1, h bound^2 in squared L2. Each p-sum is drawn when its last item arrives, so that adaptive
    composition holds for discrete Gaussian noise as well. n ticks move most when they follow the
    beginning of blocks of all levels: n // s blocks of s = k^i ticks by s, and one by n mod s.

Pan-privacy
    With `pan_private=True` the open block of level i >= 1 is a register that starts with a draw; its p-sum
    gets another. Who sees the registers once, unannounced, sees the items before under the first draw, and
    those after only under the second: the loss is unchanged. A block of one item never rests in memory and
    has the second draw only. All else that a run remembers are sums of p-sums, as if released. An announced
    intrusion adds a draw to every register before the hand-over and after it. With `open_ticks=True` a tick
    may come in parts (`absorb`): level 0 has a register too, and the promise holds for a look at any moment.
    A run that goes on from the save of one that was lost must `begin_anew`: the register of an open block is
    what its closed tiles say, as if released, and a fresh draw. So an item is seen in the lost registers or
    in the new ones, which share no draw (see `streamgauge.continual.tree`): the loss is unchanged.

Error
    Unbiased; the variance is that of one draw times the number of tiles (pan-private: those of level 1 and up
    count twice, with open ticks all of them; a block that was begun anew has the draws of its tiles till
    then). There are (h - 1)(k - 1) + (W + 1)/S - 1 tiles on average, and nearly so at every tick if S divides
    W. Without `branching`, k and h are those of least mean variance. A run remembers fewer than
    W + 3 S + 2 h numbers a group.

Reference
    Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed predicate sums on streams, ICDT 2013. With
    branching=2 and W = 2^m it is their tree, without its root, which would serve one tick in W: popcount(p) +
    popcount(W - p) tiles for p = t mod W > 0, from m levels instead of m + 1.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from math import inf
from typing import ClassVar, TypeVar

import numpy as np

from streamgauge.continual.bound import Bound
from streamgauge.continual.mechanism import Mechanism, draw_rows
from streamgauge.continual.settings import check_settings, check_whole
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.window_tiles import Tiling, least_levels
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.noise.entropy import Wiped
from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, Zcdp

LONGEST = 2**26  # ticks of a window, since as many numbers are remembered for each group
BROADEST = 256  # the most branches that are tried

Count = TypeVar("Count", int, float, Ints)


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; S is the size of the largest blocks."""

    tick: int
    opens: Ints = field(repr=False)  # exact: sums of open blocks, from level 1 or 0 up; pan-private: noisy
    heads: Ints  # noisy: P at the last multiple of each block size
    nodes: Ints  # noisy: p-sums in the open block of S, level by level
    tails: Ints  # noisy: Q at the ticks of the closed blocks of S that windows still begin in
    intrusions: Ints  # public: the ticks of announced intrusions whose draws are left
    begun: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # public: when registers began anew


@dataclass(frozen=True)
class WindowSum(Mechanism[State]):
    """Sums of the last `window` ticks; without `branching`, the best tree; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    loss: Loss
    _: KW_ONLY
    window: int
    branching: int = 0
    levels: int = 0
    horizon: int | None = None
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()
    open_ticks: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        check_whole("window", self.window)
        if self.window > LONGEST:
            why = "a run remembers as many numbers for each group"
            raise ValueError(f"window must be at most 2**26 ticks ({why}), got {self.window}")
        check_whole("branching", self.branching or 2, least=2)
        check_whole("levels", self.levels or 1)
        branching, levels = min(self._shapes(), key=self._relative_variance)
        object.__setattr__(self, "branching", branching)
        object.__setattr__(self, "levels", levels)
        if branching ** (levels - 1) > self.window:
            raise ValueError(f"levels must leave blocks of at most the window {self.window}, got {levels}")

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """The trees to choose from: all that are left open by the settings."""
        if self.branching and self.levels:
            yield self.branching, self.levels
        elif self.branching:
            yield self.branching, least_levels(self.branching, self.window)
        else:
            widest = max(2, min(BROADEST, self.window))
            most = self.levels or self.window.bit_length()
            yield from ((k, h) for h in range(self.levels or 1, most + 1) for k in range(2, widest + 1))

    def _relative_variance(self, shape: tuple[int, int]) -> float:
        """The mean variance with a tree of this shape, in a unit that all share; infinite if too large."""
        tiling = Tiling(self.window, *shape)
        if tiling.span > self.window:
            return inf
        noise = tiling.levels**2 if isinstance(self.loss, Pure) else tiling.overlap(self.unit.ticks)
        return noise * self._draws(*tiling.mean_counts())

    def _draws(self, tiles: Count, single: Count) -> Count:
        """How many draws are in so many tiles, so many of which are single items."""
        if not self.pan_private:
            return tiles
        return 2 * tiles - (0 if self.open_ticks else single)

    @property
    def resting(self) -> int:
        """The lowest level whose open block rests in a register."""
        return 0 if self.open_ticks else 1

    @cached_property
    def tiling(self) -> Tiling:
        return Tiling(self.window, self.branching, self.levels)

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of one p-sum."""
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        l2_squared = self.reach.l2_squared * self.tiling.overlap(ticks)
        return self.loss.calibrate(l1=self.reach.l1 * ticks * self.levels, l2_squared=l2_squared)

    def initial(self, width: int, noise: Noise) -> State:
        opens = np.zeros((self.levels - self.resting, width), np.int64)
        if self.pan_private:
            self._stir(opens, noise)
        sizes = self.levels, sum(self.tiling.sizes), self.tiling.slots * self.tiling.span
        heads, nodes, tails = (np.zeros((size, width), np.int64) for size in sizes)
        return State(0, opens, heads, nodes, tails, np.zeros(0, np.int64))

    def dormant(self, width: int, tick: int, noise: Noise) -> State:
        """As if the stream had begun with the block of S that the window begins in: all before cancels."""
        state, span = self.initial(width, noise), self.tiling.span
        state.tick = max(0, tick - self.window) // span * span
        return self.rested(state, width, tick - state.tick, noise)

    @property
    def sleeps_cheaply(self) -> bool:
        """A group that slept takes no more draws than one that was there for a window and a block of S."""
        return True

    def memory(self) -> int:
        return 2 * self.levels - self.resting + sum(self.tiling.sizes) + self.tiling.slots * self.tiling.span

    def absorb(self, state: State, values: Ints) -> None:
        if not self.open_ticks:
            return super().absorb(state, values)
        state.opens += values
        return None

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        state.tick += 1
        level = self.tiling.level(state.tick)
        ended = level + 1 - self.resting  # registers
        with Wiped() as secret:
            draws = draw_rows(self.distribution, noise, 1 + level + self.pan_private * ended, len(values))
            return self._moved(state, level, values, secret(draws))

    def _moved(self, state: State, level: int, values: Ints, draws: Ints) -> Ints:
        """A step, with the draws of the p-sums that end and of the registers that begin."""
        ended = level + 1 - self.resting
        state.opens += values
        sums = draws[: level + 1]
        sums[: self.resting] += values
        sums[self.resting :] += state.opens[:ended]
        state.opens[:ended] = draws[level + 1 :] if self.pan_private else 0
        for i, part in enumerate(self.tiling.slices[: level + 1]):
            state.nodes[part][(state.tick // self.branching**i - 1) % self.tiling.sizes[i]] = sums[i]
        if level == self.levels - 1:
            self._close(state, np.stack([state.heads[-1], state.heads[-1] + sums[level]]))
        now = np.add(state.heads[level], sums[level], out=state.heads[0])
        state.heads[1 : level + 1] = now
        release: Ints = now - state.tails[(state.tick - self.window) % len(state.tails)]
        return release

    def _close(self, state: State, ends: Ints) -> None:
        """Keeps Q at the ticks of the block of S that ends now."""
        span = self.tiling.span
        slot = (state.tick // span - 1) % self.tiling.slots
        nodes = [state.nodes[part] for part in self.tiling.slices]
        state.tails[slot * span : (slot + 1) * span] = self.tiling.from_ends(nodes, ends)[:-1]
        state.nodes[:] = 0

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        if self.open_ticks or len(block) < self.tiling.span:
            return self.by_steps(state, block, noise)
        span, inside = self.tiling.span, state.tick % self.tiling.span
        last = inside + len(block)
        *nodes, tops = self._drawn(state, block, noise)
        ends = np.concatenate([state.heads[-1:], state.heads[-1] + np.cumsum(tops, axis=0)])
        heads = self.tiling.from_beginnings(nodes, ends)
        tails = self._tails(state, nodes, ends[: last // span + 1])
        first = self.tiling.slots * span + inside + 1 - self.window
        state.heads = heads[[last - last % self.branching**i for i in range(self.levels)]]
        for i, part in enumerate(self.tiling.slices):
            rest = nodes[i][last // span * span // self.branching**i :]
            state.nodes[part] = rest if len(rest) else 0
        state.tick += len(block)
        return heads[inside + 1 : last + 1] - tails[first : first + len(block)]

    def _tails(self, state: State, nodes: list[Ints], ends: Ints) -> Ints:
        """Q from the oldest block of S that is remembered to the newest that is closed."""
        span, closed = self.tiling.span, len(ends) - 1
        whole = [sums[: closed * span // self.branching**i] for i, sums in enumerate(nodes)]
        turn = state.tick // span % self.tiling.slots
        old, new = np.roll(state.tails, -turn * span, axis=0), self.tiling.from_ends(whole, ends)[:-1]
        tails = np.concatenate([old, new])
        state.tails = np.roll(tails[closed * span :], (turn + closed) * span, axis=0)
        return tails

    def _drawn(self, state: State, block: Ints, noise: Noise) -> list[Ints]:
        """The p-sums of every level in the blocks of S that the fed ticks touch; 0 where still open."""
        ticks, width = block.shape
        levels = self.tiling.levels_of(np.arange(state.tick + 1, state.tick + ticks + 1))
        counts = 1 + levels + self.pan_private * (levels + 1 - self.resting)
        first = np.cumsum(counts) - counts
        draws = draw_rows(self.distribution, noise, int(counts.sum()), width)
        sums = np.concatenate([np.zeros((1, width), np.int64), np.cumsum(block, axis=0)])
        found = []
        for level in range(self.levels):
            rows, register = np.flatnonzero(levels >= level), level - self.resting
            rests = register >= 0
            begun = draws[first[rows] + levels[rows] + 1 + register] if self.pan_private and rests else 0
            parts = np.concatenate([sums[rows + 1], sums[-1:]])  # up to the end of each block, and now
            parts[1:] += begun - sums[rows + 1]
            parts[:1] += state.opens[register] if rests else 0
            parts[:-1] += draws[first[rows] + level]
            found.append(self._placed(state, level, parts[:-1], ticks))
            if rests:
                state.opens[register] = parts[-1]
        return found

    def _placed(self, state: State, level: int, sums: Ints, ticks: int) -> Ints:
        """The p-sums of one level among those of whole blocks of S, the ones before the feed included."""
        inside, size = state.tick % self.tiling.span, self.branching**level
        blocks, before = -(-(inside + ticks) // self.tiling.span), inside // size
        placed = np.zeros((blocks * self.tiling.span // size, sums.shape[1]), np.int64)
        if before:
            placed[:before] = state.nodes[self.tiling.slices[level]][:before]
        placed[before : before + len(sums)] = sums
        return placed

    def noise_at(self, tick: int) -> NoiseSum:
        tiles = self.tiling.tiles(tick)
        return self._sum_of(self._draws(len(tiles), sum(level == 0 for level, _ in tiles)))

    def noise_now(self, state: State) -> NoiseSum:
        if not len(state.intrusions) and not len(state.begun):
            return self.noise_at(state.tick)
        return self._sum_of(sum(self._draws_in(tile, state) for tile in self.tiling.tiles(state.tick)))

    def _sum_of(self, draws: int) -> NoiseSum:
        return NoiseSum((Term(draws, 1, self.distribution),))

    def _draws_in(self, tile: tuple[int, int], state: State) -> int:
        """How many draws are in a p-sum, with all that happened while its block was open."""
        level, begin = tile
        if level < self.resting:
            return 1
        end, anew, kept = begin + self.branching**level, begin, 0
        if len(since := state.begun[(state.begun >= begin) & (state.begun < end)]):
            anew = int(since[-1])
            before = replace(self.tiling, window=anew - begin).tiles(anew)
            kept = sum(self._draws_in(each, state) for each in before)
        intrusions = (state.intrusions >= anew) & (state.intrusions < end)
        return kept + 2 + 2 * int(intrusions.sum())

    def intrude(self, state: State, noise: Noise) -> State:
        if not self.pan_private:
            return super().intrude(state, noise)
        self._stir(state.opens, noise)
        seen = deepcopy(state)
        self._stir(state.opens, noise)
        state.intrusions = np.append(state.intrusions, state.tick)
        return seen

    def begin_anew(self, state: State, noise: Noise) -> None:
        if not self.open_ticks:
            return super().begin_anew(state, noise)
        np.subtract(state.heads[0], state.heads, out=state.opens)
        self._stir(state.opens, noise)
        state.intrusions = state.intrusions[state.intrusions < state.tick]
        state.begun = np.append(state.begun[state.begun < state.tick], state.tick)
        return None

    def _stir(self, opens: Ints, noise: Noise) -> None:
        """A fresh draw into every register; see `tree` for why it is overwritten."""
        with Wiped() as secret:
            opens += secret(draw_rows(self.distribution, noise, *opens.shape))

    def mean_variance(self, ticks: int) -> float:
        """From tick W on the counts repeat every S ticks."""
        early = min(ticks, self.window)
        span = min(ticks - early, self.tiling.span)
        periods, rest = divmod(ticks - early, span or 1)
        counts = self._draws(*self.tiling.counts(np.arange(1, early + 1 + span)))
        later = counts[early:]
        total = int(counts[:early].sum()) + periods * int(later.sum()) + int(later[:rest].sum())
        return total / ticks * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        rows: dict[tuple[int, int], int] = {}  # (level, beginning) of a block -> its row of C
        registers = range(self.resting, self.levels if self.pan_private else 0)
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
