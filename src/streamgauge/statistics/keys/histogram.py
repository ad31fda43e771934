"""Histogram of events by declared label, at every tick.

Every group has one bin for each label of `domain`, in that order. A release is an array of (width, bins),
with ticks in front if several were fed. Items that are none of the labels are dropped.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all bins.
    Proof: an event adds 1 to one bin of one group, so its presence moves a tick's vector by 1, however
    many bins there are. Replaced, it leaves a bin and enters another: 2 in L1, 2 in squared L2, two numbers.
    That applies in place too, since the bin changes with the value: public counts would make nothing cheaper.
    Every bin is released at every tick, empty or not, so only noise shows which labels have come.

Error
    Unbiased. Every bin has the standard error of the counter, which depends on no data. Bins may come out
    negative. `streamgauge.postprocess` has `project_nonnegative`, and may be used on any release.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.noise import Ints
from streamgauge.privacy import Sensitivity, Unit
from streamgauge.statistics.estimate import Estimate, build_linear_estimate
from streamgauge.statistics.events import Column, Domain
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, unit_sensitivity
from streamgauge.statistics.validation import require_declared


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic[Estimate]):
    """Number of events of each label. See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = Histogram(Pure(1), domain=["yes", "no"], horizon=24).start(noise=SilentNoise())
    >>> run.step(["no", "yes", "no", "perhaps", None]).value
    array([[1., 2.]])
    """

    domain: Sequence[Any] | None = None
    open_ticks: bool = False

    def check(self) -> None:
        object.__setattr__(self, "domain", self.labels.labels)

    @cached_property
    def labels(self) -> Domain:
        return Domain.from_labels("domain", require_declared("domain", self.domain, "the labels that are counted"))

    @property
    def channels(self) -> int:
        return len(self.labels)

    @property
    def tick_sensitivity(self) -> Sensitivity:
        return label_sensitivity(self.unit)

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        return build_label_increments(self.labels, rows[0], groups, width)

    def release(self, sums: NoisySums) -> Estimate:
        return build_linear_estimate(np.swapaxes(sums.channels, 1, 2), sums.noises, 1.0)


def label_sensitivity(unit: Unit) -> Sensitivity:
    """Return how far a unit moves counts by label."""
    return unit_sensitivity(unit, Sensitivity(1, 1), Sensitivity(2, 2, 2))


def build_label_increments(labels: Domain, items: Column, groups: Ints, width: int) -> Increments:
    """Return an increment of 1 for every event whose label is declared."""
    codes = labels.encode(items)
    events = np.flatnonzero(codes >= 0)
    return Increments(events, (codes[events] * width + groups[events])[:, None], np.ones((1, 1), np.int64))
