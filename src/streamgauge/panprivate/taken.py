"""Where the load of cells is, from where the part of them that is taken was told to be.

Promise
    Let h(g) be the least half width with P(|told - g| > h) <= beta, if g is the mean part that is taken. Then
    |told - g| <= h(g) with chance 1 - beta, and whatever half width holds for all g between what was told
    and some end is no less than h(g) there. So, from the widest ends on, each end is brought nearer by the
    half width of what is still between: no g is lost that was within h(g).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from streamgauge.panprivate.deviations import Deviation, half_width
from streamgauge.panprivate.occupancy import Occupied

ROUNDS = 8
ENOUGH = 0.99  # of a half width: nearer is not worth another round


@dataclass(frozen=True, eq=False)
class Taken:
    """Where the load is, from where the taken part is; see the module."""

    occupied: Occupied
    told: float
    parts: Callable[[float, float], Sequence[Deviation]]  # if the mean part is from one number to another

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = (self._end(side, confidence) for side in (-1, 1))
        last = float(self.occupied.load(high)) if high < 1 - 0.5 / self.occupied.entries else inf
        return float(self.occupied.load(max(low, 0.0))), last

    def _end(self, side: int, confidence: float) -> float:
        half = inf
        for _ in range(ROUNDS):
            low, high = sorted(min(max(each, 0.0), 1.0) for each in (self.told, self.told + side * half))
            nearer = min(half, half_width(self.parts(low, high), confidence))
            if nearer > ENOUGH * half:
                break
            half = nearer
        return self.told + side * nearer
