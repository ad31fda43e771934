"""Outputs of any type as numbers that an attack can count.

A view of n places becomes n numbers, one remainder, and a column of kinds for each `KINDS_PER_FLOAT` places or part of
them. Kinds say which places have a remainder. If several have, the column is a code of all of them:

    kind             number                    remainder
    int              the nearest float         the rest, or a code of it if floats cannot represent it
    float, bool      itself                    0
    -0.0, NaN        0                         0
    inf, -inf        0                         0
    Fraction         the nearest float         a code of the value, if the float is not all
    Decimal          the nearest float         a code of its digits, if they are not those of that float
    None             0                         0
    anything else    a code of type and text   0

Promise
    Two outputs of one shape have the same view if and only if at every place they have the same type and the same
    `repr`, except for a chance of 2^-52 if there are codes. Lists, tuples and arrays are equal if their items are.
    NumPy's numbers are the Python ones that they contain. NaN is NaN.

Outputs of different shapes are an error: fill absent places with None.
"""

from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from math import copysign, inf
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise.coerce import Floats

MAX_EXACT_INT = 2**53  # whole numbers that a float has a place for
KIND_INT, KIND_FRACTION, KIND_DECIMAL, KIND_FLOAT, KIND_MINUS_ZERO, KIND_NAN = range(6)
KIND_PLUS_INFINITY, KIND_MINUS_INFINITY, KIND_BOOL, KIND_NONE, KIND_OTHER = range(6, 11)
REMAINDER_KIND_OFFSET = 11  # and up: INT, FRACTION and DECIMAL with a remainder
KINDS_PER_FLOAT = 13  # places whose kinds, of 4 bits each, one float tells apart
CODE_COUNT = 2**52

OutputShape = tuple[int, ...]
Array = npt.NDArray[Any]
EncodedItem = tuple[float, float, int]  # number, remainder, kind


def encode_outputs(rows: Array, shape: OutputShape) -> Floats:
    """Encode outputs of one shape, a row each, as numbers."""
    if rows.shape[1:] != shape:
        raise ValueError(f"run must return outputs of one shape, got {shape} and {rows.shape[1:]}")
    flat = rows.reshape(len(rows), -1)
    if flat.dtype.kind == "f" and flat.dtype.itemsize <= 8:
        return join_columns(*encode_floats(flat.astype(np.float64)))
    is_exact = flat.dtype.kind in "iu" and bool(((flat < MAX_EXACT_INT) & (flat > -MAX_EXACT_INT)).all())
    if flat.dtype.kind == "b" or is_exact:
        kinds = np.full(flat.shape, KIND_BOOL if flat.dtype.kind == "b" else KIND_INT)
        return join_columns(flat.astype(np.float64), np.zeros(flat.shape), kinds)
    items = np.array([encode_item(item) for item in flat.astype(object).flat], np.float64)
    numbers, remainders, kinds = (part.reshape(flat.shape) for part in items.reshape(-1, 3).T)
    return join_columns(numbers, remainders, kinds)


def join_columns(numbers: Floats, remainders: Floats, kinds: Array) -> Floats:
    """Join numbers, remainders and kinds. Kinds are digits, the first place's foremost, in as few columns as do."""
    has = remainders != 0
    digits = np.where(has, REMAINDER_KIND_OFFSET + kinds, kinds)
    rest = remainders.sum(axis=1)
    for row in np.flatnonzero(has.sum(axis=1) > 1):
        rest[row] = hash_code(remainders[row].tolist())
    weights = 16.0 ** -np.arange(KINDS_PER_FLOAT)
    cuts = [digits[:, cut : cut + KINDS_PER_FLOAT] for cut in range(0, digits.shape[1], KINDS_PER_FLOAT)]
    return np.column_stack([numbers, rest, *(part @ weights[: part.shape[1]] for part in cuts)])


def encode_floats(floats: Floats) -> tuple[Floats, Floats, Array]:
    kinds = np.full(floats.shape, KIND_FLOAT)
    kinds[(floats == 0) & np.signbit(floats)] = KIND_MINUS_ZERO
    kinds[np.isnan(floats)] = KIND_NAN
    kinds[floats == inf] = KIND_PLUS_INFINITY
    kinds[floats == -inf] = KIND_MINUS_INFINITY
    return np.where(kinds == KIND_FLOAT, floats, 0.0), np.zeros(floats.shape), kinds


def encode_item(item: Any) -> EncodedItem:
    """Encode one item by itself.

    >>> encode_item(2**53 + 1), encode_item(Fraction(1, 4)), encode_item(-0.0)
    ((9007199254740992.0, 1.0, 0), (0.25, 0.0, 1), (0.0, 0.0, 4))
    """
    value = item.item() if isinstance(item, np.generic) else item
    known = ENCODERS_BY_TYPE.get(type(value))
    return (hash_code(value), 0.0, KIND_OTHER) if known is None else known(value)


def encode_int(value: int) -> EncodedItem:
    nearest = to_nearest_float(value)
    rest = value - int(nearest)
    return nearest, float(rest) if abs(rest) < MAX_EXACT_INT else hash_code(value), KIND_INT


def encode_float(value: float) -> EncodedItem:
    if value != value:  # noqa: PLR0124 - NaN
        return 0.0, 0.0, KIND_NAN
    if abs(value) == inf:
        return 0.0, 0.0, KIND_PLUS_INFINITY if value > 0 else KIND_MINUS_INFINITY
    return (0.0, 0.0, KIND_MINUS_ZERO) if value == 0 and copysign(1, value) < 0 else (value, 0.0, KIND_FLOAT)


def encode_fraction(value: Fraction) -> EncodedItem:
    nearest = to_nearest_float(value)
    return nearest, 0.0 if Fraction(nearest) == value else hash_code(value), KIND_FRACTION


def encode_decimal(value: Decimal) -> EncodedItem:
    if not value.is_finite():
        return 0.0, hash_code(value), KIND_DECIMAL
    nearest = to_nearest_float(value)
    return nearest, 0.0 if str(Decimal(repr(nearest))) == str(value) else hash_code(value), KIND_DECIMAL


def to_nearest_float(value: int | Fraction | Decimal) -> float:
    """Return the nearest float, or 0 for values beyond all floats."""
    try:
        return float(value) if abs(float(value)) < inf else 0.0
    except OverflowError:
        return 0.0


ENCODERS_BY_TYPE: dict[type, Any] = {
    int: encode_int,
    float: encode_float,
    bool: lambda value: (float(value), 0.0, KIND_BOOL),
    Fraction: encode_fraction,
    Decimal: encode_decimal,
    type(None): lambda value: (0.0, 0.0, KIND_NONE),
}


def hash_code(value: object) -> float:
    """Return a number above 0 that equal texts of one type share, in every run and on every machine."""
    kind = type(value)
    found = f"{kind.__module__}.{kind.__qualname__} {value!r}".encode("utf-8", "surrogatepass")
    return 1.0 + int.from_bytes(blake2b(found, digest_size=8).digest(), "big") % CODE_COUNT


def to_rows(outputs: Any, runs: int) -> Array:
    """Return the outputs of many runs, if there is a row for each."""
    rows = outputs if isinstance(outputs, np.ndarray) else stack_outputs(list(outputs))
    if rows.ndim == 0 or len(rows) != runs:
        raise ValueError(f"run must return a row for each of {runs} runs, got an array of shape {rows.shape}")
    return rows


def stack_outputs(outputs: list[Any]) -> Array:
    """Stack outputs, if they are of one shape."""
    if outputs and all(type(output) is float for output in outputs):
        return np.array(outputs, np.float64)
    boxes = [box_output(output) for output in outputs]
    shapes = sorted({box.shape for box in boxes})
    if len(shapes) > 1:
        raise ValueError(f"run must return outputs of one shape, got {shapes[0]} and {shapes[-1]}")
    if len({box.dtype for box in boxes}) > 1:  # as objects: nothing is rounded to be stacked
        boxes = [box.astype(object) for box in boxes]
    return np.stack(boxes) if boxes else np.empty(0)


def box_output(output: Any) -> Array:
    """Return an array as it is, lists and tuples as arrays, and anything else as one object."""
    if isinstance(output, np.ndarray):
        return output
    if isinstance(output, list | tuple):
        return stack_outputs(list(output))
    box = np.empty((), object)
    box[()] = output
    return box
