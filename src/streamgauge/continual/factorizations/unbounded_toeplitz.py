"""Unbounded Toeplitz: running counts without a horizon, on every time scale.

As `BufferedToeplitz`, with exponentials on all scales from one tick to 2^45. The error at any tick t is in
proportion to that of a mechanism fitted to t. A run stores 18 numbers per group.

Privacy
    Neighbours, promise and proof as for `buffered_toeplitz`. The norm of C is its own,
    over `last_tick` ticks, by default 2^48: a tick a microsecond for nine years. A run stops there.

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

from streamgauge.continual.factorizations.coefficients import unbounded_encoder
from streamgauge.continual.factorizations.correlated import RunningCount
from streamgauge.continual.factorizations.encoder import Encoder
from streamgauge.continual.validation import Bound, check_whole
from streamgauge.privacy import Event, Loss, Unit

MAX_TICK = 2**48


@dataclass(frozen=True)
class UnboundedToeplitz(RunningCount):
    """Running counts without a horizon but for a far last tick; see the module's claim."""

    loss: Loss
    _: KW_ONLY
    last_tick: int = MAX_TICK
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    def __post_init__(self) -> None:
        check_whole("last_tick", self.last_tick)
        if self.last_tick > MAX_TICK:
            raise ValueError(f"last_tick must be at most 2**48, got {self.last_tick}")
        self.check()

    @property
    def horizon(self) -> int:  # type: ignore[override]  # a claim is frozen: it is never written
        """The last tick of a run."""
        return self.last_tick

    @cached_property
    def encoder(self) -> Encoder:
        return unbounded_encoder(self.last_tick)
