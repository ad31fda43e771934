"""Count, sum, mean and, with squares, spread of one expression, from one run.

    SELECT COUNT(x), SUM(x), AVG(x), VAR_SAMP(x), STDDEV_SAMP(x)        one vector, one loss, one count

Each number has its own error bars.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all five.
    Proof: an event has the increments of a `Mean` or, with `squares`, of a
    `Variance` (see `statistics.moments.moments`): the channels, their joint reach and their one counter
    are the same. All five are post-processing of these channels. So several aggregates of a SELECT
    share one count, and none of them is paid for twice. With `public_counts` the count is exact.

Error
    Count and sum are sums of channels with whole weights: unbiased, their standard errors known before any
    data (`predict_stddev`), their intervals those of the exact law of their noise. Mean and spread are as those of
    `Mean` and `Variance` of the whole loss. The count of a pure loss has 1.41 times the error of a `Count` of
    the whole loss, that of a zCDP one 1.94 times. With squares it is 2.45 and 1.60 times. A loss that is
    split evenly over a `Count` and a `Mean` has 2 times the error of both, or 1.41 times.

Reference
    "Private aggregates on streams", Algorithms 3 and 4, has a counter for each aggregate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial

from streamgauge.noise import NoiseSum
from streamgauge.statistics.estimate import Columns, Estimate, Floats, build_linear_estimate, check_confidence
from streamgauge.statistics.moments.mean import build_mean_moments, estimate_mean, predict_mean_stddev
from streamgauge.statistics.moments.moments import Moments, MomentStatistic
from streamgauge.statistics.moments.variance import (
    build_variance_moments,
    check_square_places,
    estimate_variance,
    predict_variance_stddev,
    take_root,
)
from streamgauge.statistics.statistic import ExpectedData, NoisySums
from streamgauge.statistics.validation import build_value_grid

LINEAR_MEASURES = ("count", "sum")
FIRST_ORDER_MEASURES = (*LINEAR_MEASURES, "mean")
SECOND_ORDER_MEASURES = ("variance", "stddev")


@dataclass(frozen=True, eq=False)
class SummaryEstimates:
    """`count`, `sum`, `mean` and, with squares, `variance` and `stddev`.

    Each is an `Estimate`, computed on first use. Their noise is shared: every interval is valid by itself, and the
    errors of one tick and group are dependent.
    """

    names: tuple[str, ...]
    _build: Callable[[str], Estimate] = field(repr=False)  # cached

    @property
    def count(self) -> Estimate:
        """Number of values."""
        return self.find("count")

    @property
    def sum(self) -> Estimate:
        return self.find("sum")

    @property
    def mean(self) -> Estimate:
        return self.find("mean")

    @property
    def variance(self) -> Estimate:
        """Sample variance."""
        return self.find("variance")

    @property
    def stddev(self) -> Estimate:
        """Standard deviation of the values, not of the noise."""
        return self.find("stddev")

    def find(self, name: str) -> Estimate:
        """Return the estimate of this name."""
        if name not in self.names:
            raise AttributeError(f"squares must be True for a {name}, got False")
        return self._build(name)

    def columns(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Return each estimate as columns, by its name."""
        check_confidence(confidence)
        return {name: Columns(confidence, partial(self.find, name)) for name in self.names}

    def select_tick(self, row: int) -> "SummaryEstimates":
        """Return the summary of one of several ticks."""
        return SummaryEstimates(self.names, cache(lambda name: self.find(name).select_tick(row)))

    @classmethod
    def stack(cls, releases: Sequence["SummaryEstimates"]) -> "SummaryEstimates":
        """Return the summaries of several ticks, one row each."""
        return cls(releases[0].names, cache(lambda name: Estimate.stack([each.find(name) for each in releases])))

    def __repr__(self) -> str:
        return f"SummaryEstimates({', '.join(f'{name}={self.find(name)!r}' for name in self.names)})"


@dataclass(frozen=True, kw_only=True)
class Summary(MomentStatistic[SummaryEstimates]):
    """Count, sum and mean of a column of numbers, with `squares=True` its spread.

    See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = Summary(Pure(1), lower=35, upper=42, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> seen = run.step([36.5, 38.0, 50.0, None, *[37.0] * 1000])
    >>> [number.value.round(3).tolist() for number in (seen.count, seen.sum, seen.mean)]
    [[1003.0], [37116.5], [37.005]]
    """

    squares: bool = False

    def check(self) -> None:
        if self.squares:
            check_square_places(self.moments)

    @cached_property
    def moments(self) -> Moments:
        measured = build_variance_moments if self.squares else build_mean_moments
        return measured(build_value_grid(self.lower, self.upper, self.step), self.loss, self.public_counts)

    @property
    def measures(self) -> tuple[str, ...]:
        return (*FIRST_ORDER_MEASURES, *SECOND_ORDER_MEASURES) if self.squares else FIRST_ORDER_MEASURES

    def release(self, sums: NoisySums) -> SummaryEstimates:
        found = SummaryEstimates(self.measures, cache(lambda name: makers[name]()))
        makers: dict[str, Callable[[], Estimate]] = {
            "count": partial(self._estimate_count, sums),
            "sum": partial(self._estimate_sum, sums),
            "mean": partial(estimate_mean, self.moments, sums),
            "variance": partial(estimate_variance, self.moments, sums),
            "stddev": lambda: take_root(found.variance),
        }
        return found

    def _estimate_count(self, sums: NoisySums) -> Estimate:
        if self.public_counts:
            return build_linear_estimate(sums.counts, sums.noises, 0.0, ())
        count = self.moments.count
        return build_linear_estimate(count.value(sums), sums.noises, count.scale, count.weights)

    def _estimate_sum(self, sums: NoisySums) -> Estimate:
        total = self.moments.total
        known: Floats | float = self.moments.middle_value * sums.counts if self.public_counts else 0.0
        return build_linear_estimate(total.value(sums) + known, sums.noises, total.scale, total.weights)

    def measure_noise_at(self, measure: str, tick: int) -> NoiseSum:
        """Return the exact noise law of a count or a sum at `tick`, before any data."""
        if measure not in LINEAR_MEASURES:
            raise ValueError(f"measure must be one of {', '.join(LINEAR_MEASURES)}, got {measure!r}")
        channel = self.linear_counter.noise_at(self.linear_counter.check_tick(tick))
        if measure == "count" and self.public_counts:
            return NoiseSum(())
        return (self.moments.count if measure == "count" else self.moments.total).noise(channel)

    def _predict_stddev(self, measure: str, tick: int, expected: ExpectedData) -> float:
        if measure in LINEAR_MEASURES:
            return self.measure_noise_at(measure, tick).stddev
        moments, spread = self.moments, self.linear_counter.stddev(tick)
        if measure == "mean":
            return predict_mean_stddev(moments, spread, expected.count, expected.mean)
        return predict_variance_stddev(moments, spread, expected, root=measure == "stddev")
