"""The integer grid: reals become integers item by item, before anything else.

Numbers
    `Grid` clips to [lower, upper], both multiples of the step g, and rounds to floor(x/g + 1/2). Every item
    lands in [lower/g, upper/g]. So the sensitivity of a sum is exactly that of one item, and rounding
    adds nothing.
    A rule that reads one item alone and never raises decides about other values. Infinities and numbers too
    large are clipped. NaN, None, masked items, text and everything else become `missing`. Errors are
    raised at construction only.

Exact rounding, ties included
    With g = p/q, a first guess n is corrected by comparing x q with p (n - 1/2) and p (n + 1/2).
    The product x q is the exact sum of two floats (Dekker). The other side is exactly a float, since
    construction rejects grids with p (2 n + 1) >= 2^52. Near a tie the difference of two floats is exact
    (Sterbenz).

Vectors
    `VectorGrid` clips in L2 to `norm`, then rounds every coordinate. Rounding moves a vector of d coordinates
    by at most sqrt(d)/2 steps. So the integer vector has L2 norm at most norm/step + sqrt(d)/2, which is
    charged. Floats clip to a norm smaller than `norm` by more than all their rounding, (d + 16) 2^-50.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from streamgauge.noise.coerce import Bools, Floats, Number, as_floats, as_fraction, box_items, list_items
from streamgauge.noise.sampler_table import Ints

MAX_EXACT_STEPS = 1 << 52
VELTKAMP_FACTOR = 134217729.0  # 2^27 + 1


@dataclass(frozen=True, init=False)
class Grid:
    """Multiples of `step` from `lower` to `upper`.

    A float such as 0.1 means the decimal it prints as.

    >>> grid = Grid(0, 5, 0.5)
    >>> grid.integers([1.24, 1.25, -3, None, float("inf"), float("nan"), "text", 10**400]).tolist()
    [2, 3, 0, 0, 10, 0, 0, 10]
    >>> grid.bound(), grid.bound(replace=True), grid.reals(np.array([3])).tolist()
    (10, 10, [1.5])
    """

    lower: Fraction
    upper: Fraction
    step: Fraction
    missing: Fraction  # value of a missing item; 0, clipped, if not declared

    def __init__(self, lower: Number, upper: Number, step: Number = Fraction(1), missing: Number | None = None) -> None:
        for name, value in (("lower", lower), ("upper", upper), ("step", step)):
            object.__setattr__(self, name, as_fraction(name, value))
        declared = as_fraction("missing", 0 if missing is None else missing)
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
        if max(numerator * (2 * self.bound() + 3), denominator) >= MAX_EXACT_STEPS:
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
        """Return the most that one item moves a sum, in steps.

        The item is added or removed, or with `replace` replaced.
        """
        return self.last - self.first if replace else max(abs(self.first), abs(self.last))

    def integers(self, values: Any) -> Ints:
        """Return every item on the grid; missing ones as `missing`."""
        floats, present = as_floats(values, float(self.lower - self.step), float(self.upper + self.step))
        rounded = np.clip(round_to_step(floats, self.step), self.first, self.last)
        missing = int(round_to_step(np.array([float(self.missing)]), self.step)[0])
        return np.where(present, rounded, missing)

    def find_present(self, values: Any) -> Bools:
        """Return whether each item is a number; infinities are."""
        return as_floats(values, 0.0, 0.0)[1]

    def reals(self, integers: Ints) -> Floats:
        """Return integers on the scale of the data."""
        return np.asarray(integers, np.float64) * self.step.numerator / self.step.denominator


def round_to_step(x: Floats, step: Fraction) -> Ints:
    """Return floor(x/step + 1/2) exactly, for every |x| that `Grid` admits."""
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
    """Return the leading 26 bits."""
    shifted = np.asarray(VELTKAMP_FACTOR * x)
    return np.asarray(shifted - (shifted - x))


ROOT_SCALE = 1 << 40


@dataclass(frozen=True, init=False)
class VectorGrid:
    """Vectors clipped to an L2 norm of `norm`, in multiples of `step`.

    >>> grid = VectorGrid(1, 2, 0.01)
    >>> grid.integers([[3, 4], [0.5, None], [float("inf"), 0]]).tolist()
    [[60, 80], [50, 0], [100, 0]]
    """

    norm: Fraction
    dimension: int
    step: Fraction

    def __init__(self, norm: Number, dimension: int, step: Number) -> None:
        object.__setattr__(self, "norm", as_fraction("norm", norm))
        object.__setattr__(self, "dimension", int(dimension) if isinstance(dimension, np.integer) else dimension)
        object.__setattr__(self, "step", as_fraction("step", step))
        self._check()

    def _check(self) -> None:
        if not Fraction(1, 1 << 500) <= self.norm <= 1 << 500:
            raise ValueError(f"norm must be from 2**-500 to 2**500, got {self.norm}")
        if not isinstance(self.dimension, int) or not 1 <= self.dimension <= 1 << 20:
            raise ValueError(f"dimension must be a whole number from 1 to 2**20, got {self.dimension}")
        if not 0 < self.step <= self.norm < MAX_EXACT_STEPS * self.step:
            raise ValueError(f"step must be positive, at most norm and above norm/2**52, got {self.step}")

    def l2_squared(self, *, replace: bool = False) -> Fraction:
        """Return the most that one vector moves a sum, squared, in steps.

        This is (norm/step + sqrt(d)/2)^2 rounded up, and four times that with `replace`.
        """
        root = Fraction(isqrt(self.dimension * ROOT_SCALE**2) + 1, ROOT_SCALE)
        return (self.norm / self.step + root / 2) ** 2 * (4 if replace else 1)

    def integers(self, values: Any) -> Ints:
        """Return every row clipped and rounded.

        A coordinate that is no number counts as 0, an infinite one as very large. Lists, and one-dimensional arrays
        of objects, are read row by row. A row of another length counts as zeros. An array of another width is
        rejected for its shape.
        """
        rows = values
        if not isinstance(values, np.ndarray) or (values.ndim == 1 and values.dtype.kind == "O"):
            items = [item for row in list_items(values, [None]) for item in self._check_row(row)]
            rows = box_items(items).reshape(-1, self.dimension)
        huge = float(self.norm) * 2.0**400
        floats, present = as_floats(rows, -huge, huge)
        if floats.shape[-1:] != (self.dimension,):
            raise ValueError(f"values must have rows of {self.dimension} coordinates, got shape {floats.shape}")
        return np.rint(self._clip(np.where(present, floats, 0.0)) / float(self.step)).astype(np.int64)

    def _check_row(self, row: Any) -> list[Any]:
        items = list_items(row, [])
        return items if len(items) == self.dimension else [0.0] * self.dimension

    def reals(self, integers: Ints) -> Floats:
        """Return integers on the scale of the data."""
        return np.asarray(integers, np.float64) * self.step.numerator / self.step.denominator

    def _clip(self, rows: Floats) -> Floats:
        allowed = float(self.norm) * (1 - (self.dimension + 16) * 2.0**-50)
        norms = np.sqrt(np.sum(np.square(rows / allowed), axis=-1, keepdims=True))
        return np.asarray(rows / np.maximum(norms, 1.0))
