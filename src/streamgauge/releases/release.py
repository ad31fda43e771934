"""Releases of one tick, and of many.

    place            north   south   east
    value             112.0    95.0   -3.0      for each measure, like `stddev`, `low`, `high` and `reliable`
    low, high        91..133  ...              95 % bounds, each place and tick by itself

Everything here is published, or is about to be. It is made of noisy numbers and public names alone, so
it may be stored, shown and copied freely. NaN represents an unknown number, and is null in every form
that has one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import isfinite
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from streamgauge.releases import codec as packed
from streamgauge.releases import tables
from streamgauge.releases.codec import Floats
from streamgauge.releases.schema import RANK_COLUMN, Group, ReleaseSchema

CHAIN_DIGITS, OWNER_DIGITS = 16, 8  # hexadecimal digits in a stamp

__all__ = ["Group", "ReleaseSchema", "Releases", "TickRelease", "format_utc_time"]

Bools = npt.NDArray[np.bool_]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_utc_time(microseconds: int) -> str:
    """Return a time as ISO 8601 text in UTC.

    >>> format_utc_time(1_767_571_200_000_000)
    '2026-01-05T00:00:00Z'
    """
    return (EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, eq=False)
class TickRelease:
    """Release of one tick. Arrays are (measures, places).

    Times are microseconds since 1970 (UTC).
    """

    shape: ReleaseSchema
    tick: int
    start: int
    end: int
    value: Floats
    stddev: Floats
    low: Floats
    high: Floats
    reliable: Bools

    def __post_init__(self) -> None:
        size = (len(self.shape.measures), len(self.shape.groups))
        for name, kind in (*((name, np.float64) for name in ("value", "stddev", "low", "high")), ("reliable", bool)):
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
        """Return the release as bytes. See `streamgauge.releases.codec`."""
        return packed.pack(self)

    @classmethod
    def unpack(cls, shape: ReleaseSchema, data: bytes) -> "TickRelease":
        """Return the packed release, to the bit; raise `InvalidSaveError` otherwise."""
        return cls(**packed.unpack(shape, data))

    def rows(self, trace: str | None = None) -> Iterator[dict[str, Any]]:
        """Return a dict for each place, ready for JSON: nonfinite numbers are None."""
        times = {"tick": self.tick, "start": format_utc_time(self.start), "end": format_utc_time(self.end)}
        for i, place in enumerate(self.shape.groups):
            level = {"level": place.level} if self.shape.is_rollup else {}
            rank = {RANK_COLUMN: self.shape.ranks[i]} if self.shape.is_ranked else {}
            row = {"release": self.release, **times, **level, **rank, "group": dict(place.labels)}
            yield (row | {m: self._build_measure(j, i) for j, m in enumerate(self.shape.measures)} | {"trace": trace})

    def _build_measure(self, measure: int, place: int) -> dict[str, float | bool | None]:
        names = ("value", "stddev", "low", "high")
        numbers = {name: float(array[measure, place]) for name, array in zip(names, self.numbers, strict=True)}
        finite = {name: number if isfinite(number) else None for name, number in numbers.items()}
        return {**finite, "reliable": bool(self.reliable[measure, place])}

    def _repr_html_(self) -> str:
        return tables.render_table(self.shape, [self])

    def __repr__(self) -> str:
        measures, places = self.value.shape
        return f"TickRelease({self.release!r}, tick={self.tick}, {measures} measures of {places} places)"


class Releases(Sequence[TickRelease]):
    """Releases of one schema, tick by tick.

    If groups are discovered or ranked, each tick has its own places. `shape` has the places of all ticks, and numbers
    of places that a tick does not have are NaN.
    """

    def __init__(self, shape: ReleaseSchema, items: Iterable[TickRelease] = ()) -> None:
        self.shape = shape
        self._items = tuple(items)
        for item in self._items:
            self._check(item)

    @classmethod
    def from_releases(cls, shape: ReleaseSchema, items: Iterable[TickRelease]) -> "Releases":
        """Return the published releases. Discovered and ranked groups are in order of appearance."""
        found = tuple(items)
        if not shape.has_tick_groups:
            return cls(shape, found)
        return cls(shape.unite_places(dict.fromkeys(place for item in found for place in item.shape.groups)), found)

    def _check(self, item: TickRelease) -> None:
        if item.release != self.release or item.shape.measures != self.shape.measures:
            raise ValueError(f"releases must be of {self.release!r}, got one of {item.release!r}")
        if item.shape is not self.shape and not self._index.keys() >= set(item.shape.groups):
            raise ValueError(f"releases of {self.release!r} must have places of its newest shape, got others")

    @cached_property
    def _index(self) -> dict[Group, int]:
        return {place: i for i, place in enumerate(self.shape.groups)}

    @property
    def release(self) -> str:
        return self.shape.release

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, position: int) -> TickRelease: ...

    @overload
    def __getitem__(self, position: slice) -> "Releases": ...

    def __getitem__(self, position: int | slice) -> "TickRelease | Releases":
        if isinstance(position, slice):
            return Releases(self.shape, self._items[position])
        return self._items[position]

    @property
    def ticks(self) -> npt.NDArray[np.int64]:
        return np.array([item.tick for item in self._items], np.int64)

    @property
    def starts(self) -> npt.NDArray[np.datetime64]:
        """Start of each tick, UTC."""
        return np.array([item.start for item in self._items], "datetime64[us]")

    @property
    def ends(self) -> npt.NDArray[np.datetime64]:
        """End of each tick, UTC."""
        return np.array([item.end for item in self._items], "datetime64[us]")

    @property
    def row_noun(self) -> str:
        """Noun for an item: a period if ticks have no item, else a tick."""
        return "period" if (np.diff(self.ticks) > 1).any() else "tick"

    def values(self, measure: str) -> Floats:
        """Return the numbers of a measure as (ticks, places)."""
        return self._stack(measure, "value")

    def stddevs(self, measure: str) -> Floats:
        """Return the standard errors of a measure as (ticks, places)."""
        return self._stack(measure, "stddev")

    def lows(self, measure: str) -> Floats:
        """Return the lower 95 % bounds of a measure as (ticks, places)."""
        return self._stack(measure, "low")

    def highs(self, measure: str) -> Floats:
        """Return the upper 95 % bounds of a measure as (ticks, places)."""
        return self._stack(measure, "high")

    def reliable(self, measure: str) -> Bools:
        """Return as (ticks, places) which numbers of a measure are reliable; missing ones are not."""
        return np.asarray(self._stack(measure, "reliable") == 1)

    def _stack(self, measure: str, name: str) -> Floats:
        if measure not in self.shape.measures:
            raise ValueError(f"measure must be one of {', '.join(self.shape.measures)}, got {measure!r}")
        row = self.shape.measures.index(measure)
        stacked = np.full((len(self), len(self.shape.groups)), np.nan)
        for to, item in zip(stacked, self._items, strict=True):
            to[self.find_group_positions(item)] = getattr(item, name)[row]
        return stacked

    def ranks(self) -> Floats:
        """Return the ranks of groups as (ticks, places), NaN for those that a tick does not list."""
        stacked = np.full((len(self), len(self.shape.groups)), np.nan)
        for to, item in zip(stacked, self._items, strict=True):
            if item.shape.ranks:
                to[self.find_group_positions(item)] = item.shape.ranks
        return stacked

    def find_largest(self, measure: str, count: int | None = None) -> list[int]:
        """Return places by their value at the newest tick, largest first: totals first, unknown values last.

        Ranked groups come by their rank. Only released numbers decide.
        """
        measured = -self.ranks() if self.shape.is_ranked else self.values(measure)
        newest = measured[-1] if len(measured) else np.full(len(self.shape.groups), np.nan)
        levels = np.array([place.level for place in self.shape.groups], np.int64)
        order = np.lexsort((np.where(np.isfinite(newest), -newest, np.inf), levels))
        return [int(place) for place in order[:count]]

    def find_group_positions(self, item: TickRelease) -> Any:
        """Return the places of the newest schema that an item selects."""
        if item.shape is self.shape:
            return slice(None)
        return np.array([self._index[place] for place in item.shape.groups], np.int64)

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table` in the wide form."""
        return tables.to_arrow_table(self)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` in the wide form."""
        return tables.to_pandas_frame(self)

    def to_polars(self) -> Any:
        """Return a `polars.DataFrame` in the wide form."""
        return tables.to_polars_frame(self)

    def _repr_html_(self) -> str:
        return tables.render_table(self.shape, self._items)

    def __repr__(self) -> str:
        return f"Releases({self.release!r}, {len(self)} ticks of {len(self.shape.groups)} places)"
