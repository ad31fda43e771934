"""Private median of values that are there at once: permute-and-flip over a public grid, in exact arithmetic.

    values           rounded to the nearest grid point, each by itself
    score of g       s(g) = max(0, n - 2 #{y <= g}, 2 #{y < g} - n), 0 for a median
    accept g         with probability exp(-epsilon (s(g) - least s)/(2 D)); D = 2 if replaced, else 1
    result           uniform among the accepted grid points: the first accepted one in random order

Privacy
    Neighbours: lists in which one value is replaced; with `replace=False`, lists of which one lacks a value.
    Promise: `Pure` loss. Proof: s moves by at most D, in either direction. Permute-and-flip then loses epsilon (McKenna
    and Sheldon). The scores are not monotone, so the 2 stays: without it, 1.44 epsilon is lost by lists of four
    values (enumerated in tests/statistics). Scores are integers and coins exact, so no rounding is in the law.

Error
    The rank of the result is off by at most (D/epsilon) ln(points/beta) with probability 1 - beta.

Reference
    McKenna, Sheldon: Permute-and-flip, 2020; Dwork, Roth 2014 for the median by the exponential mechanism, which this
    dominates.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints, RandomSource, SecureNoise, exponential_coins
from streamgauge.noise.coerce import as_floats
from streamgauge.privacy import Pure

MAX_POINTS = 2**20


def private_median(
    values: npt.ArrayLike,
    grid: Sequence[float] | npt.NDArray[np.float64],
    loss: Pure,
    *,
    replace: bool = True,
    noise: RandomSource | None = None,
) -> float:
    """Return a point of the grid near the median of values. What is no number counts as the least point.

    >>> private_median([3, 4, 5, 6, 90], range(100), Pure(200))  # another point has probability 1e-19
    5.0
    """
    points = np.asarray(grid, np.float64)
    if points.ndim != 1 or not 1 <= len(points) <= MAX_POINTS or not (np.diff(points) > 0).all():
        raise ValueError(f"grid must be 1 to 2**20 rising numbers, got {len(points.reshape(-1))}")
    if not np.isfinite(points).all():
        raise ValueError("grid must be finite numbers, got others")
    if not isinstance(loss, Pure) or loss.epsilon <= 0:
        raise ValueError(f"loss must be Pure and above 0, got {loss!r}")
    numbers, present = as_floats(values, float(points[0]), float(points[-1]))
    middles = (points[1:] + points[:-1]) / 2
    nearest = np.searchsorted(middles, np.where(present, numbers, points[0]).reshape(-1))
    scores = median_scores(nearest, len(points))
    source = noise if noise is not None else SecureNoise()
    return float(points[permute_and_flip(scores, loss.epsilon / (4 if replace else 2), source)])


def median_scores(places: npt.NDArray[np.int64], points: int) -> Ints:
    """Return twice the distance in ranks of each point from a median of places."""
    here = np.bincount(places, minlength=points)
    up_to = np.cumsum(here)
    below, count = up_to - here, len(places)
    return np.asarray(np.maximum(0, np.maximum(count - 2 * up_to, 2 * below - count)), np.int64)


def permute_and_flip(scores: Ints, rate: Fraction, source: RandomSource) -> int:
    """Return the place of a low score: each is accepted with probability exp(-rate (score - least))."""
    accepted = []
    levels, places = np.unique(scores, return_inverse=True)
    for level, score in enumerate(levels.tolist()):
        there = np.flatnonzero(places == level)
        coins = exponential_coins(source, rate * (score - int(levels[0])), len(there))
        accepted.append(there[coins == 1])
    chosen = np.concatenate(accepted)
    return int(chosen[int(source.uniform(len(chosen), 1)[0])])
