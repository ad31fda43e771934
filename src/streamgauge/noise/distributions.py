"""The two laws as users see them: draw, and the exact probabilities, tails, variances and moment functions
of a draw.

The numbers here are floats of the mathematical quantities, correct to a few units in the last place; they
describe the noise and never take part in drawing it.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import erfc, exp, expm1, inf, pi, sinh, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.noise.laws import GaussianLaw, Ints, LaplaceLaw
from streamgauge.noise.source import Noise

Floats = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]

BELOW_ONE = 1 - 2.0**-53
FAR = 700.0  # rates from which exp(-rate) is all that is left of a Laplace draw
WIDE = 16.0  # parameters from which a theta sum is its first dual term: the rest is below 1e-136


class Distribution(Protocol):
    """The law of one draw of noise: symmetric, on the integers."""

    @property
    def variance(self) -> float: ...

    def draw(self, noise: Noise, size: int) -> Ints: ...

    def pmf(self, k: int) -> float:
        """P(X = k)."""
        ...

    def tail(self, k: int) -> float:
        """P(X >= k)."""
        ...

    def log_mgf(self, x: Floats) -> Floats:
        """log E exp(x X), never too low but for rounding; infinite where it does not exist."""
        ...

    def mgf(self, s: Complex) -> Complex:
        """E exp(s X) over the complex plane, where log_mgf is finite at the real part."""
        ...


@dataclass(frozen=True)
class DiscreteLaplace:
    """P(k) proportional to exp(-|k|/scale).

    >>> round(DiscreteLaplace(Fraction(1)).pmf(0), 9)
    0.462117157
    """

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", Fraction(self.scale))
        LaplaceLaw(self.scale)

    def __hash__(self) -> int:
        return hash(("laplace", self.scale.numerator, self.scale.denominator))

    def draw(self, noise: Noise, size: int) -> Ints:
        return noise.laplace(self.scale, size)

    @property
    def _rate(self) -> float:
        return float(1 / self.scale)

    def pmf(self, k: int) -> float:
        """tanh(1/(2 scale)) exp(-|k|/scale)."""
        return -expm1(-self._rate) / (1 + exp(-self._rate)) * exp(-float(abs(k) / self.scale))

    def tail(self, k: int) -> float:
        """exp(-k/scale) / (1 + exp(-1/scale)) for k >= 1."""
        if k < 1:
            return 1 - self.tail(1 - k)
        return exp(-float(k / self.scale)) / (1 + exp(-self._rate))

    @property
    def variance(self) -> float:
        return laplace_variance(self.scale)

    def log_mgf(self, x: Floats) -> Floats:
        """-log(1 - sinh^2(x/2) / sinh^2(1/(2 scale))) for |x| < 1/scale."""
        inside = np.abs(x) < self._rate
        y = np.where(inside, x, 0.0)
        if self._rate > FAR:
            return np.where(inside, np.log1p(2 * np.exp(np.abs(y) - self._rate)), inf)
        return np.where(
            inside, -np.log1p(-(np.minimum(np.sinh(y / 2) / sinh(self._rate / 2), BELOW_ONE) ** 2)), inf
        )

    def mgf(self, s: Complex) -> Complex:
        """sinh^2(1/(2 scale)) / (sinh^2(1/(2 scale)) - sinh^2(s/2))."""
        if self._rate > FAR:
            return np.asarray(1 + exp(-self._rate) * (2 * np.cosh(s) - 2), np.complex128)
        square = sinh(self._rate / 2) ** 2
        return np.asarray(square / (square - np.sinh(s / 2) ** 2), np.complex128)


@dataclass(frozen=True)
class DiscreteGaussian:
    """P(k) proportional to exp(-k^2/(2 parameter)); the variance is a little less than the parameter.

    >>> DiscreteGaussian(Fraction(1)).variance < 1
    True
    """

    parameter: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameter", Fraction(self.parameter))
        GaussianLaw(self.parameter)

    def __hash__(self) -> int:
        return hash(("gaussian", self.parameter.numerator, self.parameter.denominator))

    def draw(self, noise: Noise, size: int) -> Ints:
        return noise.gaussian(self.parameter, size)

    def pmf(self, k: int) -> float:
        return exp(-float(k * k / (2 * self.parameter))) / _theta(self.parameter)

    def tail(self, k: int) -> float:
        """Summed while that is short; beyond, the midpoint rule, whose relative error is about
        (k/parameter)^2/24."""
        if k < 1:
            return 1 - self.tail(1 - k)
        v = float(self.parameter)
        if v >= 1 << 20:
            return erfc((k - 0.5) / sqrt(2 * v)) / 2
        places = np.arange(k, k + int(40 * sqrt(v)) + 40, dtype=np.float64)
        return float(np.exp(-(places**2) / (2 * v)).sum()) / _theta(self.parameter)

    @property
    def variance(self) -> float:
        return gaussian_variance(self.parameter)

    def log_mgf(self, x: Floats) -> Floats:
        """At most parameter x^2/2, and nearly that: the discrete Gaussian is sub-Gaussian with its own
        parameter.

        Proof: E exp(x X) is exp(parameter x^2/2) times a theta sum shifted by parameter x over the
        unshifted one, and a theta sum is largest unshifted, its dual terms all being positive there.
        """
        v = float(self.parameter)
        if v >= 1:
            return np.asarray(v * np.square(x) / 2)
        return np.log(self.mgf(np.asarray(x, np.complex128)).real)

    def mgf(self, s: Complex) -> Complex:
        """The theta sum or, from parameter 1 on, its dual by Poisson's formula: sum over m of exp(v (s + 2
        pi i m)^2/2)."""
        v = float(self.parameter)
        if v < 1:
            last = int(v * float(np.abs(s.real).max(initial=0.0)) + 10) + 1
            terms = (np.exp(k * s - k * k / (2 * v)) for k in range(-last, last + 1))
            return np.asarray(sum(terms) / _theta(self.parameter))
        near = s - 2j * pi * np.rint(s.imag / (2 * pi))
        dual = sum(np.exp(v * (near + 2j * pi * m) ** 2 / 2) for m in (-1, 0, 1))
        return np.asarray(dual / (1 + 2 * exp(-2 * pi * pi * v)))


def laplace_variance(scale: Fraction) -> float:
    """1/(2 sinh^2(1/(2 scale))), the variance of a discrete Laplace draw.

    >>> round(laplace_variance(Fraction(100)), 6)
    19999.833334
    """
    rate = float(1 / scale)
    return 2 * exp(-rate) / expm1(-rate) ** 2


@lru_cache(maxsize=1024)
def gaussian_variance(parameter: Fraction) -> float:
    """The variance of a discrete Gaussian draw; never above the parameter.

    >>> gaussian_variance(Fraction(100))
    100.0
    """
    v = float(parameter)
    if v >= WIDE:
        return v
    last = int(40 * sqrt(v)) + 2
    return sum(2 * k * k * exp(-k * k / (2 * v)) for k in range(last, 0, -1)) / _theta(parameter)


@lru_cache(maxsize=1024)
def _theta(parameter: Fraction) -> float:
    """The sum of exp(-k^2/(2 parameter)) over all k."""
    v = float(parameter)
    if v >= WIDE:
        return sqrt(2 * pi * v)
    return 1 + 2 * sum(exp(-k * k / (2 * v)) for k in range(int(40 * sqrt(v)) + 2, 0, -1))
