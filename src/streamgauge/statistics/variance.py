"""Sample variances and standard deviations at every tick, with intervals that hold at small counts too.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds three whole numbers to its group's channels (see `streamgauge.statistics.moments`),
    whose joint reach the one counter of all is calibrated to. With `public_counts` the count is exact, costs
    nothing, and two channels are counted. All else is decoded from noisy sums.

Error
    Values are centred, squares are measured where they vary least (`streamgauge.statistics.spread` says which
    channels, and what they gain over a budget split in three), and the known bias of squaring a noisy sum is
    taken off. Intervals are of Fieller's kind, calibrated by simulation: they cover from 93 to 98 % at 95 %.

Reference
    "Private aggregates on streams", Algorithm 4, corrected: as printed it spends its budget three times, on
    five counters of which three are the same count, and its noise does not know the range; docs/errata.md.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.continual import Mechanism
from streamgauge.privacy import Event, Loss, Pure, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics import ratio, spread
from streamgauge.statistics.estimate import Estimate, Floats, factors
from streamgauge.statistics.moments import MOST_PLACES, Moments, OfMoments
from streamgauge.statistics.reaches import check_public_counts
from streamgauge.statistics.settings import value_grid
from streamgauge.statistics.statistic import Told

EVEN = 1 / 3  # the variance of values spread evenly over [-1, 1]


@dataclass(frozen=True)
class Variance(OfMoments):
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
    mechanism: type[Mechanism[Any]] | None = None
    pan_private: bool = False
    public_counts: bool = False
    unit: Unit = Event()

    def check(self) -> None:
        if self.moments.places > MOST_PLACES:
            most = f"must leave at most {MOST_PLACES} places between the bounds"
            raise ValueError(f"step {most}, got {self.moments.grid.step}")
        check_public_counts(self)

    @cached_property
    def moments(self) -> Moments:
        grid = value_grid(self.lower, self.upper, self.step)
        pure = isinstance(self.loss, Pure)
        if self.public_counts:
            return Moments(grid, spread.PAIR if pure else spread.WEIGHED_PAIR, first=1)
        return Moments(grid, spread.CORNERS if pure else spread.SHIFTED)

    def release(self, told: Told) -> Estimate:
        squares = self.moments.squares(told)
        point = spread.variance(squares)

        def intervals(confidence: float) -> tuple[Floats, Floats]:
            low, high = spread.variance_interval(
                squares, factors(told.noises, confidence, self.channels), confidence
            )
            return self._real(low), self._real(high)

        def error() -> Floats:
            return self._real_error(point, spread.variance_error(squares))

        def rows(part: slice) -> Estimate:
            return self.release(told.rows(part))

        return Estimate(self._real(point), error, ratio.enough(squares.sums), intervals, rows)

    def stddev(
        self, tick: int, count: float = 0.0, mean: float | None = None, variance: float | None = None
    ) -> float:
        """The standard error at `tick` to be expected over so many events, by the delta method.

        Where the count is not enough to go on, that of the least count that is. Without a `mean` it is that
        of values about the middle, without a `variance` that of values spread evenly over the range.
        """
        half = self.moments.half
        u = 0.0 if mean is None else (mean - self.moments.middle) / half
        w = EVEN if variance is None else variance / half**2
        squares = self.moments.expected_squares(self.counter.stddev(tick), count, u, w)
        return float(self._real_error(np.array([w]), spread.variance_error(squares))[0])

    def _real(self, w: Floats) -> Floats:
        """Back to the scale of the data."""
        half = self.moments.half
        return np.asarray(half * np.sqrt(w) if self.root else half**2 * w)

    def _real_error(self, w: Floats, error: Floats) -> Floats:
        """The standard error; that of a root by the delta method, at most that of a variance of 0."""
        half = self.moments.half
        if not self.root:
            return half**2 * error
        return np.asarray(half * np.minimum(error / (2 * np.sqrt(np.maximum(w, 1e-300))), np.sqrt(error)))
