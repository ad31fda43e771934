"""Frequencies: how many reports are of each item, with standard errors and intervals. Public as the reports
are."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from streamgauge.localdp.oracle import Item
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Estimates, item by item. `count` is unbiased, and so may be below 0 or above `reports`; `stddev` is its
    standard error at that count, with the collisions of hashes in it."""

    items: tuple[Item, ...]
    count: Floats
    stddev: Floats
    reports: int

    @property
    def share(self) -> Floats:
        """The part of all reports."""
        return self.count / max(self.reports, 1)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends, cut to what a count can be, by the normal law: each end is a sum over all
        reports."""
        if not (isfinite(confidence) and 0 < confidence < 1):
            raise ValueError(f"confidence must be above 0 and below 1, got {confidence}")
        wide = normal_point((1 - confidence) / 2) * self.stddev
        low, high = (np.clip(self.count + side * wide, 0, self.reports) for side in (-1, 1))
        return low, high

    def top(self, count: int) -> "Frequencies":
        """The items of the largest estimates, largest first."""
        if count < 0:
            raise ValueError(f"count must be at least 0, got {count}")
        order = np.argsort(-self.count, kind="stable")[:count]
        items = tuple(self.items[place] for place in order)
        return Frequencies(items, self.count[order], self.stddev[order], self.reports)
