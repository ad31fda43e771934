"""Estimates by counters that adapt to their data, in units of the data.

Such a counter tells with each release what is certain of it: an interval around its `centre`, which holds
whatever the data are. The value, the standard error (NaN where there is none apart from the data) and the
interval are those of the release, times the size of one step of the grid.
"""

from dataclasses import dataclass

import numpy as np

from streamgauge.adaptive import Bar, Released
from streamgauge.adaptive.bars import Widths
from streamgauge.noise.numbers import Floats
from streamgauge.statistics.estimate import Estimate


def adapted(released: Released, scale: float) -> Estimate:
    """What was released of some ticks; nothing is too little to go on, for nothing is divided."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        low, high = released.interval(confidence)
        return low * scale, high * scale

    def rows(part: slice) -> Estimate:
        return adapted(released.of_ticks(part), scale)

    enough = np.ones(released.value.shape, np.bool_)
    return Estimate(released.value * scale, lambda: released.stddev * scale, enough, intervals, rows)


@dataclass(frozen=True)
class Scaled:
    """The bar of a counter's releases in units of the data."""

    bar: Bar
    scale: float

    @property
    def stddev(self) -> Widths:
        return self.bar.stddev * self.scale

    def half_width(self, confidence: float) -> Widths:
        return self.bar.half_width(confidence) * self.scale
