"""The matrices of a linear mechanism, which releases B (C x + z).

It measures with C and decodes with B. For short streams a mechanism can write both matrices down, so that
enumeration can check its claim. Column t of C is the effect of one event at tick t. Row t of B is the
combination of measurements that is released at tick t.

Every row of C has independent noise. `draws` lists the row that each draw protects, in the order in which a run of
width 1 draws. A plain mechanism draws each row once, a pan-private one twice: once into the register, once at
the release. So at least one draw protects the data in any one view of the run.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Distribution

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Strategy:
    """C and B over the first ticks of a stream.

    Measured values and noise of a row are whole multiples of 1/grid; `distributions` are in those multiples.
    """

    measure: Matrix  # C: one row per noisy row, one column per tick, in units of the data
    decode: Matrix  # B: one row per tick, one column per noisy row
    distributions: tuple[Distribution, ...]  # the noise of one draw, row by row, in grid units
    draws: tuple[int, ...]  # the row of each draw, in drawing order
    grid: int | tuple[int, ...] = 1  # one for all rows, or one each

    @property
    def grids(self) -> tuple[int, ...]:
        return (self.grid,) * len(self.distributions) if isinstance(self.grid, int) else self.grid

    @property
    def workload(self) -> Matrix:
        """A = B C: the releases without noise."""
        return self.decode @ self.measure

    def column(self, tick: int) -> list[Fraction]:
        """Return the effect of one event at `tick`, row by row, exact in grid units."""
        cells = zip(self.measure[:, tick - 1], self.grids, strict=True)
        return [Fraction(float(cell)) * grid for cell, grid in cells]


def stack_strategies(parts: list[Strategy]) -> Strategy:
    """Return the rows of several strategies over the same ticks, one after the other."""
    first = np.cumsum([0, *(len(part.distributions) for part in parts)])
    return Strategy(
        np.concatenate([part.measure for part in parts]),
        np.concatenate([part.decode for part in parts], axis=1),
        tuple(d for part in parts for d in part.distributions),
        tuple(int(at) + row for at, part in zip(first, parts, strict=False) for row in part.draws),
        tuple(grid for part in parts for grid in part.grids),
    )
