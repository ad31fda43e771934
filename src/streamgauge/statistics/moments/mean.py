"""Means at every tick: noisy sum over noisy count, with intervals for any count.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds two whole numbers to its group's channels (see `statistics.moments.moments`).
    The one counter of both is calibrated to their joint reach. With `public_counts` it is public which users have an
    event in which tick and group, and only values are not. Then the count is exact, costs nothing, and the sum alone
    is counted. Everything else is decoded from noisy sums. The noisy count alone decides whether there is enough data.

Error
    Values are centred, so that noise in the count matters only as far as the mean is off the middle of the
    bounds: the standard error is about H sqrt(Var S + u^2 Var N)/n. Intervals are Fieller's, and valid at
    every count (`statistics.moments.intervals`, which also explains why pure losses count 1 + u and 1 - u).

Reference
    "Private aggregates on streams", Algorithm 3, corrected: its noise does not know the range of values, it
    uses 0 for a missing value, and its utility is a conjecture; docs/errata.md.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamgauge.noise import Grid
from streamgauge.privacy import Loss, Pure
from streamgauge.statistics.estimate import Estimate, Floats, concatenate_bounds, half_width_factors, split_rows
from streamgauge.statistics.moments import intervals as ratio
from streamgauge.statistics.moments.moments import Moments, MomentStatistic
from streamgauge.statistics.statistic import ExpectedData, NoisySums
from streamgauge.statistics.validation import build_value_grid


@dataclass(frozen=True, kw_only=True)
class Mean(MomentStatistic[Estimate]):
    """Mean of a column of numbers. See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = Mean(Pure(1), lower=35, upper=42, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> run.step([36.5, 38.0, 50.0, None, *[37.0] * 1000]).value.round(3).tolist()
    [37.005]
    """

    def check(self) -> None:
        self.moments  # noqa: B018 - refuses bounds that make no grid

    @cached_property
    def moments(self) -> Moments:
        return build_mean_moments(build_value_grid(self.lower, self.upper, self.step), self.loss, self.public_counts)

    def release(self, sums: NoisySums) -> Estimate:
        return estimate_mean(self.moments, sums)

    def stddev(self, tick: int, count: float = 0.0, mean: float | None = None) -> float:
        """Return the expected standard error at `tick` of a mean over `count` events.

        It uses the delta method. If the count is too small, it is that of the least sufficient count. Without a `mean`,
        it is the worst case.
        """
        return predict_mean_stddev(self.moments, self.linear_counter.stddev(tick), count, mean)

    def _predict_stddev(self, measure: str, tick: int, expected: ExpectedData) -> float:
        return self.stddev(tick, expected.count, expected.mean)


def build_mean_moments(grid: Grid, loss: Loss, public_counts: bool) -> Moments:
    """Return the channels of a mean."""
    if public_counts:
        return Moments(grid, ((1,),), first_power=1)
    return Moments(grid, ratio.L1_MEAN_ROWS if isinstance(loss, Pure) else ratio.L2_MEAN_ROWS)


def estimate_mean(moments: Moments, noisy: NoisySums) -> Estimate:
    """Return the means of all ticks of the sums."""
    sums, parts = moments.decode_sums(noisy), split_rows(len(noisy.sums), noisy.width)

    def real(u: Floats) -> Floats:
        return moments.middle_value + moments.half_range * u

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        factor = half_width_factors(noisy.noises, confidence, len(moments.rows))
        of = [(sums.select_rows(part), ratio.select_rows(factor, part)) for part in parts]
        low, high = concatenate_bounds(ratio.mean_interval(*some, confidence) for some in of)
        return real(low), real(high)

    def error() -> Floats:
        return moments.half_range * np.concatenate([ratio.mean_error(sums.select_rows(part)) for part in parts])

    def rows(part: slice) -> Estimate:
        return estimate_mean(moments, noisy.select_ticks(part))

    return Estimate(real(ratio.mean(sums)), error, ratio.is_reliable(sums), intervals, rows)


def predict_mean_stddev(moments: Moments, spread: float, count: float, mean: float | None) -> float:
    """Return the expected standard error, if each channel has that of `spread`."""
    u = 1.0 if mean is None else (mean - moments.middle_value) / moments.half_range
    sums = moments.predict_sums(spread, count, u)
    return float(moments.half_range * ratio.mean_error(sums)[0])
