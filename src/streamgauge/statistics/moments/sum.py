"""Sums of values at every tick: running, by tick, sliding or decayed.

Each value is clipped to [lower, upper] and rounded to a multiple of `step`. All arithmetic is on whole
numbers of steps.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds a whole number of steps in [lower/step, upper/step] to one group. Its presence
    moves a tick's vector by at most max(|lower|, |upper|)/step. With `public_counts` it is public who
    has an event in which tick and group, and only its value is not. Then a replacement in place moves it by
    (upper - lower)/step. Any other replacement moves it by twice the former in L1.
    An item that is not a number is dropped. Under `public_counts`, dropping would leak, so it counts as 0, clipped.

Error
    Unbiased for the clipped and rounded values. The standard error is that of the counter times `step`, and
    depends on no data, unless the counter adapts to them. Bounds that are narrower than the data bias the
    sum. Wider ones cost noise.

Reference
    "Private aggregates on streams" has sums of reals without a range, whose noise no scale can suffice.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.noise import Grid, Ints
from streamgauge.privacy import Sensitivity
from streamgauge.privacy.rationals import Number
from streamgauge.statistics.estimate import Estimate
from streamgauge.statistics.events import Column
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, Weights, unit_sensitivity
from streamgauge.statistics.validation import build_value_grid


@dataclass(frozen=True, kw_only=True)
class Sum(Statistic[Estimate]):
    """Sum of a column of numbers. See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = Sum(Pure(1), lower=0, upper=5, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> run.step([0.5, 7, None]).value.tolist()
    [5.5]
    """

    CAN_ADAPT: ClassVar[bool] = True
    CAN_SPAN_GROUPS: ClassVar[bool] = True
    lower: Number | None = None
    upper: Number | None = None
    step: Number | None = None
    public_counts: bool = False
    open_ticks: bool = False
    shorter_windows: tuple[int, ...] = ()  # ticks: more sliding windows, from the same run and loss

    def check(self) -> None:
        self.grid  # noqa: B018 - refuses bounds that make no grid

    @cached_property
    def grid(self) -> Grid:
        return build_value_grid(self.lower, self.upper, self.step)

    @property
    def absent_place(self) -> int | None:
        return int(self.grid.integers([None])[0]) if self.public_counts else None

    @property
    def is_signed(self) -> bool:
        return self.grid.first < 0

    @property
    def power_weights(self) -> Weights:
        return ((0, 1),)

    @property
    def scale(self) -> float:
        return float(self.grid.step)

    @property
    def tick_sensitivity(self) -> Sensitivity:
        peak, span = max(1, self.grid.bound()), max(1, self.grid.bound(replace=True))
        single, pair = Sensitivity(peak, peak**2), Sensitivity(span, span**2)
        return unit_sensitivity(self.unit, single, pair, in_place=self.public_counts, groups=self.groups_per_event)

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        integers = self.grid.integers(rows[0])
        there = np.ones(len(integers), np.bool_) if self.public_counts else self.grid.find_present(rows[0])
        events = np.flatnonzero(there)
        return Increments(events, groups[events][:, None], integers[events][:, None])

    def release(self, sums: NoisySums) -> Estimate:
        return sums.estimate(self.scale)
