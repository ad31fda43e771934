"""Variances from noisy counts, sums and sums of squares, with intervals that hold at every count.

Values are u in [-1, 1]; N, S and Q are their number, sum and sum of squares, known under noise. About m the
squares sum up to D(m) = Q - 2 m S + m^2 N. That is linear in what is known, and at the true mean it is N - 1
times the sample variance w.

    variance   D(m)/N at the estimated mean m, plus Var(m), which an estimated mean takes away; from 0 to
               1 - m^2; and N/(N - 1) times that where there is enough to go on
    error      of D(m) - w N by the delta method, over N
    interval   Fieller's for the ratio w of D(m) and N - 1, from both sides as for means

The mean is not known, and where N is not clear of its noise that matters. So an end is sought at the mean
that is likely if that end is the truth: further out for the lower end, further in for the upper one (`lean`).
And the noise that is allowed is less where the count drowns and the mean seems to be 0, more where it seems
to be at a bound, since there some variance is easily seen in data that have none; and more for few values at
both bounds, whose count is a few spreads of its noise. How much less and more was found by simulation, once
for noisy counts and once for public ones (`Calibration`).

Channels
    What is best measured, as whole multiples of 1, u and u^2 under noise of one scale, on average over means
    from -0.6 to 0.6 and variances from 0.01 to 0.4. CORNERS, for a loss in L1, measures u^2 - u, u^2 + u and
    1 - u^2, each at home at one of u = -1, 1, 0, which an event moves by 2 |u| + 1 - u^2 <= 2. It is 0.6 %
    above the best found; a budget split in three has 2.17 times its error, one counter of (1, u, u^2 - 7/8)
    1.85 times. SHIFTED, for a loss in L2, weighs 1, u and u^2 - 5/8 by 1 : 1 : 2: 0.3 % above the best; split
    in three, 1.31 times its error. Where the count is public and an event can change no more than its value:
    PAIR measures 2 u^2 + u and 2 u^2 - u, which a change moves by 2 max(|du|, 2 |du^2|) <= 4; split in two,
    with reaches of 2 and 1, 1.41 times its error. WEIGHED_PAIR, in L2, measures 5 u and 8 u^2, which it moves
    by 10 at most.

Error
    At 95 % the interval covers from 93 to 98 % for every N from 5 on, every mean and variance, values at both
    bounds, noise from Laplace to normal, count spreads from N/10^5 to 10 N: 95 % at large counts, 97.5 % at
    the least and the largest variance. With public counts it is 92.5 to 99 %, outside of 93 to 98 % only
    where N is under 5 spreads of the sum. On a grid of two places under little noise (epsilon 8) it is up to
    99 %, since noise is discrete there. `benchmarks/coverage.py` prints both tables.

Reference
    Fieller: Some problems in interval estimation, JRSS B 16, 1954. All that differs from it is ours.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamgauge.statistics.ratio import (
    Floats,
    Noises,
    Rows,
    Sums,
    critical,
    enough,
    first_not_too_low,
    mean,
    normal_quantile,
    row_part,
    without_nan,
)

CORNERS: Rows = ((0, -1, 1), (0, 1, 1), (1, 0, -1))  # of 1, u and u^2; in L1 an event moves them by 2
SHIFTED: Rows = ((4, 0, 0), (0, 4, 0), (-5, 0, 8))  # in squared L2 by 41
PAIR: Rows = ((1, 2), (-1, 2))  # of u and u^2; in L1 a change of value moves them by 4
WEIGHED_PAIR: Rows = ((5, 0), (0, 8))  # in squared L2 by 100

WIDEST = 2.0  # the largest sample variance: that of -1 and 1
CLEAR = 6.0  # spreads of a count that it is surely not off by
CALIBRATED = 0.95  # the confidence of the simulations
LEAST, MOST = 0.25, 1.3  # of the usual noise that is allowed
FADING = 5  # how fast `between` fades where counts drown


@dataclass(frozen=True, eq=False)
class Squares:
    """Count and sum; the sum of squares, the standard deviation of its noise, and the covariance of that
    with the count's. With the noise of the sum it is uncorrelated."""

    sums: Sums
    square: Floats
    square_spread: Floats
    shared: Floats

    def rows(self, part: slice) -> "Squares":
        """Those of some ticks, as of `Sums`."""
        own = (row_part(numbers, part) for numbers in (self.square, self.square_spread, self.shared))
        return Squares(self.sums.rows(part), *own)

    @cached_property
    def estimate(self) -> Floats:
        """The variance; asked for again and again."""
        return _estimate(self)

    def about(self, m: Floats) -> Floats:
        """D(m)."""
        return self.square - 2.0 * m * self.sums.total + np.square(m) * self.sums.count

    def noise(self, m: Floats) -> Noises:
        """Of D(m) and of the count."""
        m2, sn = np.square(m), self.sums.count_spread
        own = np.square(self.square_spread) + 4.0 * m2 * np.square(self.sums.total_spread)
        variance = own + np.square(m2 * sn) + 2.0 * m2 * self.shared
        return Noises(np.sqrt(np.maximum(variance, 0.0)), sn, m2 * np.square(sn) + self.shared)

    def residual(self, m: Floats, w: Floats) -> Floats:
        """The standard deviation of the noise of D(m) - w N."""
        noise = self.noise(m)
        variance = np.square(noise.x) - 2.0 * w * noise.shared + np.square(w * noise.y)
        return np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True)
class End:
    """How one end is sought: `lean` says how far its mean moves. Where counts drown, the noise allowed is
    less by `less`, and by `tails` for heavy tails, and more by `more` for means at a bound. `between` allows
    more for means near 0 of counts that are neither drowned nor clear of their noise."""

    lean: float
    less: float
    more: float
    tails: float
    between: float = 0.0


@dataclass(frozen=True)
class Calibration:
    """What simulation found: floors are in standard deviations of the sum's noise, or the count's."""

    lower: End
    upper: End
    count_floor: float
    mean_floor: float
    seeming_floor: float
    seeming_power: float
    bias_floor: float
    bias: float  # how much of Var(m) is given back
    drowned: float  # the count at which the allowed noise is half way back to the usual
    start: float  # the upper end is sought from here down
    middle: float  # no lower end is above it, unless the interval is short
    short: float


NOISY_COUNT = Calibration(
    lower=End(lean=1.5, less=0.88, more=1.19, tails=2.75, between=5.0),
    upper=End(lean=-0.32, less=0.166, more=0.3, tails=1.12, between=6.0),
    count_floor=0.8,
    mean_floor=1.35,
    seeming_floor=0.5,
    seeming_power=0.6,
    bias_floor=8.4,
    bias=1.74,
    drowned=1.75,
    start=1.24,
    middle=0.54,
    short=0.12,
)
PUBLIC_COUNT = Calibration(
    lower=End(lean=1.47, less=0.88, more=1.27, tails=2.6),
    upper=End(lean=-0.58, less=-0.09, more=0.1, tails=-4.34),
    count_floor=0.0,
    mean_floor=2.19,
    seeming_floor=0.79,
    seeming_power=0.565,
    bias_floor=7.1,
    bias=1.41,
    drowned=1.88,
    start=1.2,
    middle=0.51,
    short=0.18,
)


def variance(squares: Squares) -> Floats:
    """The sample variance, shrunk towards 0 where there is not enough to go on, within its 95 % interval."""
    return squares.estimate


def _estimate(squares: Squares) -> Floats:
    sums, m, n = squares.sums, mean(squares.sums), squares.sums.floored
    low, high = _ends(squares, np.full(1, normal_quantile(0.95)), 0.95)
    with np.errstate(all="ignore"):
        taken = (np.square(sums.total_spread) + np.square(m * sums.count_spread)) / np.square(n)
        inside = np.clip(squares.about(m) / n + taken, 0.0, 1.0 - np.square(m))
        sample = inside * np.where(enough(sums) & (n > 2.0), n / (n - 1.0), 1.0)
    return np.clip(without_nan(sample, 0.0), low, high)


def variance_error(squares: Squares) -> Floats:
    """The standard error of the variance by the delta method."""
    with np.errstate(all="ignore"):
        error = squares.residual(mean(squares.sums), variance(squares)) / squares.sums.floored
    return without_nan(np.minimum(error, 1.0), 1.0)


def variance_interval(squares: Squares, factor: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Bounds in [0, 2] that hold the sample variance with `confidence`, and the estimate `variance` always.

    `factor` is the half width of one channel's noise at that confidence, in its standard deviations. A count
    is public where its noise is 0 everywhere.
    """
    point, (low, high) = variance(squares), _ends(squares, factor, confidence)
    return np.minimum(low, point), np.maximum(high, point)


def _ends(squares: Squares, factor: Floats, confidence: float) -> tuple[Floats, Floats]:
    noisy = bool(np.any(squares.sums.count_spread))
    rare = min(1.0, (1.0 - confidence) / (1.0 - CALIBRATED))
    search = _Search(squares, critical(factor, confidence), NOISY_COUNT if noisy else PUBLIC_COUNT, rare)
    tails = np.asarray(factor) / normal_quantile(confidence) - 1.0
    with np.errstate(all="ignore"):
        low, high = without_nan(search.lower(tails), 0.0), without_nan(search.upper(tails), WIDEST)
        largest = _largest(np.fmax(squares.sums.count - CLEAR * squares.sums.count_spread, 2.0))
    return np.minimum(np.minimum(low, high), largest), np.minimum(np.maximum(low, high), largest)


def _largest(count: Floats) -> Floats:
    """The largest sample variance of so many values, or more, in [-1, 1]."""
    return 1.0 + 1.0 / (count - 1.0)


@dataclass(frozen=True, eq=False)
class _Search:
    """For the ends of an interval."""

    squares: Squares
    k: Floats
    by: Calibration
    rare: float  # how much rarer a miss may be than what was calibrated for: noise is not made less of then

    def lower(self, tails: Floats) -> Floats:
        x, y, noise = self._ratio(self.by.lower)
        found = first_not_too_low(x, y, noise, self._allowed(self.by.lower, tails), (0.0, WIDEST))
        return np.minimum(found, np.maximum(1.0 + 1.0 / y - self._half, self.by.middle))

    def upper(self, tails: Floats) -> Floats:
        x, y, noise = self._ratio(self.by.upper)
        mirrored = Noises(noise.x, noise.y, -noise.shared)
        k, start = self._allowed(self.by.upper, tails), self.by.start
        found = -first_not_too_low(-x, y, mirrored, k, (-start, 0.0))
        return np.maximum(
            np.where(found >= start, WIDEST, found), np.minimum(self._half, 1.0 - self.by.middle)
        )

    def _over(self, spreads: float) -> Floats:
        """The count, or so many standard deviations of the sum's noise."""
        return np.fmax(self.squares.sums.count, np.maximum(2.0, spreads * self.squares.sums.total_spread))

    @cached_property
    def _mean(self) -> Floats:
        return np.clip(self.squares.sums.total / self._over(self.by.mean_floor), -1.0, 1.0)

    @cached_property
    def _residual(self) -> Floats:
        """The noise of D(m) - w N at the estimates of both."""
        w = np.clip(self.squares.about(self._mean) / self._over(self.by.bias_floor), 0.0, 1.0)
        return np.maximum(self.squares.residual(self._mean, w), 1e-150)

    @cached_property
    def _half(self) -> Floats:
        return self.by.short * self.k * self._residual / self._over(self.by.bias_floor)

    @cached_property
    def _pull(self) -> tuple[Floats, Floats]:
        """The covariance, times N, of D(m) - w N and of the mean, which it pulls inwards; and Var(m) N^2."""
        sums, m = self.squares.sums, self._mean
        w = np.clip(self.squares.about(m) / self._over(self.by.bias_floor), 0.0, 1.0)
        vs, vn = np.square(sums.total_spread), np.square(sums.count_spread)
        return m * (2.0 * vs + self.squares.shared + (np.square(m) - w) * vn), vs + np.square(m) * vn

    def _ratio(self, end: End) -> tuple[Floats, Floats, Noises]:
        """D(m) and N - 1, whose ratio is sought, at the mean that goes with this end."""
        squares, (pull, own), residual = self.squares, self._pull, self._residual
        lean = end.lean * self.k * pull / (self._over(self.by.mean_floor) * residual)
        m = np.clip(self._mean + lean, -1.0, 1.0)
        noise, sn = squares.noise(m), squares.sums.count_spread
        y = np.fmax(squares.sums.count - 1.0, np.maximum(self.by.count_floor * sn, 1.0))
        raised = np.where(sn > 0.0, noise.shared / np.square(sn) * (y - squares.sums.count + 1.0), 0.0)
        taken = np.maximum(own - np.square(pull / residual), 0.0) / self._over(self.by.bias_floor)
        return squares.about(m) + raised + self.by.bias * taken, y, noise

    def _allowed(self, end: End, tails: Floats) -> Floats:
        """How many standard deviations of noise to allow."""
        sums, by = self.squares.sums, self.by
        near = 1.0 / (1.0 + np.fmax(sums.count, 0.0) / (by.drowned * sums.total_spread))
        seeming = np.minimum(np.abs(sums.total) / self._over(by.seeming_floor), 1.0) ** by.seeming_power
        less = (end.less + end.tails * tails - end.more * seeming) * near
        less = less - end.between * near**2 * (1.0 - near) ** FADING * (1.0 - seeming)
        return self.k * np.clip(1.0 - np.where(less > 0.0, self.rare * less, less), LEAST, MOST)
