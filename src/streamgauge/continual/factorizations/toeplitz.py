"""Factorisations with explicit coefficients: measure on a grid, then decode.

A release at tick t approximates sum_k a_k x_(t-k). Let r be a series with r r = a (a product of series is a
convolution), nonnegative and falling. The run measures with r rounded to a grid of 2^-G,
R_k = round(2^G r_k), and decodes in floating point, which is post-processing:

    y_t = sum_k R_k x_(t-k) + z_t       exact integers modulo 2^64, z_t discrete noise on the same grid
    release = 2^-G sum_k L_k y_(t-k)    L = 2 r - 2^-G R

Without noise that is a - d d for d = r - 2^-G R, |d_k| <= 2^(-G-1). It is off by at most t 2^(-2G-2) for each unit
of sum |x| (`deviation`), 2^-30 at the longest horizon with G = 26. Totals up to 2^36 fit the 63 bits of y.

A run stores all items and all measurements: 16 bytes a tick and group, O(t) work in a step.
`feed` processes many ticks by exact convolution (see `streamgauge.continual.factorizations.convolution`).

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` over the whole horizon, even if values are chosen in view of past releases.
    Proof: an event moves y by one column of the integer matrix R. Its norm is computed in integers from
    R, not from r. y_t is drawn when tick t arrives, so that adaptive composition holds for
    discrete Gaussian noise. Entry (i, j) of R'R, i <= j, is the sum of R_u R_(u+j-i) over u up to T - j.
    R is nonnegative and falls, which the code ensures. So the entry is largest for early and near ticks.
    n ticks, with any signs, move y most if they are the first n, all up. The norm of that sum is charged.
    Wrap-around modulo 2^64 is post-processing of the exact y.
    If every item is measured by itself (R = 1), all state is noisy: pan-private at no cost,
    under any number of intrusions, announced or not.

Error
    Unbiased up to `deviation`. The variance at tick t is that of one draw times 4^-G sum_(k<t) L_k^2.
"""

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np

from streamgauge.continual.factorizations.convolution import Convolution, Floats, sum_magnitudes
from streamgauge.continual.mechanism import LinearMechanism
from streamgauge.continual.strategy import Matrix, Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term

GRID_BITS = 26
MAX_REMEMBERED_TICKS = 2**24  # the most ticks that a run stores
ROUNDING_ERROR = 2.0**-40  # of float64 in decoding, per unit of sum |x|: over a hundred times the largest measured
MAX_DIRECT_PRODUCTS = 2**19  # products per group below which decoding needs no FFT
LIMB_BITS = 18  # bits: 2^24 products of two limbs still fit 63 bits
MAX_SINGLE_WEIGHTS, WEIGHT_RANGES = (256, 128)  # weights with separate terms, and ranges that share the rest

Rows = TypeVar("Rows", Ints, Floats)


@dataclass(slots=True)
class State:
    """All state of a run, one row per tick and one column per group, with spare rows."""

    tick: int
    items: Ints = field(repr=False)  # exact: all values so far; no rows where each is measured by itself
    measurements: Floats = field(repr=False)  # noisy: all measurements so far, in grid units


@dataclass(frozen=True, eq=False)
class Factors:
    """The two factors of a workload: whole coefficients to measure, and a decoder."""

    encoder: Ints  # R, falling to 0 or longer than any stream
    decoder: Floats  # L, in units of the data
    grid: int

    @classmethod
    def from_root(cls, root: Floats) -> "Factors":
        """Return the factors of r with r r = a: nonnegative, falling."""
        grid = 2**GRID_BITS
        encoder = np.minimum.accumulate(np.maximum(np.rint(root * grid), 0)).astype(np.int64)
        return cls(encoder, 2 * root - encoder / grid, grid)

    @classmethod
    def from_items(cls, weights: Floats) -> "Factors":
        """Return every item measured by itself; all the weighting is decoding."""
        return cls(np.ones(1, np.int64), weights, 1)

    @cached_property
    def convolution(self) -> Convolution:
        return Convolution(self.encoder)

    @cached_property
    def reversed_decoder(self) -> Floats:
        """The decoder, its end first, so that each tick's part is one piece of memory."""
        return self.decoder[::-1].copy()

    def sensitivity(self, ticks: int, horizon: int) -> tuple[int, int]:
        """Return how far the first `ticks` ticks move y, in L1 and squared L2."""
        sums = np.cumsum(np.concatenate([self.encoder, np.zeros(horizon - len(self.encoder), np.int64)]))
        sums[ticks:] -= sums[:-ticks].copy()
        return sum_magnitudes(sums), sum_of_squares(sums)

    def decode_last(self, measured: Floats) -> Floats:
        newest: Floats = self.reversed_decoder[len(self.reversed_decoder) - len(measured) :] @ measured
        return newest / self.grid

    def decode_rows(self, measured: Floats, first: int) -> Floats:
        """Return decoded rows `first`, first + 1, ... of `measurements`."""
        ticks = len(measured)
        if (ticks - first) * ticks <= MAX_DIRECT_PRODUCTS:
            newest = [self.decode_last(measured[: t + 1]) for t in range(first, ticks)]
            return np.stack(newest) if newest else np.zeros((0, measured.shape[1]))
        points = 1 << (2 * ticks - first - 1).bit_length()
        spectrum = np.fft.rfft(self.decoder[:ticks] / self.grid, points)
        columns = [np.fft.irfft(np.fft.rfft(group, points) * spectrum)[first:ticks] for group in measured.T]
        return np.stack(columns, axis=1)


class Toeplitz(LinearMechanism[State]):
    """The common part of such factorisations; a claim adds settings and factors."""

    horizon: int

    @property
    def has_falling_overlaps(self) -> bool:
        return True

    @property
    @abstractmethod
    def factors(self) -> Factors: ...

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of one measurement, in grid units."""
        l1, l2_squared = self.factors.sensitivity(min(self.unit.ticks, self.horizon), self.horizon)
        return self.loss.calibrate(
            l1=self.tick_sensitivity.l1 * l1, l2_squared=self.tick_sensitivity.l2_squared * l2_squared
        )

    def deviation(self, tick: int) -> float:
        """Return how far a release without noise may be off at `tick`, per unit of the sum of |x|."""
        return (tick / (4 * self.factors.grid**2) if self._stores_items else 0.0) + ROUNDING_ERROR

    def overflow_limit(self) -> int:
        return 2**63 // self.factors.grid

    def memory(self) -> int:
        return (1 + self._stores_items) * self.horizon

    @property
    def _stores_items(self) -> bool:
        """True if exact items are stored, to be measured with later ones."""
        return self.factors.grid > 1

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, np.zeros((0, width), np.int64), np.zeros((0, width)))

    def step(self, state: State, values: Ints, noise: Noise) -> Floats:
        draw = self.distribution.draw(noise, len(values))
        before, now = state.tick, state.tick + 1
        if self._stores_items:
            state.items = grow_rows(state.items, now, self.horizon)
            state.items[before] = values
            values = self.factors.convolution.last_row(state.items[:now])
        state.measurements = grow_rows(state.measurements, now, self.horizon)
        state.measurements[before] = values + draw
        state.tick = now
        return self.factors.decode_last(state.measurements[:now])

    def feed(self, state: State, block: Ints, noise: Noise) -> Floats:
        draws = self.distribution.draw(noise, block.size).reshape(block.shape)
        before, now = state.tick, state.tick + len(block)
        if self._stores_items:
            state.items = grow_rows(state.items, now, self.horizon)
            state.items[before:now] = block
            block = self.factors.convolution.rows(state.items[:now], before)
        state.measurements = grow_rows(state.measurements, now, self.horizon)
        state.measurements[before:now] = block + draws
        state.tick = now
        return self.factors.decode_rows(state.measurements[:now], before)

    def intrude(self, state: State, noise: Noise) -> State:
        """Hand over a copy; all of it is noisy already."""
        return deepcopy(state) if self.pan_private else super().intrude(state, noise)

    def stddev(self, tick: int) -> float:
        weights = self.factors.decoder[: self.check_tick(tick)] / self.factors.grid
        return float(np.sqrt(self.distribution.variance * (weights @ weights)))

    def noise_at(self, tick: int) -> NoiseSum:
        return build_noise_sum(self.factors.decoder[:tick] / self.factors.grid, self.distribution)

    def mean_variance(self, ticks: int) -> float:
        weights = self.factors.decoder[:ticks] / self.factors.grid
        return float(weights**2 @ (1 - np.arange(ticks) / ticks)) * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        encoder = np.zeros(ticks)
        known = self.factors.encoder[:ticks]
        encoder[: len(known)] = known / self.factors.grid
        return Strategy(
            lower_triangle(encoder),
            lower_triangle(self.factors.decoder[:ticks]),
            (self.distribution,) * ticks,
            tuple(range(ticks)),
            self.factors.grid,
        )


def grow_rows(rows: Rows, needed: int, most: int) -> Rows:
    """Return the rows, moved to twice the memory if `needed` do not fit.

    The memory is never more than for `most`.
    """
    if needed <= len(rows):
        return rows
    moved = np.zeros((min(most, max(2 * needed, 64)), rows.shape[1]), rows.dtype)
    moved[: len(rows)] = rows
    return moved


def lower_triangle(column: Floats) -> Matrix:
    """Return the lower triangular Toeplitz matrix with this first column."""
    lags = np.subtract.outer(np.arange(len(column)), np.arange(len(column)))
    return np.where(lags >= 0, column[np.maximum(lags, 0)], 0.0)


def sum_of_squares(values: Ints) -> int:
    """Return the exact sum, for at most 2^24 nonnegative values below 2^54."""
    limbs = [(values >> shift) & (2**LIMB_BITS - 1) for shift in (0, LIMB_BITS, 2 * LIMB_BITS)]
    return sum(int(a @ b) << LIMB_BITS * (i + j) for i, a in enumerate(limbs) for j, b in enumerate(limbs))


def build_noise_sum(weights: Floats, distribution: Distribution) -> NoiseSum:
    """Return one draw for each weight, or fewer kinds of weights that bound them.

    Weights between two marks are moved to the marks, but for one, so that the sum of squares stays. So the
    variance is the same. Moments are no smaller, since the logarithm of the moment function of a
    draw is convex in the square of its weight.
    """
    ordered = np.sort(np.abs(weights))[::-1]
    single, rest = ordered[:MAX_SINGLE_WEIGHTS], ordered[MAX_SINGLE_WEIGHTS:]
    terms = [Term(1, float(weight), distribution) for weight in single]
    if not len(rest) or not rest[0]:
        return NoiseSum(tuple(terms))
    marks = np.geomspace(rest[0], max(rest[-1], rest[0] * 2.0**-40), WEIGHT_RANGES + 1)
    edges = np.searchsorted(-rest, -marks[1:], side="left")
    edges[-1] = len(rest)
    for high, low, begin, end in zip(marks[:-1], marks[1:], [0, *edges[:-1]], edges, strict=True):
        terms += spread_weights(rest[begin:end], float(high), float(low), distribution)
    return NoiseSum(tuple(terms), is_bound=True)


def spread_weights(weights: Floats, high: float, low: float, distribution: Distribution) -> list[Term]:
    """Return as many weights with the same sum of squares.

    All are at `high` or `low` but one.
    """
    if not len(weights):
        return []
    low = min(low, float(weights[-1]))
    squares, gap = float(weights @ weights), high**2 - low**2
    above = min(len(weights) - 1, max(0, int((squares - len(weights) * low**2) / gap))) if gap > 0 else 0
    below = len(weights) - 1 - above
    between = np.sqrt(max(0.0, squares - above * high**2 - below * low**2))
    kinds = ((above, high), (1, float(between)), (below, low))
    return [Term(count, weight, distribution) for count, weight in kinds if count]


def check_memory(horizon: int) -> None:
    """Reject a horizon that no run could remember."""
    if horizon > MAX_REMEMBERED_TICKS:
        raise ValueError(f"horizon must be at most {MAX_REMEMBERED_TICKS} (a run remembers every tick), got {horizon}")
