"""Heavy fraction: which part of the users has come at least k times.

Of the table of cycles of k steps, the entries in their last step: they have come round if n_x >= k. One
table, the whole loss, a k-th of the entries.

Privacy
    That of `cycle`: pure, (intrusions + 1) state_loss + releases output_loss, for all appearances of one
    user.

Error
    Unbiased; the variance is about k times that of the density, and exact.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010 have it as a difference of two cropped sums, from two
    tables at half the loss each, with a variance of about 8 k^2 times that of the density.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from streamgauge.noise import Ints
from streamgauge.panprivate.cycle import LONGEST
from streamgauge.panprivate.cycle_claim import CycleClaim


@dataclass(frozen=True)
class HeavyFraction(CycleClaim):
    """The part of the universe that has come `at_least` times; see the module's claim."""

    _: KW_ONLY
    at_least: int

    def __post_init__(self) -> None:
        self.check_length("at_least", self.at_least, 1, LONGEST)
        super().__post_init__()

    @property
    def length(self) -> int:
        return self.at_least

    @property
    def weights(self) -> Ints:
        weights = np.zeros(self.length, np.int64)
        weights[-1] = 1
        return weights
