"""What readers may be shown, as numbers that an attack can count.

A view of n places becomes n numbers, one remainder, and a column of kinds for each KINDS_EACH places or part
of them. Kinds say which places have a remainder; where several have, the column is a code of all of them:

    kind             number                   remainder
    int              the nearest float        what that took off, or a code of it where floats have no place
    float, bool      itself                   0
    -0.0, NaN        0                        0
    inf, -inf        0                        0
    Fraction         the nearest float        a code of what it is, if that is not all
    Decimal          the nearest float        a code of its digits, if they are not those of that float
    None             0                        0
    anything else    a code of its type and   0
                     its text

Promise
    Two outputs of one shape have the same view if and only if at every place they are of the same type and
    have the same `repr`; but for a chance of 2^-52 where there are codes. Lists, tuples and arrays are opened
    and are the same if what is in them is; NumPy's numbers are the Python ones that they hold; NaN is NaN.

Outputs of different shapes are no evidence but an error: fill absent places up with None.
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from math import copysign, inf
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise.numbers import Floats

EXACT = 2**53  # whole numbers that a float has a place for
INT, FRACTION, DECIMAL, FLOAT, MINUS_ZERO, NAN, ABOVE, BELOW, BOOL, NOTHING, OTHER = range(11)
RESTED = 11  # and up: INT, FRACTION and DECIMAL with a remainder
KINDS_EACH = 13  # places whose kinds, of 4 bits each, one float tells apart
CODES = 2**52

Shape = tuple[int, ...]
Array = npt.NDArray[Any]
Item = tuple[float, float, int]  # number, remainder, kind


def encoded(rows: Array, shape: Shape) -> Floats:
    """Outputs of one shape, a row each, as numbers."""
    if rows.shape[1:] != shape:
        raise ValueError(f"run must return outputs of one shape, got {shape} and {rows.shape[1:]}")
    flat = rows.reshape(len(rows), -1)
    if flat.dtype.kind == "f" and flat.dtype.itemsize <= 8:
        return joined(*of_floats(flat.astype(np.float64)))
    if flat.dtype.kind == "b" or is_small(flat):
        return of_one_kind(flat, BOOL if flat.dtype.kind == "b" else INT)
    items = np.array([of_item(item) for item in flat.astype(object).flat], np.float64)
    numbers, remainders, kinds = (part.reshape(flat.shape) for part in items.reshape(-1, 3).T)
    return joined(numbers, remainders, kinds)


def of_one_kind(flat: Array, kind: int) -> Floats:
    """Numbers that are all of one kind, without remainders: as `joined` has them."""
    places = flat.shape[1]
    kinds = packed_alike(places, kind)
    told = np.zeros((len(flat), places + 1 + len(kinds)))
    told[:, :places] = flat
    told[:, places + 1 :] = kinds
    return told


@lru_cache
def packed_alike(places: int, kind: int) -> tuple[float, ...]:
    return tuple(packed(np.full((1, places), kind))[0].tolist())


def joined(numbers: Floats, remainders: Floats, kinds: Array) -> Floats:
    """Kinds are digits, the first place's foremost."""
    has = remainders != 0
    digits = np.where(has, RESTED + kinds, kinds)
    rest = remainders.sum(axis=1)
    for row in np.flatnonzero(has.sum(axis=1) > 1):
        rest[row] = code(remainders[row].tolist())
    return np.column_stack([numbers, rest, packed(digits)])


def packed(kinds: Array) -> Floats:
    """As few columns as tell all of them."""
    weights = 16.0 ** -np.arange(KINDS_EACH)
    cuts = [kinds[:, cut : cut + KINDS_EACH] for cut in range(0, kinds.shape[1], KINDS_EACH)]
    columns = [part @ weights[: part.shape[1]] for part in cuts]
    return np.stack(columns, axis=1) if columns else np.zeros((len(kinds), 0))


def of_floats(floats: Floats) -> tuple[Floats, Floats, Array]:
    kinds = np.full(floats.shape, FLOAT)
    kinds[(floats == 0) & np.signbit(floats)] = MINUS_ZERO
    kinds[np.isnan(floats)] = NAN
    kinds[floats == inf] = ABOVE
    kinds[floats == -inf] = BELOW
    return np.where(kinds == FLOAT, floats, 0.0), np.zeros(floats.shape), kinds


def of_item(item: Any) -> Item:
    """One item by itself.

    >>> of_item(2**53 + 1), of_item(Fraction(1, 4)), of_item(-0.0)
    ((9007199254740992.0, 1.0, 0), (0.25, 0.0, 1), (0.0, 0.0, 4))
    """
    value = item.item() if isinstance(item, np.generic) else item
    known = OF_TYPE.get(type(value))
    return (code(value), 0.0, OTHER) if known is None else known(value)


def of_int(value: int) -> Item:
    nearest = near(value)
    rest = value - int(nearest)
    return nearest, float(rest) if abs(rest) < EXACT else code(value), INT


def of_float(value: float) -> Item:
    if value != value:  # noqa: PLR0124 - NaN
        return 0.0, 0.0, NAN
    if abs(value) == inf:
        return 0.0, 0.0, ABOVE if value > 0 else BELOW
    return (0.0, 0.0, MINUS_ZERO) if value == 0 and copysign(1, value) < 0 else (value, 0.0, FLOAT)


def of_fraction(value: Fraction) -> Item:
    nearest = near(value)
    return nearest, 0.0 if Fraction(nearest) == value else code(value), FRACTION


def of_decimal(value: Decimal) -> Item:
    if not value.is_finite():
        return 0.0, code(value), DECIMAL
    nearest = near(value)
    return nearest, 0.0 if str(Decimal(repr(nearest))) == str(value) else code(value), DECIMAL


def near(value: int | Fraction | Decimal) -> float:
    """The nearest float, or 0 for what is larger than all of them."""
    try:
        return float(value) if abs(float(value)) < inf else 0.0
    except OverflowError:
        return 0.0


OF_TYPE: dict[type, Any] = {
    int: of_int,
    float: of_float,
    bool: lambda value: (float(value), 0.0, BOOL),
    Fraction: of_fraction,
    Decimal: of_decimal,
    type(None): lambda value: (0.0, 0.0, NOTHING),
}


def code(value: object) -> float:
    """A number above 0 that equal texts of one type share, in every run and on every machine."""
    kind = type(value)
    told = f"{kind.__module__}.{kind.__qualname__} {value!r}".encode("utf-8", "surrogatepass")
    return 1.0 + int.from_bytes(blake2b(told, digest_size=8).digest(), "big") % CODES


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
