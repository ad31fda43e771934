"""Independent coins of which one knows how many are heads in the mean, and how much that varies, but not
which coin has which chance: a part of an error.

    log E exp(l S) <= count [log(1 - p + p e^l) - l p]    p their mean chance: the logarithm is concave
    log E exp(l S) <= variance (e^|l| - 1 - |l|)          since none is off by more than 1 (Bennett 1962)
"""

from dataclasses import dataclass
from math import exp, expm1, inf, log, log1p

FAR = 500.0  # beyond it e^l is all that there is


@dataclass(frozen=True)
class Coins:
    """`count` coins less their means, times `weight`."""

    count: int
    weight: float
    chances: tuple[float, float]  # bounds of their mean chance
    numbers: tuple[float, float]  # bounds of the variance of how many are heads
    least: float = 0.0  # of the variance of each
    alone: bool = True  # whether all else in the error is independent of them

    @property
    def variances(self) -> tuple[float, float]:
        low, high = self.numbers
        return low * self.weight**2, high * self.weight**2

    @property
    def third(self) -> float:
        """That of a coin of variance v is v (1 - 2 v)."""
        return self.numbers[1] * (1 - 2 * self.least) * abs(self.weight) ** 3 if self.alone else inf

    def log_mgf(self, tilt: float) -> float:
        size = abs(tilt * self.weight)
        if size > FAR:
            return self.count * size
        both = max(self._heads(size), self._heads(-size))
        return min(self.count * both, self.numbers[1] * max(expm1(size) - size, 0.0))

    def _heads(self, tilt: float) -> float:
        """The most of log(1 - p + p e^l) - l p, which is concave in p."""
        if not tilt:
            return 0.0
        low, high = self.chances
        chance = min(max(1 / tilt - 1 / expm1(tilt), low), high)
        if tilt > 1:
            return log(chance + (1 - chance) * exp(-tilt)) + tilt * (1 - chance) if chance > 0 else 0.0
        return max(log1p(chance * expm1(tilt)) - tilt * chance, 0.0) if chance < 1 else 0.0
