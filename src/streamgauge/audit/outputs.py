"""What readers may be shown, as numbers that an attack can count: whatever it is, nothing is thrown away.

    numbers        as they are, bools and fractions too
    whole numbers  beyond 2^53 as the nearest float; what that took off is in the last column but one
    NaN, infinity  0, and so is None; the last column says at which places of the view there are which
    all else       text, any object: a number made of its type and its text; noted in the last column too

A view of n places becomes n + 2 numbers, the last two of which are mostly 0. Outputs of different shapes are
no evidence but an error: fill absent places up with None.
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from math import inf, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise.numbers import Floats

EXACT = 2**53  # whole numbers that a float has a place for
NAN, ABOVE, BELOW, NOTHING, OTHER = 1, 2, 3, 4, 5  # kinds of what is no number
APART = 15  # places whose kinds, of 3 bits each, a float tells apart
CODES = 2**40

Shape = tuple[int, ...]
Array = npt.NDArray[Any]
Item = tuple[float, float, int]  # a number, what was taken off it, and its kind


def encoded(rows: Array, shape: Shape) -> Floats:
    """Outputs of one shape, a row each, as numbers."""
    if rows.shape[1:] != shape:
        raise ValueError(f"run must return outputs of one shape, got {shape} and {rows.shape[1:]}")
    flat = rows.reshape(len(rows), -1)
    if flat.dtype.kind == "f":
        return joined(*of_floats(flat.astype(np.float64)))
    if flat.dtype.kind == "b" or is_small(flat):
        nothing = np.zeros(flat.shape)
        return joined(flat.astype(np.float64), nothing, nothing)
    items = np.array([of_item(item) for item in flat.astype(object).flat], np.float64)
    numbers, taken, kinds = items.reshape(-1, 3).T
    return joined(numbers.reshape(flat.shape), taken.reshape(flat.shape), kinds.reshape(flat.shape))


def joined(numbers: Floats, taken: Floats, kinds: Floats) -> Floats:
    """The two last columns are exact sums, so that equal views are equal in all of them."""
    weights = 8.0 ** -(np.arange(kinds.shape[1]) % APART)
    return np.column_stack([numbers, taken.sum(axis=1), (kinds * weights).sum(axis=1)])


def of_floats(floats: Floats) -> tuple[Floats, Floats, Floats]:
    kinds = NAN * np.isnan(floats) + ABOVE * (floats == inf) + BELOW * (floats == -inf)
    return np.where(kinds > 0, 0.0, floats), np.zeros(floats.shape), kinds.astype(np.float64)


def of_item(item: Any) -> Item:
    """One item by itself.

    >>> of_item(2**53 + 1), of_item(Fraction(1, 4)), of_item(float("nan"))
    ((9007199254740992.0, 1.0, 0), (0.25, 0.0, 0), (0.0, 0.0, 1))
    """
    value = item.item() if isinstance(item, np.generic) else item
    if value is None:
        return 0.0, 0.0, NOTHING
    if isinstance(value, float | Decimal) and not isfinite(value):
        return 0.0, 0.0, NAN if value != value else ABOVE if value > 0 else BELOW  # noqa: PLR0124 - NaN
    if isinstance(value, int | float | Fraction | Decimal):
        return of_number(value)
    return code(value), 0.0, OTHER


def of_number(value: int | float | Fraction | Decimal) -> Item:
    try:
        nearest = float(value)
    except OverflowError:
        return code(value), 0.0, OTHER
    taken = value - int(nearest) if isinstance(value, int) else 0
    return nearest, float(taken), 0


def code(value: object) -> float:
    """A number that equal texts of one type share, in every run and on every machine."""
    told = f"{type(value).__name__} {value}".encode("utf-8", "surrogatepass")
    return float(int.from_bytes(blake2b(told, digest_size=8).digest(), "big") % CODES)


def rows_of(outputs: Any, runs: int) -> Array:
    """What was given for many runs at once, if it has a row for each."""
    rows = outputs if isinstance(outputs, np.ndarray) else stacked(list(outputs))
    if rows.ndim == 0 or len(rows) != runs:
        raise ValueError(f"run must return a row for each of {runs} runs, got an array of shape {rows.shape}")
    return rows


def stacked(outputs: list[Any]) -> Array:
    """Outputs below each other, if they are of one shape."""
    if outputs and all(type(output) is float for output in outputs):
        return np.array(outputs, np.float64)
    boxes = [boxed(output) for output in outputs]
    shapes = sorted({box.shape for box in boxes})
    if len(shapes) > 1:
        raise ValueError(f"run must return outputs of one shape, got {shapes[0]} and {shapes[-1]}")
    return np.stack(list(alike(boxes))) if boxes else np.empty(0)


def boxed(output: Any) -> Array:
    """An array as it is; lists and tuples opened, place by place; anything else as one object."""
    if isinstance(output, np.ndarray):
        return output
    if isinstance(output, list | tuple):
        return stacked(list(output))
    box = np.empty((), object)
    box[()] = output
    return box


def alike(boxes: list[Array]) -> Iterator[Array]:
    """Arrays of one type as they are, of several as objects: nothing is rounded to be stacked."""
    mixed = len({box.dtype for box in boxes}) > 1
    return (box.astype(object) if mixed else box for box in boxes)


def is_small(flat: Array) -> bool:
    """Whether these are integers that floats have a place for."""
    return flat.dtype.kind in "iu" and bool(((flat < EXACT) & (flat > -EXACT)).all())
