"""The law of collisions: how far above the truth an estimate may be, where items share cells at random.

An item meets another of f reports in C of k rows, C binomial of chance 1/m, and then has f (C/k - 1/m) m/(m -
1) of its reports too many. Where one other item has most of the reports that is far from normal: at 64 rows
of 256 columns, C = 2 is 3.5 standard deviations, and comes in 38 items one. All that a sketch tells of the
other items is the sum of squares of their counts, hence the collisions' share s of the variance. So

    error/stddev = sqrt(1 - s) N + sqrt(s) (C - tk/m)/sqrt(tk/m (1 - 1/m))      C of tk rows

is taken for the worst of t = 1, 2, 4, ... other items of one size, with N normal; `point` is beyond the
normal point then, and at it where s = 0. Below the truth an estimate is never farther than by the normal law:
C is skewed upwards. With more than 100 rows a column the first term of Cornish and Fisher's is enough.

What holds
    Tails are those of hashes drawn at random, row by row and item by item; of polynomials, 3-wise
    independent, the variance is exact and the tail is a model (tests show its fit). Other items of several
    sizes are taken to be no worse than those of one.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import erfc, lgamma, log, sqrt
from typing import Any

import numpy as np

from streamgauge.localdp.oracle import Spread
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats

GRID = np.linspace(0.0, 1.0, 17)  # of sqrt(s)
MANY = 100.0  # rows a column
SIZES = (1, 2, 4, 8, 16)
NEGLIGIBLE = 1e-4  # of a tail
STEPS = 30  # of bisection
beyond = np.frompyfunc(lambda z: erfc(z / sqrt(2)) / 2, 1, 1)


@dataclass(frozen=True, eq=False)
class Errors:
    """Of estimates from so many reports, where `squares` is the sum of the squares of all items' counts, no
    report is there more than `copies` times, and items share cells by hashes of a width, if at all. Values of
    an estimate are by `apart` from each other; half of it is added to what the normal law says."""

    spread: Spread
    hashed: tuple[int, int] | None
    reports: int
    squares: float
    copies: int = 1
    apart: float = 0.0

    def variance(self, count: Any) -> Any:
        """Of items that have so many reports."""
        return self.spread.variance(count, self.reports, self._others(count), self.copies)

    def stddev(self, count: Floats) -> Floats:
        return np.asarray(np.sqrt(self.variance(count)))

    def above(self, count: Floats, tail: float) -> Floats:
        """How far above the truth, which is `count`, an estimate is with chance `tail` at most."""
        stddev = self.stddev(count)
        if self.hashed is None:
            return normal_point(tail) * stddev + self.halfway
        collided = self.spread.collided(count, self.reports, self._others(count), self.copies)
        share = collided / np.maximum(stddev**2, 1e-9)
        return np.asarray(point(*self.hashed, tail, share) * stddev) + self.halfway

    def below(self, count: Floats, tail: float) -> Floats:
        """How far below the truth."""
        return normal_point(tail) * self.stddev(count) + self.halfway

    @property
    def halfway(self) -> float:
        """Copies of a report count together."""
        return self.copies * self.apart / 2

    def _others(self, count: Any) -> Any:
        near = np.clip(count, 0, self.reports)
        return np.clip(self.squares - near**2, 0, (self.reports - near) ** 2)


def point(hashes: int, width: int, tail: float, share: Any) -> Any:
    """How many standard errors above the truth an estimate is with chance `tail` at most, where collisions
    have that share of its variance."""
    return np.interp(np.sqrt(np.clip(share, 0, 1)), GRID, _points(hashes, width, tail))


@lru_cache(maxsize=64)
def _points(hashes: int, width: int, tail: float) -> Floats:
    """At every point of the grid, the worst."""
    normal, mean = normal_point(tail), hashes / width
    if mean > MANY:
        skewness = (1 - 2 / width) / sqrt(mean * (1 - 1 / width))
        return np.asarray(normal + GRID**3 * max(skewness, 0) * (normal**2 - 1) / 6)
    each = [_point(times * hashes, width, tail) for times in SIZES if times * mean <= MANY]
    return np.asarray(np.max(each, 0))


def _point(rows: int, width: int, tail: float) -> Floats:
    """For one number of rows, by bisection."""
    chance, deviation = _binomial(rows, width, tail)
    far, near = GRID[:, None] * deviation, np.sqrt(np.maximum(1 - GRID**2, 1e-9))[:, None]
    low = np.full(len(GRID), normal_point(tail))
    high = low + max(deviation[-1], 0)
    for _ in range(STEPS):
        middle = (low + high) / 2
        far_off = beyond((middle[:, None] - far) / near).astype(np.float64) @ chance > tail
        low, high = np.where(far_off, middle, low), np.where(far_off, high, middle)
    return np.asarray(high)


def _binomial(rows: int, width: int, tail: float) -> tuple[Floats, Floats]:
    """Chances of collisions of so many rows, and how many standard deviations they are from their mean."""
    mean = rows / width
    most = min(rows, int(mean + 10 * sqrt(mean) - 3 * log(tail)) + 2)
    logs = [
        lgamma(rows + 1)
        - lgamma(c + 1)
        - lgamma(rows - c + 1)
        - c * log(width)
        + (rows - c) * log(1 - 1 / width)
        for c in range(most + 1)
    ]
    chance, collided = np.exp(np.array(logs)), np.arange(most + 1.0)
    kept = chance > NEGLIGIBLE * tail
    return chance[kept], ((collided - mean) / sqrt(mean * (1 - 1 / width)))[kept]
