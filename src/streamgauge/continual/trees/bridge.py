"""Noise of a bridge: the noise of each block's items ends exactly at the noise of the block.

The geometry and the draws of `BridgeTree`, without the sum that they protect. A block of level i + 1 has
`radices[i]` children of level i, and items are blocks of level 0. Blocks of the top level follow each other for ever.

    noise of a block of the top level: one draw
    noise of a child of a block b:     its own draw + (noise of b - sum of the draws of all children of b) / k

So the noises of the children of b sum to that of b, and the path of noise inside b is a bridge between its ends.

Exact arithmetic
    A block of level i has its noise in units of 1/K_i, K_i the number of blocks of level i in one of the top level. It
    is stored as a whole part modulo 2^64 and a rest in [0, K_i). With b's noise w + r/K and S the sum of the draws,
    the share of a child is divided as (w - S) = k q + p: it is q + (K p + r)/(K k). An event in b moves w and S
    alike modulo 2^64. So it moves no share, and no rest, whatever wraps around.

Memory
    The noises of children that have not begun, of open blocks. They are overwritten with 0 when their child begins, and
    draws when the step ends, unless `is_wiped` is false. That is for claims whose memory is exact anyway. The sum of
    noise so far is a whole part and a rest, which is below K_0 whenever a block of level 1 begins. An event moves the
    whole part by -D, and nothing else in memory after its tick.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import Any

import numpy as np

from streamgauge.continual.mechanism import draw_rows, draw_sum
from streamgauge.memory import WipedArrays
from streamgauge.noise import Distribution, Ints, Noise, Term
from streamgauge.noise.coerce import Floats

MAX_RESTS = 2**62  # the most that a sum of rests reaches: 64 bits have to hold it
PART_GROUPS = 2**15  # groups that a step advances at once: their numbers fit in a processor's cache


Weighed = tuple[Ints, Floats]  # numbers of draws and their weight, tick by tick


@dataclass(slots=True)
class BridgeState:
    """Noise of the open blocks and of the items so far, one column per group."""

    children: Ints = field(repr=False)  # secret noise: of blocks that have not begun, level by level, whole parts
    rests: Ints = field(repr=False)  # secret noise: their rests, which siblings share; row i is level i
    whole: Ints = field(repr=False)  # secret noise: the sum over all items so far, whole part
    rest: Ints = field(repr=False)  # secret noise: its rest, in units of an item

    def select(self, part: slice) -> "BridgeState":
        """Return some of the groups, as views."""
        return BridgeState(self.children[:, part], self.rests[:, part], self.whole[part], self.rest[part])


@dataclass(frozen=True)
class Bridge:
    """Blocks of these radices, the lowest level first, and the laws of their draws."""

    radices: tuple[int, ...]
    distribution: Distribution
    top_distribution: Distribution  # of blocks of the top level
    is_wiped: bool = True

    @property
    def levels(self) -> int:
        return len(self.radices) + 1

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Ticks of a block of each level."""
        return tuple(accumulate(self.radices, mul, initial=1))

    @property
    def span(self) -> int:
        """Ticks of a block of the top level, and the denominator of all noise."""
        return prod(self.radices)

    @cached_property
    def rows(self) -> tuple[slice, ...]:
        """Rows of `children` of level 0, 1, ..."""
        return tuple(slice(a, b) for a, b in pairwise(accumulate(self.radices, initial=0)))

    def begun_level(self, tick: int) -> int:
        """Return the level of the largest block that begins after `tick` ticks."""
        level = 0
        while level + 1 < self.levels and tick % self.sizes[level + 1] == 0:
            level += 1
        return level

    def initial(self, width: int) -> BridgeState:
        shapes = (sum(self.radices), width), (self.levels - 1, width), width, width
        return BridgeState(*(np.zeros(shape, np.int64) for shape in shapes))

    def step(self, state: BridgeState, tick: int, noise: Noise) -> None:
        """Add the noise of the item after `tick` ticks to the sum."""
        for _ in self.step_parts(state, tick, noise):
            pass

    def step_parts(self, state: BridgeState, tick: int, noise: Noise) -> Iterator[slice]:
        """Do the same, and yield each part of the groups as soon as it is done."""
        width, begun = len(state.whole), self.begun_level(tick)
        with WipedArrays() as secret:
            tops = draw_rows(self.top_distribution, noise, int(begun == self.levels - 1), width)
            draws = draw_rows(self.distribution, noise, sum(self.radices[:begun]), width)
            if self.is_wiped:
                secret(tops), secret(draws)
            for first in range(0, width, PART_GROUPS):
                part = slice(first, first + PART_GROUPS)
                self._advance(state.select(part), tick, tops[:, part], draws[:, part])
                yield part

    def _advance(self, state: BridgeState, tick: int, tops: Ints, draws: Ints) -> None:
        """Begin all blocks that do at this tick, from their draws."""
        begun = self.begun_level(tick)
        if begun:
            self.carry(state)
            block: tuple[Ints, Any] = (tops[0], 0) if len(tops) else self._take_child(state, tick, begun)
        for level in reversed(range(begun)):
            own = draws[sum(self.radices[level + 1 : begun]) :][: self.radices[level]]
            share, state.rests[level] = self._divide(level, block, own.sum(axis=0))
            np.add(own, share, out=state.children[self.rows[level]])
            if level:
                block = self._take_child(state, tick, level)
        if self.levels == 1:
            state.whole += tops[0]
            return
        row = tick % self.radices[0]
        state.whole += state.children[row]
        if self.is_wiped:
            state.children[row] = 0
        state.rest += state.rests[0]

    def _take_child(self, state: BridgeState, tick: int, level: int) -> tuple[Ints, Ints]:
        """Return the noise of the block of a level that begins, and overwrite it."""
        row = self.rows[level].start + tick // self.sizes[level] % self.radices[level]
        whole = state.children[row].copy()
        state.children[row] = 0
        return whole, state.rests[level]

    def carry(self, state: BridgeState) -> None:
        """Make the rest of the sum smaller than 1."""
        carry = state.rest // self.span
        state.whole += carry
        state.rest -= carry * np.int64(self.span)

    def _divide(self, level: int, block: tuple[Ints, Any], drawn: Ints) -> tuple[Ints, Ints]:
        """Return the share of each child, of `level`, of the block's noise less the children's draws."""
        share = (block[0] - drawn) // self.radices[level]
        left = block[0] - drawn - share * self.radices[level]
        return share, left * (self.span // self.sizes[level + 1]) + block[1]

    def feed(self, state: BridgeState, tick: int, ticks: int, noise: Noise) -> tuple[Ints, Ints]:
        """Return whole part and rest of the sum after each of so many further items."""
        pieces = [self._feed_piece(state, begin, end - begin, noise) for begin, end in self._split(tick, tick + ticks)]
        if len(pieces) == 1:
            return pieces[0]
        empty = np.zeros((0, len(state.whole)), np.int64)
        return np.concatenate([empty, *(p[0] for p in pieces)]), np.concatenate([empty, *(p[1] for p in pieces)])

    def _split(self, tick: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield pieces in which rests do not overflow, and top blocks with a law of their own come first."""
        most = max(1, MAX_RESTS // self.span - 1)
        while tick < end:
            own = end if self.top_distribution == self.distribution else tick - tick % self.span + self.span
            stop = min(end, own, tick + most)
            yield tick, stop
            tick = stop

    def _feed_piece(self, state: BridgeState, tick: int, ticks: int, noise: Noise) -> tuple[Ints, Ints]:
        top, end = self.levels - 1, tick + ticks
        draws = self._draw(tick, end, len(state.whole), noise)
        begun = self._list_begun(top, tick, end)
        wholes: Ints = draws[self._place_draws(top, begun * self.span, tick) - 1]
        rests = np.zeros_like(wholes)
        for level in reversed(range(top)):
            wholes, rests = self._feed_level(state, level, (wholes, rests), draws, tick=tick, end=end)
        wholes[0] += state.whole
        np.cumsum(wholes, axis=0, out=wholes)
        if self.span > 1:
            rests[0] += state.rest
            np.cumsum(rests, axis=0, out=rests)
            carries = rests // self.span
            wholes += carries
            carries *= self.span
            rests -= carries
        state.whole, state.rest = wholes[-1].copy(), rests[-1].copy()
        return wholes, rests

    def _list_begun(self, level: int, tick: int, end: int) -> Ints:
        """Return the indices of the blocks of a level that begin in [tick, end)."""
        size = self.sizes[level]
        return np.arange(-(-tick // size), -(-end // size), dtype=np.int64)

    def _draw(self, tick: int, end: int, width: int, noise: Noise) -> Ints:
        """Return all draws of these ticks in the order of steps."""
        counts = [len(self._list_begun(level, tick, end)) for level in range(self.levels)]
        count = sum(k * begun for k, begun in zip(self.radices, counts[1:], strict=True))
        if self.top_distribution == self.distribution:
            return draw_rows(self.distribution, noise, count + counts[-1], width)
        tops = draw_rows(self.top_distribution, noise, counts[-1], width)
        return np.concatenate([tops, draw_rows(self.distribution, noise, count, width)])

    def _place_draws(self, level: int, begins: Ints, tick: int) -> Ints:
        """Return the row of the first child's draw of blocks that begin at these ticks."""
        places = begins // self.span + 1 - -(-tick // self.span)
        for each, k in enumerate(self.radices, start=1):
            size = self.sizes[each]
            places = places + k * (begins // size + int(each > level) - -(-tick // size))
        return places

    def _feed_level(
        self, state: BridgeState, level: int, blocks: tuple[Ints, Ints], draws: Ints, *, tick: int, end: int
    ) -> tuple[Ints, Ints]:
        """Return the noise of the blocks of `level` that begin, from that of their parents that do."""
        k, width = self.radices[level], len(state.whole)
        parents, children = self._list_begun(level + 1, tick, end), self._list_begun(level, tick, end)
        places = self._place_draws(level + 1, parents * self.sizes[level + 1], tick)
        own = draws[places[:, None] + np.arange(k)]
        shares, rests = self._divide(level, blocks, own.sum(axis=1))
        own += shares[:, None]
        first = tick // self.sizes[level + 1]  # the oldest open parent
        if tick % self.sizes[level + 1]:
            own = np.concatenate([state.children[self.rows[level]][None], own])
            rests = np.concatenate([state.rests[level][None], rests])
        flat = own.reshape(-1, width)
        if not len(own):
            return flat, rests
        begun = slice(-(-tick // self.sizes[level]) - first * k, -(-end // self.sizes[level]) - first * k)
        found = flat[begun].copy(), rests[children // k - first]
        flat[begun] = 0
        state.children[self.rows[level]], state.rests[level] = own[-1], rests[-1]
        return found

    def zero_state(self, width: int, tick: int, noise: Noise) -> BridgeState:
        """Return the state after `tick` items, in law: draws of past and open blocks alone."""
        state, (tops, inside) = self.initial(width), divmod(tick, self.span)
        state.whole += draw_sum(self.top_distribution, noise, tops, width)
        if inside:
            block: tuple[Ints, Any] = draw_rows(self.top_distribution, noise, 1, width)[0], 0
            for level in reversed(range(self.levels - 1)):
                block = self._open_at(state, level, block, inside, noise)
                inside %= self.sizes[level]
                if not inside:
                    break
        return state

    def _open_at(
        self, state: BridgeState, level: int, block: tuple[Ints, Any], inside: int, noise: Noise
    ) -> tuple[Ints, Ints]:
        """Draw the children of a block so many ticks after it began; return the noise of the open one.

        Children that have ended are in the sum.
        """
        ended, open_ticks = divmod(inside, self.sizes[level])
        draws = draw_rows(self.distribution, noise, self.radices[level], len(state.whole))
        share, rest = self._divide(level, block, draws.sum(axis=0))
        draws += share
        for child in draws[:ended]:
            state.whole += child
            state.rest += rest * np.int64(self.sizes[level])
            self.carry(state)
        block = draws[min(ended, len(draws) - 1)].copy(), rest
        draws[: ended + (open_ticks > 0)] = 0
        state.children[self.rows[level]], state.rests[level] = draws, rest
        return block

    def list_terms(self, tick: int) -> tuple[Term, ...]:
        """Return the draws in the noise of the first `tick` items, with their weights."""
        place, part, terms = tick - 1, 1.0, []
        for level, k in enumerate(self.radices):
            ended = place // self.sizes[level] % k
            mean = (ended + part) / k
            terms += [Term(count, weight, self.distribution) for count, weight in weigh_children(ended, part, mean, k)]
            part = mean
        tops = Term(place // self.span, 1, self.top_distribution), Term(1, part, self.top_distribution)
        return (*terms, *tops)

    def weigh_window(self, start: Ints, end: Ints) -> tuple[list[Weighed], list[Weighed]]:
        """Return counts and weights of the draws in the noise of the items from `start` + 1 to `end`.

        First those of inner blocks, then those of the top level. All start at 1 or later.
        """
        first, last, inner = start - 1, end - 1, list[Weighed]()
        before = now = np.ones(len(start))
        for level, k in enumerate(self.radices):
            old, new = (place // self.sizes[level] % k for place in (first, last))
            old_mean, new_mean = (old + before) / k, (new + now) / k
            mean, apart = new_mean - old_mean, first // self.sizes[level + 1] != last // self.sizes[level + 1]
            alone = *weigh_children(new, now, new_mean, k), *weigh_children(old, before, old_mean, k)
            shared = (old, -mean), (k - new - 1, -mean), *weigh_between(old, new, before, now, mean)
            inner += [(count * apart, weight) for count, weight in alone]
            inner += [(count * ~apart, weight) for count, weight in shared]
            before, now = old_mean, new_mean
        return inner, list(weigh_between(first // self.span, last // self.span, before, now, 0 * now))

    def sum_variances(self, ticks: int) -> float:
        """Return the sum of the variances after 1, 2, ..., `ticks` items."""
        tops, rest = divmod(ticks, self.span)
        ends = self.span * (tops * (tops - 1) // 2) + rest * tops
        paths = tops * sum_squares(self.span, self.span) + sum_squares(rest, self.span)
        whole, part = 0.0, 0.0
        for k, size in zip(self.radices, self.sizes, strict=False):
            ended, inside = divmod(rest % (size * k), size)
            whole, part = (
                sum_bridges(k, k, size) + k * whole,
                sum_bridges(ended, k, size) + ended * whole + add_bridge(ended, inside, k, size) + part,
            )
        return (ends + paths) * self.top_distribution.variance + (tops * whole + part) * self.distribution.variance

    def build_matrices(self, ticks: int) -> tuple[Floats, Floats, list[Distribution]]:
        """Return blocks and weights of all draws in `ticks` ticks, in drawing order, and their laws."""
        blocks: list[tuple[int, int]] = []  # (level, index)
        weights: list[dict[int, float]] = []  # of the draws in each item's noise
        open_draws: list[list[int]] = [[] for _ in self.radices]
        shares: list[dict[int, float]] = [{} for _ in self.radices]
        for tick in range(ticks):
            begun = self.begun_level(tick)
            if begun == self.levels - 1:
                block = {len(blocks): 1.0}
                blocks.append((begun, tick // self.span))
            else:
                block = self._weigh_child(begun, tick, open_draws, shares)
            for level in reversed(range(begun)):
                k, first = self.radices[level], tick // self.sizes[level]
                open_draws[level] = list(range(len(blocks), len(blocks) + k))
                blocks += [(level, first + child) for child in range(k)]
                shares[level] = {draw: weight / k for draw, weight in block.items()}
                shares[level] |= dict.fromkeys(open_draws[level], -1 / k)
                block = self._weigh_child(level, tick, open_draws, shares)
            weights.append(block)
        measure, decode = np.zeros((len(blocks), ticks)), np.zeros((ticks, len(blocks)))
        for row, (level, index) in enumerate(blocks):
            measure[row, index * self.sizes[level] : (index + 1) * self.sizes[level]] = 1
        for tick, block in enumerate(weights):
            decode[tick, list(block)] = list(block.values())
        laws = [self.top_distribution if level == self.levels - 1 else self.distribution for level, _ in blocks]
        return measure, np.cumsum(decode, axis=0), laws

    def _weigh_child(
        self, level: int, tick: int, open_draws: list[list[int]], shares: list[dict[int, float]]
    ) -> dict[int, float]:
        own = open_draws[level][tick // self.sizes[level] % self.radices[level]]
        return {draw: weight + (draw == own) for draw, weight in shares[level].items()}


def to_release(whole: Ints, rest: Ints, span: int) -> Floats:
    """Return whole + rest/span, which only post-processes both. The rest may be negative, or 1 and more.

    `whole` is a noisy integer, never an exact sum or noise alone: the rounding of a sum of floats would show both.
    """
    release: Floats = rest / span
    release += whole
    return release


def weigh_children(ended: Any, part: Any, mean: Any, k: int) -> tuple[Any, Any, Any]:
    """Return counts and weights of a block's k draws, when so many children have ended, and part of the next."""
    return (ended, 1 - mean), (ended * 0 + 1, part - mean), (k - ended - 1, -mean)


def weigh_between(
    old: Ints, new: Ints, before: Floats, now: Floats, mean: Floats
) -> tuple[Weighed, Weighed, Weighed, Weighed]:
    """Return the same of the children from the old one to the new, of which these parts are past."""
    same = old == new
    rest = (~same, 1 - before - mean), (~same, now - mean), ((new - old - 1) * ~same, 1 - mean)
    return (same, now - before - mean), *rest


def sum_squares(ticks: int, size: int) -> float:
    """Return the sum over t = 1..ticks of (t/size)^2."""
    return ticks * (ticks + 1) * (2 * ticks + 1) / (6 * size**2)


def sum_bridges(children: int, k: int, size: int) -> float:
    """Return the summed variances, at all ticks of the first children of a block, that the k draws add."""
    firsts = children * (children - 1) // 2
    squares = (children - 1) * children * (2 * children - 1) // 6
    ends = size * (firsts - squares / k)
    return ends + children * sum_squares(size, size) * (1 - 1 / k) - firsts / k * (size + 1)


def add_bridge(ended: int, ticks: int, k: int, size: int) -> float:
    """Return the same for the first ticks of one child after so many that have ended."""
    ends = ticks * (ended - ended**2 / k)
    return ends + sum_squares(ticks, size) * (1 - 1 / k) - ended / k * ticks * (ticks + 1) / size
