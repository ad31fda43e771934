"""Means from noisy counts and noisy sums, with intervals that hold at every count.

Values are u in [-1, 1], the data's range moved and scaled. N is their number, S their sum, and what is known
is N and S under noise of known standard deviation: all that is done here is post-processing of that.

    mean       S/N, the count floored at 2 and at ENOUGH spreads of N and of S: below, it is shrunk towards 0
    error      sqrt(Var S + m^2 Var N)/N, with the same floor
    interval   Fieller's. At the true m, S - m N is noise alone, so m is too low for the data where
               S - m N > k sd(m), and too high where it is < -k sd(m), sd(m)^2 = Var S + m^2 Var N

A set of such m can be empty or in two pieces, where N is not clear of its noise. So the lower end is the
first m, going up from -1, that is not too low, and the upper end the first one, going down from 1, that is
not too high: always an interval. To go up from -1 asks more than m by itself does, and would cover too much
where there is nothing but noise; to read a count below FLOOR spreads as FLOOR spreads (no count is negative)
gives that back. Neither end comes nearer to the far bound than half a plain interval, at most NEAREST.

Channels
    What is best measured, as whole multiples of 1 and u under noise of one scale. UP_AND_DOWN, for a loss in
    L1, measures 1 + u and 1 - u, which an event moves by exactly 2 in all. A budget split evenly over count
    and sum has 1.41 times its error at every mean; split 1 : 2, which is best, 1.22 times on average over
    means from -0.6 to 0.6. COUNT_AND_SUM, for a loss in L2, weighs 3 : 5: on that average 3.4 % above what
    the best weights for each mean have, while even weights are 15 % above.

Error
    At 95 % the interval covers from 93 to 98 % for every N from 5 on, every mean, noise from Laplace to
    normal, spreads from N/10^5 to 10 N: 95 % inside the range at large counts, 97.5 % at its bounds, where
    one of the two sides cannot fail.

Reference
    Fieller: Some problems in interval estimation, JRSS B 16, 1954. The ends, floor and cap are ours.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamgauge.noise.normal import normal_point

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = tuple[tuple[int, ...], ...]

UP_AND_DOWN: Rows = ((1, 1), (1, -1))  # multiples of 1 and u; in L1 an event moves them by 2
COUNT_AND_SUM: Rows = ((3, 0), (0, 5))  # in squared L2 by 34

ENOUGH = 3.0  # spreads of the count's noise
FLOOR = 1.1
NEAREST = 15 / 16
SHARE = 0.75  # of a channel's excess over normal tails that is left in a sum of channels


@dataclass(frozen=True, eq=False)
class Sums:
    """The noisy number and sum of values in [-1, 1], and the standard deviations of their noise, which is
    uncorrelated; that of a public count is 0. Arrays of shapes that go together."""

    count: Floats
    total: Floats
    count_spread: Floats
    total_spread: Floats

    def rows(self, part: slice) -> "Sums":
        """Those of some ticks, where arrays have a row for each or one for all."""
        return Sums(*(row_part(numbers, part) for numbers in vars(self).values()))

    @property
    def floored(self) -> Floats:
        """The count, or the least that is enough to divide by."""
        least = np.maximum(2.0, ENOUGH * np.maximum(self.count_spread, self.total_spread))
        return np.fmax(self.count, least)


@dataclass(frozen=True, eq=False)
class Noises:
    """Standard deviations of the noise of two numbers, and its covariance."""

    x: Floats
    y: Floats
    shared: Floats


def covariance(rows: Rows) -> Floats:
    """Of the noise of the sums of 1, u, ..., measured by `rows` under independent noise of variance 1."""
    decoder = np.linalg.inv(np.array(rows, np.float64))
    return np.asarray(decoder @ decoder.T)


def enough(sums: Sums) -> Bools:
    """Whether there is enough to go on, decided by the noisy count and by what is public."""
    return np.asarray(sums.count >= sums.floored)


def mean(sums: Sums) -> Floats:
    """S/N in [-1, 1], shrunk towards 0 where there is not enough to go on."""
    with np.errstate(all="ignore"):
        return without_nan(np.clip(sums.total / sums.floored, -1.0, 1.0), 0.0)


def mean_error(sums: Sums) -> Floats:
    """The standard error of the mean by the delta method."""
    with np.errstate(all="ignore"):
        error = np.hypot(sums.total_spread, mean(sums) * sums.count_spread) / sums.floored
    return without_nan(np.minimum(error, 1.0), 1.0)


def mean_interval(sums: Sums, factor: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Bounds in [-1, 1] that hold the mean with `confidence`, and the estimate `mean` always.

    `factor` is the half width of one channel's noise at that confidence, in its standard deviations.
    """
    k, point = critical(factor, confidence), mean(sums)
    noise = Noises(sums.total_spread, sums.count_spread, np.zeros(1))
    with np.errstate(all="ignore"):
        half = k * np.hypot(sums.total_spread, sums.count_spread) / sums.floored
        cap = 1.0 - np.minimum(half, NEAREST)
        n = np.fmax(sums.count, FLOOR * sums.count_spread)
        low = np.minimum(first_not_too_low(sums.total, n, noise, k, (-1.0, 1.0)), cap)
        high = -np.minimum(first_not_too_low(-sums.total, n, noise, k, (-1.0, 1.0)), cap)
    return np.minimum(without_nan(low, -1.0), point), np.maximum(without_nan(high, 1.0), point)


def critical(factor: Floats, confidence: float) -> Floats:
    """How many standard deviations of noise to allow: between a normal's and one channel's."""
    normal = normal_quantile(confidence)
    return np.maximum(normal + SHARE * (np.asarray(factor, np.float64) - normal), 0.0)


def normal_quantile(confidence: float) -> float:
    """The half width of normal noise, in its standard deviations."""
    return normal_point((1.0 - confidence) / 2.0)


def first_not_too_low(x: Floats, y: Floats, noise: Noises, k: Floats, ends: tuple[float, float]) -> Floats:
    """The first t between the ends with x - t y <= k sd(t), for y >= 0, sd(t) that of the noise of x - t y.

    x - t y - k sd(t) is concave in t: above 0 at the start, it has one root or none. If none, the end.
    """
    scale = np.maximum.reduce(np.broadcast_arrays(np.abs(x), y, noise.x, noise.y, 1e-150))
    x, y, sx, sy = x / scale, y / scale, noise.x / scale, noise.y / scale
    c, k2 = noise.shared / scale / scale, np.square(k)
    inner = np.square(y * sx) + np.square(x * sy) - 2 * x * y * c - k2 * (np.square(sx * sy) - np.square(c))
    b, root = x * y - k2 * c, k * np.sqrt(np.maximum(inner, 0.0))
    with np.errstate(all="ignore"):
        rising = (x - k * sx) * (x + k * sx) / (b + root)
        falling = (b - root) / ((y - k * sy) * (y + k * sy))
    crossing = np.clip(without_nan(np.where(b >= 0, rising, falling), 0.0), *ends)

    def too_low(t: float) -> Bools:
        variance = np.square(sx) - 2 * t * c + np.square(t * sy)
        return np.asarray(x - t * y > k * np.sqrt(np.maximum(variance, 0.0)))

    return np.where(too_low(ends[0]), np.where(too_low(ends[1]), ends[1], crossing), ends[0])


def row_part(numbers: Floats, part: slice) -> Floats:
    """Some rows, or the only one."""
    return numbers[part] if len(numbers) > 1 else numbers


def without_nan(values: Floats, otherwise: float) -> Floats:
    """The values, with what is no number replaced."""
    return np.where(np.isnan(values), otherwise, values)
