"""Numbers out of anything: the one door through which data and declared settings come in.

Settings that are not numbers raise; data never do.
"""

import warnings
from collections.abc import Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, nan
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

Number = int | float | Fraction | Decimal | str

TEXT = (str, bytes, bytearray)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def rational(name: str, value: object) -> Fraction:
    """A declared number; a float means the decimal that it prints as.

    >>> rational("step", 0.1)
    Fraction(1, 10)
    """
    exact: Any = str(value) if isinstance(value, float | np.floating) else value
    try:
        if isinstance(value, Rational):  # NumPy's integers too, which would overflow inside a Fraction
            return Fraction(int(value.numerator), int(value.denominator))
        return Fraction(exact)
    except (TypeError, ValueError, ArithmeticError):
        raise ValueError(f"{name} must be a finite number, got {value}") from None


def as_floats(values: Any, low: float, high: float) -> tuple[Floats, Bools]:
    """Every item as a float clipped to [low, high], and whether it was a number at all. Looks at each item
    alone.

    Clipping comes before any conversion that could round, so integers are exact while low and high are
    below 2^53.
    """
    array = as_array(values)
    masked = (
        np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else np.zeros(array.shape, np.bool_)
    )
    array = np.asarray(array)
    floats = _floats(array, low, high)
    present = ~(np.isnan(floats) | masked)
    return np.clip(np.where(present, floats, 0.0), low, high), present


def boxes(items: Any) -> npt.NDArray[Any]:
    """An object for each item of a sequence, so that no item changes how another is read."""
    box = np.empty(len(items), object)
    for place, item in enumerate(items):
        box[place] = item
    return box


def listed(items: Any, otherwise: list[Any]) -> list[Any]:
    """The items of whatever holds some. Hostile ones may raise anything, and are `otherwise` then."""
    try:
        return list(items)
    except Exception:
        return otherwise


def as_array(values: Any) -> npt.NDArray[Any]:
    """Arrays as they are, and what can become one; collections item by item, but text and mappings;
    anything else is one item."""
    if isinstance(values, np.ndarray):
        return values
    try:
        if isinstance(values, list | tuple | range):
            return boxes(values)
        if hasattr(values, "__array__"):
            return np.asarray(values)
        if isinstance(values, Collection) and not isinstance(values, (*TEXT, Mapping)):
            return boxes(list(values))
    except Exception:
        return boxes([None]).reshape(())
    return boxes([values]).reshape(())


def _floats(array: npt.NDArray[Any], low: float, high: float) -> Floats:
    kind = array.dtype.kind
    if kind in "iu" and array.dtype.itemsize == 8:
        least = max(floor(low), 0) if kind == "u" else floor(low)
        return np.asarray(np.clip(array, least, max(ceil(high), least)), np.float64)
    if kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(np.float64)
    if kind == "O":
        return np.array([as_number(item) for item in array.flat], np.float64).reshape(array.shape)
    return np.full(array.shape, nan)


def as_number(item: Any) -> float:
    """A float for whatever says it is a real number, else NaN. A hostile item may raise anything, and is
    NaN then."""
    kind = type(item)
    if kind is float:
        return float(item)
    try:
        if kind is int or kind is bool:
            return _large(item)
        if issubclass(kind, (*TEXT, complex, np.complexfloating)):
            return nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would speak of the item
            return _large(item) if getattr(item, "shape", ()) == () and hasattr(item, "__float__") else nan
    except Exception:
        return nan


def _large(item: Any) -> float:
    """A number, infinite where it is too large for a float."""
    try:
        return float(item)
    except OverflowError:
        return inf if item > 0 else -inf
