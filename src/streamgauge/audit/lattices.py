"""The numbers that whole draws can make a view of: a lattice, by whole numbers alone.

Noise comes in steps. Where data move a view by what is no sum of steps, no view of one world is one of the
other: noise in steps of 3 tells a count modulo 3, however wide it is.

Promise
    What `holds` denies is not in the lattice. Proof: columns that are rational are multiplied by a common
    denominator and brought to echelon form by exchanges that keep their whole combinations (Euclid's); a
    target is a combination if and only if it is used up from the top. Of columns that are not rational, with
    small denominators, nothing is said (None).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from streamgauge.noise.numbers import Floats

LARGEST = 4096  # numbers of a matrix for which it is done
DENOMINATOR = 10**4
COMMON = 10**9
ROUNDED = 1e-9  # relative: what floats may be off
NEAR = 1e-5  # and what a target may, in parts of the denominator

Column = list[int]


@dataclass(frozen=True)
class Lattice:
    """Columns in echelon form, each with the row of its first number that is not 0."""

    denominator: int
    basis: tuple[tuple[int, Column], ...]

    def holds(self, target: Floats) -> bool:
        """
        >>> steps = lattice_of(np.array([[3.0, 6.0]]))
        >>> steps is not None and (steps.holds(np.array([9.0])), steps.holds(np.array([1.0])))
        (True, False)
        """
        scaled = target * self.denominator
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) > NEAR * max(1.0, np.abs(scaled).max(initial=0)):
            return False
        left = [int(number) for number in np.rint(scaled)]
        for row, column in self.basis:
            times, rest = divmod(left[row], column[row])
            if rest:
                return False
            left = less(left, times, column)
        return not any(left)


def lattice_of(by_noise: Floats) -> Lattice | None:
    """Of the columns, if they are few and rational."""
    if by_noise.size > LARGEST:
        return None
    cells = [
        [Fraction(float(cell)).limit_denominator(DENOMINATOR) for cell in column] for column in by_noise.T
    ]
    found = np.array([[float(cell) for cell in column] for column in cells]).reshape(by_noise.T.shape)
    if np.abs(found - by_noise.T).max(initial=0.0) > ROUNDED * np.abs(by_noise).max(initial=0.0):
        return None
    common = lcm(*(cell.denominator for column in cells for cell in column))
    if common > COMMON:
        return None
    return Lattice(common, tuple(echelon([[int(cell * common) for cell in column] for column in cells])))


def echelon(columns: list[Column]) -> list[tuple[int, Column]]:
    """
    >>> echelon([[4, 1], [6, 1]])
    [(0, [2, 0]), (1, [0, 1])]
    """
    rest, basis = columns, []
    for row in range(len(columns[0]) if columns else 0):
        while len(live := [column for column in rest if column[row]]) > 1:
            least = min(live, key=lambda column: abs(column[row]))
            rest = [
                column if column is least else less(column, column[row] // least[row], least)
                for column in rest
            ]
        if live:
            basis.append((row, live[0]))
            rest = [column for column in rest if column is not live[0]]
        rest = [column for column in rest if any(column)]
    return basis


def less(column: Column, times: int, other: Column) -> Column:
    return [one - times * two for one, two in zip(column, other, strict=True)] if times else column
