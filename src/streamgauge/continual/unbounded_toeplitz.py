"""Unbounded Toeplitz: running counts without a horizon, from buffers on every time scale.

As `BufferedToeplitz`, with exponentials on all scales from one tick to 2^45: the error at tick t is in
proportion to what a mechanism fitted to t would have, at any t. A run remembers 18 numbers per group.

Privacy
    Neighbours, promise and proof as for `streamgauge.continual.buffered_toeplitz`. The norm of C is its own,
    over `last_tick` ticks, 2^48 if not told otherwise: a tick a microsecond for nine years. Past it a run
    refuses to go on.

Error
    Unbiased but for a rounding far below the noise. At rho = 1/2 the root mean squared errors over the first
    2^10, 2^16 and 2^20 ticks are 4.59, 5.87 and 6.78.

Reference
    Jacobsen, Fawaz: unbounded continual counting by a logarithmic perturbation of the square root, 2025
    (arXiv 2506.15018): 4.67, 5.98 and 6.82 with last tick 2^48 and memory that grows with t. The numerical
    sensitivity of their first code misses a slow tail: it is that of a stream of about 2^50 ticks. Here a
    sum of exponentials is fitted to the error itself, in memory that grows with log of the last tick.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from streamgauge.continual.bound import Bound
from streamgauge.continual.buffers import unbounded
from streamgauge.continual.correlated import RunningCount
from streamgauge.continual.exponentials import Encoder
from streamgauge.continual.settings import check_whole
from streamgauge.privacy import Event, Loss, Unit

FARTHEST = 2**48


@dataclass(frozen=True)
class UnboundedToeplitz(RunningCount):
    """Running counts without a horizon but for a far last tick; see the module's claim."""

    loss: Loss
    _: KW_ONLY
    last_tick: int = FARTHEST
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    def __post_init__(self) -> None:
        check_whole("last_tick", self.last_tick)
        if self.last_tick > FARTHEST:
            raise ValueError(f"last_tick must be at most 2**48, got {self.last_tick}")
        self.check()

    @property
    def horizon(self) -> int:  # type: ignore[override]  # a claim is frozen: nobody writes it
        """Where a run stops."""
        return self.last_tick

    @cached_property
    def encoder(self) -> Encoder:
        return unbounded(self.last_tick)
