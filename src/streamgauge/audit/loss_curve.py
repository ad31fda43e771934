"""Epsilon at a delta under discrete Gaussian noise, computed: not by way of rho.

A row that moves by m under noise of parameter s loses L = (m^2 + 2 m z)/(2 s), where z is the draw; rows add
up. Then delta(epsilon) = E max(0, 1 - e^(epsilon - L)), which grows with L.

Promise
    Epsilon at the delta lies between the two ends. Proof: the law of each row's loss is enumerated and moved
    to a grid, downwards for the lower end and upwards for the upper one; sums of grid points are convolved.
    What is cut off lies beyond FAR deviations, and weighs less than the floats do.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil, floor, sqrt

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr

from streamgauge.noise.numbers import Floats

FAR = 12  # deviations
FINE = 4000  # grid points in a deviation of the whole loss
LARGE = 1e6  # parameter: beyond it a cell of the grid holds many draws
HALVINGS = 40

Row = tuple[float, float]  # a move, and the parameter of the noise, both in grid points


def epsilon_between(rows: Sequence[Row], delta: float) -> tuple[float, float]:
    """
    >>> low, high = epsilon_between([(1, 20.0)], 1e-3)
    >>> round(low, 2), round(high, 2)
    (0.52, 0.52)
    """
    moved = [(move, parameter) for move, parameter in rows if move]
    if not moved:
        return 0.0, 0.0
    step = sqrt(sum(move**2 / parameter for move, parameter in moved)) / FINE
    ends = (summed_losses(moved, step, up=up) for up in (False, True))
    low, high = (epsilon_of(losses, chances, delta) for losses, chances in ends)
    return low, high


def summed_losses(rows: Sequence[Row], step: float, *, up: bool) -> tuple[Floats, Floats]:
    """Grid points that the loss may be at, and the chance of each."""
    begin, chances = 0, np.ones(1)
    for (move, parameter), times in Counter(rows).items():
        at, law = one_loss(move, parameter, step, up=up)
        for _ in range(times):
            begin, chances = begin + at, np.maximum(fftconvolve(chances, law), 0.0)
    points: Floats = np.arange(begin, begin + len(chances), dtype=np.float64)
    return points * step, chances


def one_loss(move: float, parameter: float, step: float, *, up: bool) -> tuple[int, Floats]:
    """The first grid point of one row's loss, and the chances from there on."""
    if parameter > LARGE:
        return one_smooth_loss(move, parameter, step, up=up)
    reach = ceil(FAR * sqrt(parameter)) + 1
    drawn = np.arange(-reach, reach + 1)
    weights = np.exp(-(drawn**2) / (2 * parameter))
    points = (move**2 + 2 * move * drawn) / (2 * parameter * step)
    places = (np.ceil(points) if up else np.floor(points)).astype(np.int64)
    first = int(places.min())
    law: Floats = np.bincount(places - first, weights / weights.sum()).astype(np.float64)
    return first, law


def one_smooth_loss(move: float, parameter: float, step: float, *, up: bool) -> tuple[int, Floats]:
    """The same of noise so wide that it is continuous, but for a draw at the end of a cell: one cell more."""
    centre, deviation = move**2 / (2 * parameter), abs(move) / sqrt(parameter)
    first, last = (floor((centre + far * deviation) / step) for far in (-FAR, FAR))
    edges = (np.arange(first, last + 2) * step - centre) / deviation
    return first + (2 if up else -1), np.diff(ndtr(edges))


def epsilon_of(losses: Floats, chances: Floats, delta: float) -> float:
    """The least epsilon whose delta is no more, by halving."""
    low, high = 0.0, max(0.0, float(losses[-1]))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(losses, chances, middle) > delta else (low, middle)
    return high


def delta_of(losses: Floats, chances: Floats, epsilon: float) -> float:
    above = losses > epsilon
    return float(chances[above] @ -np.expm1(epsilon - losses[above])) if above.any() else 0.0
