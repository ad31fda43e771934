"""Binary counting: a running count from one p-sum for every one in the binary digits of t.

    x1 x2 x3 x4   x5 x6   x7        t = 7 = 111 in base 2
    [---------]   [---]   []

Privacy
    As for every tree (see `streamgauge.continual.tree`) with k = 2 and h levels: h = floor(log2 T) + 1,
    or log2 T where T > 1 is a power of two, since the one block of T items would serve the last tick
    alone, which two blocks of T/2 serve as well.

Error
    Unbiased; at tick t the variance is that of one draw times the ones in t. The standard error is
    O(log^1.5 T / epsilon). With `refine=True` every node of the tree is released, and a count is the
    combination of them that has least variance: about a quarter less error, from the same loss
    (see `streamgauge.continual.refined`).

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011. They and those who
    quote them count log T or ceil(log T) levels, which is 1.5 epsilon at T = 4 and no noise at T = 1.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

from streamgauge.continual.bound import Bound
from streamgauge.continual.kary import Kary
from streamgauge.continual.mechanism import Mechanism
from streamgauge.continual.refined import Refined
from streamgauge.continual.settings import check_settings
from streamgauge.continual.way import Delegating
from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, Zcdp


@dataclass(frozen=True)
class Binary(Delegating):
    """Running counts over a stream of at most `horizon` ticks; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    loss: Loss
    _: KW_ONLY
    horizon: int
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()
    refine: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        self.way  # noqa: B018 - refuses what the tree refuses

    @property
    def levels(self) -> int:
        return max(1, (self.horizon - 1).bit_length())

    @cached_property
    def way(self) -> Mechanism[Any]:
        tree = Kary(
            self.loss,
            branching=2,
            levels=self.levels,
            horizon=self.horizon,
            bound=self.bound,
            pan_private=self.pan_private,
            unit=self.unit,
        )
        return Refined(tree) if self.refine else tree
