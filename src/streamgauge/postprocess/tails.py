"""What a monitor has to know of noise: how likely it is to be far out."""

from dataclasses import dataclass
from fractions import Fraction
from math import erfc, inf, isnan, nextafter, sqrt
from typing import Protocol

SPLITS = (1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4)


class Tail(Protocol):
    """A symmetric law, such as `streamgauge.noise.NoiseSum`."""

    def upper_tail(self, x: float) -> float:
        """A bound on P(S >= x), never too small."""
        ...


@dataclass(frozen=True)
class EitherTail:
    """The sum of two noises of which nobody knows how they depend on each other.

    If A + B >= p + q then A >= p or B > q or both, so that P(A + B >= x) is at most P(A >= p) + P(B > q) for
    every p + q <= x; the best of SPLITS is taken. Differences are sums, the laws being symmetric.
    """

    first: Tail
    second: Tail

    def upper_tail(self, x: float) -> float:
        if isnan(x):
            raise ValueError(f"x must be a number, got {x}")
        if x <= 0:
            return 1.0
        splits = [(inf, inf)] if x == inf else [split(x, part) for part in SPLITS]
        return min(1.0, *(self.first.upper_tail(p) + beyond(self.second, q) for p, q in splits))


@dataclass(frozen=True)
class NormalTail:
    """Noise of which the standard error alone is known, taken to be normal: an approximation, no bound.

    For means, variances and other quotients of noisy sums, where they have enough to go on.
    """

    stddev: float

    def __post_init__(self) -> None:
        if not 0 < self.stddev < inf:
            raise ValueError(f"stddev must be positive, got {self.stddev}")

    def upper_tail(self, x: float) -> float:
        return erfc(x / (self.stddev * sqrt(2))) / 2


def split(x: float, part: float) -> tuple[float, float]:
    """p and q with p + q <= x, exactly, and p about `part` of x."""
    p = x * part
    q = x - p
    return p, q if Fraction(p) + Fraction(q) <= Fraction(x) else nextafter(q, -inf)


def beyond(noise: Tail, x: float) -> float:
    """P(S > x)."""
    return noise.upper_tail(nextafter(x, inf))
