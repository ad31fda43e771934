"""Columns of events: NumPy arrays, lists, and whatever can become an array (Arrow, pandas, Polars).

None of those packages is imported or required: a column is asked for `__array__`, and for its nulls.

Privacy
    How an item is read must depend on that item alone, for else one event could move everybody else's. So no
    path may depend on what else is in a column: a null among whole numbers does not make floats of them, True
    is 1 and 2.0 is 2 in columns of every type, text loses the NULs at its end (as NumPy's text does), and no
    item can raise, whatever its class does. A column whose type was changed by a null before it came here
    (whole numbers that pandas made floats) is read alike as long as its numbers are below 2^53.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints

Column = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Plain = str | bytes | int | float | None
OUTSIDE = -1  # the code of what is not in a domain
FARTHEST = 2**62  # whole numbers of groups and ticks are below it
FLOATS = 2**53  # whole numbers that floats can tell apart are below it
NUMPY = frozenset(np.sctypeDict.values())


def column(name: str, values: Any) -> Column:
    """A column as an array of one dimension, nulls and all.

    >>> column("values", [1, None, "x"])
    array([1, None, 'x'], dtype=object)
    """
    if isinstance(values, np.ma.MaskedArray):
        items = _flat(name, np.ma.getdata(values)).astype(object)
        items[np.ma.getmaskarray(values).reshape(-1)] = None
        return items
    if isinstance(values, np.ndarray):
        return _flat(name, values)
    if isinstance(values, str | bytes | Mapping) or not (
        hasattr(values, "__array__") or isinstance(values, Collection)
    ):
        raise ValueError(f"{name} must be a column of events, got {type(values).__name__}")
    return _flat(name, _array(values)) if hasattr(values, "__array__") else _boxed(list(values))


def _flat(name: str, array: Column) -> Column:
    if array.ndim > 1:
        raise ValueError(f"{name} must be a column of one dimension, got {array.ndim}")
    flat = array.reshape(-1)
    return flat.astype(object) if flat.dtype.kind in "TV" else flat


def _array(values: Any) -> Column:
    """The array of a foreign column; where it can make none of one dimension, its items one by one."""
    try:
        array = _frame(values) if hasattr(values, "isna") else _arrow(values)
    except Exception:
        array = np.zeros((0, 0))
    if array.ndim <= 1:
        return array
    place = values.iloc if hasattr(values, "iloc") else values
    return _boxed([_item(place, number) for number in range(len(values))])


def _frame(values: Any) -> Column:
    """A column of pandas, which would make floats of whole numbers and categories where one is missing."""
    kind = values.dtype
    if hasattr(kind, "categories"):
        labels = _boxed([*kind.categories, None]).astype(object)
        return np.asarray(labels[np.asarray(values.cat.codes if hasattr(values, "cat") else values.codes)])
    if isinstance(kind, np.dtype) or not np.asarray(values.isna()).any():
        return np.asarray(values)
    return np.asarray(values.to_numpy(dtype=object, na_value=None))


def _arrow(values: Any) -> Column:
    """A column of Arrow or Polars, which would do the same, or anything that makes an array."""
    kind = getattr(values, "dtype", getattr(values, "type", None))
    if str(kind).startswith("dictionary<"):
        values, kind = values.cast(kind.value_type), kind.value_type  # type: ignore[union-attr]  # an Arrow type
    if "<" in str(kind) or str(kind).startswith(("List(", "Struct(", "Array(")):
        raise TypeError("nested columns are read item by item")
    count = getattr(values, "null_count", 0)
    whole = "int" in str(kind).lower() or "bool" in str(kind).lower()
    if not whole or not (count() if callable(count) else count):
        return np.asarray(values)
    items = np.asarray(values.fill_null(0)).astype(object)
    items[np.asarray(values.is_null()).astype(np.bool_)] = None
    return items


def _item(values: Any, place: int) -> Any:
    try:
        item = values[place]
        return item.as_py() if hasattr(item, "as_py") else item
    except Exception:
        return None


def _boxed(items: list[Any]) -> Column:
    """Numbers of one kind as numbers; anything else as objects. Either way is read alike."""
    kinds = set(map(type, items))
    if kinds == {int} and all(-(2**63) <= item < 2**63 for item in items):
        return np.array(items, np.int64)
    if kinds == {float}:
        return np.array(items, np.float64)
    box = np.empty(len(items), object)
    for place, item in enumerate(items):
        box[place] = item
    return box


def plain(item: Any) -> Plain:
    """An item as one of Python's own kinds, whole numbers as such; None for any other. Cannot raise."""
    kind = type(item)
    if kind in NUMPY:
        item = item.item()
        kind = type(item)
    if kind is str or kind is bytes:
        return item.rstrip("\0" if kind is str else b"\0")  # type: ignore[no-any-return]  # text or bytes
    if kind is int or kind is bool:
        return int(item)
    if kind is float:
        return int(item) if item.is_integer() and abs(item) < FLOATS else item
    return None


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
    """None, NaN and the nulls of data frames are not there; any other object is, whatever it does."""
    kind = type(item)
    if kind in NUMPY or kind is float:
        return bool(item == item)  # noqa: PLR0124 - NaN is what is not itself
    return item is not None and kind.__name__ not in ("NAType", "NaTType")


def objects(items: Column) -> list[Any]:
    """Every item as an object; dates and times, of which NumPy makes numbers at times, as None."""
    return [None] * len(items) if items.dtype.kind in "mM" else items.tolist()


def whole_numbers(items: Column) -> tuple[Ints, Bools]:
    """Every item as a whole number, and whether it is one; looks at each alone."""
    if items.dtype.kind in "iub":
        there = np.ones(len(items), np.bool_)
        if items.dtype.itemsize == 8:
            there = (items < FARTHEST) & (items > -FARTHEST)
        return np.where(there, items, 0).astype(np.int64), np.asarray(there, np.bool_)
    if items.dtype.kind == "f":
        with np.errstate(all="ignore"):
            floats = items.astype(np.float64)
            there = (np.abs(floats) < FLOATS) & (floats == np.floor(floats))
            return np.where(there, floats, 0).astype(np.int64), there
    plains = map(plain, objects(items))
    numbers = [n if type(n) is int and abs(n) < FARTHEST else None for n in plains]
    there = np.fromiter((n is not None for n in numbers), np.bool_, len(items))
    return np.fromiter((n or 0 for n in numbers), np.int64, len(items)), there


@dataclass(frozen=True)
class Domain:
    """Labels that were declared, in their order; public.

    >>> Domain(("north", "south")).codes(["south", "west", None, "north"])
    array([ 1, -1, -1,  0])
    """

    labels: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, labels: Sequence[Any]) -> "Domain":
        foreign = hasattr(labels, "__array__")
        if isinstance(labels, str | bytes | Mapping | Set) or not (foreign or isinstance(labels, Collection)):
            raise ValueError(f"{name} must be a list of labels, in an order, got {labels!r}")
        listed = column(name, labels).tolist() if foreign else labels
        known = tuple(label.item() if isinstance(label, np.generic) else label for label in listed)
        if not known:
            raise ValueError(f"{name} must have at least one label, got none")
        wrong = [label for label in known if type(label) not in (str, int, bool)]
        if wrong:
            raise ValueError(f"{name} must be text, whole numbers or truth values, got {wrong[0]!r}")
        seen: set[Any] = set()
        for label in known:
            if plain(label) in seen:
                raise ValueError(f"{name} must be distinct, got {label!r} twice")
            seen.add(plain(label))
        return cls(known)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {plain(label): place for place, label in enumerate(self.labels)}

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
        if self._whole and items.dtype.kind in "iufb":
            return self._numbers(*whole_numbers(items))
        if items.dtype.kind == "U":
            words, inverse = np.unique(items, return_inverse=True)
            return np.array([self._table.get(str(word), OUTSIDE) for word in words], np.int64)[inverse]
        return np.fromiter(map(self._code, objects(items)), np.int64, len(items))

    def _numbers(self, items: Ints, there: Bools) -> Ints:
        numbers, order = self._sorted
        places = np.minimum(np.searchsorted(numbers, items), len(numbers) - 1)
        return np.where(there & (numbers[places] == items), order[places], OUTSIDE)

    def _code(self, item: Any) -> int:
        known = plain(item)
        return OUTSIDE if type(known) is float else self._table.get(known, OUTSIDE)
