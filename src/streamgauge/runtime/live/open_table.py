"""Open ticks as dense tables, or as counts by discovered key. Secret.

`OpenTable` is for measures with few groups and cells: one table of all of them per tick. If cells are codes, which are
present or absent, the table is saved as bits. A saved table is as long as all open ticks need, however full it is.
After a downtime more ticks are open than the clock opens by itself. Then the saved number of ticks is the number that
the clock opens or, if more ticks have events, a power of two.

`KeySums` is for discovered groups: the number of events of each key. The keys are saved as concatenated octets. The
number of keys and their total length are visible as powers of two only.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.plan.measure import Measure, Tally
from streamgauge.statistics.keys.ranking import join_keys, split_keys

MIN_SAVED_ROWS = 2**10  # least number of saved rows
MIN_SAVED_BYTES = 2**14  # least number of saved octets


class KeySums:
    """Counts by tick and key."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[str, int]] = {}  # exact

    def add(self, tally: Tally) -> None:
        for tick, place, count in zip(tally.ticks.tolist(), tally.groups.tolist(), tally.sums[0].tolist(), strict=True):
            own = self._counts.setdefault(tick, {})
            own[tally.keys[place]] = own.get(tally.keys[place], 0) + count

    def close(self, last: int) -> Tally:
        """Return and remove all ticks up to `last`."""
        over = sorted(tick for tick in self._counts if tick <= last)
        return _build_key_tally({tick: self._counts.pop(tick) for tick in over})

    def save_arrays(self, ticks: int) -> dict[str, Ints]:
        """Return the counts, padded with rows of tick 0 to hide their number.

        Ticks begin at 1, so these rows are ignored on restore.
        """
        tally = _build_key_tally(self._counts)
        octets, lengths = join_keys(list(tally.keys))
        rows = next_power_of_two(len(lengths), MIN_SAVED_ROWS) - len(lengths)
        at = np.pad(np.stack([tally.ticks, lengths, tally.sums[0]]), ((0, 0), (0, rows)))
        return {"at": at, "octets": np.pad(octets, (0, next_power_of_two(len(octets), MIN_SAVED_BYTES) - len(octets)))}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        at = arrays["at"]
        ticks, lengths, counts = at[:, at[0] > 0]
        keys = tuple(str(key) for key in split_keys(arrays["octets"].astype(np.uint8), lengths))
        none = np.zeros(len(keys), np.int64)
        self.add(Tally(ticks, np.arange(len(keys)), none, counts[None], keys))


def next_power_of_two(size: int, least: int) -> int:
    """Return the least power of two that is at least `size`, but not below `least`.

    >>> next_power_of_two(0, 4), next_power_of_two(5, 4), next_power_of_two(8, 4)
    (4, 8, 8)
    """
    return max(least, 1 << max(0, size - 1).bit_length())


def _build_key_tally(counts: Mapping[int, Mapping[str, int]]) -> Tally:
    """Return a row for each tick and key."""
    rows = [(tick, key, count) for tick, own in counts.items() for key, count in own.items()]
    numbers = np.array([(tick, count) for tick, _, count in rows], np.int64).reshape(len(rows), 2)
    places, keys = np.arange(len(rows)), tuple(key for _, key, _ in rows)
    return Tally(numbers[:, 0], places, np.zeros(len(rows), np.int64), numbers[:, 1][None], keys)


Array = npt.NDArray[Any]


class OpenTable:
    """Tables by tick: numbers of (sums, places x cells), or bits if cells are codes."""

    def __init__(self, measure: Measure, ticks: int) -> None:
        self._measure, self._ticks = measure, ticks
        self._tables: dict[int, Array] = {}  # exact

    @staticmethod
    def size(measure: Measure, ticks: int) -> int:
        """Return the bytes, in memory and saved."""
        rows, length, kind = table_shape(measure)
        return ticks * rows * length * kind.itemsize

    def add(self, tally: Tally) -> None:
        at = tally.groups * count_cells(self._measure) + tally.cells
        for tick in np.unique(tally.ticks).tolist():
            mine, table = tally.ticks == tick, self._find_table(tick)
            if is_codes(self._measure):
                np.bitwise_or.at(table[0], at[mine] // 8, (128 >> at[mine] % 8).astype(np.uint8))
            else:
                for row, numbers in zip(table, tally.sums, strict=True):
                    np.add.at(row, at[mine], numbers[mine])

    def close(self, last: int) -> Tally:
        """Return and remove all ticks up to `last`."""
        over = sorted(tick for tick in self._tables if tick <= last)
        return build_table_tally(self._measure, {tick: self._tables.pop(tick) for tick in over})

    def save_arrays(self, ticks: int) -> dict[str, Array]:
        """Return all tables, padded. At most `ticks` ticks are open."""
        known = len(self._tables)
        room = ticks if ticks <= self._ticks else max(self._ticks, next_power_of_two(known, 1))
        numbers = np.zeros(max(room, known), np.int64)
        tables = self._build_empty(len(numbers))
        for place, (tick, table) in enumerate(self._tables.items()):
            numbers[place], tables[place] = tick, table
        return {"ticks": numbers, "table": tables}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        for tally in load_tallies(self._measure, arrays):
            self.add(tally)

    def _find_table(self, tick: int) -> Array:
        return self._tables.setdefault(tick, self._build_empty(1)[0])

    def _build_empty(self, ticks: int) -> Array:
        rows, length, kind = table_shape(self._measure)
        return np.zeros((ticks, rows, length), kind)


def table_shape(measure: Measure) -> tuple[int, int, np.dtype[Any]]:
    """Return the rows of a tick's table, their length and their type."""
    if is_codes(measure):
        return 1, -(-count_places(measure) // 8), np.dtype(np.uint8)
    return measure.rows, count_places(measure), np.dtype(np.int64)


def load_tallies(measure: Measure, arrays: Mapping[str, Array]) -> Iterator[Tally]:
    """Yield the saved sums of a measure, from a table or from rows, without tick 0."""
    if "table" in arrays:
        tables = dict(zip(arrays["ticks"].tolist(), arrays["table"], strict=True))
        yield build_table_tally(measure, {tick: own for tick, own in tables.items() if tick > 0})
    else:
        ticks, at, codes = arrays["at"]
        yield Tally(ticks, at, codes, arrays["sums"]).select(ticks > 0)


def build_table_tally(measure: Measure, tables: Mapping[int, Array]) -> Tally:
    """Return the non-zero cells.

    The first row of a table has the number of events, or the present codes.
    """
    whole = {tick: unpack_codes(measure, table) for tick, table in tables.items()}
    found = {tick: np.flatnonzero(table[0]) for tick, table in whole.items()}
    at = np.concatenate([np.zeros(0, np.int64), *found.values()])
    ticks = np.repeat(np.array(list(found), np.int64), [len(each) for each in found.values()])
    sums = [whole[tick][:, each].astype(np.int64) for tick, each in found.items()]
    none = np.zeros((measure.rows, 0), np.int64)
    return Tally(ticks, *split_places(at, count_cells(measure)), np.concatenate([none, *sums], axis=1))


def unpack_codes(measure: Measure, table: Array) -> Array:
    """Return the table as numbers. Codes become 0 or 1."""
    return np.unpackbits(table, axis=1) if is_codes(measure) else table


def split_places(at: Ints, count: int) -> tuple[Ints, Ints]:
    """Return places and cells."""
    return at // count, at % count


def is_codes(measure: Measure) -> bool:
    """Return whether only the presence of cells counts."""
    return measure.cell is not None and measure.cell.step is None and not measure.cell.is_report


def count_cells(measure: Measure) -> int:
    return 1 if measure.cell is None else measure.cell.count


def count_places(measure: Measure) -> int:
    """Return the number of groups and cells of one tick."""
    return measure.width * count_cells(measure)
