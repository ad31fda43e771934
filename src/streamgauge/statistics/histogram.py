"""Counts of events by label, over labels that were declared: a histogram at every tick.

Every group has one bin for each label of `domain`, in that order; a release is an array of (width, bins),
with ticks in front if several were fed. Items that are none of the labels are dropped.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all bins.
    Proof: an event adds 1 to one bin of one group, so that its presence moves a tick's vector by 1, however
    many bins there are. Replaced, it leaves a bin and enters another: 2 in L1, 2 in squared L2, two numbers.
    That holds in place too, since the bin changes with the value: public counts would make nothing cheaper.
    Every bin is released at every tick, empty or not, so that which labels have come is told by noise alone.

Error
    Unbiased; every bin has the standard error of the counter, which depends on no data. Bins may come out
    negative; `streamgauge.postprocess` has `non_negative`, and may be used on any release.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.noise import Ints
from streamgauge.privacy import Event, Loss, Reach, Unit
from streamgauge.statistics.columns import Column, Domain
from streamgauge.statistics.estimate import Estimate, linear
from streamgauge.statistics.reaches import unit_reach
from streamgauge.statistics.settings import declared
from streamgauge.statistics.statistic import Marks, Statistic, Told
from streamgauge.statistics.tuned import AskedMechanism


@dataclass(frozen=True)
class Histogram(Statistic[Estimate]):
    """How many events had each label; see the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> run = Histogram(Pure(1), domain=["yes", "no"], horizon=24).start(noise=SilentNoise())
    >>> run.step(["no", "yes", "no", "perhaps", None]).value
    array([[1., 2.]])
    """

    loss: Loss
    _: KW_ONLY
    domain: Sequence[Any] | None = None
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    unit: Unit = Event()
    open_ticks: bool = False

    def check(self) -> None:
        object.__setattr__(self, "domain", self.labels.labels)

    @cached_property
    def labels(self) -> Domain:
        return Domain.of("domain", declared("domain", self.domain, "the labels that are counted"))

    @property
    def channels(self) -> int:
        return len(self.labels)

    @property
    def reach(self) -> Reach:
        return label_reach(self.unit)

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        return label_marks(self.labels, rows[0], groups, width)

    def release(self, told: Told) -> Estimate:
        return linear(np.swapaxes(told.channels, 1, 2), told.noises, 1.0)


def label_reach(unit: Unit) -> Reach:
    """How far a unit moves counts by label."""
    return unit_reach(unit, Reach(1, 1), Reach(2, 2, 2))


def label_marks(labels: Domain, items: Column, groups: Ints, width: int) -> Marks:
    """One for every event whose label is known."""
    codes = labels.codes(items)
    events = np.flatnonzero(codes >= 0)
    return Marks(events, (codes[events] * width + groups[events])[:, None], np.ones((1, 1), np.int64))
