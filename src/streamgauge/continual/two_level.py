"""Two-level counting: a running count from two noisy partial sums per item.

Each item enters a p-sum of its own and the p-sum of its block of B items; the count at tick
t = qB + r adds q blocks and r items:

    x1 x2 x3 | x4 x5 x6 | x7 x8        B = 3, t = 8
    [------]   [------]   [] []        q = 2 blocks, r = 2 items

Privacy, Pan-privacy: as for every tree (see `streamgauge.continual.tree`) with k = B and h = 2 levels;
h = 1 where the stream ends before its first block does.

Error
    Unbiased; the variance at tick t is exactly (q + r) times that of one draw (pan-private: 2q + r).
    With B = sqrt(T) the standard error is O(T^(1/4)/epsilon): less than Binary's up to about T = 2^20.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011.
    P-sums that carry Lap(1/epsilon), as in some accounts, cost 2 epsilon; here it is epsilon.
"""

from dataclasses import KW_ONLY, dataclass
from math import isqrt

from streamgauge.continual.bound import Bound
from streamgauge.continual.settings import check_noise, check_settings, check_whole
from streamgauge.continual.tree import Tree
from streamgauge.privacy import Event, Loss, Unit


@dataclass(frozen=True)
class TwoLevel(Tree):
    """Running counts; `block_size` is sqrt(horizon) unless given; see the module's claim."""

    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    block_size: int = 0
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()

    def __post_init__(self) -> None:
        check_settings(self, bounded=not self.block_size)
        if not self.block_size:
            object.__setattr__(self, "block_size", max(2, isqrt(self.horizon or 0)))
        check_whole("block_size", self.block_size, least=2)
        check_noise(self)

    @property
    def branching(self) -> int:
        return self.block_size

    @property
    def levels(self) -> int:
        return 2 if self.horizon is None or self.horizon >= self.block_size else 1
