"""Frequencies: how many reports are of each item, with standard errors and intervals. Public as the reports
are."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from streamgauge.localdp.collisions import Errors
from streamgauge.localdp.oracle import Item
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats

ROUNDS = 4  # each brings the lower end nearer by a digit or so


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Estimates, item by item. `count` is unbiased, and so may be below 0 or above `reports`; `stddev` is its
    standard error at that count, with the collisions of hashes in it; `errors` says more of it."""

    items: tuple[Item, ...]
    count: Floats
    stddev: Floats
    reports: int
    errors: Errors | None = None

    @property
    def share(self) -> Floats:
        """The part of all reports."""
        return self.count / max(self.reports, 1)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends, cut to what a count can be. Chance is a sum over all reports, and normal;
        collisions, which make estimates too large more than too small, are by their own law. The lower end
        is the least count that would be estimated as this one is, or larger, but for the tail."""
        if not (isfinite(confidence) and 0 < confidence < 1):
            raise ValueError(f"confidence must be above 0 and below 1, got {confidence}")
        tail = (1 - confidence) / 2
        wide = normal_point(tail) * self.stddev
        low, high = self._lower(self.count - wide, tail), self.count + wide
        return np.clip(low, 0, self.reports), np.clip(high, 0, self.reports)

    def _lower(self, low: Floats, tail: float) -> Floats:
        if self.errors is not None:
            for _ in range(ROUNDS):
                low = np.minimum(low, self.count - self.errors.above(low, tail))
        return low

    def top(self, count: int) -> "Frequencies":
        """The items of the largest estimates, largest first."""
        if count < 0:
            raise ValueError(f"count must be at least 0, got {count}")
        order = np.argsort(-self.count, kind="stable")[:count]
        items = tuple(self.items[place] for place in order)
        return Frequencies(items, self.count[order], self.stddev[order], self.reports, self.errors)
