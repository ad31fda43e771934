"""Published numbers that obey what is known of the truth, tick by tick.

    raw            -3   4   2   9      counts that are not negative, and never fall if their window is running
    published       0   4   4   9

    all 10; north 4, south 3   ->   all 9; north 5, south 4      levels of a ROLLUP that add up

Each tick is adjusted by its own raw numbers and those published at the tick before. So no published number changes
later, and a run that was killed continues with the numbers that it would have had.

With levels, least squares gives the estimates (`least_squares`). Numbers that must not be negative, or fall, are then
published from the top: the total first, and below each group the nearest nonnegative rises that add up to its own
(`nonnegative`), as whole numbers.

Privacy
    Post-processing: the input is released numbers and public settings only. It costs nothing.

Error
    A published interval contains the raw one as far as the truth can be in it, and the published number. So it holds
    the truth if the raw interval does. Proof: cutting at 0 and at a public maximum removes no possible truth, and
    widening removes nothing. A number that never falls is drawn upwards by noise (`consistency`). The standard error is
    that of the raw number.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf

import numpy as np
import numpy.typing as npt

from streamgauge.postprocess.consistency import make_consistent
from streamgauge.postprocess.hierarchy import Hierarchy
from streamgauge.postprocess.least_squares import HierarchyEstimator
from streamgauge.postprocess.nonnegative import project_nonnegative

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class AdjustedNumbers:
    """Numbers of one tick, one for each place."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Adjustment:
    """Rules that the true numbers of a measure obey.

    >>> Adjustment(never_falls=True).adjust([2.0], [1.0], [0.5], [3.5], previous=[4.0])
    AdjustedNumbers(value=array([4.]), low=array([0.5]), high=array([4.]))
    """

    is_count: bool = True  # not negative
    never_falls: bool = False
    upper: int | None = None  # the largest possible number
    widths: tuple[int, ...] = ()  # groups of each level, the finest first, if levels add up
    hierarchy: Hierarchy | None = field(default=None, compare=False, repr=False)  # of these levels

    def adjust(
        self,
        value: npt.ArrayLike,
        stddev: npt.ArrayLike,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        previous: npt.ArrayLike | None = None,
    ) -> AdjustedNumbers:
        """Return the published numbers of a tick. `previous` are those of the tick before, if numbers never fall."""
        raw, lower, upper = (np.asarray(each, np.float64) for each in (value, low, high))
        base = np.zeros(raw.shape) if previous is None else np.asarray(previous, np.float64)
        estimate = raw if self.hierarchy is None else self._add_up(raw, np.asarray(stddev, np.float64))
        if not self.is_count:
            return _widen(estimate, lower, upper)
        most = inf if self.upper is None else self.upper
        if self.hierarchy is not None:
            published = self._rise_from_top(np.nan_to_num(estimate), base)
        elif self.never_falls:
            published = make_consistent(estimate[None], previous=base)[0].astype(np.float64)
        else:
            published = np.maximum(estimate, 0.0)
        return _widen(np.minimum(published, most), np.clip(lower, 0.0, most), np.clip(upper, 0.0, most))

    def describe(self, measure: str) -> str:
        """Return the rules in words.

        >>> Adjustment(never_falls=True, upper=365).describe("users")
        'users is never negative, never falls and is at most 365'
        """
        rules = ["is never negative"] if self.is_count else []
        rules += ["never falls"] if self.never_falls else []
        rules += [f"is at most {self.upper:,}"] if self.upper is not None else []
        rules += ["adds up over levels"] if self.widths else []
        return f"{measure} {' and '.join([', '.join(rules[:-1])] * bool(rules[:-1]) + rules[-1:])}"

    def _add_up(self, value: Floats, stddev: Floats) -> Floats:
        """Return the estimate of least variance, or one with equal weights if an error is not known."""
        known = bool((np.isfinite(stddev) & (stddev > 0)).all())
        weights = tuple(((stddev / stddev.max()) ** 2).tolist()) if known else None  # a common factor changes nothing
        return _build_estimator(self.hierarchy or Hierarchy([None]), weights).step(value)

    def _rise_from_top(self, estimate: Floats, base: Floats) -> Floats:
        """Return whole numbers that add up and are at least `base`, which adds up."""
        published = np.empty_like(base)
        ends = list(accumulate(self.widths))
        levels = [slice(end - width, end) for end, width in zip(ends, self.widths, strict=True)]
        top = levels[-1]
        published[top] = np.maximum(np.floor(np.maximum(estimate[top], 0.0) + 0.5), base[top])
        for below, above in reversed(list(pairwise(levels))):
            rise = published[above] - base[above]
            wanted = (estimate[below] - base[below]).reshape(len(rise), -1)
            shares = project_nonnegative(wanted, total=rise)
            published[below] = base[below] + _round_shares(shares, rise).reshape(-1)
        return published


@lru_cache(maxsize=4)
def _build_estimator(hierarchy: Hierarchy, variances: tuple[float, ...] | None) -> HierarchyEstimator:
    return HierarchyEstimator(hierarchy, variances)


def _round_shares(shares: Floats, totals: Floats) -> Floats:
    """Return whole shares with these whole totals: the largest fractions are rounded up."""
    whole = np.floor(shares)
    left = totals - whole.sum(axis=-1)
    order = np.argsort(-(shares - whole), axis=-1, kind="stable")
    ranks = np.argsort(order, axis=-1, kind="stable")
    return np.asarray(whole + (ranks < left[:, None]))


def _widen(value: Floats, low: Floats, high: Floats) -> AdjustedNumbers:
    """Return numbers with intervals that contain them. An unknown end stays unknown."""
    return AdjustedNumbers(value, np.minimum(low, value), np.maximum(high, value))
