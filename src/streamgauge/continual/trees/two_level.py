"""Two-level counting: a running count from two noisy partial sums per item.

Each item enters its own p-sum and the p-sum of its block of B items. The count at tick
t = qB + r adds q blocks and r items:

    x1 x2 x3 | x4 x5 x6 | x7 x8        B = 3, t = 8
    [------]   [------]   [] []        q = 2 blocks, r = 2 items

Privacy, Pan-privacy: as for every tree (see `streamgauge.continual.trees.tree`) with k = B and h = 2 levels.
h = 1 if the stream ends before its first block does.

Error
    Unbiased; the variance at tick t is exactly (q + r) times that of one draw (pan-private: 2q + r).
    With B = sqrt(T) the standard error is O(T^(1/4)/epsilon): less than Binary's up to about T = 2^20.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011.
    P-sums that carry Lap(1/epsilon), as in some accounts, cost 2 epsilon; here it is epsilon.
"""

from dataclasses import dataclass
from math import isqrt

from streamgauge.continual.mechanism import Settings
from streamgauge.continual.trees.tree import Tree
from streamgauge.continual.validation import check_noise, check_settings, check_whole


@dataclass(frozen=True, kw_only=True)
class TwoLevel(Settings, Tree):
    """Running counts; `block_size` is sqrt(horizon) unless given; see the module's claim."""

    block_size: int = 0

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
