"""Sample variances and standard deviations at every tick, with intervals that hold at small counts too.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds three whole numbers to its group's channels (see `streamgauge.statistics.moments`),
    whose joint reach the one counter of all is calibrated to. With `public_counts` the count is exact, costs
    nothing, and two channels are counted. All else is decoded from noisy sums.

Error
    Values are centred, squares are measured where they vary least (`streamgauge.statistics.spread` says which
    channels, and what they gain over a budget split in three), and the known bias of squaring a noisy sum is
    taken off. Intervals are of Fieller's kind, calibrated by simulation: they cover from 93 to 98 % at 95 %,
    and from 92.5 to 99 % with public counts.

Reference
    "Private aggregates on streams", Algorithm 4, corrected: as printed it spends its budget three times, on
    five counters of which three are the same count, and its noise does not know the range; docs/errata.md.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache

import numpy as np

from streamgauge.noise import Grid
from streamgauge.privacy import Event, Loss, Pure, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics import ratio, spread
from streamgauge.statistics.estimate import Estimate, Floats
from streamgauge.statistics.moments import MOST_PLACES, Moments, OfMoments
from streamgauge.statistics.noises import factors
from streamgauge.statistics.pieces import both_ends, pieces
from streamgauge.statistics.reaches import check_public_counts
from streamgauge.statistics.settings import value_grid
from streamgauge.statistics.statistic import Expected, Told
from streamgauge.statistics.tuned import AskedMechanism

EVEN = 1 / 3  # the variance of values spread evenly over [-1, 1]


@dataclass(frozen=True)
class Variance(OfMoments[Estimate]):
    """The sample variance of a column of numbers or, with `root=True`, the standard deviation.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> run = Variance(Pure(1), lower=0, upper=10, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> run.step([4.0, 6.0] * 5000).value.round(4).tolist()
    [1.0001]
    """

    loss: Loss
    _: KW_ONLY
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    root: bool = False
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    public_counts: bool = False
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        check_places(self.moments)
        check_public_counts(self)

    @cached_property
    def moments(self) -> Moments:
        return variance_moments(value_grid(self.lower, self.upper, self.step), self.loss, self.public_counts)

    def release(self, told: Told) -> Estimate:
        found = variance_of(self.moments, told)
        return rooted(found) if self.root else found

    def stddev(
        self, tick: int, count: float = 0.0, mean: float | None = None, variance: float | None = None
    ) -> float:
        """The standard error at `tick` to be expected over so many events, by the delta method.

        Where the count is not enough to go on, that of the least count that is. Without a `mean` it is that
        of values about the middle, without a `variance` that of values spread evenly over the range.
        """
        expected = Expected(count, mean, variance)
        return predicted_variance(self.moments, self.linear.stddev(tick), expected, root=self.root)

    def _predicted(self, measure: str, tick: int, expected: Expected) -> float:
        return self.stddev(tick, expected.count, expected.mean, expected.variance)


def check_places(moments: Moments) -> None:
    """Refuses grids whose squares would not fit."""
    if moments.places > MOST_PLACES:
        most = f"must leave at most {MOST_PLACES} places between the bounds"
        raise ValueError(f"step {most}, got {moments.grid.step}")


def variance_moments(grid: Grid, loss: Loss, public_counts: bool) -> Moments:
    """What is measured for a variance."""
    pure = isinstance(loss, Pure)
    if public_counts:
        return Moments(grid, spread.PAIR if pure else spread.WEIGHED_PAIR, first=1)
    return Moments(grid, spread.CORNERS if pure else spread.SHIFTED)


def variance_of(moments: Moments, told: Told) -> Estimate:
    """The variances of all ticks told of."""
    unit, squares, parts = moments.half**2, moments.squares(told), pieces(len(told.sums), told.width)
    some = [squares.rows(part) for part in parts]

    @lru_cache(maxsize=1)
    def ends(confidence: float) -> tuple[Floats, Floats]:
        factor = factors(told.noises, confidence, len(moments.rows))
        of = zip(some, [ratio.row_part(factor, part) for part in parts], strict=True)
        return both_ends(spread.variance_interval(own, k, confidence) for own, k in of)

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        low, high = ends(confidence)
        return unit * low, unit * high

    def error() -> Floats:
        return unit * np.concatenate([spread.variance_error(own) for own in some])

    def rows(part: slice) -> Estimate:
        return variance_of(moments, told.rows(part))

    value = unit * np.concatenate([spread.variance(own) for own in some])
    return Estimate(value, error, ratio.enough(squares.sums), intervals, rows)


def rooted(variance: Estimate) -> Estimate:
    """The standard deviation."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        low, high = variance.interval(confidence)
        return np.sqrt(low), np.sqrt(high)

    def rows(part: slice) -> Estimate:
        return rooted(variance.of_ticks(part))

    def error() -> Floats:
        return root_error(variance.value, variance.stddev)

    return Estimate(np.sqrt(variance.value), error, variance.enough, intervals, rows)


def root_error(variance: Floats, error: Floats) -> Floats:
    """The standard error of a root by the delta method, at most that of a variance of 0."""
    return np.asarray(np.minimum(error / (2 * np.sqrt(np.maximum(variance, 1e-300))), np.sqrt(error)))


def predicted_variance(moments: Moments, spread_: float, expected: Expected, *, root: bool) -> float:
    """The standard error to be expected, if each channel has that of `spread_`."""
    half = moments.half
    u = 0.0 if expected.mean is None else (expected.mean - moments.middle) / half
    w = EVEN if expected.variance is None else expected.variance / half**2
    squares = moments.expected_squares(spread_, expected.count, u, w)
    error = half**2 * spread.variance_error(squares)
    return float((root_error(np.array([half**2 * w]), error) if root else error)[0])
