"""Numbers from untyped input: the one entry of data and declared settings.

Settings that are not numbers raise. Data never raise.
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

TEXT_TYPES = (str, bytes, bytearray)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def as_fraction(name: str, value: object) -> Fraction:
    """Return a declared number; a float means the decimal that it prints as.

    >>> as_fraction("step", 0.1)
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
    """Return items as floats clipped to [low, high], and whether each is a number.

    Each item is read alone. Clipping comes before any conversion that could round. So integers are exact if
    low and high are below 2^53.
    """
    array = as_array(values)
    masked = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else np.zeros(array.shape, np.bool_)
    array = np.asarray(array)
    floats = _clip_floats(array, low, high)
    present = ~(np.isnan(floats) | masked)
    return np.clip(np.where(present, floats, 0.0), low, high), present


def box_items(items: Any) -> npt.NDArray[Any]:
    """Return an array of objects, so that no item changes the type of another."""
    box = np.empty(len(items), object)
    for place, item in enumerate(items):
        box[place] = item
    return box


def list_items(items: Any, default: list[Any]) -> list[Any]:
    """Return the items of a collection, or `otherwise` if listing them raises."""
    try:
        return list(items)
    except Exception:
        return default


def as_array(values: Any) -> npt.NDArray[Any]:
    """Return arrays as they are and collections item by item.

    Texts, mappings and everything else are one item.
    """
    if isinstance(values, np.ndarray):
        return values
    try:
        if isinstance(values, list | tuple | range):
            return box_items(values)
        if hasattr(values, "__array__"):
            return np.asarray(values)
        if isinstance(values, Collection) and not isinstance(values, (*TEXT_TYPES, Mapping)):
            return box_items(list(values))
    except Exception:
        return box_items([None]).reshape(())
    return box_items([values]).reshape(())


def _clip_floats(array: npt.NDArray[Any], low: float, high: float) -> Floats:
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
    """Return a float for a real number, else NaN. An item that raises is NaN."""
    kind = type(item)
    if kind is float:
        return float(item)
    try:
        if kind is int or kind is bool:
            return _as_large_float(item)
        if issubclass(kind, (*TEXT_TYPES, complex, np.complexfloating)):
            return nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would speak of the item
            return _as_large_float(item) if getattr(item, "shape", ()) == () and hasattr(item, "__float__") else nan
    except Exception:
        return nan


def _as_large_float(item: Any) -> float:
    """Return a number as a float, infinite if it is too large for one."""
    try:
        return float(item)
    except OverflowError:
        return inf if item > 0 else -inf
