"""All that is asked of one expression, from one run: count, sum and mean and, with squares, the spread.

    SELECT COUNT(x), SUM(x), AVG(x), VAR_SAMP(x), STDDEV_SAMP(x)        one vector, one loss, one count

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all five.
    Proof: an event adds to its group's channels what it adds to those of a `Mean` or, with `squares`, of a
    `Variance` (see `streamgauge.statistics.moments`): the channels, their joint reach and their one counter
    are the same. All five are read off them, and that is post-processing: several aggregates of a SELECT
    share one count, and none of them is paid for twice. With `public_counts` the count is exact.

Error
    Count and sum are sums of channels with whole weights: unbiased, their standard errors known before any
    data (`stddev_of`), their intervals those of the exact law of their noise. Mean and spread are as those of
    `Mean` and `Variance` of the whole loss. The count of a pure loss has 1.41 times the error of a `Count` of
    the whole loss, that of a zCDP one 1.94 times; with squares it is 2.45 and 1.60 times. A loss that is
    split evenly over a `Count` and a `Mean` has 2 times the error of both, or 1.41 times.

Reference
    "Private aggregates on streams", Algorithms 3 and 4, has a counter for each aggregate.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from streamgauge.noise import NoiseSum
from streamgauge.privacy import Event, Loss, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics.estimate import Estimate, Floats, linear
from streamgauge.statistics.mean import mean_moments, mean_of, predicted_mean
from streamgauge.statistics.moments import Moments, OfMoments
from streamgauge.statistics.reaches import check_public_counts
from streamgauge.statistics.settings import value_grid
from streamgauge.statistics.statistic import Expected, Told
from streamgauge.statistics.summaries import FIRST, LINEAR, SECOND, Summaries, stacked_summaries
from streamgauge.statistics.tuned import AskedMechanism
from streamgauge.statistics.variance import (
    check_places,
    predicted_variance,
    rooted,
    variance_moments,
    variance_of,
)


@dataclass(frozen=True)
class Summary(OfMoments[Summaries]):
    """Count, sum and mean of a column of numbers, with `squares=True` its spread; see the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> run = Summary(Pure(1), lower=35, upper=42, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> seen = run.step([36.5, 38.0, 50.0, None, *[37.0] * 1000])
    >>> [number.value.round(3).tolist() for number in (seen.count, seen.sum, seen.mean)]
    [[1003.0], [37116.5], [37.005]]
    """

    loss: Loss
    _: KW_ONLY
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    squares: bool = False
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    public_counts: bool = False
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        if self.squares:
            check_places(self.moments)
        check_public_counts(self)

    @cached_property
    def moments(self) -> Moments:
        measured = variance_moments if self.squares else mean_moments
        return measured(value_grid(self.lower, self.upper, self.step), self.loss, self.public_counts)

    @property
    def measures(self) -> tuple[str, ...]:
        return (*FIRST, *SECOND) if self.squares else FIRST

    def release(self, told: Told) -> Summaries:
        makers = {"count": self._count, "sum": self._sum, "mean": self._mean, "variance": self._variance}

        def made(name: str) -> Estimate:
            return rooted(found.variance) if name == "stddev" else makers[name](told)

        found = Summaries(self.measures, made)
        return found

    def joined(self, releases: Sequence[Summaries]) -> Summaries:
        return stacked_summaries(releases)

    def _count(self, told: Told) -> Estimate:
        if self.public_counts:
            return linear(told.counts, told.noises, 0.0, ())
        count = self.moments.count
        return linear(count.value(told), told.noises, count.scale, count.weights)

    def _sum(self, told: Told) -> Estimate:
        total = self.moments.total
        known: Floats | float = self.moments.middle * told.counts if self.public_counts else 0.0
        return linear(total.value(told) + known, told.noises, total.scale, total.weights)

    def _mean(self, told: Told) -> Estimate:
        return mean_of(self.moments, told)

    def _variance(self, told: Told) -> Estimate:
        return variance_of(self.moments, told)

    def noise_of(self, measure: str, tick: int) -> NoiseSum:
        """The exact law of the noise in a count or a sum at `tick`, before any data."""
        if measure not in LINEAR:
            raise ValueError(f"measure must be one of {', '.join(LINEAR)}, got {measure!r}")
        channel = self.linear.noise_at(self.linear.checked(tick))
        if measure == "count" and self.public_counts:
            return NoiseSum(())
        return (self.moments.count if measure == "count" else self.moments.total).noise(channel)

    def _predicted(self, measure: str, tick: int, expected: Expected) -> float:
        if measure in LINEAR:
            return self.noise_of(measure, tick).stddev
        moments, spread = self.moments, self.linear.stddev(tick)
        if measure == "mean":
            return predicted_mean(moments, spread, expected.count, expected.mean)
        return predicted_variance(moments, spread, expected, root=measure == "stddev")
