"""The k-ary tree of p-sums; Simple II, Two-level and Binary are cases of it.

Level i cuts the stream into blocks of k^i items. A block's p-sum is released, under independent noise,
when its last item arrives. Written in base k, the digits of t are the numbers of blocks of each level that tile
the first t items. The top digit is open, so that it may exceed k - 1:

    x1 x2 x3   x4 x5 x6   x7 x8 x9 | x10 x11 x12 | x13 x14      k = 3, t = 14 = 1 1 2 in base 3
    [--------------------------] [----------] [-] [-]           1 block of 9, 1 of 3, 2 of 1

When tick t completes a block of level i (the largest i < h for which k^i divides t), the release is the
one at the block's beginning plus the block's p-sum. So a run stores, for each level, only
the noise in the release at the last multiple of k^i, and one exact total.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: one tick is in at most one block of each of h levels, so that it moves at most h p-sums, each
    by at most `bound`: h bound in L1, h bound^2 in squared L2. Each p-sum is drawn when its last item
    arrives, so that adaptive composition holds for discrete Gaussian noise as well. A unit of n ticks
    moves most when they are one run from a block's beginning, at every level at once: the squared
    overlaps are then floor(n/s) s^2 + (n mod s)^2 for blocks of s = k^i items.

Pan-privacy
    With `pan_private=True` the open block of level i >= 1 is a register that starts from the last
    release plus a fresh draw. A release adds another. An intruder who reads the registers once, unannounced,
    sees every item before the intrusion under the first draw, and every later one only under the second. So
    the loss is unchanged. A block of level 0 is one item, never stays in memory, and needs the second
    draw only. An announced intrusion adds a draw to every register before the hand-over and after it.
    With `open_ticks=True` a tick may come in parts (`add_partial`), so that an item stays in memory as well.
    Level 0 has a register like all others, and the promise holds for a view at any moment, in the middle of a
    tick too. A run that was lost after its last save may have been read, with items in its registers
    that the save does not have. A run that continues from the save must `rerandomize`: its registers become
    the last release and fresh draws. So earlier items are visible under the draws of registers that no longer
    exist, and under those of p-sums that ended before. Later items are visible only under unseen draws. If blocks
    are cut in two, each item is in one of the halves. So the loss is unchanged.
    The first draw of a register, known together with the register, would show all items since. So draws and
    copies of registers are overwritten when a step ends. With open ticks, many ticks are as many steps.

Error
    Unbiased; the variance at tick t is that of one draw times the sum of the digits of t (pan-private:
    the digits of level 1 and above count twice; with open ticks all of them do). After a rerandomisation
    the draws of the last release before it stay in all later ones.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011; Dwork, Naor, Pitassi,
    Rothblum: Differential privacy under continual observation, STOC 2010. Their log T levels are too few
    by one: T = 4 has blocks of 1, 2 and 4 items. Here h is counted, and verified by enumeration.
"""

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import LinearMechanism, draw_rows, draw_sum
from streamgauge.continual.strategy import Strategy
from streamgauge.memory import WipedArrays
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Pure, Zcdp


@dataclass(slots=True)
class State:
    """All state of a run, one column per group; row i of `entries` is level i.

    Plain: `total` is the exact sum, `entries` the noise in the release at the last multiple of k^i.
    Pan-private: `total` is the register of the top level, and `total` + row i that of level i: the open block
    on top of the release at its beginning (level 0: the last release). Values are added to one row only.
    With open ticks `draw_counts` has one more number: the draws in the last release, which is stored.
    """

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far; pan-private: noisy, the top level's register
    entries: Ints = field(repr=False)  # noisy: pure noise (plain), or registers less the top one (pan-private)
    draw_counts: Ints  # public: how many draws are in each register (pan-private)
    last_release: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # public: the last (open ticks)

    def rebase_to_top(self) -> None:
        """Make `total` the register of the top level again."""
        with WipedArrays() as secret:
            top = secret(self.entries[-1].copy())
            self.total += top
            self.entries -= top


class Tree(LinearMechanism[State]):
    """The common part of all trees; a claim adds settings, branching and levels."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)

    @property
    def has_falling_overlaps(self) -> bool:
        return True

    @property
    @abstractmethod
    def branching(self) -> int:
        """k."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """h."""

    @property
    def has_registers(self) -> bool:
        """True if sums rest in noisy registers; with one level they do so for nothing."""
        return self.pan_private or self.levels == 1

    @property
    def lowest_register(self) -> int:
        """The lowest level whose open block rests in a register."""
        return 0 if self.open_ticks else 1

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of one p-sum."""
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        return self.loss.calibrate(l1=self.tick_sensitivity.l1 * ticks * self.levels, l2_squared=self.overlap(ticks))

    def overlap(self, ticks: int) -> Fraction:
        """Return the most that a unit of so many ticks can move the p-sums, in squared L2."""
        sizes = (int(self.branching**level) for level in range(self.levels))
        return self.tick_sensitivity.l2_squared * sum(ticks // s * s**2 + (ticks % s) ** 2 for s in sizes)

    def level(self, tick: int) -> int:
        """Return the level of the block that `tick` completes."""
        level = 0
        while level + 1 < self.levels and tick % self.branching ** (level + 1) == 0:
            level += 1
        return level

    def digits(self, tick: int) -> list[int]:
        """Return how many blocks of each level tile the first `tick` items."""
        digits = []
        for _ in range(self.levels - 1):
            tick, digit = divmod(tick, self.branching)
            digits.append(digit)
        return [*digits, tick]

    def initial(self, width: int, noise: Noise) -> State:
        entries = np.zeros((self.levels, width), np.int64)
        variables = np.zeros((self.levels + self.open_ticks, 1), np.int64)
        released = np.zeros(width if self.open_ticks else 0, np.int64)
        state = State(0, np.zeros(width, np.int64), entries, variables, released)
        if self.has_registers:
            self._add_register_noise(state, noise)
        return state

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return a state with the draws of the blocks that tile `tick` items.

        This is the plain case. All other draws are forgotten.
        """
        if self.pan_private:
            return super().zero_state(width, tick, noise)
        state, draws = self.initial(width, noise), np.zeros(width, np.int64)
        for level, digit in reversed(list(enumerate(self.digits(tick)))):
            draws = draws + draw_sum(self.distribution, noise, digit, width)
            state.entries[level] = draws
        if self.has_registers:
            state.rebase_to_top()
            state.draw_counts += tick
        state.tick = tick
        return state

    def add_partial(self, state: State, values: Ints) -> None:
        if not self.open_ticks:
            return super().add_partial(state, values)
        state.total += values
        return None

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        state.tick += 1
        level = self.level(state.tick)
        begun = level + 1 - self.lowest_register if self.has_registers else 0
        with WipedArrays() as secret:
            draws = draw_rows(self.distribution, noise, 1 + begun, len(values))
            if self.pan_private:
                secret(draws)
            return self._advance(state, level, values, draws)

    def _advance(self, state: State, level: int, values: Ints, draws: Ints) -> Ints:
        """Return the release of a step, from the draws of it and of new registers."""
        entries = state.entries
        state.total += values
        if self.levels == 1 and not self.open_ticks:
            state.total += draws[0]
            state.draw_counts += 1
            return state.total.copy()
        entries[level] += draws[0]
        release: Ints = state.total + entries[level]
        if self.open_ticks:
            state.last_release = release.copy()
        if self.has_registers:
            self._begin_registers(state, level, draws[1:])
        else:
            entries[:level] = entries[level]
        return release

    def _begin_registers(self, state: State, level: int, draws: Ints) -> None:
        """Start registers on the release in `entries[level]`, each with its own draw."""
        entries, variables = state.entries, state.draw_counts
        entries[0] = entries[level]
        np.add(entries[0], draws, out=entries[self.lowest_register : level + 1])
        variables[: level + 1] = variables[level] + 1
        if self.open_ticks:
            variables[-1] = variables[0]
        variables[self.lowest_register : level + 1] += 1
        if level == self.levels - 1:
            state.rebase_to_top()

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        if self.open_ticks:
            return self.feed_by_steps(state, block, noise)
        ticks, width = block.shape
        sums = np.cumsum(block, axis=0)
        draws, starts = self._draw_block(state, ticks, width, noise)
        releases = self._scan(state.tick, state.entries, draws, starts)
        releases += sums
        releases += state.total
        state.tick += ticks
        if ticks:
            state.total += sums[-1]
        if self.has_registers:
            state.rebase_to_top()
        return releases

    def _draw_block(self, state: State, ticks: int, width: int, noise: Noise) -> tuple[Ints, list[Ints] | None]:
        """Return the draw of every release, and by level those of new registers."""
        if not self.has_registers:
            return draw_rows(self.distribution, noise, ticks, width), None
        count = np.arange(state.tick + 1, state.tick + ticks + 1)
        levels = np.zeros(ticks, np.int64)
        for i in range(1, self.levels):
            levels += count % self.branching**i == 0
        first = np.cumsum(1 + levels) - 1 - levels
        draws = draw_rows(self.distribution, noise, ticks + int(levels.sum()), width)
        starts = [draws[first[levels >= i] + i] for i in range(self.levels)]
        starts[0][:] = 0
        ones = [np.full((len(start), 1), i >= self.lowest_register, np.int64) for i, start in enumerate(starts)]
        self._scan(state.tick, state.draw_counts, np.ones((ticks, 1), np.int64), ones)
        return draws[first], starts

    def _scan(self, tick: int, entries: Ints, draws: Ints, starts: list[Ints] | None) -> Ints:
        """Return the entries at each tick after `tick`, highest level first.

        Update `entries`. A tick that completes a block of level i has the entry of level i at the last multiple of
        k^i, plus its own draw. `starts` are the draws that registers begin with.
        """
        scanned = np.empty_like(draws)
        for level in reversed(range(self.levels)):
            size = self.branching**level
            rows = slice(size - 1 - tick % size, None, size)
            own = draws[rows].copy()
            if not len(own):
                continue
            count = np.arange(tick // size + 1, tick // size + 1 + len(own))
            higher = count % self.branching == 0 if level + 1 < self.levels else np.zeros(len(own), bool)
            own[higher] = 0
            begin = starts[level] if starts is not None else None
            sums = np.cumsum(own if begin is None else own + begin, axis=0)
            above = scanned[rows][higher] if begin is None else scanned[rows][higher] + begin[higher]
            offsets = np.concatenate([entries[level][None], above - sums[higher]])
            after = sums + offsets[np.cumsum(higher)]
            entries[level] = after[-1]
            scanned[rows] = after if begin is None else after - begin
        return scanned

    def noise_at(self, tick: int) -> NoiseSum:
        return self._build_noise_sum(self._count_draws(self.digits(tick)))

    def _count_draws(self, counts: list[int]) -> int:
        """Return how many draws are in so many p-sums of each level."""
        return sum(counts) + (sum(counts[self.lowest_register :]) if self.has_registers else 0)

    def current_noise(self, state: State) -> NoiseSum:
        newest = int(state.draw_counts[-self.open_ticks, 0])
        return self._build_noise_sum(newest) if self.has_registers else self.noise_at(state.tick)

    def _build_noise_sum(self, draws: int) -> NoiseSum:
        return NoiseSum((Term(draws, 1, self.distribution),))

    def intrude(self, state: State, noise: Noise) -> State:
        if self.intrusion_refusal():
            return super().intrude(state, noise)
        self._add_register_noise(state, noise)
        shown = deepcopy(state)
        self._add_register_noise(state, noise)
        return shown

    def rerandomize(self, state: State, noise: Noise) -> None:
        if not self.open_ticks:
            return super().rerandomize(state, noise)
        np.subtract(state.last_release, state.total, out=state.entries)
        state.draw_counts[: self.levels] = state.draw_counts[-1]
        return self._add_register_noise(state, noise)

    def _add_register_noise(self, state: State, noise: Noise) -> None:
        """Add a fresh draw to every register that holds data."""
        rows, width = self.levels - self.lowest_register, state.entries.shape[1]
        with WipedArrays() as secret:
            state.entries[self.lowest_register :] += secret(draw_rows(self.distribution, noise, rows, width))
        state.draw_counts[self.lowest_register : self.levels] += 1
        state.rebase_to_top()

    def mean_variance(self, ticks: int) -> float:
        counts = [sum_digits(ticks, self.branching, level, self.levels) for level in range(self.levels)]
        return self._count_draws(counts) / ticks * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        rows: dict[tuple[int, int], int] = {}  # (level, begin) of a block -> its row of C
        draws, decode = [], np.zeros((ticks + 1, ticks * (self.levels + 1)))
        if self.has_registers:
            draws += [rows.setdefault((level, 0), len(rows)) for level in range(self.lowest_register, self.levels)]
        for tick in range(1, ticks + 1):
            level = self.level(tick)
            begin = tick - self.branching**level
            draws.append(rows.setdefault((level, begin), len(rows)))
            decode[tick] = decode[begin]
            decode[tick, draws[-1]] += 1
            if self.has_registers:
                draws += [rows.setdefault((i, tick), len(rows)) for i in range(self.lowest_register, level + 1)]
        measure = np.zeros((len(rows), ticks))
        for (level, begin), row in rows.items():
            measure[row, begin : begin + self.branching**level] = 1
        return Strategy(measure, decode[1:, : len(rows)], (self.distribution,) * len(rows), tuple(draws))


def sum_digits(ticks: int, branching: int, level: int, levels: int) -> int:
    """Return the sum over t = 1..ticks of digit `level` of t, the top one open."""
    size = int(branching**level)
    if level == levels - 1:
        whole, rest = divmod(ticks + 1, size)
        return size * (whole * (whole - 1) // 2) + whole * rest
    cycles, rest = divmod(ticks + 1, size * branching)
    whole, part = divmod(rest, size)
    return cycles * size * (branching * (branching - 1) // 2) + size * (whole * (whole - 1) // 2) + whole * part
