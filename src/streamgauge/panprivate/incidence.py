"""Incidence: which part of the users has come exactly k times.

Of the table of cycles of k + 1 steps, the entries in their last step but one, which have come round if n_x
>= k, less those in their last, which have if n_x > k. One table, the whole loss.

Privacy
    That of `cycle`: pure, (intrusions + 1) state_loss + releases output_loss, for all appearances of one
    user.

Error
    Unbiased; the variance is about 2 (k + 1) times that of the density, and exact. Where no user can come k
    times or more of a known k, or users are taken back, see `ModularIncidence`.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010 have it from cropped sums of three tables.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from streamgauge.noise import Ints
from streamgauge.panprivate.cycle import LONGEST
from streamgauge.panprivate.cycle_claim import CycleClaim


@dataclass(frozen=True)
class Incidence(CycleClaim):
    """The part of the universe that has come `exactly` so many times; see the module's claim."""

    _: KW_ONLY
    exactly: int

    def __post_init__(self) -> None:
        self.check_length("exactly", self.exactly, 0, LONGEST - 1)
        if self.hashed and not self.exactly:
            raise ValueError(
                "hashed must be False where exactly is 0 (nobody knows who else there is), got True"
            )
        super().__post_init__()

    @property
    def length(self) -> int:
        return self.exactly + 1

    @property
    def weights(self) -> Ints:
        weights = np.zeros(self.length, np.int64)
        weights[-2:] = [1, -1][-self.length :]
        return weights

    @property
    def typical(self) -> int:
        return self.exactly

    @property
    def base(self) -> int:
        """If nobody came, all came exactly 0 times."""
        return int(self.exactly == 0)
