"""Law of collisions: the distance of an estimate above the truth by shared cells.

An item meets another of f reports in C of k rows, C binomial of chance 1/m, and then has f (C/k - 1/m) m/(m - 1) of
its reports too many. If one other item has most of the reports that is far from normal: at 64 rows of 256 columns,
C = 2 is 3.5 standard deviations, and comes in one of 38 items. All that a sketch reveals of the other items is the
sum of squares of their counts, which gives the collisions' share s of the variance. So

    error/stddev = sqrt(1 - s) N + sqrt(s) (C - tk/m)/sqrt(tk/m (1 - 1/m))      C of tk rows

is used for the worst of t = 1, 2, 4, ... other items of one size, with N normal. `tail_quantile` is beyond the normal
point then, and at it if s = 0. Below the truth an estimate is never farther than by the normal law: C is skewed
upwards. With more than 100 rows a column the first term of Cornish and Fisher's expansion is enough.

Error
    Tails are those of hashes drawn at random, row by row and item by item. Of polynomials, 3-wise independent,
    the variance is exact and the tail is a model (tests show its fit). Other items of several sizes are assumed
    to be no worse than those of one.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import erfc, lgamma, log, sqrt
from typing import Any

import numpy as np

from streamgauge.localdp.oracle import Spread
from streamgauge.noise.coerce import Floats
from streamgauge.noise.tail_bounds import normal_point

GRID = np.linspace(0.0, 1.0, 17)  # of sqrt(s)
MAX_BINOMIAL_MEAN = 100.0  # rows a column
ITEM_COUNTS = (1, 2, 4, 8, 16)
NEGLIGIBLE_TAIL_SHARE = 1e-4  # of a tail
BISECTION_STEPS = 30  # of bisection
normal_tail = np.frompyfunc(lambda z: erfc(z / sqrt(2)) / 2, 1, 1)


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """The errors of estimates from so many reports.

    `squares` is the sum of the squares of all items' counts. No report is present more than `copies` times. Items share
    cells by hashes of a width, if at all. Values of an estimate are multiples of `value_spacing` apart; half of it is
    added to the width of the normal law.
    """

    spread: Spread
    hash_shape: tuple[int, int] | None
    reports: int
    squares: float
    copies: int = 1
    value_spacing: float = 0.0

    def variance(self, count: Any) -> Any:
        """Return the variance for items that have so many reports."""
        return self.spread.variance(count, self.reports, self._others(count), self.copies)

    def stddev(self, count: Floats) -> Floats:
        return np.asarray(np.sqrt(self.variance(count)))

    def upper_margin(self, count: Floats, tail: float) -> Floats:
        """Return the distance above the truth, `count`, that estimates exceed with `tail`."""
        stddev = self.stddev(count)
        if self.hash_shape is None:
            return normal_point(tail) * stddev + self.half_spacing
        collided = self.spread.collision_variance(count, self.reports, self._others(count), self.copies)
        share = collided / np.maximum(stddev**2, 1e-9)
        return np.asarray(tail_quantile(*self.hash_shape, tail, share) * stddev) + self.half_spacing

    def lower_margin(self, count: Floats, tail: float) -> Floats:
        """Return the distance below the truth that estimates exceed with chance `tail`."""
        return normal_point(tail) * self.stddev(count) + self.half_spacing

    @property
    def half_spacing(self) -> float:
        """Half the distance of values; copies of a report count together."""
        return self.copies * self.value_spacing / 2

    def _others(self, count: Any) -> Any:
        near = np.clip(count, 0, self.reports)
        return np.clip(self.squares - near**2, 0, (self.reports - near) ** 2)


def tail_quantile(hashes: int, width: int, tail: float, share: Any) -> Any:
    """Return the standard errors above the truth that estimates exceed with `tail`.

    Collisions have that share of the variance.
    """
    return np.interp(np.sqrt(np.clip(share, 0, 1)), GRID, _tail_quantiles(hashes, width, tail))


@lru_cache(maxsize=64)
def _tail_quantiles(hashes: int, width: int, tail: float) -> Floats:
    """Return the worst quantile at every point of the grid."""
    normal, mean = normal_point(tail), hashes / width
    if mean > MAX_BINOMIAL_MEAN:
        skewness = (1 - 2 / width) / sqrt(mean * (1 - 1 / width))
        return np.asarray(normal + GRID**3 * max(skewness, 0) * (normal**2 - 1) / 6)
    each = [_solve_quantile(times * hashes, width, tail) for times in ITEM_COUNTS if times * mean <= MAX_BINOMIAL_MEAN]
    return np.asarray(np.max(each, 0))


def _solve_quantile(rows: int, width: int, tail: float) -> Floats:
    """Return the quantiles for one number of rows, by bisection."""
    chance, deviation = _binomial(rows, width, tail)
    far, near = GRID[:, None] * deviation, np.sqrt(np.maximum(1 - GRID**2, 1e-9))[:, None]
    low = np.full(len(GRID), normal_point(tail))
    high = low + max(deviation[-1], 0)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        far_off = normal_tail((middle[:, None] - far) / near).astype(np.float64) @ chance > tail
        low, high = np.where(far_off, middle, low), np.where(far_off, high, middle)
    return np.asarray(high)


def _binomial(rows: int, width: int, tail: float) -> tuple[Floats, Floats]:
    """Return chances of collisions of so many rows, and their standardised numbers."""
    mean = rows / width
    most = min(rows, int(mean + 10 * sqrt(mean) - 3 * log(tail)) + 2)
    logs = [
        lgamma(rows + 1) - lgamma(c + 1) - lgamma(rows - c + 1) - c * log(width) + (rows - c) * log(1 - 1 / width)
        for c in range(most + 1)
    ]
    chance, collided = np.exp(np.array(logs)), np.arange(most + 1.0)
    likely = chance > NEGLIGIBLE_TAIL_SHARE * tail
    return chance[likely], ((collided - mean) / sqrt(mean * (1 - 1 / width)))[likely]
