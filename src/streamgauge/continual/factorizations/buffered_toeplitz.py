"""Buffered linear Toeplitz: running counts under noise that buffers correlate.

The release at tick t is the exact sum of the noisy items y_1..y_t, and y_s = x_s + u_s with u = C^-1 z.
Later draws cancel most of each draw, so that the sum of t of them stays small. C is a sum
of `buffers` exponentials,

    c_0 = 1,  c_k = sum_i weight_i (1 - rate_i)^(k-1),

fitted to the horizon. A run stores 2 buffers + 2 numbers per group for any horizon. Its error is
close to that of the square-root factorisation, which stores everything.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound` in L2, and one event at most 1024 groups
    (or the coordinates of a Sensitivity). The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: see `continual.factorizations.encoder`. One unit moves C x by at most `sensitivity`, from the
    rationals that the run uses, rounded up. Fixed point adds at most `slack`. Both are charged. Units of
    n ticks are calibrated from the sum of the first n columns, which are the longest and overlap most.
    The proof fails with probability at most 2^overflow, below that of guessing the keystream's key.

Error
    Unbiased but for a rounding far below the noise. The variance at t is that of one draw times
    the squared norm of row t of A C^-1. At rho = 1/2 the root mean squared errors are 3.06, 4.40 and 5.32
    over 2^10, 2^16 and 2^20 ticks with 4 buffers. No mechanism that factorises A has less than
    2.91, 4.23 and 5.11.

Reference
    Dvijotham, McMahan, Pillutla, Steinke, Thakurta: Efficient and near-optimal noise generation for
    streaming differential privacy, 2024; McMahan, Xu, Zhang: A hassle-free algorithm for strong
    differential privacy in federated learning systems, 2024. Theirs fit the maximal error and add
    floating-point noise to the sum. Here the mean is fitted (1 % lower; the maximum is 2 % higher),
    parameters are rationals, and all is exact until noised.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from streamgauge.continual.factorizations.coefficients import BUFFER_COUNTS, MAX_FITTED_TICKS, bounded_encoder
from streamgauge.continual.factorizations.correlated import RunningCount
from streamgauge.continual.factorizations.encoder import Encoder
from streamgauge.continual.mechanism import BoundedSettings
from streamgauge.continual.validation import check_settings


@dataclass(frozen=True, kw_only=True)
class BufferedToeplitz(BoundedSettings, RunningCount):
    """Running counts over a stream of at most `horizon` ticks; see the module's claim."""

    MAX_HORIZON_TICKS: ClassVar[int] = MAX_FITTED_TICKS

    buffers: int = 4

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        if self.horizon > MAX_FITTED_TICKS:
            raise ValueError(f"horizon must be at most 2**{MAX_FITTED_TICKS.bit_length() - 1}, got {self.horizon}")
        if self.buffers not in BUFFER_COUNTS:
            raise ValueError(f"buffers must be one of {', '.join(map(str, BUFFER_COUNTS))}, got {self.buffers}")
        self.check()

    @property
    def last_tick(self) -> int:
        return self.horizon

    @cached_property
    def encoder(self) -> Encoder:
        return bounded_encoder(self.buffers, self.horizon)
