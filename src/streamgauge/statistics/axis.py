"""A declared axis: a range of numbers cut in cells of one step, and the edges between them.

    lower                                   upper        Axis(0, 120, 10): 12 cells, 13 edges
    |  0  |  1  |  2  |   ...   |  n-1  |                cell c holds the values with edge c <= x < edge c + 1

What lies below `lower` counts in the first cell, what is not below `upper` in the last; what is no number is
dropped. Values and edges are compared as floats, by the very comparison that `x >= 0.3` is in a program: the
events that a range holds are exactly those for which its condition is true, on whatever side of 3/10 the
float 0.3 lies.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm, ulp
from typing import Any

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.numbers import as_floats
from streamgauge.privacy.exact import Number, exact, positive, shown
from streamgauge.statistics.columns import Bools
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.settings import declared

LONGEST = 2**26  # cells of an axis
EXACT = 2**53


@dataclass(frozen=True, init=False, repr=False)
class Axis:
    """Cells of one `step` from `lower` to `upper`, all three public. A float means the decimal it prints as.

    >>> age = Axis(0, 120, 10)
    >>> age, age.cells
    (Axis(lower=0, upper=120, step=10), 12)
    >>> age.codes(np.array([9.99, 10, -3, 500]))[0]
    array([ 0,  1,  0, 11])
    """

    lower: Fraction
    upper: Fraction
    step: Fraction

    def __init__(
        self, lower: Number | None = None, upper: Number | None = None, step: Number | None = None
    ) -> None:
        low = exact(declared("lower", lower, "the value at which the first cell begins"), "lower")
        high = exact(declared("upper", upper, "the value at which the last cell ends"), "upper")
        size = positive(declared("step", step, "the size of a cell, which answers are as fine as"), "step")
        for name, value in (("lower", low), ("upper", high), ("step", size)):
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.lower >= self.upper:
            raise ValueError(f"upper must be above lower, got {shown(self.upper)} and {shown(self.lower)}")
        number = (self.upper - self.lower) / self.step
        if number.denominator != 1:
            rule = f"step must divide upper - lower = {shown(self.upper - self.lower)}"
            raise ValueError(f"{rule}, got {shown(self.step)}")
        if number > LONGEST:
            raise ValueError(f"step must leave at most 2**26 cells, got {shown(self.step)} for {number}")
        first, pace, parts = self._integers
        if max(abs(first), abs(first + pace * self.cells), parts) >= EXACT or not self._apart:
            raise ValueError(
                f"step must be wide enough for floats to tell cells apart, got {shown(self.step)}"
            )

    @cached_property
    def cells(self) -> int:
        """How many there are."""
        return int((self.upper - self.lower) / self.step)

    @property
    def _integers(self) -> tuple[int, int, int]:
        """lower and step as whole numbers of one part, and how many such parts make 1."""
        parts = lcm(self.lower.denominator, self.step.denominator)
        return int(self.lower * parts), int(self.step * parts), parts

    @property
    def _apart(self) -> bool:
        """Whether no two edges are the same float; where a step is two floats at least, they are not."""
        coarsest = max(ulp(float(self.lower)), ulp(float(self.upper)))
        return self.step >= 2 * Fraction(coarsest) or bool((np.diff(self.edges) > 0).all())

    @cached_property
    def edges(self) -> Floats:
        """All edges, each the float nearest to it: the quotient of two floats that are exact."""
        first, pace, parts = self._integers
        return (first + pace * np.arange(self.cells + 1)) / parts

    def codes(self, values: Any) -> tuple[Ints, Bools]:
        """The cell of each item, and whether it was a number at all; looks at each alone."""
        bottom, top = float(self.edges[0]), float(self.edges[-1])
        floats, present = as_floats(values, np.floor(bottom), np.ceil(top))
        cells = np.searchsorted(self.edges, floats, side="right") - 1
        return np.clip(cells, 0, self.cells - 1), present

    def edge(self, name: str, value: Number) -> int:
        """The number of the edge that lies at `value`; refuses what lies between edges, or outside."""
        place = (exact(value, name) - self.lower) / self.step
        if not 0 <= place <= self.cells:
            rule = f"must be from {shown(self.lower)} to {shown(self.upper)}"
            raise ValueError(f"{name} {rule}, got {value}")
        if place.denominator != 1:
            below = self.lower + self.step * (place.numerator // place.denominator)
            near = f"{shown(below)} and {shown(below + self.step)}"
            raise ValueError(f"{name} must be at an edge of its cells (the nearest are {near}), got {value}")
        return int(place)

    def interval(self, name: str, bounds: Any) -> tuple[int, int]:
        """The edges of a half-open range (from, to) of values; None leaves an end open."""
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise ValueError(f"{name} must be a pair (from, to), None for an open end, got {bounds!r}")
        start, end = bounds
        first = 0 if start is None else self.edge(name, start)
        last = self.cells if end is None else self.edge(name, end)
        if first > last:
            raise ValueError(f"{name} must be a pair (from, to) in order, got {start} and {end}")
        return first, last

    def __repr__(self) -> str:
        return f"Axis(lower={shown(self.lower)}, upper={shown(self.upper)}, step={shown(self.step)})"
