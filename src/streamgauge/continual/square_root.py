"""The square-root factorisation: running counts of nearly least error under Gaussian noise.

The running count has the workload a = 1, 1, 1, ..., the series 1/(1 - z). Its square root is

    r_0 = 1, r_k = (1 - 1/(2k)) r_(k-1), that is binom(2k, k)/4^k, about 1/sqrt(pi k)

and measuring with r, then decoding with r, spreads the noise over the past as evenly as any one series can:
the error is within 7 % of the least of all factorisations (T >= 2^10).

Privacy, Error: as for every factorisation with explicit coefficients (see `streamgauge.continual.toeplitz`).
    With sigma the noise of a single count, the variance at tick t is sigma^2 |r_<T|^2 |r_<t|^2, where
    |r_<t|^2 <= 1 + ln(4t - 3)/pi: a standard error of about log T/pi sigma.
    Pure privacy is refused: one item moves y by sum r_k = O(sqrt T) in L1, which no tree does.
    A run remembers every tick, so that it has exact sums in memory: not pan-private.

Reference
    Fichtenberger, Henzinger, Upadhyay: Constant matters, ICML 2023; Henzinger, Upadhyay, Upadhyay: Almost
    tight error bounds on differentially private continual counting, SODA 2023. There noise is real and
    added to the count; here it is discrete, on the grid on which r is rounded, and added to what is measured.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import pi
from typing import ClassVar

import numpy as np

from streamgauge.continual.bound import Bound
from streamgauge.continual.convolution import Floats
from streamgauge.continual.settings import check_settings
from streamgauge.continual.toeplitz import LONGEST, Factors, Toeplitz, check_memory
from streamgauge.privacy import Approx, Event, Loss, Unit, Zcdp

RECURSIVE = 256  # coefficients by the recurrence; beyond, its rounding would add up
ASYMPTOTE = (1, -1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304)


@dataclass(frozen=True)
class SquareRoot(Toeplitz):
    """Running counts over at most `horizon` ticks; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Zcdp, Approx)
    WHY: ClassVar[str] = "in L1 one item moves the measurements by the square root of the horizon"
    RESTS_EXACT: ClassVar[str] = "its memory is all exact items"
    loss: Loss
    _: KW_ONLY
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    LONGEST: ClassVar[int] = LONGEST

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        check_memory(self.horizon)

    @cached_property
    def factors(self) -> Factors:
        return Factors.of_root(square_root(self.horizon))


def square_root(count: int) -> Floats:
    """binom(2k, k)/4^k for k below `count`, to the last digits of float64.

    >>> square_root(4)
    array([1.    , 0.5   , 0.375 , 0.3125])
    """
    k = np.arange(1.0, count)
    steps = np.cumprod(1 - 1 / (2 * k[: RECURSIVE - 1]))
    far = k[RECURSIVE - 1 :]
    tail = np.polynomial.polynomial.polyval(1 / far, ASYMPTOTE) / np.sqrt(pi * far)
    return np.concatenate([np.ones(min(count, 1)), steps, tail])
