"""Open ticks of a measure that has few groups and cells: a table of all of them for each tick. Secret.

Where cells are codes, which are there or not, a table has no numbers: it is saved as bits.

Saved, a table is as long as all open ticks need, however full it is. After a downtime more ticks are open
than the clock opens by itself: then as many are saved as the clock opens, or a power of two, if more have
events.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.pipeline.open_keys import power
from streamgauge.query.measure import Measure, Tally

Array = npt.NDArray[Any]


class Table:
    """Numbers by tick: (sums, places x cells), or bits where cells are codes."""

    def __init__(self, measure: Measure, ticks: int) -> None:
        self._measure, self._ticks = measure, ticks
        self._tables: dict[int, Array] = {}  # exact

    @staticmethod
    def size(measure: Measure, ticks: int) -> int:
        """Bytes, in memory and saved."""
        rows, length, kind = shape(measure)
        return ticks * rows * length * kind.itemsize

    def add(self, tally: Tally) -> None:
        at = tally.places * cells(self._measure) + tally.cells
        for tick in np.unique(tally.ticks).tolist():
            mine, table = tally.ticks == tick, self._table(tick)
            if is_codes(self._measure):
                np.bitwise_or.at(table[0], at[mine] // 8, (128 >> at[mine] % 8).astype(np.uint8))
            else:
                for row, numbers in zip(table, tally.sums, strict=True):
                    np.add.at(row, at[mine], numbers[mine])

    def close(self, last: int) -> Tally:
        """Takes out all ticks up to `last`."""
        over = sorted(tick for tick in self._tables if tick <= last)
        return tally_of_tables(self._measure, {tick: self._tables.pop(tick) for tick in over})

    def saved(self, ticks: int) -> dict[str, Array]:
        """Everything; at most `ticks` ticks are open."""
        known = len(self._tables)
        room = ticks if ticks <= self._ticks else max(self._ticks, power(known, 1))
        numbers = np.zeros(max(room, known), np.int64)
        tables = self._blank(len(numbers))
        for place, (tick, table) in enumerate(self._tables.items()):
            numbers[place], tables[place] = tick, table
        return {"ticks": numbers, "table": tables}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        for tally in tallies_of(self._measure, arrays):
            self.add(tally)

    def _table(self, tick: int) -> Array:
        return self._tables.setdefault(tick, self._blank(1)[0])

    def _blank(self, ticks: int) -> Array:
        rows, length, kind = shape(self._measure)
        return np.zeros((ticks, rows, length), kind)


def shape(measure: Measure) -> tuple[int, int, np.dtype[Any]]:
    """Rows of a tick's table, their length, and what they are of."""
    if is_codes(measure):
        return 1, -(-places(measure) // 8), np.dtype(np.uint8)
    return measure.rows, places(measure), np.dtype(np.int64)


def tallies_of(measure: Measure, arrays: Mapping[str, Array]) -> Iterator[Tally]:
    """What was saved of a measure, as a table or as rows; tick 0 is none."""
    if "table" in arrays:
        tables = dict(zip(arrays["ticks"].tolist(), arrays["table"], strict=True))
        yield tally_of_tables(measure, {tick: own for tick, own in tables.items() if tick > 0})
    else:
        ticks, at, codes = arrays["at"]
        yield Tally(ticks, at, codes, arrays["sums"]).only(ticks > 0)


def tally_of_tables(measure: Measure, tables: Mapping[int, Array]) -> Tally:
    """What is not nothing: every row counts its events, or is a code that is there."""
    whole = {tick: unpacked(measure, table) for tick, table in tables.items()}
    found = {tick: np.flatnonzero(table[0]) for tick, table in whole.items()}
    at = np.concatenate([np.zeros(0, np.int64), *found.values()])
    ticks = np.repeat(np.array(list(found), np.int64), [len(each) for each in found.values()])
    sums = [whole[tick][:, each].astype(np.int64) for tick, each in found.items()]
    none = np.zeros((measure.rows, 0), np.int64)
    return Tally(ticks, *divided(at, cells(measure)), np.concatenate([none, *sums], axis=1))


def unpacked(measure: Measure, table: Array) -> Array:
    """Numbers, of codes 0 or 1."""
    return np.unpackbits(table, axis=1) if is_codes(measure) else table


def divided(at: Ints, count: int) -> tuple[Ints, Ints]:
    """Places and cells."""
    return at // count, at % count


def is_codes(measure: Measure) -> bool:
    """Whether it matters only which cells are there."""
    return measure.cell is not None and measure.cell.step is None and not measure.cell.reports


def cells(measure: Measure) -> int:
    return 1 if measure.cell is None else measure.cell.count


def places(measure: Measure) -> int:
    """Groups and cells of one tick."""
    return measure.width * cells(measure)
