"""The two laws for users: draws, probabilities, tails, variances, moments.

The numbers are floats of the mathematical quantities, correct to some units in the last place. Far tails of
wide Gaussians are less precise (see `DiscreteGaussian.tail`). They describe the noise and take no part in
drawing it.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import cos, erfc, exp, expm1, inf, log, pi, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.noise.coerce import Floats, Number, as_fraction
from streamgauge.noise.sampler_table import GaussianLaw, Ints, LaplaceLaw
from streamgauge.noise.source import Noise

Complex = npt.NDArray[np.complex128]

LARGEST_BELOW_ONE = 1 - 2.0**-53
THETA_NEIGHBOURS = (
    12  # neighbours of the largest term of a theta sum of parameter below 1: the rest is below e^-66 of it
)
POSITIVE_OFFSETS = np.arange(1.0, THETA_NEIGHBOURS + 1)
NEIGHBOUR_OFFSETS = np.concatenate([-POSITIVE_OFFSETS[::-1], POSITIVE_OFFSETS])
WIDE_PARAMETER = 16.0  # parameters from which a theta sum is its first dual term: the rest is below 1e-136


class Distribution(Protocol):
    """The law of one draw of noise: symmetric, on the integers."""

    @property
    def variance(self) -> float: ...

    def draw(self, noise: Noise, size: int) -> Ints: ...

    def pmf(self, k: int) -> float:
        """Return P(X = k)."""
        ...

    def tail(self, k: int) -> float:
        """Return P(X >= k)."""
        ...

    def log_mgf(self, x: Floats) -> Floats:
        """Return log E exp(x X), never too low but for rounding, possibly infinite."""
        ...

    def tilted_transform(self, tilt: float, angle: Floats) -> Complex:
        """Return E exp((tilt + i angle) X) / E exp(tilt X), if log_mgf is finite.

        Its magnitude is at most 1.
        """
        ...


@dataclass(frozen=True, init=False)
class DiscreteLaplace:
    """P(k) proportional to exp(-|k|/scale).

    >>> round(DiscreteLaplace(Fraction(1)).pmf(0), 9)
    0.462117157
    """

    scale: Fraction

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", LaplaceLaw(as_fraction("scale", scale)).scale)

    def __hash__(self) -> int:
        return hash(("laplace", self.scale.numerator, self.scale.denominator))

    def draw(self, noise: Noise, size: int) -> Ints:
        return noise.laplace(self.scale, size)

    @cached_property
    def _rate(self) -> float:
        return float(1 / self.scale)

    def pmf(self, k: int) -> float:
        """Return tanh(1/(2 scale)) exp(-|k|/scale)."""
        return -expm1(-self._rate) / (1 + exp(-self._rate)) * exp(-float(abs(k) / self.scale))

    def tail(self, k: int) -> float:
        """Return exp(-k/scale) / (1 + exp(-1/scale)) for k >= 1."""
        if k < 1:
            return 1 - self.tail(1 - k)
        return exp(-float(k / self.scale)) / (1 + exp(-self._rate))

    @cached_property
    def variance(self) -> float:
        return laplace_variance(self.scale)

    def log_mgf(self, x: Floats) -> Floats:
        """Return -log(1 - q^2) with q = sinh(|x|/2) / sinh(1/(2 scale)).

        It is finite for |x| < 1/scale. q is written with falling exponentials only, so no scale is too small.
        """
        size = np.abs(x)
        y = np.where(size < self._rate, size, 0.0)
        q = np.exp((y - self._rate) / 2) * (np.expm1(-y) / expm1(-self._rate))
        return np.where(size < self._rate, -np.log1p(-(np.minimum(q, LARGEST_BELOW_ONE) ** 2)), inf)

    def tilted_transform(self, tilt: float, angle: Floats) -> Complex:
        """Return the quotient of moment functions as 1/(1 + d).

        The moment function at s is (1 - a)^2 / (1 - 2 a cosh(s) + a^2) with a = exp(-1/scale). The numerator of d
        is 2 a (cosh(tilt) - cosh(s)), written in sines.
        """
        up, down = tilt - self._rate, -tilt - self._rate
        level = expm1(up) * expm1(down)
        even, odd = (exp(up) + exp(down)) / level, -exp(up) * expm1(-2 * tilt) / level
        sine, cosine = np.sin(angle / 2), np.cos(angle / 2)
        return np.asarray(1 / (1 + 2 * sine * (even * sine - 1j * odd * cosine)), np.complex128)


@dataclass(frozen=True, init=False)
class DiscreteGaussian:
    """P(k) proportional to exp(-k^2/(2 parameter)).

    The variance is a little less than the parameter.

    >>> DiscreteGaussian(Fraction(1)).variance < 1
    True
    """

    parameter: Fraction

    def __init__(self, parameter: Number) -> None:
        object.__setattr__(self, "parameter", GaussianLaw(as_fraction("parameter", parameter)).variance)

    def __hash__(self) -> int:
        return hash(("gaussian", self.parameter.numerator, self.parameter.denominator))

    def draw(self, noise: Noise, size: int) -> Ints:
        return noise.gaussian(self.parameter, size)

    def pmf(self, k: int) -> float:
        return exp(-float(k * k / (2 * self.parameter))) / _theta_sum(self.parameter)

    def tail(self, k: int) -> float:
        """Return P(X >= k), summed if the sum is short.

        Far tails use the midpoint rule, whose relative error is about (k/parameter)^2/24.
        """
        if k < 1:
            return 1 - self.tail(1 - k)
        v = float(self.parameter)
        if v >= 1 << 20:
            return erfc((k - 0.5) / sqrt(2 * v)) / 2
        places = np.arange(k, k + int(40 * sqrt(v)) + 40, dtype=np.float64)
        return float(np.exp(-(places**2) / (2 * v)).sum()) / _theta_sum(self.parameter)

    @cached_property
    def variance(self) -> float:
        return gaussian_variance(self.parameter)

    def log_mgf(self, x: Floats) -> Floats:
        """Return log E exp(x X), at most parameter x^2/2 and nearly that.

        The discrete Gaussian is sub-Gaussian with its own parameter. Proof: E exp(x X) is exp(parameter x^2/2) times
        a theta sum shifted by parameter x, divided by the unshifted one. A theta sum is largest unshifted, since
        all its dual terms are positive there.

        Below 1 that bound is far too large. The theta sum is then computed about c, the integer nearest to
        parameter |x|. With r = |x| - c/parameter, the exponents j r - j^2/(2 parameter) of its terms c + j
        are never positive. About c = 0 their excess over those of x = 0 is summed, so nothing cancels.
        """
        v, size = float(self.parameter), np.abs(x)
        if v >= 1:
            return np.asarray(v * np.square(size) / 2, np.float64)
        c = np.rint(v * size)
        rest = size - c / v
        neighbours = np.exp(np.multiply.outer(rest, NEIGHBOUR_OFFSETS) - NEIGHBOUR_OFFSETS**2 / (2 * v)).sum(axis=-1)
        near = np.multiply.outer(np.where(c == 0, size, 0.0), POSITIVE_OFFSETS)
        risen = np.square(np.exp(near / 2 - POSITIVE_OFFSETS**2 / (4 * v)) * np.expm1(-near)).sum(axis=-1)
        theta = _theta_sum(self.parameter)
        far = c * (size - c / (2 * v)) + np.log1p(neighbours) - log(theta)
        return np.asarray(np.where(c == 0, np.log1p(risen / theta), far), np.float64)

    def tilted_transform(self, tilt: float, angle: Floats) -> Complex:
        """Return the quotient of two theta sums.

        Each is summed about its largest term. From parameter 1 on, Poisson's dual is used instead: the sum over m of
        exp(v (s + 2 pi i m)^2/2), divided by the same at tilt.
        """
        v = float(self.parameter)
        if v >= 1:
            near = angle - 2 * pi * np.rint(angle / (2 * pi))
            rotations = [near + 2 * pi * m for m in (-1, 0, 1)]
            dual = sum(np.exp(v * (1j * tilt * rotation - rotation**2 / 2)) for rotation in rotations)
            return np.asarray(dual / (1 + 2 * exp(-2 * pi * pi * v) * cos(2 * pi * v * tilt)), np.complex128)
        c = round(v * tilt)
        masses = [exp(j * (tilt - c / v) - j * j / (2 * v)) for j in range(-THETA_NEIGHBOURS, THETA_NEIGHBOURS + 1)]
        rotation, total = np.exp(1j * angle), np.zeros(np.shape(angle), np.complex128)
        for mass in reversed(masses):
            total = total * rotation + mass
        return np.asarray(total * np.exp(1j * angle * (c - THETA_NEIGHBOURS)) / sum(masses))


def laplace_variance(scale: Fraction) -> float:
    """Return the variance of a discrete Laplace draw, 1/(2 sinh^2(1/(2 scale))).

    >>> round(laplace_variance(Fraction(100)), 6)
    19999.833334
    """
    rate = float(1 / scale)
    return 2 * exp(-rate) / expm1(-rate) ** 2


@lru_cache(maxsize=1024)
def gaussian_variance(parameter: Fraction) -> float:
    """Return the variance of a discrete Gaussian draw; never above the parameter.

    >>> gaussian_variance(Fraction(100))
    100.0
    """
    v = float(parameter)
    if v >= WIDE_PARAMETER:
        return v
    last = int(40 * sqrt(v)) + 2
    return sum(2 * k * k * exp(-k * k / (2 * v)) for k in range(last, 0, -1)) / _theta_sum(parameter)


@lru_cache(maxsize=1024)
def _theta_sum(parameter: Fraction) -> float:
    """Return the sum of exp(-k^2/(2 parameter)) over all k."""
    v = float(parameter)
    if v >= WIDE_PARAMETER:
        return sqrt(2 * pi * v)
    return 1 + 2 * sum(exp(-k * k / (2 * v)) for k in range(int(40 * sqrt(v)) + 2, 0, -1))
