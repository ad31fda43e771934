"""Grids: the multiples of a step that the values of an expression lie on, or are to be put on.

A column with a declared `grid` is put on it by the engine, after the expression was computed: its grid is
natural, not `sure`. Whole numbers made by FLOOR, a date part or a literal lie on theirs to the bit.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

FINEST = 2**31  # more points than this between the bounds are no grid
FARTHEST = 2**52  # nor are points further from 0 than so many steps
SURE = 2**53  # whole numbers below this are doubles, and so are their sums


@dataclass(frozen=True)
class Grid:
    """Multiples of `step`. A step of 0 is that of the constant 0, which lies on every grid."""

    step: Fraction
    sure: bool = False

    def scaled(self, factor: Fraction) -> "Grid":
        step = self.step * abs(factor)
        return Grid(step, self.sure and factor.denominator == 1)

    @property
    def whole(self) -> bool:
        return self.step.denominator == 1


WHOLE = Grid(Fraction(1), sure=True)


def useful(grid: Grid | None, lower: Fraction, upper: Fraction) -> Fraction | None:
    """The step of a grid that an engine can put numbers within these bounds on."""
    if grid is None or grid.step == 0 or upper - lower > FINEST * grid.step:
        return None
    return grid.step if max(abs(lower), abs(upper)) <= FARTHEST * grid.step else None


def joint(grids: Iterable[Grid | None]) -> Grid | None:
    """The coarsest grid that holds all of these.

    >>> joint([Grid(Fraction("0.1")), Grid(Fraction("0.25"))]).step
    Fraction(1, 20)
    """
    step, sure = Fraction(0), True
    for grid in grids:
        if grid is None:
            return None
        step, sure = common(step, grid.step), sure and grid.sure
    return Grid(step, sure)


def common(a: Fraction, b: Fraction) -> Fraction:
    """The greatest common divisor of two fractions.

    >>> common(Fraction(3, 2), Fraction(5, 4))
    Fraction(1, 4)
    """
    return Fraction(
        math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator
    )


def constant(value: float) -> Grid:
    """The grid of one number: whole numbers are kept to the bit."""
    exact = abs(Fraction(repr(value)))
    return Grid(exact, sure=exact.denominator == 1 and exact <= SURE)
