"""Private combination of the outputs of blocks: the median on a grid, or the mean.

    y_1 .. y_l    one output each, clamped and rounded to the grid, the middle of the grid if it is no number
    median        permute-and-flip over the grid with u(g) = -|#{y <= g} - l/2| and exponent epsilon u/2
    mean          (y_1 + .. + y_l + N)/l with N discrete Laplace (pure) or discrete Gaussian (zCDP) noise

Privacy
    Neighbours: lists of l numbers that differ in one; l is public. Promise: the loss that is given.
    Proof of the median: one number moves each u(g) by at most 1, in either direction, so u is not monotone and the
    exponent is epsilon/2. Proof of the mean: one number moves the sum by at most upper - lower.
    With p outputs each has the p-th part of the loss. Composition adds them up.

Error
    The rank of the median is off by at most (2/epsilon) ln(points/beta) blocks with probability 1 - beta.
    `predict_median_error` and `predict_mean_error` are for outputs that spread as a normal law.

Reference
    Smith 2011 and Mohan et al., GUPT 2012, for aggregation by blocks. GUPT finds the range of its mean by private
    quartiles; here the median needs no range.
"""

from math import log, pi, sqrt

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Grid, Ints, RandomSource
from streamgauge.privacy import Pure, Zcdp
from streamgauge.privacy.rationals import Number
from streamgauge.statistics.median_selection import MAX_POINTS, median_scores, permute_and_flip

Doubles = npt.NDArray[np.float64]
MEDIAN_BLOCKS = 8  # blocks times epsilon, for each natural logarithm of points: fewer give any point of the grid


def build_grid(lower: Number, upper: Number, step: Number) -> Grid:
    """Return the grid of one output. What is no number becomes its middle.

    >>> build_grid(0, 10, 1).integers([float("nan"), 3.2, 99]).tolist()
    [5, 3, 10]
    """
    grid = Grid(lower, upper, step)
    if not 2 <= count_points(grid) <= MAX_POINTS:
        raise ValueError(f"outputs must have 2 to 2**20 points each, got {count_points(grid)}")
    middle = grid.first + (count_points(grid) - 1) // 2
    return Grid(lower, upper, step, missing=middle * grid.step)


def count_points(grid: Grid) -> int:
    return int((grid.upper - grid.lower) / grid.step) + 1


def find_places(grid: Grid, outputs: Doubles) -> Ints:
    """Return the place on the grid of each block's output, from 0."""
    return np.asarray(grid.integers(outputs), np.int64) - grid.first


def combine_median(places: Ints, grid: Grid, loss: Pure, source: RandomSource) -> float:
    """Return a private median of the outputs of all blocks."""
    scores = median_scores(places, count_points(grid))  # they are twice u, so the rate is half of epsilon/2
    return float((grid.first + permute_and_flip(scores, loss.epsilon / 4, source)) * grid.step)


def combine_mean(places: Ints, grid: Grid, loss: Pure | Zcdp, source: RandomSource) -> float:
    """Return a private mean of the outputs of all blocks."""
    span = count_points(grid) - 1
    noise = int(loss.calibrate(l1=span, l2_squared=span**2).draw(source, 1)[0])
    return float(grid.lower + (int(places.sum()) + noise) * grid.step / len(places))


def min_median_blocks(grid: Grid, loss: Pure) -> int:
    """Return the fewest blocks of which a median says more than the grid itself."""
    return int(np.ceil(MEDIAN_BLOCKS * log(count_points(grid)) / float(loss.epsilon)))


def bound_rank(grid: Grid, loss: Pure, beta: float) -> float:
    """Return by how many blocks the rank of a median is off, but with probability `beta`."""
    return 2 / float(loss.epsilon) * log(count_points(grid) / beta)


def predict_median_error(grid: Grid, loss: Pure, blocks: int, spread: float) -> float:
    """Return the RMSE of a median, if outputs spread normally around the middle of the grid.

    The law of the selected point is taken for that of the exponential mechanism, which is no better.
    """
    from scipy.special import ndtr  # heavy, and only plans need it

    points = np.asarray(grid.reals(grid.first + np.arange(count_points(grid))), np.float64)
    offsets = points - float(grid.missing)
    weights = np.exp(-float(loss.epsilon) / 2 * blocks * np.abs(ndtr(offsets / spread) - 0.5))
    selection = float((weights * offsets**2).sum() / weights.sum())
    return sqrt(selection + spread**2 * pi / (2 * blocks))


def predict_mean_error(grid: Grid, loss: Pure | Zcdp, blocks: int, spread: float = 0.0) -> float:
    """Return the RMSE of a mean: of its noise, and of outputs with this spread."""
    span = count_points(grid) - 1
    variance = loss.calibrate(l1=span, l2_squared=span**2).variance * float(grid.step) ** 2
    return sqrt(variance / blocks**2 + spread**2 / blocks)
