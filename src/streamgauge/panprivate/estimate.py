"""Estimates of pan-private runs: value, standard error, and a safe interval."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Protocol


class ConfidenceRegion(Protocol):
    """The values that the truth may have, given the release."""

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return bounds that contain the truth with at least this probability.

        They hold for all streams.
        """
        ...


@dataclass(frozen=True)
class PanPrivateEstimate:
    """An estimate. All of it follows from the release, so all of it is public.

    It is unbiased, of hashed users to first order. Hashed densities and `MultiplicativeDensity` are cut to possible
    values. All other values stay as they are, below 0 too, since a cut would make them biased. Intervals are cut.

    `value` is a part of the universe, or a mean over it. `stddev` is the standard error at that value. `count` and
    `count_stddev` are `universe` times as much: users, or events of users. `reliable` is False of hashed users if first
    order says little. The value is then off by more than `stddev`, and not as often to one side as to the other.
    Intervals hold all the same.
    """

    value: float
    stddev: float
    universe: int
    region: ConfidenceRegion = field(repr=False)
    lowest: float = 0.0
    highest: float = 1.0
    reliable: bool = True

    @property
    def count(self) -> float:
        return self.value * self.universe

    @property
    def count_stddev(self) -> float:
        return self.stddev * self.universe

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds of the truth, cut to possible values; they hold with `confidence`."""
        if not (isfinite(confidence) and 0 <= confidence < 1):
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence}")
        low, high = self.region.interval(confidence)
        return self._clip(low), self._clip(high)

    def _clip(self, bound: float) -> float:
        return min(max(bound, self.lowest), self.highest)
