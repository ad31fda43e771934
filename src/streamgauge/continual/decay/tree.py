"""Decayed sums from a tree of decayed p-sums; with one level, from noisy items.

Level i cuts the stream into blocks of k^i items, i < h. A block that ends at tick e has the p-sum
sum_s a^(e-s) x_s, with a the decay. When tick t completes a block of level i (the largest i for which
k^i divides t; the top level never ends), that p-sum is released under independent noise, and

    F_t = a^(k^i) F_(t - k^i) + p-sum(t)        decoding, in floats

With h = 1 every item is a p-sum, and a run stores nothing but its last release.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole stream, of any length, even if values are chosen in view of past releases.
    Proof: weights are rounded to a grid of 2^-30, so that p-sums are integers in its points. `max_weight` is the
    most that one item adds up to in all released p-sums. It is found by enumeration over a period
    of k^(h-1) ticks, from the rounded weights. It is at most h, and less if blocks are long and weights
    have decayed. A unit of n ticks moves at most n times as much in L1 (with h = 1, n bound^2 in squared L2).
    Integers wrap modulo 2^64, which is post-processing of the exact p-sums. Sums below 2^33 never do.

Pan-privacy
    With h = 1 at no cost, and against any number of intrusions: the state is the last release.

Error
    Rounded weights change a release without noise by at most 2^-31 for each unit of sum |x|. The variance
    at t is that of one draw times the sum of a^(2(t-e)) over the blocks that tile the first t ticks.

Reference
    Noisy items: folklore. Decayed p-sums: Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed
    predicate sums on streams, ICDT 2013. They use dyadic blocks. Broad trees have less error, as for running
    counts.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, log, log1p, sqrt
from typing import ClassVar

import numpy as np

from streamgauge.continual.factorizations.encoder import BATCH_GROUPS, MAX_NARROW_GROUPS, Floats
from streamgauge.continual.factorizations.toeplitz import build_noise_sum
from streamgauge.continual.mechanism import LinearMechanism, Settings
from streamgauge.continual.strategy import Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Approx, Loss, Pure, Zcdp

GRID_BITS = 30
MAX_BLOCK_ITEMS = 2**17  # items in a block
POWER_BITS = 128  # binary places in which powers of the decay are computed
FAINT_WEIGHT = 2.0**-40  # weights below it are merged
MAX_DISTINCT_WEIGHTS = 2**14  # weights that a sum of noise distinguishes
ROUNDING_ERROR = 2.0**-40  # of floats in decoding, per unit of sum |x|


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    sums: Ints = field(repr=False)  # exact: the open blocks of levels 1 to h - 1; none with h = 1
    entries: Floats  # noisy: row i is the release at the last multiple of k^i


@dataclass(frozen=True, kw_only=True)
class DecayTree(Settings, LinearMechanism[State]):
    """Sums that decay by `decay` a tick, from a tree; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    decay: Fraction
    branching: int = 2
    levels: int = 1

    def __post_init__(self) -> None:
        if self.branching ** (self.levels - 1) > MAX_BLOCK_ITEMS:
            raise ValueError(f"levels must leave blocks of at most {MAX_BLOCK_ITEMS} items, got {self.levels}")

    @property
    def sizes(self) -> list[int]:
        return [self.branching**level for level in range(self.levels)]

    @property
    def grid_bits(self) -> int:
        return GRID_BITS if self.levels > 1 else 0

    @cached_property
    def weights(self) -> Ints:
        """round(2^30 decay^j) for j below the longest block's length; the same on every machine."""
        factor = (self.decay.numerator << POWER_BITS) // self.decay.denominator
        weights, power, shift = [], 1 << POWER_BITS, POWER_BITS - self.grid_bits
        for _ in range(self.sizes[-1]):
            weights.append((power >> (shift - 1)) + 1 >> 1)
            power = power * factor >> POWER_BITS
        return np.array(weights, np.int64)

    @cached_property
    def max_weight(self) -> int:
        """The most that one item of size 1 adds to all released p-sums, in grid points."""
        ticks = np.arange(1, self.sizes[-1] + 1)
        weights = [self._coefficients(ticks, level, released=True) for level in range(self.levels)]
        return int(np.sum(weights, axis=0).max())

    @cached_property
    def distribution(self) -> Distribution:
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        squares = ticks if self.levels == 1 else (ticks * self.max_weight) ** 2
        return self.loss.calibrate(
            l1=self.tick_sensitivity.l1 * ticks * self.max_weight, l2_squared=self.tick_sensitivity.l2_squared * squares
        )

    @cached_property
    def powers(self) -> list[float]:
        """The rest of a release after a block of each level."""
        return [decay_power(self.decay, size) for size in self.sizes]

    def find_levels(self, ticks: Ints) -> Ints:
        """Return the level of the block that each tick completes."""
        levels = np.zeros_like(ticks)
        for size in self.sizes[1:]:
            levels += ticks % size == 0
        return levels

    def _coefficients(self, ticks: Ints, level: int, *, released: bool = False) -> Ints:
        """Return the weight of each tick's item in its block of `level`.

        With `released` it is 0 if that block is never released.
        """
        ends = -(-ticks // self.sizes[level]) * self.sizes[level]
        coefficients = self.weights[ends - ticks]
        return np.where(self.find_levels(ends) == level, coefficients, 0) if released else coefficients

    def overflow_limit(self) -> int:
        return int(2**63 >> self.grid_bits)

    def deviation(self, tick: int) -> float:
        """Return how far a release without noise may be off, per unit of the sum of |x|."""
        return ROUNDING_ERROR + (2.0 ** -(GRID_BITS + 1) if self.levels > 1 else 0.0)

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros((self.levels - 1, width), np.int64), np.zeros((self.levels, width)))

    def step(self, state: State, values: Ints, noise: Noise) -> Floats:
        release: Floats = self.feed(state, values[None], noise)[0]
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Floats:
        draws = self.distribution.draw(noise, block.size).reshape(block.shape)
        ticks = np.arange(state.tick + 1, state.tick + len(block) + 1)
        levels = self.find_levels(ticks)
        measure = self._measure_rows if block.shape[1] > MAX_NARROW_GROUPS else self._measure_columns
        releases = np.empty(block.shape)
        for first in range(0, block.shape[1], BATCH_GROUPS):
            columns = slice(first, first + BATCH_GROUPS)
            measured = measure(state.sums[:, columns], block[:, columns], ticks, levels)
            measured += draws[:, columns]
            np.multiply(measured, 2.0**-self.grid_bits, out=releases[:, columns])
            decode_sums(releases[:, columns], levels, self.powers, state.entries[:, columns])
        state.tick += len(block)
        return releases

    def _measure_rows(self, sums: Ints, block: Ints, ticks: Ints, levels: Ints) -> Ints:
        """Return the p-sum that each tick completes, tick by tick; moves `sums` on."""
        measured = np.empty_like(block)
        rows = zip(block, measured, ticks.tolist(), levels.tolist(), strict=True)
        for values, result, tick, level in rows:
            for total, size in zip(sums, self.sizes[1:], strict=True):
                np.multiply(values, self.weights[-tick % size], out=result)
                np.add(total, result, out=total)
            result[:] = sums[level - 1] if level else values << self.grid_bits
            sums[:level] = 0
        return measured

    def _measure_columns(self, sums: Ints, block: Ints, ticks: Ints, levels: Ints) -> Ints:
        """Return the same for few groups, all ticks of a level at once."""
        measured = block << self.grid_bits
        for level, size in enumerate(self.sizes[1:], start=1):
            added = np.cumsum(self._coefficients(ticks, level)[:, None] * block, axis=0)
            before = np.concatenate([-sums[level - 1][None], added])
            begins = (ticks - 1) // size * size - (ticks[:1] - 1)
            totals = added - before[np.maximum(begins, 0)]
            measured[levels == level] = totals[levels == level]
            for last, end in zip(totals[-1:], ticks[-1:], strict=True):
                sums[level - 1] = last if end % size else 0
        return measured

    def intrude(self, state: State, noise: Noise) -> State:
        """With one level there is nothing to hide: the state is the last release."""
        return deepcopy(state) if self.pan_private and self.levels == 1 else super().intrude(state, noise)

    def stddev(self, tick: int) -> float:
        return sqrt(self._sum_squares(self.check_tick(tick)) * self.distribution.variance) * 2.0**-self.grid_bits

    def _sum_squares(self, tick: int) -> float:
        """Return the sum of a^(2(t-e)) over the blocks that tile the first `tick` ticks."""
        pairs = zip(self.sizes, self._count_blocks(tick), strict=True)
        return sum(decay_power(self.decay, 2 * (tick % size)) * sum_powers(self.decay, size, n) for size, n in pairs)

    def _count_blocks(self, tick: int) -> list[int]:
        """Return how many blocks of each level tile the first `tick` ticks."""
        return [tick // size % self.branching for size in self.sizes[:-1]] + [tick // self.sizes[-1]]

    def noise_at(self, tick: int) -> NoiseSum:
        """Return draws of one law; many or faint weights are merged in single draws.

        A merged draw has their sum of squares, so the variance is the same. Moments are no smaller, since the logarithm
        of a draw's moment function is convex in the square of its weight.
        """
        pairs = zip(self.sizes, self._count_blocks(tick), strict=True)
        weights = [decay_power(self.decay, tick % size) * group_weights(self.decay, size, n) for size, n in pairs]
        return build_noise_sum(np.concatenate(weights) * 2.0**-self.grid_bits, self.distribution)

    def mean_variance(self, ticks: int) -> float:
        """Return the mean variance from whole blocks of the top level, and the rest.

        Whole blocks differ only by the blocks before them.
        """
        size, squares = self.sizes[-1], self._inner_squares
        blocks, rest = divmod(ticks + 1, size)
        faded = squared_powers(self.decay, size)
        share = decay_power(self.decay, 2 * size)
        top = sum_powers(self.decay, size, blocks)
        tops = (blocks - top) / (1 - share)
        total = blocks * squares.sum() + tops * faded.sum() + squares[:rest].sum() + top * faded[:rest].sum()
        return float(total / ticks * self.distribution.variance * 4.0**-self.grid_bits)

    @cached_property
    def _inner_squares(self) -> Floats:
        """The part of `_sum_squares` of lower blocks, over one block of the top level."""
        ticks, squares = np.arange(self.sizes[-1]), np.zeros(self.sizes[-1])
        for size in self.sizes[:-1]:
            counts = [sum_powers(self.decay, size, n) for n in range(self.branching)]
            squares += squared_powers(self.decay, size)[ticks % size] * np.array(counts)[ticks // size % self.branching]
        return squares

    def matrices(self, ticks: int) -> Strategy:
        measure, decode = np.zeros((2, ticks, ticks))
        for row, level in enumerate(self.find_levels(np.arange(1, ticks + 1)).tolist()):
            size = self.sizes[level]
            measure[row, row + 1 - size : row + 1] = self.weights[:size][::-1] * 2.0**-self.grid_bits
            decode[row] = decode[row - size] * self.powers[level] if row >= size else 0.0
            decode[row, row] = 1
        draws = tuple(range(ticks))
        return Strategy(measure, decode, (self.distribution,) * ticks, draws, 2**self.grid_bits)


def decay_power(decay: Fraction, ticks: int) -> float:
    """Return decay^ticks."""
    return exp(ticks * log1p(-float(1 - decay)))


def squared_powers(decay: Fraction, ticks: int) -> Floats:
    """Return decay^(2 r) for r below `ticks`."""
    return np.asarray(np.exp(np.arange(ticks) * (2 * log1p(-float(1 - decay)))))


def sum_powers(decay: Fraction, size: int, count: int) -> float:
    """Return the sum of decay^(2 size j) for j below `count`."""
    log_ = 2 * size * log1p(-float(1 - decay))
    return expm1(count * log_) / expm1(log_)


def group_weights(decay: Fraction, size: int, count: int) -> Floats:
    """Return the weights decay^(size j), j < count.

    Many weights are merged run by run, and the faint ones in one.
    """
    if not count:
        return np.zeros(0)
    log_ = size * log1p(-float(1 - decay))
    bright = min(count, 1 + int(log(FAINT_WEIGHT) / log_))
    length = -(-bright // MAX_DISTINCT_WEIGHTS)
    begins = np.arange(0, bright, length)
    lengths = np.minimum(length, bright - begins)
    last = sqrt(sum_powers(decay, size, count) - sum_powers(decay, size, bright)) if count > bright else 0.0
    weights = np.exp(begins * log_) * np.sqrt(np.expm1(2 * lengths * log_) / np.expm1(2 * log_))
    return np.append(weights, last) if last else np.asarray(weights)


def decode_sums(noisy: Floats, levels: Ints, powers: list[float], entries: Floats) -> None:
    """Turn each row's p-sum into F_t, in place; moves `entries` on."""
    if noisy.shape[1] > MAX_NARROW_GROUPS:
        for row, level in zip(noisy, levels.tolist(), strict=True):
            entries[: level + 1] = np.add(row, powers[level] * entries[level], out=row)
        return
    for group in range(noisy.shape[1]):
        before, releases = entries[:, group].tolist(), []
        for value, level in zip(noisy[:, group].tolist(), levels.tolist(), strict=True):
            release = value + powers[level] * before[level]
            before[: level + 1] = [release] * (level + 1)
            releases.append(release)
        noisy[:, group], entries[:, group] = releases, before
