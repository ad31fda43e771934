"""Columns of events: NumPy arrays, lists, and whatever can become an array (Arrow, pandas, Polars).

None of those packages is imported or required: a column is asked for `__array__`. Text, dates and
nulls may come as objects; each item is read alone, and no item can raise.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints

Column = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
OUTSIDE = -1  # the code of what is not in a domain


def column(name: str, values: Any) -> Column:
    """A column as an array of one dimension, nulls and all.

    >>> column("values", [1, None, "x"])
    array([1, None, 'x'], dtype=object)
    """
    if isinstance(values, np.ma.MaskedArray):
        items = _flat(name, np.ma.getdata(values)).astype(object)
        items[np.ma.getmaskarray(values)] = None
        return items
    if isinstance(values, np.ndarray):
        return values.reshape(-1) if values.ndim == 0 else _flat(name, values)
    if isinstance(values, str | bytes | Mapping) or not (
        hasattr(values, "__array__") or isinstance(values, Collection)
    ):
        raise ValueError(f"{name} must be a column of events, got {type(values).__name__}")
    if hasattr(values, "__array__"):
        return _flat(name, np.asarray(values))
    return _boxed(list(values))


def _flat(name: str, array: Column) -> Column:
    if array.ndim > 1:
        raise ValueError(f"{name} must be a column of one dimension, got {array.ndim}")
    return array


def _boxed(items: list[Any]) -> Column:
    """Numbers of one kind as numbers; anything else as objects, so that no item changes another."""
    kinds = set(map(type, items))
    if kinds and kinds <= {int, bool} and all(-(2**63) <= item < 2**63 for item in items):
        return np.array(items, np.int64)
    if kinds == {float}:
        return np.array(items, np.float64)
    box = np.empty(len(items), object)
    for place, item in enumerate(items):
        box[place] = item
    return box


def present(values: Column) -> Bools:
    """Which items are there at all: not null, not NaN, not a date that is none."""
    if values.dtype.kind == "f":
        return ~np.isnan(values)
    if values.dtype.kind in "mM":
        return ~np.isnat(values)
    if values.dtype.kind == "O":
        return np.fromiter(map(_is_there, values), np.bool_, len(values))
    return np.ones(len(values), np.bool_)


def _is_there(item: Any) -> bool:
    """None, NaN and the nulls of data frames are not there; a hostile item may raise, and is not either."""
    try:
        return item is not None and bool(item == item)  # noqa: PLR0124 - NaN is what is not itself
    except Exception:
        return False


def whole_numbers(items: Column) -> tuple[Ints, Bools]:
    """Every item as a whole number, and whether it is one; looks at each alone."""
    if items.dtype.kind in "iub":
        small = items <= np.iinfo(np.int64).max
        return np.where(small, items, 0).astype(np.int64), np.asarray(small, np.bool_)
    if items.dtype.kind == "f":
        there = (np.abs(items) < 2.0**62) & (items == np.floor(items))
        return np.where(there, items, 0).astype(np.int64), there
    there = np.fromiter((_is_whole(item) for item in items), np.bool_, len(items))
    pairs = zip(items, there, strict=True)
    return np.fromiter((int(item) if ok else 0 for item, ok in pairs), np.int64, len(items)), there


def _is_whole(item: Any) -> bool:
    plain = item.item() if isinstance(item, np.generic) else item
    if type(plain) is float:
        return abs(plain) < 2.0**62 and plain.is_integer()
    return type(plain) is int and abs(plain) < 2**62


@dataclass(frozen=True)
class Domain:
    """Labels that were declared, in their order; public.

    >>> Domain(("north", "south")).codes(["south", "west", None, "north"])
    array([ 1, -1, -1,  0])
    """

    labels: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, labels: Sequence[Any]) -> "Domain":
        if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Collection):
            raise ValueError(f"{name} must be a list of labels, got {labels!r}")
        known = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
        if not known:
            raise ValueError(f"{name} must have at least one label, got none")
        wrong = [label for label in known if type(label) not in (str, int, bool)]
        if wrong:
            raise ValueError(f"{name} must be text, whole numbers or truth values, got {wrong[0]!r}")
        if len(set(known)) < len(known):
            twice = next(label for place, label in enumerate(known) if label in known[:place])
            raise ValueError(f"{name} must be distinct, got {twice!r} twice")
        return cls(known)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {label: place for place, label in enumerate(self.labels)}

    @cached_property
    def _whole(self) -> bool:
        return all(type(label) is int and abs(label) < 2**62 for label in self.labels)

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        numbers = np.array(self.labels, np.int64)
        order = np.argsort(numbers)
        return numbers[order], order

    def codes(self, values: Any) -> Ints:
        """The place of each item among the labels; -1 for what is none of them."""
        items = column("values", values)
        if self._whole and items.dtype.kind in "iuf":
            return self._numbers(*whole_numbers(items))
        if items.dtype.kind == "U":
            words, inverse = np.unique(items, return_inverse=True)
            return np.array([self._table.get(str(word), OUTSIDE) for word in words], np.int64)[inverse]
        return np.fromiter(map(self._code, items), np.int64, len(items))

    def _numbers(self, items: Ints, there: Bools) -> Ints:
        numbers, order = self._sorted
        places = np.minimum(np.searchsorted(numbers, items), len(numbers) - 1)
        return np.where(there & (numbers[places] == items), order[places], OUTSIDE)

    def _code(self, item: Any) -> int:
        """Whole floats are whole numbers, as which columns with nulls often come."""
        plain = item.item() if isinstance(item, np.generic) else item
        if type(plain) is float and plain.is_integer():
            plain = int(plain)
        return self._table.get(plain, OUTSIDE) if type(plain) in (str, int, bool) else OUTSIDE
