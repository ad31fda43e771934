"""Calibration, grid, error and step of factorisations with exponentials.

A run releases B (C x + z). It draws z, correlates it (see `encoder`, which has the proof), adds it to
the items and sums those up. The grid has 2^G points to the unit, with G such that the noise has a
standard deviation of about 2^42 points. So the charged rounding is invisible.

    |C D| + W sqrt(T g)     charged: `bound` in L2, 2^G times the certified norm of C, plus the rounding

Over all groups |C D|^2 = sum_st (C'C)_st <d_s, d_t> for the moves d_t of the ticks. C'C >= 0 and
|d_t|^2 <= l2_squared, so that this is at most l2_squared times the effect of one number moved by 1.

Rounding: the demands r_t of both worlds differ by at most W more than ideal ones do, at T ticks of each of the g
groups in which the streams differ. They are the same in all others. Moves are whole numbers, so that one of
l2_squared is in at most as many groups, and in at most `coordinates` of its Sensitivity. g is the less of both,
for each of the n ticks that a unit touches.
"""

import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, log, log2, sqrt
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.factorizations.encoder import (
    BATCH_GROUPS,
    MAX_BUFFER_BITS,
    MAX_NARROW_GROUPS,
    Encoder,
    NoiseBuffers,
    NoiseResponse,
    correlate,
    rounding_width,
)
from streamgauge.continual.factorizations.toeplitz import lower_triangle
from streamgauge.continual.mechanism import LinearMechanism
from streamgauge.continual.run import LimitExceededError
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.validation import check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Zcdp
from streamgauge.privacy.rationals import sqrt_up

MAX_STDDEV_BITS = 43  # the noise has a standard deviation below 2^MAX_STDDEV_BITS grid points
MAX_GRID_BITS = 60
MIN_STDDEV_BITS = 20  # and not below 2^MIN_STDDEV_BITS
MIN_THREADED_PIECES = 4  # pieces that are worth threads
MAX_OVERFLOW_LOG2 = -256.0  # log2 of the chance of guessing the keystream's key
SMOOTHING_DEVIATIONS = 60.0  # see `CorrelatedMechanism.noise_at`

Floats = npt.NDArray[np.float64]


class CorrelatedState(Protocol):
    tick: int
    buffers: NoiseBuffers


S = TypeVar("S", bound=CorrelatedState)


class ReleaseError(Protocol):
    """The variances of releases, for draws of variance 1."""

    def variance(self, tick: int) -> float: ...

    def mean_variance(self, ticks: int) -> float: ...


class CorrelatedMechanism(LinearMechanism[S], Generic[S]):
    """A factorisation whose encoder is a sum of exponentials."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Zcdp, Approx)
    LOSSES_REASON: ClassVar[str] = "its columns are short in L2 only, which Laplace noise does not use"
    EXACT_MEMORY: ClassVar[str] = "its buffers, with the releases, tell the exact items"

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """C."""

    @property
    @abstractmethod
    def last_tick(self) -> int:
        """The T over which norms are computed and rounding is charged."""

    @property
    def decay_factor(self) -> Fraction:
        """The rest of an item after a tick: all of it in running sums."""
        return Fraction(1)

    @abstractmethod
    def decode(self, state: S, columns: slice, block: Ints, correlated: Ints, out: Floats) -> None:
        """Write the releases of some groups, for values x, one row per tick, and their noise u."""

    def check(self) -> None:
        """Reject settings that make no claim, or noise too wide for the buffers."""
        check_settings(self, bounded=False)
        if self.sensitivity**2 * 4**MAX_GRID_BITS < 2 * self.loss.additive_loss.amount * 4**MIN_STDDEV_BITS:
            raise ValueError(
                f"loss must leave noise of at least 2^{MIN_STDDEV_BITS - MAX_GRID_BITS} units, got {self.loss!r}"
            )
        if not self.overflow < MAX_OVERFLOW_LOG2:
            got = f"{self.bound} with {self.loss!r}"
            raise ValueError(f"bound must be small enough for noise below 2^{MAX_STDDEV_BITS} units, got {got}")

    @cached_property
    def sensitivity(self) -> Fraction:
        """The most that one unit moves C x, in L2 and units of the data, rounded up."""
        ticks = min(self.unit.ticks, self.last_tick)
        return sqrt_up(self.tick_sensitivity.l2_squared) * sqrt_up(self.norm_squared(ticks))

    def norm_squared(self, ticks: int) -> Fraction:
        """Return a bound on the squared norm of the sum of any `ticks` columns of C."""
        return self.encoder.norm_squared(ticks, self.last_tick)

    @cached_property
    def grid_bits(self) -> int:
        """G: as fine as MAX_STDDEV_BITS allows."""
        return self.find_grid_bits(self.sensitivity)

    def find_grid_bits(self, sensitivity: Fraction) -> int:
        variance = sensitivity**2 / (2 * self.loss.additive_loss.amount)
        bits = MAX_GRID_BITS
        while bits and variance * 4**bits >= 4**MAX_STDDEV_BITS:
            bits -= 1
        return bits

    @cached_property
    def slack(self) -> Fraction:
        """W sqrt(T g), in grid points: the sensitivity that rounding adds."""
        ticks = min(self.unit.ticks, self.last_tick)
        groups = ticks * min(ceil(self.tick_sensitivity.l2_squared), self.tick_sensitivity.coordinates)
        return rounding_width(self.encoder) * sqrt_up(Fraction(self.last_tick * groups))

    @cached_property
    def grid_sensitivity(self) -> Fraction:
        """The move that draws have to hide, in grid points: sensitivity and slack."""
        return self.sensitivity * (1 << self.grid_bits) + self.slack

    @cached_property
    def distribution(self) -> Distribution:
        """The noise z of one tick, in grid points."""
        return self.loss.calibrate(l1=self.grid_sensitivity, l2_squared=ceil(self.grid_sensitivity**2))

    @cached_property
    def response(self) -> NoiseResponse:
        return NoiseResponse(self.encoder, float(1 - self.decay_factor))

    @property
    def error(self) -> ReleaseError:
        """The noise of releases."""
        return self.response

    def decoding_drift(self, tick: int) -> float:
        """Return how far roundings after the noise move a release, in grid points."""
        return 0.0

    @cached_property
    def overflow(self) -> float:
        """log2 of a bound on the probability that a buffer of one group overflows.

        The sums n = A C^-1 (z - rounding) are sub-Gaussian with the sum of squared weights times the
        parameter of z, but for the rounding. |buffer| <= 2 max |n|; union over all ticks.
        """
        weight = 1.01 * sqrt(self.response.variance(self.last_tick))
        spread = weight * float(self.grid_sensitivity) / sqrt(2 * self.loss.additive_loss.amount)
        drift = weight * float(rounding_width(self.encoder)) * sqrt(self.last_tick)
        limit = (2.0 ** (MAX_BUFFER_BITS - 1) - drift) / spread
        return log2(2 * self.last_tick) - limit**2 / (2 * log(2)) if limit > 0 else inf

    def noise_at(self, tick: int) -> NoiseSum:
        """Return one Gaussian draw of the summed variance, widened outwards.

        The noise is sum_k l_k z_(t-k). Add to each z a continuous Gaussian of variance 9. By Poisson summation the
        density of the sum is that of one Gaussian of variance v + 9, up to a factor of
        1 +- 4 exp(-2 pi^2 9 v/(v + 9)) < 1 +- 2^-250, also after 2^48 ticks. The addition has standard
        deviation 3 |l| and exceeds SMOOTHING_DEVIATIONS |l| with probability below 10^-80. Rounding adds at most
        W |l|_1 <= W sqrt(t) |l|. Together they are a share e = (SMOOTHING_DEVIATIONS + W sqrt(t))/sqrt(v) of the
        standard deviation. So half widths of at least half a standard deviation, stretched by 1 + 2e, hold.
        `decoding_drift` widens e by its share of the standard deviation.
        """
        spread = SMOOTHING_DEVIATIONS + float(rounding_width(self.encoder)) * sqrt(tick)
        deviation = sqrt(self.error.variance(tick))
        share = (spread + self.decoding_drift(tick) / deviation) / sqrt(self.distribution.variance)
        return NoiseSum((Term(1, deviation * (1 + 2 * share) / 2.0**self.grid_bits, self.distribution),))

    def mean_variance(self, ticks: int) -> float:
        return self.error.mean_variance(ticks) * self.distribution.variance / 4.0**self.grid_bits

    def matrices(self, ticks: int) -> Strategy:
        measure = lower_triangle(self.encoder.coefficients(ticks))
        decode = lower_triangle(self.response.coefficients(ticks))
        draws = tuple(range(ticks))
        return Strategy(measure, decode, (self.distribution,) * ticks, draws, 2**self.grid_bits)

    def step(self, state: S, values: Ints, noise: Noise) -> Floats:
        release: Floats = self.feed(state, values[None], noise)[0]
        return release

    def feed(self, state: S, block: Ints, noise: Noise) -> Floats:
        if state.tick + len(block) > self.last_tick:
            last = state.tick + len(block)
            raise LimitExceededError(f"tick must be at most the last tick {self.last_tick}, got {last}")
        draws = self.distribution.draw(noise, block.size).reshape(block.shape)
        releases = np.empty(block.shape)

        def feed_columns(columns: slice) -> None:
            correlate(self.encoder, state.buffers.select(columns), draws[:, columns])
            self.decode(state, columns, block[:, columns], draws[:, columns], releases[:, columns])

        run_parallel(
            [slice(first, first + BATCH_GROUPS) for first in range(0, block.shape[1], BATCH_GROUPS)], feed_columns
        )
        state.tick += len(block)
        return releases


def run_parallel(pieces: list[slice], work: Callable[[slice], None]) -> None:
    """Run all pieces, many of them on all cores.

    Pieces share nothing, and NumPy releases its lock.
    """
    if len(pieces) < MIN_THREADED_PIECES:
        for piece in pieces:
            work(piece)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, pieces))


@dataclass(slots=True)
class RunningCountState:
    """All that a running count remembers, one column per group."""

    tick: int
    whole: Ints  # noisy: the release, rounded down
    part: Ints  # noisy: the rest of the release, in grid points
    buffers: NoiseBuffers = field(repr=False)  # secret: see `NoiseBuffers`
    grid_bits: int  # public: a part is below 2^grid_bits

    @property
    def is_normal(self) -> bool:
        return bool((self.part >> self.grid_bits == 0).all())

    def to_points(self) -> Ints:
        """Return the releases in grid points, modulo 2^64: whole and part, if normal, say no more."""
        return (self.whole << self.grid_bits) + self.part


class RunningCount(CorrelatedMechanism[RunningCountState]):
    """Running counts: the exact sums, on the grid, of the noisy items."""

    @property
    def has_falling_overlaps(self) -> bool:
        return True

    def initial(self, width: int, noise: Noise) -> RunningCountState:
        zeros = np.zeros((2, width), np.int64)
        return RunningCountState(0, zeros[0], zeros[1], NoiseBuffers.empty(self.encoder, width), self.grid_bits)

    def decode(self, state: RunningCountState, columns: slice, block: Ints, correlated: Ints, out: Floats) -> None:
        whole, part = state.whole[columns], state.part[columns]
        self.unscale(state.tick, correlated)
        if block.shape[1] > MAX_NARROW_GROUPS:
            for x, u, release in zip(block, correlated, out, strict=True):
                self._add(x, u, whole, part, release)
        elif len(block):
            totals, points = np.cumsum(block, axis=0) + whole, np.cumsum(correlated, axis=0) + part
            self._add(0, 0, totals, points, out)
            whole[:], part[:] = totals[-1], points[-1]

    def unscale(self, before: int, correlated: Ints) -> None:
        """Turn the noise of measured items into that of items, in place; `before` are the ticks before it."""

    def _add(self, x: Ints | int, u: Ints | int, whole: Ints, part: Ints, release: Floats) -> None:
        """Add x and u to a number of whole units and grid points, and writes it as a float."""
        bits = self.grid_bits
        whole += x
        part += u
        whole += part >> bits
        part &= (1 << bits) - 1
        np.multiply(part, 2.0**-bits, out=release)
        release += whole
