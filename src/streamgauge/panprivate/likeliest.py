"""The likeliest number of users, of several tables that each tell it in a way of their own.

A table of n cells tells the part of them that is taken. If the part x of a universe of u users came, that is

    taken     g(x) = 1 - (1 - 1/n)^(x u), or x itself where each user has an entry, with variance V(x)
    likeliest x    where sum [(told - g(x))^2/V(x) + log V(x)] over the tables is least, from 0 to `most`

A full table says little, since it rises no more, and so does one that is large for the few who came: no table
has to be chosen, and none misleads by being chosen.

Error
    `first` is that of first order, 1/sqrt(sum g'(x)^2/V(x)). `error` is the root mean square of the whole
    estimate at x, ends and bends included: its mean over the laws of what is told (normal for bits and cells,
    Laplace for noise), at POINTS places of a lattice.

Reference
    Korobov 1959 for the lattice: u_d(i) = (i GENERATOR^d mod POINTS)/POINTS.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import hypot, sqrt

import numpy as np

from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.bits import Count
from streamgauge.panprivate.occupancy import Occupied

POINTS, GENERATOR = 4096, 1571
GRID, NARROWINGS = 128, 24
LEAST = 1e-9  # of the grid, and of a variance in bits
GOLDEN = (sqrt(5) - 1) / 2
FULL = 1000.0  # users for each entry: more tell no more, since all entries are taken


@dataclass(frozen=True)
class Told:
    """One table: which part of its entries is taken, if a part of the universe came."""

    count: Count
    occupied: Occupied | None  # none where each user has an entry
    spread: float  # users of the universe for each entry

    def taken(self, part: Floats) -> Floats:
        return part if self.occupied is None else np.asarray(self.occupied.taken(part * self.spread))

    def slope(self, part: float) -> float:
        """d taken / d part."""
        return 1.0 if self.occupied is None else self.spread * self.occupied.rise(part * self.spread)

    def chance(self, part: Floats) -> Floats:
        """The variance that is not noise's: of bits, and of which cells are taken."""
        cells = 0.0 if self.occupied is None else self.occupied.variance(part * self.spread)
        bits = self.count.variance(self.taken(part)) - self.noise
        return np.asarray(np.maximum(bits, 0.0) + cells)

    def variance(self, part: Floats) -> Floats:
        return self.chance(part) + self.noise + LEAST / self.count.entries**2

    def known(self, part: float) -> float:
        """One over the variance of a part that it alone tells, to first order."""
        return self.slope(part) ** 2 / float(self.variance(np.array(part)))

    @property
    def noise(self) -> float:
        return self.count.noise.variance / (self.count.entries * float(self.count.laws.gap)) ** 2


@dataclass(frozen=True)
class Likeliest:
    """What tables tell together; see the module."""

    tables: Sequence[Told]
    most: float

    def found(self, told: Floats) -> Floats:
        """The likeliest parts: of rows, one for each table, with a column for each time that it told."""
        grid = np.concatenate([[0.0], np.geomspace(LEAST * self.most, self.most, GRID)])
        rough = np.argmin(self._unlikely(grid[:, None], told[:, None]), axis=0)
        low, high = grid[np.maximum(rough - 1, 0)], grid[np.minimum(rough + 1, GRID)]
        for _ in range(NARROWINGS):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            below = self._unlikely(left, told) < self._unlikely(right, told)
            low, high = np.where(below, low, left), np.where(below, right, high)
        return np.asarray((low + high) / 2)

    def _unlikely(self, part: Floats, told: Floats) -> Floats:
        ways = zip(self.tables, told, strict=True)
        return np.asarray(sum(self._off(table, part, each) for table, each in ways))

    def _off(self, table: Told, part: Floats, told: Floats) -> Floats:
        variance = table.variance(part)
        return np.asarray((told - table.taken(part)) ** 2 / variance + np.log(variance))

    def first(self, part: float) -> float:
        """The standard error of first order."""
        with np.errstate(all="ignore"):
            return 1 / sqrt(sum(table.known(part) for table in self.tables))

    def best(self, part: float) -> int:
        """The table that tells best by itself, if a part came."""
        return int(np.argmax([table.known(part) for table in self.tables]))

    def error(self, part: float) -> float:
        """The root mean square error where `part` is the truth."""
        at = np.array(min(part, FULL))
        told = [
            table.taken(at) + np.sqrt(table.chance(at)) * bits + sqrt(table.noise) * noise
            for table, (bits, noise) in zip(self.tables, lattice(len(self.tables)), strict=True)
        ]
        found = self.found(np.stack(told))
        return hypot(float(np.std(found)), float(np.mean(found)) - part)


@lru_cache(maxsize=1)
def quantiles() -> tuple[Floats, Floats]:
    """Those of the normal law, and of a Laplace law of variance 1, of POINTS equal parts."""
    upper = (np.arange(POINTS // 2) + 0.5) / POINTS
    normal = np.array([normal_point(float(each)) for each in upper])
    laplace = -np.log(2 * upper) / sqrt(2)
    return np.append(-normal, normal[::-1]), np.append(-laplace, laplace[::-1])


@lru_cache(maxsize=32)
def lattice(tables: int) -> list[tuple[Floats, Floats]]:
    """For each table a row of normal values and one of Laplace values, all together spread evenly."""
    places = [np.arange(POINTS) * pow(GENERATOR, row, POINTS) % POINTS for row in range(2 * tables)]
    normal, laplace = quantiles()
    return [(normal[bits], laplace[noise]) for bits, noise in zip(places[::2], places[1::2], strict=True)]
