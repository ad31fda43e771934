"""What readers see: the release of a tick, and the releases of many.

    place            north   south   east
    value             112.0    95.0   -3.0      for each measure, like `stddev`, `low`, `high` and `enough`
    low, high        91..133  ...              95 % bounds, each place and tick by itself

Everything here was published, or is about to be: it is made of noisy numbers and public names alone, so
that it may be stored, shown and copied freely. NaN stands for what is not known, and is null in every form
that has one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import isfinite
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from streamgauge.query import html, packed, tables
from streamgauge.query.packed import BadPack, Floats
from streamgauge.query.shapes import Place, Shape

__all__ = ["BadPack", "Place", "Released", "Releases", "Shape", "moment"]

Bools = npt.NDArray[np.bool_]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> str:
    """A time as ISO 8601 text in UTC.

    >>> moment(1_767_571_200_000_000)
    '2026-01-05T00:00:00Z'
    """
    return (EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, eq=False)
class Released:
    """The release of one tick. The arrays are (measures, places); times are microseconds since 1970 (UTC)."""

    shape: Shape
    tick: int
    start: int
    end: int
    value: Floats
    stddev: Floats
    low: Floats
    high: Floats
    enough: Bools

    def __post_init__(self) -> None:
        size = (len(self.shape.measures), len(self.shape.places))
        for name, kind in (
            *((name, np.float64) for name in ("value", "stddev", "low", "high")),
            ("enough", bool),
        ):
            array = np.ascontiguousarray(getattr(self, name), kind)
            if array.shape != size:
                raise ValueError(f"{name} must be of shape {size}, got {array.shape}")
            object.__setattr__(self, name, array)

    @property
    def release(self) -> str:
        return self.shape.release

    @property
    def numbers(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.value, self.stddev, self.low, self.high

    def pack(self) -> bytes:
        """As bytes; see `streamgauge.query.packed`."""
        return packed.pack(self)

    @classmethod
    def unpack(cls, shape: Shape, data: bytes) -> "Released":
        """What was packed, to the bit; raises `BadPack` on anything else."""
        return cls(**packed.unpack(shape, data))

    def rows(self, chain: str | None = None) -> Iterator[dict[str, Any]]:
        """A dict for each place, ready for JSON: numbers that are not finite are None."""
        times = {"tick": self.tick, "start": moment(self.start), "end": moment(self.end)}
        for i, place in enumerate(self.shape.places):
            level = {"level": place.level} if self.shape.rolled_up else {}
            row = {"release": self.release, **times, **level, "group": dict(place.labels)}
            yield row | {m: self._told(j, i) for j, m in enumerate(self.shape.measures)} | {"chain": chain}

    def _told(self, measure: int, place: int) -> dict[str, float | bool | None]:
        names = ("value", "stddev", "low", "high")
        told = {name: float(array[measure, place]) for name, array in zip(names, self.numbers, strict=True)}
        finite = {name: number if isfinite(number) else None for name, number in told.items()}
        return {**finite, "enough": bool(self.enough[measure, place])}

    def _repr_html_(self) -> str:
        return html.table(self.shape, [self])

    def __repr__(self) -> str:
        measures, places = self.value.shape
        return f"Released({self.release!r}, tick={self.tick}, {measures} measures of {places} places)"


class Releases(Sequence[Released]):
    """Releases of one shape, tick by tick.

    Where groups are discovered, places come with time: `shape` is the newest, and numbers of places that were
    not there yet are NaN.
    """

    def __init__(self, shape: Shape, items: Iterable[Released] = ()) -> None:
        self.shape = shape
        self._items = tuple(items)
        for item in self._items:
            self._check(item)

    @classmethod
    def of(cls, shape: Shape, items: Iterable[Released]) -> "Releases":
        """Of what was published; groups that were discovered are in the order in which they first came."""
        found = tuple(items)
        if shape.discovered is None:
            return cls(shape, found)
        places = dict.fromkeys(place for item in found for place in item.shape.places)
        return cls(replace(shape, places=tuple(places)), found)

    def _check(self, item: Released) -> None:
        if item.release != self.release or item.shape.measures != self.shape.measures:
            raise ValueError(f"releases must be of {self.release!r}, got one of {item.release!r}")
        if item.shape is not self.shape and not self._index.keys() >= set(item.shape.places):
            raise ValueError(f"releases of {self.release!r} must have places of its newest shape, got others")

    @cached_property
    def _index(self) -> dict[Place, int]:
        return {place: i for i, place in enumerate(self.shape.places)}

    @property
    def release(self) -> str:
        return self.shape.release

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, position: int) -> Released: ...

    @overload
    def __getitem__(self, position: slice) -> "Releases": ...

    def __getitem__(self, position: int | slice) -> "Released | Releases":
        if isinstance(position, slice):
            return Releases(self.shape, self._items[position])
        return self._items[position]

    @property
    def ticks(self) -> npt.NDArray[np.int64]:
        return np.array([item.tick for item in self._items], np.int64)

    @property
    def starts(self) -> npt.NDArray[np.datetime64]:
        """When each tick begins, UTC."""
        return np.array([item.start for item in self._items], "datetime64[us]")

    @property
    def ends(self) -> npt.NDArray[np.datetime64]:
        """When each tick ends, UTC."""
        return np.array([item.end for item in self._items], "datetime64[us]")

    def values(self, measure: str) -> Floats:
        """The numbers of a measure as (ticks, places)."""
        return self._stacked(measure, "value")

    def stddevs(self, measure: str) -> Floats:
        """The standard errors of a measure as (ticks, places)."""
        return self._stacked(measure, "stddev")

    def lows(self, measure: str) -> Floats:
        """The lower 95 % bounds of a measure as (ticks, places)."""
        return self._stacked(measure, "low")

    def highs(self, measure: str) -> Floats:
        """The upper 95 % bounds of a measure as (ticks, places)."""
        return self._stacked(measure, "high")

    def _stacked(self, measure: str, name: str) -> Floats:
        if measure not in self.shape.measures:
            raise ValueError(f"measure must be one of {', '.join(self.shape.measures)}, got {measure!r}")
        row = self.shape.measures.index(measure)
        stacked = np.full((len(self), len(self.shape.places)), np.nan)
        for to, item in zip(stacked, self._items, strict=True):
            to[self.where(item)] = getattr(item, name)[row]
        return stacked

    def where(self, item: Released) -> Any:
        """Which places of the newest shape an item tells of."""
        if item.shape is self.shape:
            return slice(None)
        return np.array([self._index[place] for place in item.shape.places], np.int64)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` in the wide form."""
        return tables.arrow(self)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` in the wide form."""
        return tables.pandas(self)

    def to_polars(self) -> Any:
        """A `polars.DataFrame` in the wide form."""
        return tables.polars(self)

    def _repr_html_(self) -> str:
        return html.table(self.shape, self._items)

    def __repr__(self) -> str:
        return f"Releases({self.release!r}, {len(self)} ticks of {len(self.shape.places)} places)"
