"""The matrices of a linear mechanism: it releases B (C x + z), measuring with C and decoding with B.

For short streams a mechanism can write both matrices down, so that its claim can be checked by
enumeration instead of by trust: column t of C is what one event at tick t moves, row t of B is how
the release at tick t adds up what was measured.

Every row of C has noise of its own. `draws` lists, in the order in which a run of width 1 asks for
noise, the row that each draw protects: a plain mechanism draws each row once, a pan-private one
twice (once into the register, once at the release), so that one draw at least stands between any
one view of the run and the data.
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
        """A = B C: what the releases would be without noise."""
        return self.decode @ self.measure

    def column(self, tick: int) -> list[Fraction]:
        """What one event at `tick` (from 1) moves, row by row, exactly and in grid units."""
        cells = zip(self.measure[:, tick - 1], self.grids, strict=True)
        return [Fraction(float(cell)) * grid for cell, grid in cells]


def side_by_side(parts: list[Strategy]) -> Strategy:
    """The rows of several strategies over the same ticks, one after the other."""
    first = np.cumsum([0, *(len(part.distributions) for part in parts)])
    return Strategy(
        np.concatenate([part.measure for part in parts]),
        np.concatenate([part.decode for part in parts], axis=1),
        tuple(d for part in parts for d in part.distributions),
        tuple(int(at) + row for at, part in zip(first, parts, strict=False) for row in part.draws),
        tuple(grid for part in parts for grid in part.grids),
    )
