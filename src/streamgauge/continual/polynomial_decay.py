"""Polynomially decayed sums: an item that is k ticks old weighs (k + 1)^-c.

    F_t = x_t + x_(t-1)/2^c + x_(t-2)/3^c + ...

How they are kept depends on the promise:

    zCDP, approximate    the weights g are factored into r r = g; measured with r on a grid, decoded with r
    pure                 noisy items, weighed; or, for slow decays over many ticks (c < 2/5 or so), the noisy
                         counts of a tree, weighed: whichever predicts less error over the horizon
    pan-private          noisy items, under any loss

Privacy
    That of the way (see `streamgauge.continual.toeplitz` and `streamgauge.continual.weighed_counts`).
    The factors must be nonnegative and fall. They do, for every c > 0: (k + 1)^-c are the moments of a
    measure on [0, 1], so that g(-x) is a Stieltjes function, of which every power between 0 and 1 is one
    again (Berg 1979): r are moments on [0, 1] as well. What is measured with falls by construction.

Error
    Unbiased up to `deviation`. Noisy items: the variance is that of one draw times sum_(k<t) (k + 1)^(-2c).
    At T = 2^16 the root mean squared errors are

        c                      1/10     1/4      1/2      1
        rho = 1/2, factored    2.87     1.89     1.36     1.11
        epsilon = 1            16.6     12.2     4.43     1.74
        epsilon = 1, items     95.5     25.0     4.43     1.74

Reference
    Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed predicate sums on streams, ICDT 2013, who
    cover a decay by windows, at a relative error; here weights are the decay's, and noise is all the error.
"""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.bound import Bound
from streamgauge.continual.convolution import Floats
from streamgauge.continual.mechanism import Mechanism
from streamgauge.continual.settings import check_settings
from streamgauge.continual.square_root import square_root
from streamgauge.continual.toeplitz import Factors, Toeplitz, check_memory
from streamgauge.continual.way import Delegating
from streamgauge.continual.weighed_counts import WeighedCounts, weights
from streamgauge.privacy import Approx, Event, Loss, Number, Pure, Unit, Zcdp, exact

SLOW = Fraction(1, 2)  # from this exponent on, noisy items are at least as good as counts at any horizon


@dataclass(frozen=True)
class PolynomialDecay(Delegating):
    """Sums of items weighed by (age + 1)^-exponent, over at most `horizon` ticks; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    loss: Loss
    _: KW_ONLY
    exponent: Number
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)
        exponent = exact(self.exponent, "exponent")
        if exponent <= 0:
            raise ValueError(f"exponent must be positive, got {self.exponent}")
        object.__setattr__(self, "exponent", exponent)

    @cached_property
    def way(self) -> Mechanism[Any]:
        same: dict[str, Any] = {"exponent": self.exponent, "horizon": self.horizon, "bound": self.bound}
        same["unit"] = self.unit
        items = WeighedItems(self.loss, **same, pan_private=self.pan_private)
        if self.pan_private or not isinstance(self.loss, Pure) or Fraction(self.exponent) >= SLOW:
            return items
        ways = items, WeighedCounts(self.loss, **same)
        return min(ways, key=lambda way: way.mean_variance(self.horizon))


@dataclass(frozen=True)
class WeighedItems(Toeplitz):
    """The same from items: one by one (pure or pan-private), or by the root of the weights."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    loss: Loss
    _: KW_ONLY
    exponent: Number
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)

    @cached_property
    def factors(self) -> Factors:
        exponent = exact(self.exponent)
        if self.pan_private or isinstance(self.loss, Pure):
            return Factors.of_items(weights(exponent, self.horizon))
        return Factors.of_root(root_of_weights(exponent, self.horizon))


def root_of_weights(exponent: Fraction, count: int) -> Floats:
    """The series r with r r = g, to within about 1e-14.

    By way of u = sqrt((1 - z) g), whose numbers stay small, and r = u (1 - z)^(-1/2).
    """
    slopes = np.diff(weights(exponent, count), prepend=0.0)
    return product(root(slopes), square_root(count))


def root(series: Floats) -> Floats:
    """The square root of a series that begins with 1: Newton's iteration for its inverse, then for itself."""
    inverse = np.ones(1)
    while len(inverse) < len(series):
        known = np.zeros(min(2 * len(inverse), len(series)))
        known[: len(inverse)] = inverse
        gap = -product(product(known, known), series[: len(known)])
        gap[0] += 1
        inverse = known + product(known, gap) / 2
    found = product(series, inverse)
    return found + product(inverse, series - product(found, found)) / 2


def product(one: Floats, other: Floats) -> Floats:
    """The product of two series as far as both are known."""
    length = min(len(one), len(other))
    if length <= 64:
        return np.convolve(one[:length], other[:length])[:length]
    points = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(one[:length], points) * np.fft.rfft(other[:length], points)
    return np.fft.irfft(spectrum, points)[:length]
