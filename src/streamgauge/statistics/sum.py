"""Sums of values, at every tick: running, tick by tick, over a sliding window, or decayed.

Each value is clipped to [lower, upper] and rounded to a multiple of `step`; all arithmetic is on whole
numbers of steps.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds a whole number of steps within [lower/step, upper/step] to one group. Its presence
    moves a tick's vector by at most max(|lower|, |upper|)/step. Replaced in place, with `public_counts` (who
    has an event in which tick and group is public, only its value is not), it moves by
    (upper - lower)/step; replaced in any way, by twice the former in L1.
    What is no number is dropped; under `public_counts`, where dropping would tell, it counts as 0, clipped.

Error
    Unbiased for the clipped and rounded values; the standard error is that of the counter times `step`, and
    depends on no data, unless the counter adapts to them. Bounds that are narrower than the data bias the
    sum; wider ones cost noise.

Reference
    "Private aggregates on streams" has sums of reals without a range, whose noise no scale can suffice.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.noise import Grid, Ints
from streamgauge.privacy import Event, Loss, Reach, Unit
from streamgauge.privacy.exact import Number
from streamgauge.statistics.columns import Column
from streamgauge.statistics.estimate import Estimate
from streamgauge.statistics.power_sums import Weights
from streamgauge.statistics.reaches import check_public_counts, unit_reach
from streamgauge.statistics.settings import value_grid
from streamgauge.statistics.statistic import Marks, Statistic, Told
from streamgauge.statistics.tuned import AskedMechanism


@dataclass(frozen=True)
class Sum(Statistic[Estimate]):
    """The sum of a column of numbers; see the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> run = Sum(Pure(1), lower=0, upper=5, step=0.1, horizon=24).start(noise=SilentNoise())
    >>> run.step([0.5, 7, None]).value.tolist()
    [5.5]
    """

    ADAPTS: ClassVar[bool] = True
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
        self.grid  # noqa: B018 - refuses bounds that make no grid
        check_public_counts(self)

    @cached_property
    def grid(self) -> Grid:
        return value_grid(self.lower, self.upper, self.step)

    @property
    def absent(self) -> int | None:
        return int(self.grid.integers([None])[0]) if self.public_counts else None

    @property
    def signed(self) -> bool:
        return self.grid.first < 0

    @property
    def power_weights(self) -> Weights:
        return ((0, 1),)

    @property
    def scale(self) -> float:
        return float(self.grid.step)

    @property
    def reach(self) -> Reach:
        peak, span = max(1, self.grid.bound()), max(1, self.grid.bound(replace=True))
        single, pair = Reach(peak, peak**2), Reach(span, span**2)
        return unit_reach(self.unit, single, pair, in_place=self.public_counts)

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        integers = self.grid.integers(rows[0])
        there = np.ones(len(integers), np.bool_) if self.public_counts else self.grid.present(rows[0])
        events = np.flatnonzero(there)
        return Marks(events, groups[events][:, None], integers[events][:, None])

    def release(self, told: Told) -> Estimate:
        return told.estimate(self.scale)
