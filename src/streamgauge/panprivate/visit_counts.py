"""Statistics of visit counts: cropped mean, heavy fraction and incidence.

All read a table of cycles (see `cycle`), with different weights:

    CroppedMean      the mean over the universe of min(n_x, t). All weights are 1, so that the release is that
                     of all bits, P(present) = min(n_x, t)/t
    HeavyFraction    the part of the users who came at least k times. Of cycles of k steps, the entries in their
                     last step: they have wrapped if n_x >= k. One table, the whole loss, a k-th of the entries
    Incidence        the part of the users who came exactly k times. Of cycles of k + 1 steps, the entries in
                     their last step but one, which have wrapped if n_x >= k, less those in their last, which
                     have if n_x > k. One table, the whole loss

Privacy
    That of `cycle`: pure, (intrusions + 1) state_loss + releases output_loss, for all appearances of one
    user.

Error
    Unbiased.
    CroppedMean: the bits of users who came n times have p = absent + gap min(n, t)/t and variance p (1 - p),
    which is concave. `stddev` is exact if all users came equally often, and an upper bound else. With limit 1
    it is the density (whose own table is half as large, and survives announced intrusions better).
    HeavyFraction: the variance is about k times that of the density, and exact.
    Incidence: the variance is about 2 (k + 1) times that of the density, and exact. If no user can come k
    times or more of a known k, or users are removed, see `ModularIncidence`.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010. For the cropped mean it prints max for min, and calls the sum
    a mean. It has the heavy fraction as a difference of two cropped sums, from two tables at half the loss
    each, with a variance of about 8 k^2 times that of the density. It has the incidence from cropped sums of
    three tables.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from streamgauge.noise import Ints
from streamgauge.panprivate.cycle import CycleTableMechanism


@dataclass(frozen=True)
class CroppedMean(CycleTableMechanism):
    """The mean of min(n_x, limit); see the module's claim."""

    VISITS_SETTING: ClassVar[str] = "limit"
    _: KW_ONLY
    limit: int

    @property
    def highest(self) -> float:
        return float(self.limit)

    @property
    def weights(self) -> Ints:
        return np.ones(self.limit, np.int64)

    @property
    def variance_gain(self) -> float:
        """Gain of the variance between its ends.

        The mean of 2 b - 1, whose square is subtracted, moves by 2 gap between them.
        """
        return self.limit**2 / self.entries


@dataclass(frozen=True)
class HeavyFraction(CycleTableMechanism):
    """The part of the universe that has come `at_least` times; see the module's claim."""

    VISITS_SETTING: ClassVar[str] = "at_least"
    _: KW_ONLY
    at_least: int

    @property
    def weights(self) -> Ints:
        weights = np.zeros(self.length, np.int64)
        weights[-1] = 1
        return weights


@dataclass(frozen=True)
class Incidence(CycleTableMechanism):
    """The part of the universe that has come `exactly` so many times.

    See the module's claim.
    """

    VISITS_SETTING: ClassVar[str] = "exactly"
    EXTRA_STEPS: ClassVar[int] = 1
    _: KW_ONLY
    exactly: int

    def __post_init__(self) -> None:
        if self.hashed and not self.exactly:
            raise ValueError("hashed must be False if exactly is 0 (no count of absent users is known), got True")
        super().__post_init__()

    @property
    def weights(self) -> Ints:
        weights = np.zeros(self.length, np.int64)
        weights[-2:] = [1, -1][-self.length :]
        return weights

    @property
    def typical_visits(self) -> int:
        return self.exactly

    @property
    def base_value(self) -> int:
        """T(0): if no user came, all came exactly 0 times."""
        return int(self.exactly == 0)
