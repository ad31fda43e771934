"""The grid for vectors: clip in L2 to `norm`, then round every coordinate.

Rounding moves a vector of d coordinates by at most sqrt(d)/2 steps, so the integer vector has an L2 norm of
at most norm/step + sqrt(d)/2, and that is what is charged. Clipping is done in floats against a norm that
is smaller than `norm` by more than all their rounding, (d + 16) 2^-50.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from streamgauge.noise.grid import EXACT
from streamgauge.noise.laws import Ints
from streamgauge.noise.numbers import Floats, Number, as_floats, boxes, listed, rational

FINE = 1 << 40


@dataclass(frozen=True, init=False)
class VectorGrid:
    """Vectors of `dimension` coordinates, clipped to an L2 norm of `norm`, in multiples of `step`.

    >>> grid = VectorGrid(1, 2, 0.01)
    >>> grid.integers([[3, 4], [0.5, None], [float("inf"), 0]]).tolist()
    [[60, 80], [50, 0], [100, 0]]
    """

    norm: Fraction
    dimension: int
    step: Fraction

    def __init__(self, norm: Number, dimension: int, step: Number) -> None:
        object.__setattr__(self, "norm", rational("norm", norm))
        object.__setattr__(
            self, "dimension", int(dimension) if isinstance(dimension, np.integer) else dimension
        )
        object.__setattr__(self, "step", rational("step", step))
        self._check()

    def _check(self) -> None:
        if not Fraction(1, 1 << 500) <= self.norm <= 1 << 500:
            raise ValueError(f"norm must be from 2**-500 to 2**500, got {self.norm}")
        if not isinstance(self.dimension, int) or not 1 <= self.dimension <= 1 << 20:
            raise ValueError(f"dimension must be a whole number from 1 to 2**20, got {self.dimension}")
        if not 0 < self.step <= self.norm < EXACT * self.step:
            raise ValueError(f"step must be positive, at most norm and above norm/2**52, got {self.step}")

    def l2_squared(self, *, replace: bool = False) -> Fraction:
        """How far one vector can move a sum, squared, in steps: (norm/step + sqrt(d)/2)^2 rounded up, or
        four times that."""
        root = Fraction(isqrt(self.dimension * FINE**2) + 1, FINE)
        return (self.norm / self.step + root / 2) ** 2 * (4 if replace else 1)

    def integers(self, values: Any) -> Ints:
        """Every row clipped and rounded. A coordinate that is no number counts as 0, an infinite one as
        very large. Lists, and arrays of objects in one dimension, are read row by row, and what is no row
        of this length counts as zeros; an array of another width is refused for its shape."""
        rows = values
        if not isinstance(values, np.ndarray) or (values.ndim == 1 and values.dtype.kind == "O"):
            items = [item for row in listed(values, [None]) for item in self._row(row)]
            rows = boxes(items).reshape(-1, self.dimension)
        huge = float(self.norm) * 2.0**400
        floats, present = as_floats(rows, -huge, huge)
        if floats.shape[-1:] != (self.dimension,):
            raise ValueError(
                f"values must have rows of {self.dimension} coordinates, got shape {floats.shape}"
            )
        return np.rint(self._clipped(np.where(present, floats, 0.0)) / float(self.step)).astype(np.int64)

    def _row(self, row: Any) -> list[Any]:
        items = listed(row, [])
        return items if len(items) == self.dimension else [0.0] * self.dimension

    def reals(self, integers: Ints) -> Floats:
        """Back to the scale of the data."""
        return np.asarray(integers, np.float64) * self.step.numerator / self.step.denominator

    def _clipped(self, rows: Floats) -> Floats:
        allowed = float(self.norm) * (1 - (self.dimension + 16) * 2.0**-50)
        norms = np.sqrt(np.sum(np.square(rows / allowed), axis=-1, keepdims=True))
        return np.asarray(rows / np.maximum(norms, 1.0))
