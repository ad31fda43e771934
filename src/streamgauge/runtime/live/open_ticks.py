"""Ticks that are not closed yet: exact sums of the events of each. Secret.

Sums are separated by tick, so a closed tick is removed with all of its sums and nothing else. They are saved as
arrays, which the store encrypts.

    tables    a number per group and cell of each open tick, if all of them fit into MAX_TABLE_BYTES (`OpenTable`)
    rows      the non-zero sums, if they do not fit (`OpenSums`)
    keys      of discovered groups (`KeySums`)
    reports   private already, so a commit writes only the new ones (`open_reports`)

Privacy
    The amount of data is secret too.

    A saved table is as long as all open ticks need, however full it is. After a downtime more ticks are open than the
    clock opens by itself. Then the saved number of ticks is the number that the clock opens or, if more ticks have
    events, a power of two.

    The rows of all measures are saved together, padded with zeros. Their total length is MIN_ROWS_BYTES or, if that
    is too short, a power of two. The keys of discovered groups are saved as concatenated octets. Their number and their
    total length are visible as powers of two only.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamgauge.noise import Ints
from streamgauge.plan.measure import Measure, Tally
from streamgauge.runtime.live.open_reports import Array, OpenReports
from streamgauge.statistics.keys.ranking import join_keys, split_keys

MAX_PENDING_ROWS = 2**20  # rows that may wait to be merged
MAX_TABLE_BYTES = 2**23  # bytes of a table
MIN_ROWS_BYTES = 2**22  # up to this size, the saved rows of all measures reveal nothing
PADDING_NAME = "zeros"
MAX_TICK = 2**62  # after all ticks
MIN_KEYS_BYTES = 2**16  # least saved size, which reveals nothing of few keys
MIN_KEY_ROWS = 2**10  # least number of saved rows of keys
MIN_KEY_OCTETS = 2**14  # least number of saved octets of keys


def next_power_of_two(size: int, least: int) -> int:
    """Return the least power of two that is at least `size`, but not below `least`.

    >>> next_power_of_two(0, 4), next_power_of_two(5, 4), next_power_of_two(8, 4)
    (4, 8, 8)
    """
    return max(least, 1 << max(0, size - 1).bit_length())


def is_codes(measure: Measure) -> bool:
    """Return whether only the presence of cells counts."""
    cell = measure.cell
    return cell is not None and cell.step is None and not cell.is_report and not measure.values


def is_reports(measure: Measure) -> bool:
    return measure.cell is not None and measure.cell.is_report


def is_sparse(measure: Measure) -> bool:
    """Return whether few of the cells occur, such as names of texts."""
    return measure.cell is not None and measure.cell.assumed > 0


def count_cells(measure: Measure) -> int:
    return 1 if measure.cell is None else measure.cell.count


def count_places(measure: Measure) -> int:
    """Return the number of groups and cells of one tick."""
    return measure.width * count_cells(measure)


def is_small(measure: Measure, ticks: int) -> bool:
    """Return whether a table of all open ticks fits.

    `ticks` is the largest number of open ticks, 0 if unknown.
    """
    return ticks > 0 and OpenTable.size(measure, ticks) <= MAX_TABLE_BYTES


def open_bytes(measure: Measure, ticks: int) -> int:
    """Return an upper bound of the memory of open ticks of a measure, by declarations.

    For reports, discovered groups and names of texts it is a lower bound.
    """
    if measure.key is not None or is_reports(measure) or is_sparse(measure):
        return MIN_KEYS_BYTES * (ticks > 0)
    return (OpenTable if is_small(measure, ticks) else OpenSums).size(measure, ticks)


def saved_open_bytes(measure: Measure, ticks: int) -> int:
    """Return the bytes of open ticks in a commit.

    A commit has more only if there are more rows than MIN_ROWS_BYTES can contain.
    """
    if measure.key is not None or is_reports(measure) or is_small(measure, ticks):
        return open_bytes(measure, ticks)
    return MIN_ROWS_BYTES * (ticks > 0)


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
            mine, table = tally.ticks == tick, self._tables.setdefault(tick, self._build_empty(1)[0])
            if is_codes(self._measure):
                np.bitwise_or.at(table[0], at[mine] // 8, (128 >> at[mine] % 8).astype(np.uint8))
            else:
                for row, numbers in zip(table, tally.sums, strict=True):
                    np.add.at(row, at[mine], numbers[mine])

    def close(self, last: int) -> Tally:
        """Return and remove all ticks up to `last`."""
        closed = sorted(tick for tick in self._tables if tick <= last)
        return build_table_tally(self._measure, {tick: self._tables.pop(tick) for tick in closed})

    def save_arrays(self, ticks: int) -> dict[str, Array]:
        """Return all tables, padded. At most `ticks` ticks are open."""
        known = len(self._tables)
        size = ticks if ticks <= self._ticks else max(self._ticks, next_power_of_two(known, 1))
        numbers = np.zeros(max(size, known), np.int64)
        tables = self._build_empty(len(numbers))
        for place, (tick, table) in enumerate(self._tables.items()):
            numbers[place], tables[place] = tick, table
        return {"ticks": numbers, "table": tables}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.add(load_tally(self._measure, arrays))

    def _build_empty(self, ticks: int) -> Array:
        rows, length, kind = table_shape(self._measure)
        return np.zeros((ticks, rows, length), kind)


def table_shape(measure: Measure) -> tuple[int, int, np.dtype[Any]]:
    """Return the rows of a tick's table, their length and their type."""
    if is_codes(measure):
        return 1, -(-count_places(measure) // 8), np.dtype(np.uint8)
    return measure.rows, count_places(measure), np.dtype(np.int64)


def build_table_tally(measure: Measure, tables: Mapping[int, Array]) -> Tally:
    """Return the non-zero cells.

    The first row of a table has the number of events, or the present codes.
    """
    if is_codes(measure):
        tables = {tick: np.unpackbits(table, axis=1) for tick, table in tables.items()}
    found = {tick: np.flatnonzero(table[0]) for tick, table in tables.items()}
    at = np.concatenate([np.zeros(0, np.int64), *found.values()])
    ticks = np.repeat(np.array(list(found), np.int64), [len(each) for each in found.values()])
    sums = [tables[tick][:, each].astype(np.int64) for tick, each in found.items()]
    none = np.zeros((measure.rows, 0), np.int64)
    return Tally(ticks, *np.divmod(at, count_cells(measure)), np.concatenate([none, *sums], axis=1))


def load_tally(measure: Measure, arrays: Mapping[str, Array]) -> Tally:
    """Return the saved sums of a measure, from a table or from rows, without tick 0."""
    if "table" in arrays:
        tables = zip(arrays["ticks"].tolist(), arrays["table"], strict=True)
        return build_table_tally(measure, {tick: table for tick, table in tables if tick > 0})
    ticks, groups, cells = arrays["at"]
    return Tally(ticks, groups, cells, arrays["sums"]).select(ticks > 0)


class OpenSums:
    """The open ticks of one measure, as rows.

    Blocks are merged when many wait, or on access.
    """

    def __init__(self, measure: Measure, max_pending: int = MAX_PENDING_ROWS) -> None:
        self._measure, self._max_pending = measure, max_pending
        self._pending = [empty_tally(measure)]  # exact

    @staticmethod
    def size(measure: Measure, ticks: int) -> int:
        """Return the bytes in memory if every cell has events."""
        return 8 * (3 + measure.rows) * ticks * count_places(measure)

    def add(self, tally: Tally) -> None:
        self._pending.append(tally)
        if sum(len(each.ticks) for each in self._pending[1:]) > self._max_pending:
            self.merge_pending()

    def merge_pending(self) -> Tally:
        """Return all rows, each (tick, place, cell) once."""
        if len(self._pending) > 1:
            at = np.concatenate([[each.ticks, each.groups, each.cells] for each in self._pending], axis=1)
            rows = np.concatenate([each.sums for each in self._pending], axis=1)
            distinct, where = find_distinct(at, self._measure.width, count_cells(self._measure))
            sums = np.zeros((len(rows), distinct.shape[1]), np.int64)
            for row, numbers in zip(sums, rows, strict=True):
                np.add.at(row, where, numbers)
            ticks, groups, cells = distinct
            self._pending = [Tally(ticks, groups, cells, sums)]
        return self._pending[0]

    def close(self, last: int) -> Tally:
        whole = self.merge_pending()
        self._pending = [whole.select(whole.ticks > last)]
        return whole.select(whole.ticks <= last)

    def save_arrays(self, ticks: int) -> dict[str, Array]:
        """Return the rows. The caller hides their number."""
        tally = self.merge_pending()
        return {"at": np.stack([tally.ticks, tally.groups, tally.cells]), "sums": tally.sums}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self.add(load_tally(self._measure, arrays))


def empty_tally(measure: Measure) -> Tally:
    none = np.zeros(0, np.int64)
    return Tally(none, none, none, np.zeros((measure.rows, 0), np.int64))


def find_distinct(at: Ints, width: int, count: int) -> tuple[Ints, Ints]:
    """Return the distinct columns, and the index into them of each column."""
    ticks, groups, codes = at
    least = int(ticks.min(initial=2**62))
    if (int(ticks.max(initial=0)) - least + 1) * width * count >= 2**62:
        distinct, where = np.unique(at, axis=1, return_inverse=True)
        return distinct, where.reshape(-1)
    keys, where = np.unique(((ticks - least) * width + groups) * count + codes, return_inverse=True)
    rest, codes = np.divmod(keys, count)
    ticks, groups = np.divmod(rest, width)
    return np.stack([ticks + least, groups, codes]), where


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
        closed = sorted(tick for tick in self._counts if tick <= last)
        return _build_key_tally({tick: self._counts.pop(tick) for tick in closed})

    def save_arrays(self, ticks: int) -> dict[str, Ints]:
        """Return the counts, padded with rows of tick 0 to hide their number.

        Ticks begin at 1, so these rows are ignored on restore.
        """
        tally = _build_key_tally(self._counts)
        octets, lengths = join_keys(list(tally.keys))
        rows = next_power_of_two(len(lengths), MIN_KEY_ROWS) - len(lengths)
        at = np.pad(np.stack([tally.ticks, lengths, tally.sums[0]]), ((0, 0), (0, rows)))
        return {"at": at, "octets": np.pad(octets, (0, next_power_of_two(len(octets), MIN_KEY_OCTETS) - len(octets)))}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        at = arrays["at"]
        ticks, lengths, counts = at[:, at[0] > 0]
        keys = tuple(str(key) for key in split_keys(arrays["octets"].astype(np.uint8), lengths))
        none = np.zeros(len(keys), np.int64)
        self.add(Tally(ticks, np.arange(len(keys)), none, counts[None], keys))


def _build_key_tally(counts: Mapping[int, Mapping[str, int]]) -> Tally:
    """Return a row for each tick and key."""
    rows = [(tick, key, count) for tick, own in counts.items() for key, count in own.items()]
    numbers = np.array([(tick, count) for tick, _, count in rows], np.int64).reshape(len(rows), 2)
    places, keys = np.arange(len(rows)), tuple(key for _, key, _ in rows)
    return Tally(numbers[:, 0], places, np.zeros(len(rows), np.int64), numbers[:, 1][None], keys)


def build_sums(measure: Measure, ticks: int) -> OpenTable | OpenSums | KeySums | OpenReports:
    if measure.key is not None:
        return KeySums()
    if is_reports(measure):
        return OpenReports()
    return OpenTable(measure, ticks) if is_small(measure, ticks) else OpenSums(measure)


class OpenTicks:
    """Sums by measure. `add` adds a block, `close` removes closed ticks."""

    def __init__(self, measures: Mapping[str, Measure], ticks: int = 0, min_rows_bytes: int = MIN_ROWS_BYTES) -> None:
        self._sums = {name: build_sums(measure, ticks) for name, measure in measures.items()}
        self._ticks, self._min_rows_bytes = ticks, min_rows_bytes
        self._removals: dict[str, bytes | None] = {}  # parts of reports of removed measures

    def change_measures(self, measures: Mapping[str, Measure]) -> None:
        """Keep the sums of the measures that stay, and drop those of removed ones."""
        for name in self._sums.keys() - measures.keys():
            sums = self._sums[name]
            if isinstance(sums, OpenReports):
                sums.close(MAX_TICK)
                self._removals |= {f"run/{name}/open/{part}": None for part in sums.save_changes()}
        self._sums = {
            name: self._sums[name] if name in self._sums else build_sums(measure, self._ticks)
            for name, measure in measures.items()
        }

    def add(self, tallies: Sequence[Tally]) -> None:
        for sums, tally in zip(self._sums.values(), tallies, strict=True):
            sums.add(tally)

    def close(self, last: int) -> list[Tally]:
        """Return and remove all ticks up to `last`."""
        return [sums.close(last) for sums in self._sums.values()]

    def save(self, ticks: int) -> bytes:
        """Return the whole secret state. At most `ticks` ticks are open."""
        arrays: dict[str, Array] = {}
        row_bytes = None  # of all measures whose sums are rows
        for name, sums in self._sums.items():
            parts = sums.save_arrays(ticks)
            arrays |= {f"{name}/{part}": array for part, array in parts.items()}
            if isinstance(sums, OpenSums):
                row_bytes = (row_bytes or 0) + sum(array.nbytes for array in parts.values())
        if row_bytes is not None:
            arrays[PADDING_NAME] = np.zeros(next_power_of_two(row_bytes, self._min_rows_bytes) - row_bytes, np.uint8)
        with io.BytesIO() as file:
            np.savez(file, allow_pickle=False, **arrays)
            return file.getvalue()

    def restore(self, saved: bytes) -> None:
        """Restore the saved sums of the measures that still exist."""
        with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
            for name, sums in self._sums.items():
                parts = [key for key in arrays if key.startswith(f"{name}/")]
                if parts:
                    sums.restore({key.removeprefix(f"{name}/"): arrays[key] for key in parts})

    def save_changes(self) -> dict[str, bytes | None]:
        """Return the parts of reports that changed since the last commit.

        A removed part is None.
        """
        found, removals = self._report_sums.items(), self._removals
        self._removals = {}
        return removals | {f"{name}{part}": data for name, each in found for part, data in each.save_changes().items()}

    def restore_reports(self, state: Mapping[str, bytes]) -> None:
        for name, each in self._report_sums.items():
            each.restore_parts({key.removeprefix(name): data for key, data in state.items() if key.startswith(name)})

    @property
    def _report_sums(self) -> dict[str, OpenReports]:
        """Sums that are written in separate parts, by the beginning of their names."""
        return {f"run/{name}/open/": each for name, each in self._sums.items() if isinstance(each, OpenReports)}
