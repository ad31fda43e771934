"""Noise of a bridge for memory that can be seized, as numbers that are linear in the draws.

The same noise as that of `bridge`, laid out for a look. With K_i blocks of level i in a block of the top level, and a
block's noise E in units of 1/K_(i+1):

    share of its children   c = E - K_(i+1) sum of their draws
    noise of a child        K_i draw + c, in units of 1/K_i

An event in a block moves E and the draws alike, so that c stays. Draws are overwritten when their child begins, and so
is everything that a step computes on its way. All is linear in the draws, as the audit of memory requires.

Numbers of 64 bits hold K_0 noises of MAX_DEVIATIONS standard errors. The proof fails if one is larger, with probability
below that of guessing a key of 256 bits. Longer blocks are refused, and not chosen.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod, sqrt

import numpy as np

from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.strategy import Matrix
from streamgauge.continual.trees.bridge import Bridge
from streamgauge.continual.trees.bridge_tree import find_shapes, parse_radices
from streamgauge.continual.trees.endless_bridge import EndlessBridge, find_epoch_radices
from streamgauge.memory import WipedArrays
from streamgauge.noise import Distribution, Ints, Noise, Term
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import AdditiveLoss, Sensitivity, parse_rational

FIRST_EPOCH_TICKS, EPOCH_GROWTH = EndlessBridge.first, EndlessBridge.growth
EPOCH_SHARE = parse_rational(EndlessBridge.split)  # of the loss
MAX_GROWTH_STEPS = 22  # then epochs of 2^49 ticks follow each other
MAX_DEVIATIONS = 2**10
MAX_NUMERATOR = 2**61


@dataclass(slots=True)
class MixedNumbers:
    """Numbers whole + rest/span with 0 <= rest < span, one for each group.

    One number has one such form. So a reader of the memory sees whole * span + rest, and no more.
    """

    whole: Ints = field(repr=False)  # modulo 2^64
    rest: Ints = field(repr=False)
    span: int

    @property
    def is_normal(self) -> bool:
        return bool(((self.rest >= 0) & (self.rest < self.span)).all())

    def add(self, numerators: Ints) -> None:
        """Add so many parts of 1/span."""
        self.rest += numerators
        with WipedArrays() as secret:
            self.whole += secret(self.rest // self.span)
        self.rest %= self.span

    def to_numerators(self) -> Ints:
        """Return the numbers in parts of 1/span, modulo 2^64."""
        return self.whole * np.int64(self.span) + self.rest


@dataclass(slots=True)
class PastNoiseState:
    """Noise of open blocks, one column per group."""

    draws: Ints = field(repr=False)  # secret noise: of children that have not begun, level by level
    shares: Ints = field(repr=False)  # secret noise: c of the open block's children, one row a level


@dataclass(frozen=True)
class PastNoise:
    """The noise of a bridge, item by item."""

    bridge: Bridge

    def initial(self, width: int) -> PastNoiseState:
        radices = self.bridge.radices
        return PastNoiseState(np.zeros((sum(radices), width), np.int64), np.zeros((len(radices), width), np.int64))

    def count_draws(self, tick: int) -> int:
        """Return how many draws are made for the item after `tick` ticks."""
        begun = self.bridge.begun_level(tick)
        return (begun == self.bridge.levels - 1) + sum(self.bridge.radices[:begun])

    def add_item(self, state: PastNoiseState, tick: int, total: MixedNumbers, noise: Noise) -> None:
        """Add the noise of the item after `tick` ticks to a sum, and forget it."""
        bridge, width = self.bridge, len(total.whole)
        begun = bridge.begun_level(tick)
        with WipedArrays() as secret:
            top = secret(draw_rows(bridge.top_distribution, noise, int(begun == bridge.levels - 1), width))
            draws = secret(draw_rows(bridge.distribution, noise, sum(bridge.radices[:begun]), width))
            block, drawn = top[0] if len(top) else secret(self._take_child(state, tick, begun)), 0
            for level in reversed(range(begun)):
                children = draws[drawn : drawn + bridge.radices[level]]
                drawn += len(children)
                sums = secret(children.sum(axis=0))
                sums *= bridge.span // bridge.sizes[level + 1]
                np.subtract(block, sums, out=state.shares[level])
                state.draws[bridge.rows[level]] = children
                block = secret(self._take_child(state, tick, level))
            total.add(block)

    def _take_child(self, state: PastNoiseState, tick: int, level: int) -> Ints:
        """Return the noise of the block of a level that begins, and overwrite its draw."""
        bridge = self.bridge
        row = bridge.rows[level].start + tick // bridge.sizes[level] % bridge.radices[level]
        found: Ints = state.draws[row] * np.int64(bridge.span // bridge.sizes[level])
        found += state.shares[level]
        state.draws[row] = 0
        return found


@dataclass(slots=True)
class PastPrivateSums:
    """Running sums with the noise of all ticks that have begun, and noise of ticks to come."""

    tick: int  # ticks that have begun
    sum: MixedNumbers  # noisy: the values so far and their noise
    ahead: PastNoiseState  # secret noise: of ticks to come


@dataclass(frozen=True)
class BridgedEpoch:
    """Ticks with a bridge of their own."""

    number: int
    begin: int
    noise: PastNoise

    @property
    def end(self) -> int:
        return self.begin + self.noise.bridge.span


@dataclass(frozen=True)
class NoiseAhead:
    """The noise of running sums: of one sequence of blocks up to a horizon, or of epochs that grow.

    `loss` is that of one tick, whose vector moves by `moved`.
    """

    loss: AdditiveLoss
    moved: Sensitivity
    horizon: int | None
    given: tuple[int, ...] | None = None

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """The radices of least mean variance over the horizon, unless they are given."""
        if self.given is not None:
            radices = parse_radices(self.given)
            if not self._fits(radices):
                raise ValueError(f"radices must have a product below 2^61 noises, got {radices}")
            return radices
        shapes = list(filter(self._fits, find_shapes(self.horizon or 1)))
        self._check_noise(bool(shapes))
        return min(shapes, key=lambda shape: self._build_bridge(shape).sum_variances(self.horizon or 1))

    def _check_noise(self, fits: bool) -> None:
        if not fits:
            raise ValueError(f"loss must leave noise that 64 bits hold {MAX_DEVIATIONS} times, got {self.loss!r}")

    def _fits(self, radices: tuple[int, ...]) -> bool:
        law = self._build_bridge(radices).top_distribution
        return prod(radices) * sqrt(law.variance) * MAX_DEVIATIONS < MAX_NUMERATOR

    def _calibrate(self, levels: int, loss: AdditiveLoss) -> Distribution:
        return loss.calibrate(l1=self.moved.l1 * levels, l2_squared=self.moved.l2_squared * levels)

    def _build_bridge(self, radices: tuple[int, ...]) -> Bridge:
        if self.horizon is not None:
            law = self._calibrate(len(radices) + 1, self.loss)
            return Bridge(radices, law, law)
        inner = self._calibrate(len(radices), self.loss.part(1 - EPOCH_SHARE))
        return Bridge(radices, inner, self._calibrate(1, self.loss.part(EPOCH_SHARE)))

    @cached_property
    def _epochs(self) -> tuple[BridgedEpoch, ...]:
        first = find_epoch_radices(FIRST_EPOCH_TICKS) if self.horizon is None else self.radices
        self._check_noise(self._fits(first))
        return (BridgedEpoch(0, 0, PastNoise(self._build_bridge(first))),)

    def epoch(self, tick: int) -> BridgedEpoch:
        """Return the epoch that `tick` (from 1) is in: the only one, if there is a horizon.

        An epoch follows from the one before alone. Threads share a claim: each stores a whole tuple, and all are alike.
        """
        known = self._epochs
        while self.horizon is None and tick > known[-1].end:
            last = known[-1]
            length = FIRST_EPOCH_TICKS * EPOCH_GROWTH ** min(last.number + 1, MAX_GROWTH_STEPS)
            while not self._fits(find_epoch_radices(length)):
                length //= EPOCH_GROWTH
            bridge = self._build_bridge(find_epoch_radices(length))
            known = (*known, BridgedEpoch(last.number + 1, last.end, PastNoise(bridge)))
            self.__dict__["_epochs"] = known
        return known[0] if self.horizon is not None else next(e for e in reversed(known) if tick > e.begin)

    def initial(self, width: int) -> PastPrivateSums:
        noise = self.epoch(1).noise
        zeros = np.zeros((2, width), np.int64)
        return PastPrivateSums(0, MixedNumbers(zeros[0], zeros[1], noise.bridge.span), noise.initial(width))

    def begin_tick(self, state: PastPrivateSums, noise: Noise) -> None:
        """Add the noise of the next tick to the sum."""
        epoch = self.epoch(state.tick + 1)
        if state.tick and state.tick == epoch.begin:
            state.ahead = epoch.noise.initial(len(state.sum.whole))
            state.sum.span = epoch.noise.bridge.span  # the rest is 0, since all bridges have ended
        if state.sum.span != epoch.noise.bridge.span:
            raise ValueError(f"state must be in units of 1/{epoch.noise.bridge.span}, got 1/{state.sum.span}")
        epoch.noise.add_item(state.ahead, state.tick - epoch.begin, state.sum, noise)
        state.tick += 1

    def list_terms(self, tick: int) -> tuple[Term, ...]:
        """Return the draws in the noise of the first `tick` ticks, with their weights."""
        epoch = self.epoch(tick)
        bridge = epoch.noise.bridge
        return (Term(epoch.number, 1, bridge.top_distribution), *bridge.list_terms(tick - epoch.begin))

    def sum_variances(self, ticks: int) -> float:
        """Return the sum of the variances after 1, 2, ..., `ticks` ticks."""
        total, done = 0.0, 0
        while done < ticks:
            epoch = self.epoch(done + 1)
            bridge, inside = epoch.noise.bridge, self._count_inside(epoch, ticks)
            total += bridge.sum_variances(inside) + inside * epoch.number * bridge.top_distribution.variance
            done += inside
        return total

    def _count_inside(self, epoch: BridgedEpoch, ticks: int) -> int:
        """Return how many of so many ticks are in an epoch that begins among them."""
        return (ticks if self.horizon is not None else min(ticks, epoch.end)) - epoch.begin

    def count_numbers(self, ticks: int) -> int:
        """Return the numbers that a group has in the epoch of a tick, the largest so far."""
        radices = self.epoch(ticks).noise.bridge.radices
        return sum(radices) + len(radices) + 2

    def build_matrices(self, ticks: int) -> tuple[Matrix, Matrix, list[Distribution], list[int]]:
        """Return blocks, weights and laws of all draws in order, and the number of draws of each tick."""
        blocks, weights = [np.zeros((0, ticks))], [np.zeros((ticks, 0))]
        laws: list[Distribution] = []
        counts: list[int] = []
        while len(counts) < ticks:
            epoch = self.epoch(len(counts) + 1)
            inside = slice(epoch.begin, epoch.begin + self._count_inside(epoch, ticks))
            measure, decode, more = epoch.noise.bridge.build_matrices(inside.stop - inside.start)
            blocks.append(np.zeros((len(more), ticks)))
            weights.append(np.zeros((ticks, len(more))))
            blocks[-1][:, inside], weights[-1][inside], weights[-1][inside.stop :] = measure, decode, decode[-1]
            laws += more
            counts += [epoch.noise.count_draws(tick) for tick in range(inside.stop - inside.start)]
        return np.concatenate(blocks), np.concatenate(weights, axis=1), laws, counts


def to_floats(total: MixedNumbers) -> Floats:
    """Return the numbers as floats, which only post-processes them."""
    values: Floats = total.whole + total.rest / total.span
    return values
