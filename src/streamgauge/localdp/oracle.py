"""Variance of a frequency estimate, and the types of items and tables.

A device sends one report of its item. A collector adds reports up in a table and estimates the number of devices
with an item. With `count` of `reports` reports from devices that have the item, an estimate is unbiased and has
exactly the variance

    count own + (reports - count) other + (squares - (reports - count)) shared

`own` and `other` are the parts of one report of the item, or of another. If items share cells at random, reports of
one other item collide with the item together. Each pair of them adds `shared`. `squares`, the sum of the squares of
the other items' counts, is the number of ordered pairs, with each report paired with itself. A report that is present
t times adds t^2 times its variance. With at most `copies` of each, `copies` times as much for every report is
enough, and pairs of copies are no collisions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Item = str | int
Table = npt.NDArray[np.signedinteger[Any]]
MAX_WIDE_CELLS = 2**22  # cells: up to here 8 bytes each, beyond it 4


@dataclass(frozen=True)
class Spread:
    """The part of each report in the variance of an estimate.

    See the module's formula.
    """

    own: float
    other: float
    shared: float = 0.0

    def variance(self, count: Any, reports: int, squares: Any = 0, copies: int = 1) -> Any:
        """Return the variance for a count, or for each of an array.

        `squares` is never below every other report's own.
        """
        own = np.clip(count, 0, reports)
        chance = copies * (own * self.own + (reports - own) * self.other)
        return chance + self.collision_variance(count, reports, squares, copies)

    def collision_variance(self, count: Any, reports: int, squares: Any, copies: int = 1) -> Any:
        """Return the part of the variance that is by collisions."""
        others = copies * (reports - np.clip(count, 0, reports))
        return (np.maximum(squares, others) - others) * self.shared


def allocate_table(*shape: int) -> Table:
    """Return zeros of 8 bytes, or of 4 if there are many.

    A collector widens cells of 4 bytes before there are 2^31 reports.
    """
    return np.zeros(shape, np.int64 if np.prod(shape) <= MAX_WIDE_CELLS else np.int32)
