"""Means and variances from noisy sums, with intervals valid at every count.

Values are u in [-1, 1], the data's range moved and scaled. N is their number, S their sum, and Q their sum of squares.
Only N, S and Q under noise of known standard deviation are known: everything here is post-processing of that.

**Means**

    mean       S/N, the count floored at 2 and at MIN_COUNT_STDDEVS spreads of N and of S: below, it is shrunk to 0
    error      sqrt(Var S + m^2 Var N)/N, with the same floor
    interval   Fieller's. At the true m, S - m N is noise alone, so m is too low for the data if
               S - m N > k sd(m), and too high if it is < -k sd(m), sd(m)^2 = Var S + m^2 Var N

A set of such m can be empty or in two pieces, if N is not clear of its noise. So the lower end is the
first m, going up from -1, that is not too low. The upper end is the first one, going down from 1, that is
not too high. The result is always an interval. The search from -1 requires more than m by itself does, and would cover
too much if there is nothing but noise. A count below COUNT_FLOOR_STDDEVS spreads is read as that many spreads (no count
is negative), which compensates. Neither end comes nearer to the far bound than half a plain interval, at most
MAX_HALF_WIDTH.

Channels
    The best measurements are whole multiples of 1 and u under noise of one scale. L1_MEAN_ROWS, for a loss in
    L1, measures 1 + u and 1 - u, which an event moves by exactly 2 in all. A budget split evenly over count
    and sum has 1.41 times its error at every mean. Split 1 : 2, which is best, it has 1.22 times on average over
    means from -0.6 to 0.6. L2_MEAN_ROWS, for a loss in L2, weighs 3 : 5: on that average 3.4 % above
    the best weights for each mean, while even weights are 15 % above.

Error
    At 95 % the interval covers from 93 to 98 % for every N from 5 on, every mean, noise from Laplace to
    normal, spreads from N/10^5 to 10 N. It covers 95 % inside the range at large counts, and 97.5 % at its bounds,
    since one of the two sides cannot fail there.

**Variances**

About m the squares sum up to D(m) = Q - 2 m S + m^2 N. That is linear in the known sums, and at the true mean it is
N - 1 times the sample variance w.

    variance   D(m)/N at the estimated mean m, plus Var(m), which an estimated mean subtracts; from 0 to
               1 - m^2; and N/(N - 1) times that if there is enough data
    error      of D(m) - w N by the delta method, over N
    interval   Fieller's for the ratio w of D(m) and N - 1, from both sides as for means

The mean is not known, and if N is not clear of its noise that matters. So an end is searched at the mean
that is likely if that end is the truth: further out for the lower end, further in for the upper one (`lean`).
The allowed noise is less if the count is far below its noise and the mean seems to be 0. It is more if the mean seems
to be at a bound, since there noise easily looks like variance. It is also more for few values at
both bounds, whose count is a few spreads of its noise. Simulations determined how much less and more, once
for noisy counts and once for public ones (`IntervalCalibration`).

Channels
    The best measurements are whole multiples of 1, u and u^2 under noise of one scale, on average over means
    from -0.6 to 0.6 and variances from 0.01 to 0.4. L1_VARIANCE_ROWS, for a loss in L1, measures u^2 - u, u^2 + u and
    1 - u^2. Each is largest at one of u = -1, 1, 0, and an event moves them by 2 |u| + 1 - u^2 <= 2. It is 0.6 %
    above the best found. A budget split in three has 2.17 times its error, one counter of (1, u, u^2 - 7/8)
    1.85 times. L2_VARIANCE_ROWS, for a loss in L2, weighs 1, u and u^2 - 5/8 by 1 : 1 : 2: 0.3 % above the best. Split
    in three, the error is 1.31 times. The last two are for public counts, if an event can change only its value.
    L1_PUBLIC_COUNT_ROWS measures 2 u^2 + u and 2 u^2 - u, which a change moves by 2 max(|du|, 2 |du^2|) <= 4. Split in
    two, with reaches of 2 and 1, the error is 1.41 times. L2_PUBLIC_COUNT_ROWS, in L2, measures 5 u and 8 u^2, which a
    change moves by 10 at most.

Error
    At 95 % the interval covers from 93 to 98 % for every N from 5 on, every mean and variance, values at both
    bounds, noise from Laplace to normal, count spreads from N/10^5 to 10 N. It covers 95 % at large counts, 97.5 % at
    the least and the largest variance. With public counts it is 92.5 to 99 %, outside of 93 to 98 % only
    if N is under 5 spreads of the sum. On a grid of two places under little noise (epsilon 8) it is up to
    99 %, since noise is discrete there. `benchmarks/coverage.py` prints both tables.

Reference
    Fieller: Some problems in interval estimation, JRSS B 16, 1954. For means, the ends, floor and cap are ours. For
    variances, all that differs from it is ours.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamgauge.noise.tail_bounds import normal_point

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
ChannelRows = tuple[tuple[int, ...], ...]

L1_MEAN_ROWS: ChannelRows = ((1, 1), (1, -1))  # multiples of 1 and u; in L1 an event moves them by 2
L2_MEAN_ROWS: ChannelRows = ((3, 0), (0, 5))  # in squared L2 by 34

MIN_COUNT_STDDEVS = 3.0  # spreads of the count's noise
COUNT_FLOOR_STDDEVS = 1.1
MAX_HALF_WIDTH = 15 / 16
TAIL_EXCESS_SHARE = 0.75  # part of a channel's excess over normal tails that remains in a sum of channels


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Noisy number and sum of values in [-1, 1], and the stddevs of their noise.

    The two noises are uncorrelated. That of a public count is 0. All arrays broadcast together.
    """

    count: Floats
    total: Floats
    count_stddev: Floats
    total_stddev: Floats

    def select_rows(self, part: slice) -> "MomentSums":
        """Return the sums of some ticks. Arrays have a row for each tick, or one for all."""
        return MomentSums(*(select_rows(numbers, part) for numbers in vars(self).values()))

    @property
    def floored_count(self) -> Floats:
        """Count, or the least count that is enough to divide by."""
        least = np.maximum(2.0, MIN_COUNT_STDDEVS * np.maximum(self.count_stddev, self.total_stddev))
        return np.fmax(self.count, least)


@dataclass(frozen=True, eq=False)
class NoisePair:
    """Standard deviations of the noise of two numbers, and its covariance."""

    x_stddev: Floats
    y_stddev: Floats
    covariance: Floats


def is_reliable(sums: MomentSums) -> Bools:
    """Return whether the data suffice, by the noisy count and by public settings."""
    return np.asarray(sums.count >= sums.floored_count)


def mean(sums: MomentSums) -> Floats:
    """Return S/N in [-1, 1], shrunk towards 0 if there is not enough data."""
    with np.errstate(all="ignore"):
        return replace_nan(np.clip(sums.total / sums.floored_count, -1.0, 1.0), 0.0)


def mean_error(sums: MomentSums) -> Floats:
    """Return the standard error of the mean by the delta method."""
    with np.errstate(all="ignore"):
        error = np.hypot(sums.total_stddev, mean(sums) * sums.count_stddev) / sums.floored_count
    return replace_nan(np.minimum(error, 1.0), 1.0)


def mean_interval(sums: MomentSums, factor: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return bounds in [-1, 1] of the mean with `confidence`.

    They always contain the estimate `mean`. `factor` is the half width of one channel's noise at that confidence, in
    its standard deviations.
    """
    k, point = critical_factor(factor, confidence), mean(sums)
    noise = NoisePair(sums.total_stddev, sums.count_stddev, np.zeros(1))
    with np.errstate(all="ignore"):
        half = k * np.hypot(sums.total_stddev, sums.count_stddev) / sums.floored_count
        cap = 1.0 - np.minimum(half, MAX_HALF_WIDTH)
        n = np.fmax(sums.count, COUNT_FLOOR_STDDEVS * sums.count_stddev)
        low = np.minimum(find_ratio_bound(sums.total, n, noise, k, (-1.0, 1.0)), cap)
        high = -np.minimum(find_ratio_bound(-sums.total, n, noise, k, (-1.0, 1.0)), cap)
    return np.minimum(replace_nan(low, -1.0), point), np.maximum(replace_nan(high, 1.0), point)


def critical_factor(factor: Floats, confidence: float) -> Floats:
    """Return the allowed noise in stddevs: between a normal's and one channel's."""
    normal = normal_quantile(confidence)
    return np.maximum(normal + TAIL_EXCESS_SHARE * (np.asarray(factor, np.float64) - normal), 0.0)


def normal_quantile(confidence: float) -> float:
    """Return the half width of normal noise, in its standard deviations."""
    return normal_point((1.0 - confidence) / 2.0)


def find_ratio_bound(x: Floats, y: Floats, noise: NoisePair, k: Floats, ends: tuple[float, float]) -> Floats:
    """Return the first t between the ends with x - t y <= k sd(t), for y >= 0.

    sd(t) is that of the noise of x - t y. The difference x - t y - k sd(t) is concave in t: above 0 at the start, it
    has one root or none. If none, the result is the end.
    """
    scale = np.maximum.reduce(np.broadcast_arrays(np.abs(x), y, noise.x_stddev, noise.y_stddev, 1e-150))
    x, y, sx, sy = x / scale, y / scale, noise.x_stddev / scale, noise.y_stddev / scale
    c, k2 = noise.covariance / scale / scale, np.square(k)
    inner = np.square(y * sx) + np.square(x * sy) - 2 * x * y * c - k2 * (np.square(sx * sy) - np.square(c))
    b, root = x * y - k2 * c, k * np.sqrt(np.maximum(inner, 0.0))
    with np.errstate(all="ignore"):
        rising = (x - k * sx) * (x + k * sx) / (b + root)
        falling = (b - root) / ((y - k * sy) * (y + k * sy))
    crossing = np.clip(replace_nan(np.where(b >= 0, rising, falling), 0.0), *ends)

    def too_low(t: float) -> Bools:
        variance = np.square(sx) - 2 * t * c + np.square(t * sy)
        return np.asarray(x - t * y > k * np.sqrt(np.maximum(variance, 0.0)))

    return np.where(too_low(ends[0]), np.where(too_low(ends[1]), ends[1], crossing), ends[0])


def select_rows(numbers: Floats, part: slice) -> Floats:
    """Return some rows, or the only one."""
    return numbers[part] if len(numbers) > 1 else numbers


def replace_nan(values: Floats, otherwise: float) -> Floats:
    """Return the values with NaN replaced."""
    return np.where(np.isnan(values), otherwise, values)


L1_VARIANCE_ROWS: ChannelRows = ((0, -1, 1), (0, 1, 1), (1, 0, -1))  # of 1, u and u^2; in L1 an event moves them by 2
L2_VARIANCE_ROWS: ChannelRows = ((4, 0, 0), (0, 4, 0), (-5, 0, 8))  # in squared L2 by 41
L1_PUBLIC_COUNT_ROWS: ChannelRows = ((1, 2), (-1, 2))  # of u and u^2; in L1 a change of value moves them by 4
L2_PUBLIC_COUNT_ROWS: ChannelRows = ((5, 0), (0, 8))  # in squared L2 by 100

MAX_SAMPLE_VARIANCE = 2.0  # largest sample variance: that of -1 and 1
MAX_COUNT_STDDEVS = 6.0  # spreads by which a count is practically never off
CALIBRATED_CONFIDENCE = 0.95  # confidence of the simulations
MIN_NOISE_RATIO, MAX_NOISE_RATIO = 0.25, 1.3  # limits of the allowed noise, relative to the usual
FADING_POWER = 5  # how fast `between_gain` fades for counts far below their noise


@dataclass(frozen=True, eq=False)
class SquareSums:
    """Count, sum and sum of squares, with the noise of the last.

    They are the standard deviation of that noise, and its covariance with the count's. It is uncorrelated with the
    noise of the sum.
    """

    sums: MomentSums
    square: Floats
    square_stddev: Floats
    covariance: Floats

    def select_rows(self, part: slice) -> "SquareSums":
        """Return the sums of some ticks, as for `MomentSums`."""
        own = (select_rows(numbers, part) for numbers in (self.square, self.square_stddev, self.covariance))
        return SquareSums(self.sums.select_rows(part), *own)

    @cached_property
    def variance(self) -> Floats:
        """Sample variance, shrunk towards 0 if there is not enough data.

        It is inside its 95 % interval.
        """
        sums, m, n = self.sums, mean(self.sums), self.sums.floored_count
        low, high = _find_ends(self, np.full(1, normal_quantile(0.95)), 0.95)
        with np.errstate(all="ignore"):
            bias = (np.square(sums.total_stddev) + np.square(m * sums.count_stddev)) / np.square(n)
            inside = np.clip(self.squares_about(m) / n + bias, 0.0, 1.0 - np.square(m))
            sample = inside * np.where(is_reliable(sums) & (n > 2.0), n / (n - 1.0), 1.0)
        return np.clip(replace_nan(sample, 0.0), low, high)

    def squares_about(self, m: Floats) -> Floats:
        """Return D(m)."""
        return self.square - 2.0 * m * self.sums.total + np.square(m) * self.sums.count

    def noise(self, m: Floats) -> NoisePair:
        """Return the noise of D(m) and of the count."""
        m2, sn = np.square(m), self.sums.count_stddev
        own = np.square(self.square_stddev) + 4.0 * m2 * np.square(self.sums.total_stddev)
        variance = own + np.square(m2 * sn) + 2.0 * m2 * self.covariance
        return NoisePair(np.sqrt(np.maximum(variance, 0.0)), sn, m2 * np.square(sn) + self.covariance)

    def residual_stddev(self, m: Floats, w: Floats) -> Floats:
        """Return the standard deviation of the noise of D(m) - w N."""
        noise = self.noise(m)
        variance = np.square(noise.x_stddev) - 2.0 * w * noise.covariance + np.square(w * noise.y_stddev)
        return np.sqrt(np.maximum(variance, 0.0))


@dataclass(frozen=True)
class IntervalEnd:
    """Search parameters for one end of an interval.

    `lean` is how far its mean moves. For counts far below their noise, the noise allowed is less by `less`, less by
    `tails` for heavy tails, and more by `more` for means at a bound. `between_gain` allows more for means near 0 of
    counts that are neither far below nor clear of their noise.
    """

    lean: float
    less: float
    more: float
    tails: float
    between_gain: float = 0.0


@dataclass(frozen=True)
class IntervalCalibration:
    """Constants from simulation.

    Floors are in standard deviations of the sum's noise, or the count's.
    """

    lower: IntervalEnd
    upper: IntervalEnd
    count_floor: float
    mean_floor: float
    seeming_floor: float
    seeming_power: float
    bias_floor: float
    bias: float  # part of Var(m) that is added back
    drowned_count: float  # count at which the allowed noise is half way back to the usual
    start: float  # start of the downward search for the upper end
    middle: float  # no lower end is above it, unless the interval is short
    short_width: float


NOISY_COUNT_CALIBRATION = IntervalCalibration(
    lower=IntervalEnd(lean=1.5, less=0.88, more=1.19, tails=2.75, between_gain=5.0),
    upper=IntervalEnd(lean=-0.32, less=0.166, more=0.3, tails=1.12, between_gain=6.0),
    count_floor=0.8,
    mean_floor=1.35,
    seeming_floor=0.5,
    seeming_power=0.6,
    bias_floor=8.4,
    bias=1.74,
    drowned_count=1.75,
    start=1.24,
    middle=0.54,
    short_width=0.12,
)
PUBLIC_COUNT_CALIBRATION = IntervalCalibration(
    lower=IntervalEnd(lean=1.47, less=0.88, more=1.27, tails=2.6),
    upper=IntervalEnd(lean=-0.58, less=-0.09, more=0.1, tails=-4.34),
    count_floor=0.0,
    mean_floor=2.19,
    seeming_floor=0.79,
    seeming_power=0.565,
    bias_floor=7.1,
    bias=1.41,
    drowned_count=1.88,
    start=1.2,
    middle=0.51,
    short_width=0.18,
)


def variance_error(squares: SquareSums) -> Floats:
    """Return the standard error of the variance by the delta method."""
    with np.errstate(all="ignore"):
        error = squares.residual_stddev(mean(squares.sums), squares.variance) / squares.sums.floored_count
    return replace_nan(np.minimum(error, 1.0), 1.0)


def variance_interval(squares: SquareSums, factor: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return bounds in [0, 2] of the sample variance with `confidence`.

    They always contain the estimate. `factor` is the half width of one channel's noise at that confidence,
    in its standard deviations. A count is public if its noise is 0 everywhere.
    """
    low, high = _find_ends(squares, factor, confidence)
    return np.minimum(low, squares.variance), np.maximum(high, squares.variance)


def _find_ends(squares: SquareSums, factor: Floats, confidence: float) -> tuple[Floats, Floats]:
    noisy = bool(np.any(squares.sums.count_stddev))
    rare = min(1.0, (1.0 - confidence) / (1.0 - CALIBRATED_CONFIDENCE))
    search = _EndSearch(
        squares,
        critical_factor(factor, confidence),
        NOISY_COUNT_CALIBRATION if noisy else PUBLIC_COUNT_CALIBRATION,
        rare,
    )
    tails = np.asarray(factor) / normal_quantile(confidence) - 1.0
    with np.errstate(all="ignore"):
        low, high = (
            replace_nan(search.find_lower(tails), 0.0),
            replace_nan(search.find_upper(tails), MAX_SAMPLE_VARIANCE),
        )
        count = np.fmax(squares.sums.count - MAX_COUNT_STDDEVS * squares.sums.count_stddev, 2.0)
        largest = 1.0 + 1.0 / (count - 1.0)  # the largest sample variance of this count or more values in [-1, 1]
    return np.minimum(np.minimum(low, high), largest), np.minimum(np.maximum(low, high), largest)


@dataclass(frozen=True, eq=False)
class _EndSearch:
    """Search for the ends of an interval."""

    squares: SquareSums
    k: Floats
    calibration: IntervalCalibration
    miss_ratio: float  # relative rarity of a miss to the calibrated one: noise is not reduced then

    def find_lower(self, tails: Floats) -> Floats:
        x, y, noise = self._build_ratio(self.calibration.lower)
        found = find_ratio_bound(
            x, y, noise, self._allowed_stddevs(self.calibration.lower, tails), (0.0, MAX_SAMPLE_VARIANCE)
        )
        return np.minimum(found, np.maximum(1.0 + 1.0 / y - self._half_width, self.calibration.middle))

    def find_upper(self, tails: Floats) -> Floats:
        x, y, noise = self._build_ratio(self.calibration.upper)
        mirrored = NoisePair(noise.x_stddev, noise.y_stddev, -noise.covariance)
        k, start = self._allowed_stddevs(self.calibration.upper, tails), self.calibration.start
        found = -find_ratio_bound(-x, y, mirrored, k, (-start, 0.0))
        return np.maximum(
            np.where(found >= start, MAX_SAMPLE_VARIANCE, found),
            np.minimum(self._half_width, 1.0 - self.calibration.middle),
        )

    def _floor_count(self, spreads: float) -> Floats:
        """Return the count, or at least `spreads` standard deviations of the sum's noise."""
        return np.fmax(self.squares.sums.count, np.maximum(2.0, spreads * self.squares.sums.total_stddev))

    @cached_property
    def _mean(self) -> Floats:
        return np.clip(self.squares.sums.total / self._floor_count(self.calibration.mean_floor), -1.0, 1.0)

    @cached_property
    def _residual(self) -> Floats:
        """Noise of D(m) - w N at the estimates of both."""
        w = np.clip(self.squares.squares_about(self._mean) / self._floor_count(self.calibration.bias_floor), 0.0, 1.0)
        return np.maximum(self.squares.residual_stddev(self._mean, w), 1e-150)

    @cached_property
    def _half_width(self) -> Floats:
        return self.calibration.short_width * self.k * self._residual / self._floor_count(self.calibration.bias_floor)

    @cached_property
    def _pull(self) -> tuple[Floats, Floats]:
        """Covariance, times N, of D(m) - w N with the mean, and Var(m) N^2.

        D(m) - w N pulls the mean inwards.
        """
        sums, m = self.squares.sums, self._mean
        w = np.clip(self.squares.squares_about(m) / self._floor_count(self.calibration.bias_floor), 0.0, 1.0)
        vs, vn = np.square(sums.total_stddev), np.square(sums.count_stddev)
        return m * (2.0 * vs + self.squares.covariance + (np.square(m) - w) * vn), vs + np.square(m) * vn

    def _build_ratio(self, end: IntervalEnd) -> tuple[Floats, Floats, NoisePair]:
        """Return D(m) and N - 1, whose ratio is searched, at the mean for this end."""
        squares, (pull, own), residual = self.squares, self._pull, self._residual
        lean = end.lean * self.k * pull / (self._floor_count(self.calibration.mean_floor) * residual)
        m = np.clip(self._mean + lean, -1.0, 1.0)
        noise, sn = squares.noise(m), squares.sums.count_stddev
        y = np.fmax(squares.sums.count - 1.0, np.maximum(self.calibration.count_floor * sn, 1.0))
        raised = np.where(sn > 0.0, noise.covariance / np.square(sn) * (y - squares.sums.count + 1.0), 0.0)
        bias = np.maximum(own - np.square(pull / residual), 0.0) / self._floor_count(self.calibration.bias_floor)
        return squares.squares_about(m) + raised + self.calibration.bias * bias, y, noise

    def _allowed_stddevs(self, end: IntervalEnd, tails: Floats) -> Floats:
        """Return the standard deviations of noise to allow."""
        sums, by = self.squares.sums, self.calibration
        near = 1.0 / (1.0 + np.fmax(sums.count, 0.0) / (by.drowned_count * sums.total_stddev))
        seeming = np.minimum(np.abs(sums.total) / self._floor_count(by.seeming_floor), 1.0) ** by.seeming_power
        less = (end.less + end.tails * tails - end.more * seeming) * near
        less = less - end.between_gain * near**2 * (1.0 - near) ** FADING_POWER * (1.0 - seeming)
        return self.k * np.clip(
            1.0 - np.where(less > 0.0, self.miss_ratio * less, less), MIN_NOISE_RATIO, MAX_NOISE_RATIO
        )
