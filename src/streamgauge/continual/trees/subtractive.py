"""The k-ary tree with subtraction: a count may step past t and subtract blocks.

k is odd, and t is written in base k with the digits -(k-1)/2 .. (k-1)/2. A positive digit d of level i
adds d blocks of k^i items. A negative one subtracts blocks, whose items partly lie in the future. Only
their noise is used, since the count itself is exact.

    t = 8 = 1 0 -1 in base 3:   [------------ block of 9 ------------]
                                                              minus [x9]

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole stream, even if values are chosen in view of past releases.
    Proof: the release is A x + L z with A = L R, R the 0/1 matrix of blocks: an item is in h blocks, one a
    level. Shifting z by -R e_t moves no release: those before t do not move since (L R)_{s,t} = 0 for
    s < t. This bijection of the integers costs h bound/b = epsilon under discrete Laplace noise of scale
    b = h bound/epsilon, although R looks ahead. For discrete Gaussian noise the argument needs rows that
    are drawn when their last item arrives, which these are not. Other losses are rejected.
    Memory holds the exact total and noise of the future. It is not pan-private, and must be guarded. Two runs
    that continue from one save would share that noise, so one of them draws it again first
    (`redraw_future_noise`). Its releases after the save are then those of an independent run.

Error
    Unbiased; Var(t) is the variance of one draw times the sum of |digits|. For the best k it has about a third
    less standard error than the plain k-ary tree, the least known for pure privacy.

Reference
    Andersson, Pagh, Torkamani: Improved counting under continual observation with pure differential
    privacy, 2024 (later: Count on Your Elders, FORC 2025, with Steiner).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import BoundedSettings, LinearMechanism, draw_rows
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.kary import MAX_BRANCHING, find_best_branching
from streamgauge.continual.validation import check_noise, check_settings, check_whole
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Loss, Pure


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; row i is level i."""

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far
    noises: Ints = field(repr=False)  # secret noise: what each level adds to the release
    returned_blocks: Ints = field(repr=False)  # secret noise: subtracted blocks, to be added back one by one
    total_noise: Ints = field(repr=False)  # secret noise: what all levels together add


@dataclass(frozen=True, kw_only=True)
class SubtractiveTree(BoundedSettings, LinearMechanism[State]):
    """Running counts up to `horizon`, by default the best tree; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure,)
    LOSSES_REASON: ClassVar[str] = "its noise looks ahead, which is proved harmless for Laplace noise alone"
    EXACT_MEMORY: ClassVar[str] = "its memory is the exact total and the noise to come"
    branching: int = 0

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        if not self.branching:
            object.__setattr__(self, "branching", find_best_branching(self, range(3, MAX_BRANCHING + 1, 2)))
        check_whole("branching", self.branching, least=3)
        if self.branching % 2 == 0:
            raise ValueError(f"branching must be odd, got {self.branching}")
        check_noise(self)

    @property
    def max_digit(self) -> int:
        """The largest digit."""
        return (self.branching - 1) // 2

    @cached_property
    def levels(self) -> int:
        """The least h for which balanced digits reach the horizon."""
        levels = 1
        while (self.branching**levels - 1) // 2 < self.horizon:
            levels += 1
        return levels

    @cached_property
    def offset(self) -> int:
        """The shift to ordinary digits: digit d of t is digit d + half of t + offset."""
        return int(self.branching**self.levels - 1) // 2

    @cached_property
    def distribution(self) -> Distribution:
        ticks = min(self.unit.ticks, self.horizon)
        return self.loss.calibrate(l1=self.tick_sensitivity.l1 * ticks * self.levels, l2_squared=0)

    def digit(self, tick: int, level: int) -> int:
        return int((tick + self.offset) // self.branching**level % self.branching) - self.max_digit

    def count_wraps(self, tick: int) -> int:
        """Return how many of the lowest digits go from the largest to the smallest at this tick."""
        wraps = 0
        while (tick + self.offset) % self.branching ** (wraps + 1) == 0:
            wraps += 1
        return wraps

    def initial(self, width: int, noise: Noise) -> State:
        levels = np.zeros((self.levels, width), np.int64)
        ahead = np.zeros((self.levels, self.max_digit, width), np.int64)
        return State(0, np.zeros(width, np.int64), levels, ahead, np.zeros(width, np.int64))

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return a state with the draws of the blocks of the count.

        Draws of subtracted blocks are stored until they are added back.
        """
        state = self.initial(width, noise)
        for level in range(self.levels):
            digit = self.digit(tick, level)
            draws = draw_rows(self.distribution, noise, abs(digit), width)
            state.noises[level] = draws.sum(axis=0) * (1 if digit > 0 else -1)
            state.returned_blocks[level, self.max_digit + min(0, digit) :] = draws if digit < 0 else 0
        state.tick, state.total_noise = tick, state.noises.sum(axis=0)
        return state

    def redraw_future_noise(self, state: State, noise: Noise) -> None:
        fresh = self.zero_state(len(state.total), state.tick, noise)
        state.noises, state.returned_blocks, state.total_noise = fresh.noises, fresh.returned_blocks, fresh.total_noise

    def step(self, state: State, values: Ints, noise: Noise) -> Ints:
        state.tick += 1
        state.total += values
        top = self.count_wraps(state.tick)
        before = self.digit(state.tick - 1, top)
        count = top * self.max_digit + (before >= 0)
        draws = draw_rows(self.distribution, noise, count, len(values))
        for level in range(top):
            state.returned_blocks[level] = draws[level * self.max_digit : (level + 1) * self.max_digit]
            state.total_noise -= state.noises[level]
            state.noises[level] = -state.returned_blocks[level].sum(axis=0)
            state.total_noise += state.noises[level]
        move = draws[-1] if before >= 0 else state.returned_blocks[top, before + self.max_digit]
        state.noises[top] += move
        state.total_noise += move
        if before < 0:
            state.returned_blocks[top, before + self.max_digit] = 0
        release: Ints = state.total + state.total_noise
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Ints:
        releases = state.total + np.cumsum(block, axis=0)
        if not len(block):
            return releases
        shifted = np.arange(state.tick + 1, state.tick + len(block) + 1) + self.offset
        k, half = self.branching, self.max_digit
        tops = sum((shifted % k**i == 0).astype(np.int64) for i in range(1, self.levels)) + 0 * shifted
        before = (shifted - 1) // k**tops % k - half
        counts = tops * half + (before >= 0)
        first = np.cumsum(counts) - counts
        draws = draw_rows(self.distribution, noise, int(counts.sum()), block.shape[1])
        for level in range(self.levels):
            moved = np.flatnonzero(tops >= level)
            wrapped = tops[moved] > level
            noises = self._feed_level(state, level, draws, first=first[moved], wrapped=wrapped, before=before[moved])
            releases += noises[shifted // k**level - (state.tick + self.offset) // k**level]
            state.noises[level] = noises[-1]
        state.tick += len(block)
        state.total = state.total + block.sum(axis=0)
        state.total_noise = state.noises.sum(axis=0)
        return releases

    def _feed_level(self, state: State, level: int, draws: Ints, *, first: Ints, wrapped: Ints, before: Ints) -> Ints:
        """Return one level's part of the release, now and after each digit change."""
        own = first + level * self.max_digit
        returned_draws = draws[own[wrapped][:, None] + np.arange(self.max_digit)]
        ahead = np.concatenate([state.returned_blocks[level][None], returned_draws])
        cycle = np.cumsum(wrapped)
        moves = np.zeros((len(own), draws.shape[1]), np.int64)
        fresh, back = ~wrapped & (before >= 0), ~wrapped & (before < 0)
        moves[fresh] = draws[own[fresh]]
        moves[back] = ahead[cycle[back], before[back] + self.max_digit]
        sums = np.cumsum(moves, axis=0)
        bases = np.concatenate([state.noises[level][None], -returned_draws.sum(axis=1) - sums[wrapped]])
        state.returned_blocks[level] = ahead[-1]
        given = before[back & (cycle == cycle[-1])] if len(cycle) else before
        state.returned_blocks[level, given + self.max_digit] = 0
        return np.concatenate([state.noises[level][None], sums + bases[cycle]])

    def noise_at(self, tick: int) -> NoiseSum:
        draws = sum(abs(self.digit(tick, level)) for level in range(self.levels))
        return NoiseSum((Term(draws, 1, self.distribution),))

    def mean_variance(self, ticks: int) -> float:
        draws = sum(self._sum_digits(ticks, level) for level in range(self.levels))
        return draws / ticks * self.distribution.variance

    def _sum_digits(self, ticks: int, level: int) -> int:
        """Return the sum over t = 1..ticks of |digit|, counted cycle by cycle of t + offset."""
        size, half = self.branching**level, self.max_digit

        def sum_below(end: int) -> int:
            cycles, rest = divmod(end, size * self.branching)
            whole, part = divmod(rest, size)
            distances = [abs(d - half) for d in range(self.branching)]
            return int((cycles * sum(distances) + sum(distances[:whole])) * size + distances[whole] * part)

        return sum_below(ticks + self.offset + 1) - sum_below(self.offset + 1)

    def matrices(self, ticks: int) -> Strategy:
        blocks: dict[tuple[int, int], int] = {}  # (level, index) of a block -> its row of C, in drawing order
        decode = np.zeros((ticks, ticks * (self.levels + self.max_digit)))
        for t in range(1, ticks + 1):
            places = [
                (t + self.offset) // self.branching**i - self.offset // self.branching**i
                for i in range(self.levels + 1)
            ]
            for level in range(self.count_wraps(t)):
                for j in range(self.max_digit):
                    blocks.setdefault((level, places[level] + j), len(blocks))
            for level in range(self.levels):
                start, end = self.branching * places[level + 1], places[level]
                for j in range(min(start, end), max(start, end)):
                    row = blocks.setdefault((level, j), len(blocks))
                    decode[t - 1, row] = 1 if end > start else -1
        measure = np.zeros((len(blocks), ticks))
        for (level, j), row in blocks.items():
            measure[row, j * self.branching**level : (j + 1) * self.branching**level] = 1
        draws = tuple(range(len(blocks)))
        return Strategy(measure, decode[:, : len(blocks)], (self.distribution,) * len(blocks), draws)
