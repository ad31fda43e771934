"""Polynomially decayed sums: an item that is k ticks old weighs (k + 1)^-c.

    F_t = x_t + x_(t-1)/2^c + x_(t-2)/3^c + ...

The loss selects the implementation:

    zCDP, approximate    the weights g are factored into r r = g; measured with r on a grid, decoded with r
    pure                 noisy items, weighed; or, for slow decays over many ticks (c < 2/5 or so), the noisy
                         counts of a tree, weighed; the one that predicts less error over the horizon
    pan-private          noisy items, under any loss

Privacy
    That of the implementation (see `continual.factorizations.toeplitz` and `continual.decay.weighted_counts`).
    The factors must be nonnegative and fall. They do, for every c > 0: (k + 1)^-c are the moments of a
    measure on [0, 1]. So g(-x) is a Stieltjes function, of which every power between 0 and 1 is one
    again (Berg 1979), and r are moments on [0, 1] as well. The rounded coefficients fall by construction.

Error
    Unbiased up to `deviation`. Noisy items: the variance is that of one draw times sum_(k<t) (k + 1)^(-2c).
    At T = 2^16 the root mean squared errors are

        c                      1/10     1/4      1/2      1
        rho = 1/2, factored    2.87     1.89     1.36     1.11
        epsilon = 1            16.6     12.2     4.43     1.74
        epsilon = 1, items     95.5     25.0     4.43     1.74

Reference
    Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed predicate sums on streams, ICDT 2013. They
    cover a decay by windows, at a relative error. Here weights are the decay's, and noise is all the error.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.decay.weighted_counts import WeightedCounts, polynomial_weights
from streamgauge.continual.factorizations.convolution import Floats
from streamgauge.continual.factorizations.square_root import square_root_coefficients
from streamgauge.continual.factorizations.toeplitz import Factors, Toeplitz, check_memory
from streamgauge.continual.mechanism import BoundedSettings, DelegatingMechanism, LinearMechanism, shared_settings
from streamgauge.continual.validation import check_settings
from streamgauge.privacy import Approx, Loss, Number, Pure, Zcdp, parse_rational

MAX_COUNTED_EXPONENT = Fraction(1, 2)  # from it on, noisy items are at least as good as counts at any horizon


@dataclass(frozen=True, kw_only=True)
class PolynomialDecay(BoundedSettings, DelegatingMechanism):
    """Sums of items weighed by (age + 1)^-exponent; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    exponent: Number

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)
        exponent = parse_rational(self.exponent, "exponent")
        if exponent <= 0:
            raise ValueError(f"exponent must be positive, got {self.exponent}")
        object.__setattr__(self, "exponent", exponent)

    @cached_property
    def implementation(self) -> LinearMechanism[Any]:
        same = {"exponent": self.exponent, **shared_settings(self)}
        items: LinearMechanism[Any] = WeightedItems(self.loss, **same)
        if self.pan_private or not isinstance(self.loss, Pure) or Fraction(self.exponent) >= MAX_COUNTED_EXPONENT:
            return items
        counts: LinearMechanism[Any] = WeightedCounts(self.loss, **same)
        return min(items, counts, key=lambda each: each.mean_variance(self.horizon))


@dataclass(frozen=True, kw_only=True)
class WeightedItems(BoundedSettings, Toeplitz):
    """The same from items: one by one (pure or pan-private), or by the root of the weights."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    exponent: Number

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)

    @cached_property
    def factors(self) -> Factors:
        exponent = parse_rational(self.exponent)
        if self.pan_private or isinstance(self.loss, Pure):
            return Factors.from_items(polynomial_weights(exponent, self.horizon))
        return Factors.from_root(compute_weights_root(exponent, self.horizon))


def compute_weights_root(exponent: Fraction, count: int) -> Floats:
    """Return the series r with r r = g, to about 1e-14.

    It computes u = sqrt((1 - z) g), whose numbers stay small, and r = u (1 - z)^(-1/2).
    """
    slopes = np.diff(polynomial_weights(exponent, count), prepend=0.0)
    return series_product(series_root(slopes), square_root_coefficients(count))


def series_root(series: Floats) -> Floats:
    """Return the square root of a series that begins with 1.

    Newton's iteration computes its inverse, then the root.
    """
    inverse = np.ones(1)
    while len(inverse) < len(series):
        known = np.zeros(min(2 * len(inverse), len(series)))
        known[: len(inverse)] = inverse
        gap = -series_product(series_product(known, known), series[: len(known)])
        gap[0] += 1
        inverse = known + series_product(known, gap) / 2
    found = series_product(series, inverse)
    return found + series_product(inverse, series - series_product(found, found)) / 2


def series_product(one: Floats, other: Floats) -> Floats:
    """Return the product of two series as far as both are known."""
    length = min(len(one), len(other))
    if length <= 64:
        return np.convolve(one[:length], other[:length])[:length]
    points = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(one[:length], points) * np.fft.rfft(other[:length], points)
    return np.fft.irfft(spectrum, points)[:length]
