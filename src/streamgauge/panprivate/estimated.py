"""What a pan-private run releases: one estimate, its standard error, and an interval that is never
optimistic."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Protocol


class Within(Protocol):
    """Where the truth is, as far as the release tells."""

    def interval(self, confidence: float) -> tuple[float, float]:
        """Bounds that hold the truth with at least this probability, whatever the stream was."""
        ...


@dataclass(frozen=True)
class Estimated:
    """An estimate; all of it follows from what was released, so that all of it is public. It is unbiased, but
    of hashed users to first order. Hashed densities and `MultiplicativeDensity` are cut where no truth can
    be; all else is told as it was found, below 0 too, since a cut would make it biased. Intervals are cut.

    `value` is a part of the universe, or a mean over it; `stddev` is the standard error at that value.
    `universe` times as much are `count` and `count_stddev`: users, or events of users. `enough` is False of
    hashed users where first order says little: what is told is then off by more than `stddev`, and not as
    often to one side as to the other. Intervals hold all the same.
    """

    value: float
    stddev: float
    universe: int
    within: Within = field(repr=False)
    lowest: float = 0.0
    highest: float = 1.0
    enough: bool = True

    @property
    def count(self) -> float:
        return self.value * self.universe

    @property
    def count_stddev(self) -> float:
        return self.stddev * self.universe

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Bounds for the truth, cut to what a truth can be; they hold with at least `confidence`."""
        if not (isfinite(confidence) and 0 <= confidence < 1):
            raise ValueError(f"confidence must be at least 0 and below 1, got {confidence}")
        low, high = self.within.interval(confidence)
        return self._cut(low), self._cut(high)

    def _cut(self, bound: float) -> float:
        return min(max(bound, self.lowest), self.highest)
