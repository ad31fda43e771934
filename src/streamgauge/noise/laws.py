"""The two laws of noise by their exponents: P(k) is proportional to exp(-f(|k|)).

Laplace has f(m) = m / scale, the Gaussian f(m) = m^2 / (2 variance). Both exponents are rational, and both
have a constant second difference; that is all that the sampler needs to know.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

POINT = 24  # binary places of the fixed-point position inside a bucket
LARGEST = 1 << 54  # beyond it a bucket and its low bits would not fit 63 bits


class Law(Protocol):
    """A symmetric law on the integers with a rational exponent of constant second difference."""

    def __hash__(self) -> int: ...

    @property
    def spread(self) -> int:
        """The standard deviation, or so, rounded down."""
        ...

    def exponent(self, magnitude: int) -> Fraction: ...

    def progress(self, part: Ints, start: Ints) -> Ints:
        """How much of a bucket's rise in exponent has happened after `part` of its width, see `wedge`."""
        ...


@dataclass(frozen=True)
class LaplaceLaw:
    """f(m) = m / scale."""

    scale: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.scale <= LARGEST:
            raise ValueError(f"scale must be positive and at most 2**54, got {self.scale}")

    def __hash__(self) -> int:
        return hash(("laplace", self.scale.numerator, self.scale.denominator))

    @property
    def spread(self) -> int:
        return int(self.scale)

    def exponent(self, magnitude: int) -> Fraction:
        return magnitude / self.scale

    def progress(self, part: Ints, start: Ints) -> Ints:
        """rho = part: the exponent is linear."""
        return part


@dataclass(frozen=True)
class GaussianLaw:
    """f(m) = m^2 / (2 variance)."""

    variance: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.variance <= LARGEST**2:
            raise ValueError(f"variance must be positive and at most 2**108, got {self.variance}")

    def __hash__(self) -> int:
        return hash(("gaussian", self.variance.numerator, self.variance.denominator))

    @property
    def spread(self) -> int:
        return isqrt(int(self.variance))

    def exponent(self, magnitude: int) -> Fraction:
        return magnitude * magnitude / (2 * self.variance)

    def progress(self, part: Ints, start: Ints) -> Ints:
        """rho = l (l + 2 a) / (1 + 2 a) for a bucket that starts at a widths from 0, `start` = 2 a."""
        return part * (part + start) // (start + (1 << POINT))
