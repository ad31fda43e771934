"""What the factorisations with exponentials share: calibration, grid, error, and the step itself.

A run releases B (C x + z): it draws z, correlates it (see `recursion`, where the proof is), adds it to
the items and sums those up. The grid has 2^G points to the unit, with G such that the noise has a
standard deviation of about 2^42 points: fine enough for the rounding that is charged to be invisible.

    |C D| + W sqrt(T g)     charged: `bound` in L2, 2^G times the certified norm of C, plus the rounding

Over all groups |C D|^2 = sum_st (C'C)_st <d_s, d_t> for the moves d_t of the ticks. C'C >= 0 and
|d_t|^2 <= l2_squared, so that this is at most l2_squared times what one number moved by 1 does. Rounding: the
demands r_t of both worlds differ by at most W more than ideal ones do, at T ticks of each of the g groups in
which the streams differ, and are the same in all others. Moves are whole numbers, so that one of l2_squared
is in at most as many groups, and in at most `reach.coordinates`: g is the less of both, for each of the n
ticks that a unit touches.
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

from streamgauge.continual.exponentials import Encoder
from streamgauge.continual.mechanism import Mechanism
from streamgauge.continual.recursion import COLUMNS, NARROW, ROOM, Buffers, correlate, rounding
from streamgauge.continual.response import Response
from streamgauge.continual.run import HorizonPassed
from streamgauge.continual.settings import check_settings
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.toeplitz import lower_triangle
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Zcdp
from streamgauge.privacy.exact import sqrt_up

SPREAD = 43  # the noise has a standard deviation below 2^SPREAD grid points
FINEST_GRID = 60
COARSEST = 20  # and not below 2^COARSEST
MANY = 4  # pieces that are worth threads
RARE = -256.0  # log2 of the chance of guessing the keystream's key
SMOOTH = 60.0  # see `Correlated.noise_at`

Floats = npt.NDArray[np.float64]


class Correlating(Protocol):
    tick: int
    buffers: Buffers


S = TypeVar("S", bound=Correlating)


class Correlated(Mechanism[S], Generic[S]):
    """A factorisation whose encoder is a sum of exponentials."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Zcdp, Approx)
    WHY: ClassVar[str] = "its columns are short in L2 only, which Laplace noise does not use"
    RESTS_EXACT: ClassVar[str] = "its buffers, with the releases, tell the exact items"

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """C."""

    @property
    @abstractmethod
    def last_tick(self) -> int:
        """The T over which norms are taken and rounding is charged."""

    @property
    def remaining(self) -> Fraction:
        """What remains of an item after a tick: all of it in running sums."""
        return Fraction(1)

    @abstractmethod
    def decode(self, state: S, columns: slice, block: Ints, correlated: Ints, out: Floats) -> None:
        """Writes the releases of some groups, for values x, one row per tick, and their noise u."""

    def check(self) -> None:
        """Refuses settings that make no claim, or noise that the buffers have no room for."""
        check_settings(self, bounded=False)
        if self.sensitivity**2 * 4**FINEST_GRID < 2 * self.loss.kept_as.amount * 4**COARSEST:
            raise ValueError(
                f"loss must leave noise of at least 2^{COARSEST - FINEST_GRID} units, got {self.loss!r}"
            )
        if not self.overflow < RARE:
            asked = f"{self.bound} with {self.loss!r}"
            raise ValueError(f"bound must be small enough for noise below 2^{SPREAD} units, got {asked}")

    @cached_property
    def sensitivity(self) -> Fraction:
        """How far one unit moves C x, in L2 and in units of the data, rounded up."""
        ticks = min(self.unit.ticks, self.last_tick)
        return sqrt_up(self.reach.l2_squared) * sqrt_up(self.encoder.norm_squared(ticks, self.last_tick))

    @cached_property
    def grid_bits(self) -> int:
        """G: as fine as SPREAD allows."""
        variance = self.sensitivity**2 / (2 * self.loss.kept_as.amount)
        bits = FINEST_GRID
        while bits and variance * 4**bits >= 4**SPREAD:
            bits -= 1
        return bits

    @cached_property
    def slack(self) -> Fraction:
        """W sqrt(T g), in grid points: what rounding adds to the sensitivity."""
        ticks = min(self.unit.ticks, self.last_tick)
        groups = ticks * min(ceil(self.reach.l2_squared), self.reach.coordinates)
        return rounding(self.encoder) * sqrt_up(Fraction(self.last_tick * groups))

    @cached_property
    def move(self) -> Fraction:
        """How far one unit moves what draws have to hide, in grid points: sensitivity and slack."""
        return self.sensitivity * (1 << self.grid_bits) + self.slack

    @cached_property
    def distribution(self) -> Distribution:
        """The noise z of one tick, in grid points."""
        return self.loss.calibrate(l1=self.move, l2_squared=ceil(self.move**2))

    @cached_property
    def response(self) -> Response:
        return Response(self.encoder, float(1 - self.remaining))

    @cached_property
    def overflow(self) -> float:
        """log2 of a bound on the probability that a buffer of one group ever leaves its room.

        The sums n = A C^-1 (z - rounding) are sub-Gaussian with the sum of squared weights times the
        parameter of z, but for the rounding; |buffer| <= 2 max |n|; union over all ticks.
        """
        weight = 1.01 * sqrt(self.response.variance(self.last_tick))
        spread = weight * float(self.move) / sqrt(2 * self.loss.kept_as.amount)
        drift = weight * float(rounding(self.encoder)) * sqrt(self.last_tick)
        limit = (2.0 ** (ROOM - 1) - drift) / spread
        return log2(2 * self.last_tick) - limit**2 / (2 * log(2)) if limit > 0 else inf

    def noise_at(self, tick: int) -> NoiseSum:
        """One Gaussian draw of the summed variance, widened a little so that its intervals are outward.

        The noise is sum_k l_k z_(t-k). Add to each z a continuous Gaussian of variance 9: by Poisson
        summation the density of the sum is that of one Gaussian of variance v + 9 within a factor of
        1 +- 4 exp(-2 pi^2 9 v/(v + 9)) < 1 +- 2^-250, also after 2^48 ticks. What was added has standard
        deviation 3 |l| and passes SMOOTH |l| with probability below 10^-80, and rounding adds at most
        W |l|_1 <= W sqrt(t) |l|: together a share e = (SMOOTH + W sqrt(t))/sqrt(v) of the standard
        deviation, so that half widths of at least half a standard deviation, stretched by 1 + 2e, hold.
        """
        return NoiseSum((Term(1, self._weight(tick), self.distribution),))

    def _weight(self, tick: int) -> float:
        share = (SMOOTH + float(rounding(self.encoder)) * sqrt(tick)) / sqrt(self.distribution.variance)
        return sqrt(self.response.variance(tick)) * (1 + 2 * share) / 2.0**self.grid_bits

    def mean_variance(self, ticks: int) -> float:
        return self.response.mean_variance(ticks) * self.distribution.variance / 4.0**self.grid_bits

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
            raise HorizonPassed(f"tick must be at most the last tick {self.last_tick}, got {last}")
        draws = self.distribution.draw(noise, block.size).reshape(block.shape)
        releases = np.empty(block.shape)

        def work(columns: slice) -> None:
            correlate(self.encoder, state.buffers.of(columns), draws[:, columns])
            self.decode(state, columns, block[:, columns], draws[:, columns], releases[:, columns])

        side_by_side([slice(first, first + COLUMNS) for first in range(0, block.shape[1], COLUMNS)], work)
        state.tick += len(block)
        return releases


def side_by_side(pieces: list[slice], work: Callable[[slice], None]) -> None:
    """Does all pieces; many of them on all cores, since they share nothing and NumPy drops its lock."""
    if len(pieces) < MANY:
        for piece in pieces:
            work(piece)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, pieces))


@dataclass(slots=True)
class Running:
    """All that a running count remembers, one column per group."""

    tick: int
    whole: Ints  # noisy: the release, rounded down
    part: Ints  # noisy: the rest of the release, in grid points
    buffers: Buffers = field(repr=False)  # secret: see `Buffers`


class RunningCount(Correlated[Running]):
    """Running counts: the exact sums, on the grid, of the noisy items."""

    def initial(self, width: int, noise: Noise) -> Running:
        zeros = np.zeros((2, width), np.int64)
        return Running(0, zeros[0], zeros[1], Buffers.empty(self.encoder, width))

    def decode(self, state: Running, columns: slice, block: Ints, correlated: Ints, out: Floats) -> None:
        whole, part = state.whole[columns], state.part[columns]
        if block.shape[1] > NARROW:
            for x, u, release in zip(block, correlated, out, strict=True):
                self._add(x, u, whole, part, release)
        elif len(block):
            totals, points = np.cumsum(block, axis=0) + whole, np.cumsum(correlated, axis=0) + part
            self._add(0, 0, totals, points, out)
            whole[:], part[:] = totals[-1], points[-1]

    def _add(self, x: Ints | int, u: Ints | int, whole: Ints, part: Ints, release: Floats) -> None:
        """Adds x and u to a number of whole units and grid points, and writes it as a float."""
        bits = self.grid_bits
        whole += x
        part += u
        whole += part >> bits
        part &= (1 << bits) - 1
        np.multiply(part, 2.0**-bits, out=release)
        release += whole
