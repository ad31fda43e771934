"""Buffered linear Toeplitz: running counts under noise that a few buffers correlate over time.

The release at tick t is the exact sum of the noisy items y_1..y_t, and y_s = x_s + u_s, where u = C^-1 z:
each draw is mostly taken back by the later ones, so that the sum of t of them stays small. C is a sum
of `buffers` exponentials,

    c_0 = 1,  c_k = sum_i weight_i (1 - rate_i)^(k-1),

fitted to the horizon, so that a run remembers 2 buffers + 2 numbers per group, whatever the horizon,
and comes close to the square-root factorisation, which remembers everything.

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound` in L2, and one event at most 1024 groups
    (or as many as a Reach says). The number of ticks is public.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: see `streamgauge.continual.recursion`. One unit moves C x by at most `sensitivity`, from the
    rationals that the run uses, rounded up; fixed point adds at most `slack`; both are charged. Units of
    n ticks are calibrated from the sum of the first n columns, which are the longest and overlap most.
    The proof fails with probability at most 2^overflow, below that of guessing the keystream's key.

Error
    Unbiased but for a rounding far below the noise; the variance at t is that of one draw times
    the squared norm of row t of A C^-1. At rho = 1/2 the root mean squared errors are 3.06, 4.40 and 5.32
    over 2^10, 2^16 and 2^20 ticks with 4 buffers; no mechanism that factorises A has less than
    2.91, 4.23 and 5.11.

Reference
    Dvijotham, McMahan, Pillutla, Steinke, Thakurta: Efficient and near-optimal noise generation for
    streaming differential privacy, 2024; McMahan, Xu, Zhang: A hassle-free algorithm for strong
    differential privacy in federated learning systems, 2024. Theirs fit the maximal error and add
    floating-point noise to the sum; here the mean is fitted (1 % lower; the maximum is 2 % higher),
    parameters are rationals, and all is exact until noised.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

from streamgauge.continual.bound import Bound
from streamgauge.continual.buffers import BUFFERS, LARGEST, bounded
from streamgauge.continual.correlated import RunningCount
from streamgauge.continual.exponentials import Encoder
from streamgauge.continual.settings import check_settings
from streamgauge.privacy import Event, Loss, Unit


@dataclass(frozen=True)
class BufferedToeplitz(RunningCount):
    """Running counts over a stream of at most `horizon` ticks; see the module's claim."""

    LONGEST: ClassVar[int] = LARGEST

    loss: Loss
    _: KW_ONLY
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()
    buffers: int = 4

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        if self.horizon > LARGEST:
            raise ValueError(f"horizon must be at most 2**{LARGEST.bit_length() - 1}, got {self.horizon}")
        if self.buffers not in BUFFERS:
            raise ValueError(f"buffers must be one of {', '.join(map(str, BUFFERS))}, got {self.buffers}")
        self.check()

    @property
    def last_tick(self) -> int:
        return self.horizon

    @cached_property
    def encoder(self) -> Encoder:
        return bounded(self.buffers, self.horizon)
