"""Grids of an aggregate's numbers: the natural one of a value, or a fine one.

    value with a grid        temperature by 0.1: used if its places are distinct doubles
    any other                a power of two; noise does not grow with the number of places

Bounds are rounded outwards to multiples of the step, so that no additional values are cut off.
"""

from fractions import Fraction
from math import ceil, floor, log2
from typing import Any

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.noise import Grid
from streamgauge.plan.measure import Cell, GridValue
from streamgauge.sql.query import Value
from streamgauge.statistics.ordered.axis import Axis

MAX_CELLS = 1024  # of an axis whose step was not made finer on purpose
DEFAULT_CELLS = 256  # of an axis without any natural step
DEFAULT_GRID_POINTS = 2**20  # places of a grid for values without a natural step
MAX_GRID_NUMBER = 10**15  # numbers that can be put on a grid
MIN_GRID_SPAN = Fraction(1, 10**12)  # minimum distance of their bounds


def compute_bounds(value: Value, places: int | None = None) -> dict[str, Any]:
    """Return the bounds of an expression as settings. Those of a constant include 0."""
    if value.lower is None or value.upper is None:
        raise InvalidReleaseError("an aggregate must be of a bounded expression, got one without bounds")
    low, high = value.lower, value.upper
    if low == high:
        low, high = min(low, Fraction(0)), max(high, Fraction(0)) or Fraction(1)
    check_size(low, high)
    step = value.step
    if step is None or low % step or high % step or not is_usable_step(step, low, high, places):
        step = find_fine_step(low, high, places or DEFAULT_GRID_POINTS)
        low, high = floor(low / step) * step, ceil(high / step) * step
    return {"lower": low, "upper": high, "step": step}


def check_size(low: Fraction, high: Fraction) -> None:
    """Reject numbers that no grid of doubles represents."""
    got = f"got {float(low):g} to {float(high):g}"
    if max(abs(low), abs(high)) > MAX_GRID_NUMBER:
        raise InvalidReleaseError(
            f"an aggregate must be of numbers within {float(MAX_GRID_NUMBER):g} of 0, {got}: divide it"
        )
    if high - low < MIN_GRID_SPAN:
        rule = f"an aggregate must be of numbers with bounds at least {float(MIN_GRID_SPAN):g} apart"
        raise InvalidReleaseError(f"{rule}, {got}: multiply it")


def is_usable_step(step: Fraction, low: Fraction, high: Fraction, places: int | None) -> bool:
    """Return whether all multiples of a step are distinct doubles, and not too many."""
    largest = step.numerator * (2 * max(abs(low), abs(high)) / step + 3)
    few = places is None or (high - low) / step <= places
    return few and largest < 2**52 and step.denominator < 2**52


def find_fine_step(low: Fraction, high: Fraction, places: int) -> Fraction:
    """Return a power of two that cuts a range into at most `places` places.

    The range is rounded outwards, and has almost half as many places at least. If so many are not distinct doubles,
    because the range is narrow and far from 0, there are fewer.

    >>> find_fine_step(Fraction(0), Fraction(1, 3), 1024)
    Fraction(1, 2048)
    """
    farthest = max(abs(low), abs(high))
    finest = max((high - low) / (places - 2), farthest / MAX_GRID_NUMBER, Fraction(1, 2**50))
    return Fraction(2) ** ceil(log2(finest))


def build_axis(value: Value) -> Axis:
    """Return the cells of an expression: its own grid, or a coarser one if too large."""
    bounds = compute_bounds(value)
    low, high, step = bounds["lower"], bounds["upper"], bounds["step"]
    if (high - low) / step <= MAX_CELLS:
        return Axis(low, high, step)
    coarse = find_fine_step(low, high, DEFAULT_CELLS)
    return Axis(floor(low / coarse) * coarse, ceil(high / coarse) * coarse, coarse)


def build_cell(value: Value, axis: Axis) -> Cell:
    return Cell(value.sql, axis.cells, axis.lower, axis.step)


def build_grid_values(value: Value, grid: Grid, power: int) -> tuple[GridValue, ...]:
    return (GridValue(value.sql, grid.first, grid.last, grid.step, power),)
