"""The integer grid: reals become integers item by item, before anything else happens to them.

`Grid` clips to [lower, upper], both multiples of the step g, and rounds to floor(x/g + 1/2). Every item
lands in [lower/g, upper/g], whatever it was; so the sensitivity of a sum is exactly that of one item, with
nothing added for rounding.

What is not a number, by a rule that looks at that item alone and never raises: +inf and numbers too large
are clipped like any other; NaN, None, masked items, text and everything else become `missing`. Errors are
raised at construction only.

Rounding is exact, ties included. A first guess n is put right by comparing x q with p (n - 1/2) and p (n +
1/2), g = p/q: the product x q is held exactly as the sum of two floats (Dekker), the other side is a float
exactly, since construction refuses grids where p (2 n + 1) reaches 2^52, and near a tie the difference of
two floats is exact (Sterbenz).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from streamgauge.noise.laws import Ints
from streamgauge.noise.numbers import Bools, Floats, Number, as_floats, rational

EXACT = 1 << 52
SPLIT = 134217729.0  # 2^27 + 1


@dataclass(frozen=True, init=False)
class Grid:
    """Multiples of `step` from `lower` to `upper`. A float such as 0.1 means the decimal it prints as.

    >>> grid = Grid(0, 5, 0.5)
    >>> grid.integers([1.24, 1.25, -3, None, float("inf"), float("nan"), "text", 10**400]).tolist()
    [2, 3, 0, 0, 10, 0, 0, 10]
    >>> grid.bound(), grid.bound(replace=True), grid.reals(np.array([3])).tolist()
    (10, 10, [1.5])
    """

    lower: Fraction
    upper: Fraction
    step: Fraction
    missing: Fraction  # what a missing item counts as; 0, clipped, if not declared

    def __init__(
        self, lower: Number, upper: Number, step: Number = Fraction(1), missing: Number | None = None
    ) -> None:
        for name, value in (("lower", lower), ("upper", upper), ("step", step)):
            object.__setattr__(self, name, rational(name, value))
        declared = rational("missing", 0 if missing is None else missing)
        object.__setattr__(self, "missing", min(max(declared, self.lower), self.upper))
        self._check()
        if missing is not None and self.missing != declared:
            raise ValueError(f"missing must be within lower and upper, got {missing}")

    def _check(self) -> None:
        if self.step <= 0:
            raise ValueError(f"step must be positive, got {self.step}")
        if self.lower > self.upper:
            raise ValueError(f"upper must be at least lower, got {self.upper} < {self.lower}")
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if (value / self.step).denominator != 1:
                raise ValueError(f"{name} must be a multiple of step, got {value}")
        numerator, denominator = self.step.as_integer_ratio()
        if max(numerator * (2 * self.bound() + 3), denominator) >= EXACT:
            raise ValueError(f"step must leave fewer than 2**52 exact places, got {self.step}")

    @property
    def first(self) -> int:
        """The integer of `lower`."""
        return int(self.lower / self.step)

    @property
    def last(self) -> int:
        """The integer of `upper`."""
        return int(self.upper / self.step)

    def bound(self, *, replace: bool = False) -> int:
        """How far one item can move a sum, in steps: by its coming or going, or by its being replaced."""
        return self.last - self.first if replace else max(abs(self.first), abs(self.last))

    def integers(self, values: Any) -> Ints:
        """Every item on the grid; missing ones as `missing`."""
        floats, present = as_floats(values, float(self.lower - self.step), float(self.upper + self.step))
        rounded = np.clip(nearest(floats, self.step), self.first, self.last)
        return np.where(present, rounded, self._missing_integer)

    def present(self, values: Any) -> Bools:
        """Which items are numbers, infinities included."""
        return as_floats(values, 0.0, 0.0)[1]

    def reals(self, integers: Ints) -> Floats:
        """Back to the scale of the data."""
        return np.asarray(integers, np.float64) * self.step.numerator / self.step.denominator

    @property
    def _missing_integer(self) -> int:
        return int(nearest(np.array([float(self.missing)]), self.step)[0])


def nearest(x: Floats, step: Fraction) -> Ints:
    """floor(x/step + 1/2) exactly, for |x| within the range that `Grid` admits."""
    numerator, denominator = float(step.numerator), float(step.denominator)
    guess = np.floor(x / numerator * denominator + 0.5)
    high, low = two_product(x, denominator)
    guess -= (high - numerator * (guess - 0.5)) + low < 0
    guess += (high - numerator * (guess + 0.5)) + low >= 0
    return guess.astype(np.int64)


def two_product(x: Floats, factor: float) -> tuple[Floats, Floats]:
    """x factor as the exact sum of two floats."""
    high = x * factor
    x_high, f_high = _upper_half(x), float(_upper_half(np.array(factor)))
    x_low, f_low = x - x_high, factor - f_high
    return high, ((x_high * f_high - high) + x_high * f_low + x_low * f_high) + x_low * f_low


def _upper_half(x: Floats) -> Floats:
    """The leading 26 bits."""
    shifted = np.asarray(SPLIT * x)
    return np.asarray(shifted - (shifted - x))
