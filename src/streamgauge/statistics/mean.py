"""Means at every tick: a noisy sum over a noisy count, with intervals that hold at small counts too.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds two whole numbers to its group's channels (see `streamgauge.statistics.moments`),
    whose joint reach the one counter of both is calibrated to. With `public_counts` (who has an event in
    which tick and group is public; only values are not) the count is exact, costs nothing, and the sum alone
    is counted. All else is decoded from noisy sums; whether there is enough to go on is read off the noisy
    count.

Error
    Values are centred, so that noise in the count matters only as far as the mean is off the middle of the
    bounds: the standard error is about H sqrt(Var S + u^2 Var N)/n. Intervals are Fieller's, and hold at
    every count (`streamgauge.statistics.ratio`, which also says why pure losses count 1 + u and 1 - u).

Reference
    "Private aggregates on streams", Algorithm 3, corrected: its noise does not know the range of values, it
    takes 0 for a missing value, and its utility is a conjecture; docs/errata.md.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np

from streamgauge.noise import Grid
from streamgauge.privacy import Event, Loss, Pure, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics import ratio
from streamgauge.statistics.estimate import Estimate, Floats
from streamgauge.statistics.moments import Moments, OfMoments
from streamgauge.statistics.noises import factors
from streamgauge.statistics.pieces import both_ends, pieces
from streamgauge.statistics.reaches import check_public_counts
from streamgauge.statistics.settings import value_grid
from streamgauge.statistics.statistic import Expected, Told
from streamgauge.statistics.tuned import AskedMechanism


@dataclass(frozen=True)
class Mean(OfMoments[Estimate]):
    """The mean of a column of numbers; see the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> run = Mean(Pure(1), lower=35, upper=42, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> run.step([36.5, 38.0, 50.0, None, *[37.0] * 1000]).value.round(3).tolist()
    [37.005]
    """

    loss: Loss
    _: KW_ONLY
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    public_counts: bool = False
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        self.moments  # noqa: B018 - refuses bounds that make no grid
        check_public_counts(self)

    @cached_property
    def moments(self) -> Moments:
        return mean_moments(value_grid(self.lower, self.upper, self.step), self.loss, self.public_counts)

    def release(self, told: Told) -> Estimate:
        return mean_of(self.moments, told)

    def stddev(self, tick: int, count: float = 0.0, mean: float | None = None) -> float:
        """The standard error at `tick` to be expected of a mean over so many events, by the delta method.

        Where the count is not enough to go on, that of the least count that is. Without a `mean`, the worst.
        """
        return predicted_mean(self.moments, self.linear.stddev(tick), count, mean)

    def _predicted(self, measure: str, tick: int, expected: Expected) -> float:
        return self.stddev(tick, expected.count, expected.mean)


def mean_moments(grid: Grid, loss: Loss, public_counts: bool) -> Moments:
    """What is measured for a mean."""
    if public_counts:
        return Moments(grid, ((1,),), first=1)
    return Moments(grid, ratio.UP_AND_DOWN if isinstance(loss, Pure) else ratio.COUNT_AND_SUM)


def mean_of(moments: Moments, told: Told) -> Estimate:
    """The means of all ticks told of."""
    sums, parts = moments.sums(told), pieces(len(told.sums), told.width)

    def real(u: Floats) -> Floats:
        return moments.middle + moments.half * u

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        factor = factors(told.noises, confidence, len(moments.rows))
        of = [(sums.rows(part), ratio.row_part(factor, part)) for part in parts]
        low, high = both_ends(ratio.mean_interval(*some, confidence) for some in of)
        return real(low), real(high)

    def error() -> Floats:
        return moments.half * np.concatenate([ratio.mean_error(sums.rows(part)) for part in parts])

    def rows(part: slice) -> Estimate:
        return mean_of(moments, told.rows(part))

    return Estimate(real(ratio.mean(sums)), error, ratio.enough(sums), intervals, rows)


def predicted_mean(moments: Moments, spread: float, count: float, mean: float | None) -> float:
    """The standard error to be expected, if each channel has that of `spread`."""
    u = 1.0 if mean is None else (mean - moments.middle) / moments.half
    sums = moments.expected(spread, count, u)
    return float(moments.half * ratio.mean_error(sums)[0])
