"""The square-root factorisation: nearly least error under Gaussian noise.

The running count has the workload a = 1, 1, 1, ..., the series 1/(1 - z). Its square root is

    r_0 = 1, r_k = (1 - 1/(2k)) r_(k-1), that is binom(2k, k)/4^k, about 1/sqrt(pi k)

Measuring with r, then decoding with r, spreads the noise over the past as evenly as any one series can.
The error is at most 7 % above the least of all factorisations (T >= 2^10).

Privacy, Error: as for every factorisation with explicit coefficients (see `toeplitz`).
    With sigma the noise of a single count, the variance at tick t is sigma^2 |r_<T|^2 |r_<t|^2, with
    |r_<t|^2 <= 1 + ln(4t - 3)/pi: a standard error of about log T/pi sigma.
    Pure privacy is rejected: one item moves y by sum r_k = O(sqrt T) in L1, which no tree does.
    A run stores every tick, so that it has exact sums in memory. It is not pan-private.

Reference
    Fichtenberger, Henzinger, Upadhyay: Constant matters, ICML 2023; Henzinger, Upadhyay, Upadhyay: Almost
    tight error bounds on differentially private continual counting, SODA 2023. There noise is real and
    added to the count. Here it is discrete, on the grid on which r is rounded, and added to the measurements.
"""

from dataclasses import dataclass
from functools import cached_property
from math import pi
from typing import ClassVar

import numpy as np

from streamgauge.continual.factorizations.convolution import Floats
from streamgauge.continual.factorizations.toeplitz import MAX_REMEMBERED_TICKS, Factors, Toeplitz, check_memory
from streamgauge.continual.mechanism import BoundedSettings
from streamgauge.continual.validation import check_settings
from streamgauge.privacy import Approx, Loss, Zcdp

MAX_RECURRENCE_TERMS = 256  # coefficients by the recurrence; beyond, its rounding would add up
ASYMPTOTE_COEFFICIENTS = (1, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304)


@dataclass(frozen=True)
class SquareRoot(BoundedSettings, Toeplitz):
    """Running counts over at most `horizon` ticks; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Zcdp, Approx)
    LOSSES_REASON: ClassVar[str] = "in L1 one item moves the measurements by the square root of the horizon"
    EXACT_MEMORY: ClassVar[str] = "its memory is all exact items"

    MAX_HORIZON_TICKS: ClassVar[int] = MAX_REMEMBERED_TICKS

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)

    @cached_property
    def factors(self) -> Factors:
        return Factors.from_root(square_root_coefficients(self.horizon))


def square_root_coefficients(count: int) -> Floats:
    """Return binom(2k, k)/4^k for k below `count`, to the last digits of float64.

    >>> square_root_coefficients(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    k = np.arange(1.0, count)
    steps = np.cumprod(1 - 1 / (2 * k[: MAX_RECURRENCE_TERMS - 1]))
    far = k[MAX_RECURRENCE_TERMS - 1 :]
    tail = np.polynomial.polynomial.polyval(1 / far, ASYMPTOTE_COEFFICIENTS) / np.sqrt(pi * far)
    return np.concatenate([np.ones(min(count, 1)), steps, tail])
