"""Events of some ticks as columns of one length: values, groups and users.

Columns are NumPy arrays, lists, and anything that can become an array (Arrow, pandas, Polars). None of those packages
is imported or required: the code calls `__array__` of a column, and its method for nulls.

Privacy
    The reading of an item must depend on that item alone. Otherwise one event could move all others. So no
    path may depend on the rest of a column. A null among whole numbers does not make floats of them. True
    is 1 and 2.0 is 2 in columns of every type. Text loses the NULs at its end (as NumPy's text does). No
    item can raise, for any class. If a null changed the type of a column before it came here
    (whole numbers that pandas made floats), it is read alike as long as its numbers are below 2^53.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.coerce import box_items

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic

Column = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
PlainValue = str | bytes | int | float | None
OUTSIDE_CODE = -1  # code of an item outside of a domain
MAX_WHOLE_NUMBER = 2**62  # whole numbers of groups and ticks are below it
MAX_EXACT_FLOAT = 2**53  # whole numbers below it are distinct as floats
NUMPY_TYPES = frozenset(np.sctypeDict.values())


def to_column(name: str, values: Any) -> Column:
    """Return a column as an array of one dimension, including nulls.

    >>> to_column("values", [1, None, "x"])
    array([1, None, 'x'], dtype=object)
    """
    if isinstance(values, np.ma.MaskedArray):
        items = _flatten(name, np.ma.getdata(values)).astype(object)
        items[np.ma.getmaskarray(values).reshape(-1)] = None
        return items
    if isinstance(values, np.ndarray):
        return _flatten(name, values)
    if isinstance(values, str | bytes | Mapping) or not (
        hasattr(values, "__array__") or isinstance(values, Collection)
    ):
        raise ValueError(f"{name} must be a column of events, got {type(values).__name__}")
    return _flatten(name, _to_array(values)) if hasattr(values, "__array__") else _box_items(list(values))


def _flatten(name: str, array: Column) -> Column:
    if array.ndim > 1:
        raise ValueError(f"{name} must be a column of one dimension, got {array.ndim}")
    flat = array.reshape(-1)
    return flat.astype(object) if flat.dtype.kind in "TV" else flat


def _to_array(values: Any) -> Column:
    """Return the array of a foreign column, or its items if it has no 1-D array."""
    try:
        array = _from_pandas(values) if hasattr(values, "isna") else _from_arrow(values)
    except Exception:
        array = np.zeros((0, 0))
    if array.ndim <= 1:
        return array
    place = values.iloc if hasattr(values, "iloc") else values
    return _box_items([_item(place, number) for number in range(len(values))])


def _from_pandas(values: Any) -> Column:
    """Return a column of pandas, without its conversion to floats.

    pandas makes floats of whole numbers and categories if one is missing.
    """
    kind = values.dtype
    if hasattr(kind, "categories"):
        labels = _box_items([*kind.categories, None]).astype(object)
        return np.asarray(labels[np.asarray(values.cat.codes if hasattr(values, "cat") else values.codes)])
    if isinstance(kind, np.dtype) or not np.asarray(values.isna()).any():
        return np.asarray(values)
    return np.asarray(values.to_numpy(dtype=object, na_value=None))


def _from_arrow(values: Any) -> Column:
    """Return a column of Arrow or Polars without that conversion, or another array."""
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


def _box_items(items: list[Any]) -> Column:
    """Return numbers of one kind as numbers, else objects. Both are read alike."""
    kinds = set(map(type, items))
    if kinds == {int} and all(-(2**63) <= item < 2**63 for item in items):
        return np.array(items, np.int64)
    if kinds == {float}:
        return np.array(items, np.float64)
    return box_items(items)


def to_plain(item: Any) -> PlainValue:
    """Return an item as a Python scalar, whole numbers as int, else None. Never raise."""
    kind = type(item)
    if kind in NUMPY_TYPES:
        item = item.item()
        kind = type(item)
    if kind is str or kind is bytes:
        return item.rstrip("\0" if kind is str else b"\0")  # type: ignore[no-any-return]  # text or bytes
    if kind is int or kind is bool:
        return int(item)
    if kind is float:
        return int(item) if item.is_integer() and abs(item) < MAX_EXACT_FLOAT else item
    return None


def find_present(values: Column) -> Bools:
    """Return which items are present: not null, not NaN, not a missing date."""
    if values.dtype.kind == "f":
        return ~np.isnan(values)
    if values.dtype.kind in "mM":
        return ~np.isnat(values)
    if values.dtype.kind == "O":
        return np.fromiter(map(_is_present, values), np.bool_, len(values))
    return np.ones(len(values), np.bool_)


def _is_present(item: Any) -> bool:
    """Return False for None, NaN and data frame nulls, True for any other object."""
    kind = type(item)
    if kind in NUMPY_TYPES or kind is float:
        return bool(item == item)  # noqa: PLR0124 - only NaN differs from itself
    return item is not None and kind.__name__ not in ("NAType", "NaTType")


def to_objects(items: Column) -> list[Any]:
    """Return every item as an object; None for dates and times.

    NumPy sometimes makes numbers of them.
    """
    return [None] * len(items) if items.dtype.kind in "mM" else items.tolist()


def to_whole_numbers(items: Column) -> tuple[Ints, Bools]:
    """Return every item as a whole number, and whether it is one, each alone."""
    if items.dtype.kind in "iub":
        there = np.ones(len(items), np.bool_)
        if items.dtype.itemsize == 8:
            there = (items < MAX_WHOLE_NUMBER) & (items > -MAX_WHOLE_NUMBER)
        return np.where(there, items, 0).astype(np.int64), np.asarray(there, np.bool_)
    if items.dtype.kind == "f":
        with np.errstate(all="ignore"):
            floats = items.astype(np.float64)
            there = (np.abs(floats) < MAX_EXACT_FLOAT) & (floats == np.floor(floats))
            return np.where(there, floats, 0).astype(np.int64), there
    plains = map(to_plain, to_objects(items))
    numbers = [n if type(n) is int and abs(n) < MAX_WHOLE_NUMBER else None for n in plains]
    there = np.fromiter((n is not None for n in numbers), np.bool_, len(items))
    return np.fromiter((n or 0 for n in numbers), np.int64, len(items)), there


@dataclass(frozen=True)
class Domain:
    """Declared labels in their order. They are public.

    >>> Domain(("north", "south")).encode(["south", "west", None, "north"])
    array([ 1, -1, -1,  0])
    """

    labels: tuple[Any, ...]

    @classmethod
    def from_labels(cls, name: str, labels: Sequence[Any]) -> "Domain":
        foreign = hasattr(labels, "__array__")
        if isinstance(labels, str | bytes | Mapping | Set) or not (foreign or isinstance(labels, Collection)):
            raise ValueError(f"{name} must be a list of labels, in an order, got {labels!r}")
        listed = to_column(name, labels).tolist() if foreign else labels
        known = tuple(label.item() if isinstance(label, np.generic) else label for label in listed)
        if not known:
            raise ValueError(f"{name} must have at least one label, got none")
        wrong = [label for label in known if type(label) not in (str, int, bool)]
        if wrong:
            raise ValueError(f"{name} must be text, whole numbers or truth values, got {wrong[0]!r}")
        known_labels: set[Any] = set()
        for label in known:
            if to_plain(label) in known_labels:
                raise ValueError(f"{name} must be distinct, got {label!r} twice")
            known_labels.add(to_plain(label))
        return cls(known)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def _table(self) -> dict[Any, int]:
        return {to_plain(label): place for place, label in enumerate(self.labels)}

    @cached_property
    def _is_integer(self) -> bool:
        return all(type(label) is int and abs(label) < 2**62 for label in self.labels)

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints]:
        numbers = np.array(self.labels, np.int64)
        order = np.argsort(numbers)
        return numbers[order], order

    def encode(self, values: Any) -> Ints:
        """Return the index of each item among the labels, or -1."""
        items = to_column("values", values)
        if self._is_integer and items.dtype.kind in "iufb":
            return self._encode_integers(*to_whole_numbers(items))
        if items.dtype.kind == "U":
            words, inverse = np.unique(items, return_inverse=True)
            return np.array([self._table.get(str(word), OUTSIDE_CODE) for word in words], np.int64)[inverse]
        return np.fromiter(map(self._encode_item, to_objects(items)), np.int64, len(items))

    def _encode_integers(self, items: Ints, there: Bools) -> Ints:
        numbers, order = self._sorted
        places = np.minimum(np.searchsorted(numbers, items), len(numbers) - 1)
        return np.where(there & (numbers[places] == items), order[places], OUTSIDE_CODE)

    def _encode_item(self, item: Any) -> int:
        known = to_plain(item)
        return OUTSIDE_CODE if type(known) is float else self._table.get(known, OUTSIDE_CODE)


@dataclass(frozen=True, eq=False)
class EventColumns:
    """Columns of one length. `groups` are codes below the width, -1 for others."""

    rows: list[Column]
    groups: Ints
    users: Column

    @classmethod
    def from_columns(
        cls, statistic: "Statistic[Any]", columns: dict[str, Any], domain: Domain | None, width: int
    ) -> "EventColumns":
        """Return the events of the given columns: values, groups, users, and ticks.

        `ticks` serve for their length. A tick without any column is empty. Different lengths are refused, without
        naming them.
        """
        given = {name: value for name, value in columns.items() if value is not None}
        if given and "values" not in given and statistic.NEEDS_VALUES:
            raise ValueError("values must be given, got None")
        others = {name: to_column(name, value) for name, value in given.items() if name != "values"}
        rows = statistic.read_columns(given["values"]) if "values" in given else []
        lengths = {len(array) for array in [*rows, *others.values()]}
        if len(lengths) > 1:
            raise ValueError("columns must have one item for every event, got different lengths")
        size = lengths.pop() if lengths else 0
        flags = np.ones(size, np.bool_)
        rows = rows or [flags] * statistic.columns
        return cls(rows, encode_groups(others.get("groups"), size, domain, width), others.get("users", flags))

    def select(self, places: Ints | Bools) -> "EventColumns":
        """Return some of the events."""
        return EventColumns([row[places] for row in self.rows], self.groups[places], self.users[places])


def encode_groups(groups: Column | None, size: int, domain: Domain | None, width: int) -> Ints:
    """Return the group of each event. Without labels, groups are numbered from 0."""
    if groups is None:
        return np.zeros(size, np.int64)
    if domain is not None:
        return domain.encode(groups)
    numbers, there = to_whole_numbers(groups)
    return np.where(there & (numbers >= 0) & (numbers < width), numbers, OUTSIDE_CODE)


def sort_by_tick(events: EventColumns, ticks: Column, before: int, until: int) -> tuple[Ints, EventColumns]:
    """Return the events of the ticks after `before` up to `until`, and their rows.

    They are in the order of ticks.
    """
    numbers, there = to_whole_numbers(ticks)
    rows = np.where(there, numbers, before) - before - 1
    places = np.flatnonzero((rows >= 0) & (rows < until - before))
    places = places[np.argsort(rows[places], kind="stable")]
    return rows[places], events.select(places)
