"""Cropped mean: how often users have come on average, no user counting more than `limit` times.

The mean over the universe of min(n_x, t): all weights of the table of cycles are 1, so that the release is
that of all bits, P(present) = min(n_x, t)/t.

Privacy
    That of `cycle`: pure, (intrusions + 1) state_loss + releases output_loss, for all appearances of one
    user.

Error
    Unbiased. The bits of users who came n times have p = absent + gap min(n, t)/t and variance p (1 - p),
    which is concave: `stddev` is exact if all users came equally often, and an upper bound else. With limit
    1 it is the density (whose own table is half as large, and survives announced intrusions better).

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010, which prints max for min, and calls the sum a mean.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from streamgauge.noise import Ints
from streamgauge.panprivate.cycle import LONGEST
from streamgauge.panprivate.cycle_claim import CycleClaim


@dataclass(frozen=True)
class CroppedMean(CycleClaim):
    """The mean of min(n_x, limit); see the module's claim."""

    _: KW_ONLY
    limit: int

    def __post_init__(self) -> None:
        self.check_length("limit", self.limit, 1, LONGEST)
        super().__post_init__()

    @property
    def length(self) -> int:
        return self.limit

    @property
    def highest(self) -> float:
        return float(self.limit)

    @property
    def weights(self) -> Ints:
        return np.ones(self.limit, np.int64)

    def _bent(self, intrusions: int) -> float:
        """The mean of 2 b - 1, whose square is taken off, moves by 2 gap between the ends."""
        return self.limit**2 / self.entries
