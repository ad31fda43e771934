"""Ticks that are not closed yet: exact sums of the events of each. Secret.

Sums are separated by tick, so a closed tick is removed with all of its sums and nothing else. They are saved as
arrays, which the store encrypts.

    tables    a number per group and cell of each open tick, if all of them fit into MAX_TABLE_BYTES
    rows      the non-zero sums, if they do not fit
    keys      of discovered groups
    reports   private already, so a commit writes only the new ones (`open_reports`)

Privacy
    The amount of data is secret too. Tables have a fixed length. The rows of all measures are saved together, padded
    with zeros. Their total length is MIN_ROWS_BYTES or, if that is too short, a power of two.
"""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from streamgauge.noise import Ints
from streamgauge.plan.measure import Measure, Tally
from streamgauge.runtime.live.open_reports import OpenReports
from streamgauge.runtime.live.open_table import (
    Array,
    KeySums,
    OpenTable,
    count_cells,
    count_places,
    load_tallies,
    next_power_of_two,
)

MAX_PENDING_ROWS = 2**20  # rows that may wait to be merged
MAX_TABLE_BYTES = 2**23  # bytes of a table
MIN_ROWS_BYTES = 2**22  # up to this size, the saved rows of all measures reveal nothing
PADDING_NAME = "zeros"
MIN_KEYS_BYTES = 2**16  # least saved size, which reveals nothing of few keys


def is_small(measure: Measure, ticks: int) -> bool:
    """Return whether a table of all open ticks fits.

    `ticks` is the largest number of open ticks, 0 if unknown.
    """
    return ticks > 0 and OpenTable.size(measure, ticks) <= MAX_TABLE_BYTES


def open_bytes(measure: Measure, ticks: int) -> int:
    """Return an upper bound of the memory of open ticks of a measure, by declarations.

    For reports and discovered groups it is a lower bound.
    """
    if measure.key is not None or is_reports(measure):
        return MIN_KEYS_BYTES * (ticks > 0)
    return (OpenTable if is_small(measure, ticks) else OpenSums).size(measure, ticks)


def saved_open_bytes(measure: Measure, ticks: int) -> int:
    """Return the bytes of open ticks in a commit.

    A commit has more only if there are more rows than MIN_ROWS_BYTES can contain.
    """
    if measure.key is not None or is_reports(measure):
        return MIN_KEYS_BYTES * (ticks > 0)
    return OpenTable.size(measure, ticks) if is_small(measure, ticks) else MIN_ROWS_BYTES * (ticks > 0)


def is_reports(measure: Measure) -> bool:
    return measure.cell is not None and measure.cell.is_report


def build_sums(measure: Measure, ticks: int) -> "OpenTable | OpenSums | KeySums | OpenReports":
    if measure.key is not None:
        return KeySums()
    if is_reports(measure):
        return OpenReports()
    return OpenTable(measure, ticks) if is_small(measure, ticks) else OpenSums(measure)


class OpenTicks:
    """Sums by measure. `add` adds a block, `close` removes closed ticks."""

    def __init__(self, measures: Mapping[str, Measure], ticks: int = 0) -> None:
        self._sums = {name: build_sums(measure, ticks) for name, measure in measures.items()}

    def add(self, tallies: Sequence[Tally]) -> None:
        for sums, tally in zip(self._sums.values(), tallies, strict=True):
            sums.add(tally)

    def close(self, last: int) -> list[Tally]:
        """Return and remove all ticks up to `last`."""
        return [sums.close(last) for sums in self._sums.values()]

    def save(self, ticks: int) -> bytes:
        """Return the whole secret state. At most `ticks` ticks are open."""
        arrays: dict[str, Array] = {}
        loose = 0  # bytes of rows
        for name, sums in self._sums.items():
            parts = sums.save_arrays(ticks)
            arrays |= {f"{name}/{part}": array for part, array in parts.items()}
            loose += sum(array.nbytes for array in parts.values()) if isinstance(sums, OpenSums) else 0
        if any(isinstance(sums, OpenSums) for sums in self._sums.values()):
            arrays[PADDING_NAME] = np.zeros(next_power_of_two(loose, MIN_ROWS_BYTES) - loose, np.uint8)
        with io.BytesIO() as file:
            np.savez(file, allow_pickle=False, **arrays)
            return file.getvalue()

    def save_changes(self) -> dict[str, bytes | None]:
        """Return the parts of reports that changed since the last commit.

        A removed part is None.
        """
        found = find_report_sums(self._sums).items()
        return {f"{name}/{part}": data for name, each in found for part, data in each.save_changes().items()}

    def restore_reports(self, state: Mapping[str, bytes]) -> None:
        for name, each in find_report_sums(self._sums).items():
            begin = f"{name}/"
            each.restore_parts({k.removeprefix(begin): v for k, v in state.items() if k.startswith(begin)})

    def restore(self, saved: bytes) -> None:
        """Restore the saved sums of the measures that still exist."""
        with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
            for name, sums in self._sums.items():
                parts = [key for key in arrays if key.startswith(f"{name}/")]
                if parts:
                    sums.restore({key.removeprefix(f"{name}/"): arrays[key] for key in parts})


def find_report_sums(sums: Mapping[str, "OpenTable | OpenSums | KeySums | OpenReports"]) -> dict[str, OpenReports]:
    """Return the sums that are written in parts of their own, by name of these parts."""
    return {f"run/{name}/open": each for name, each in sums.items() if isinstance(each, OpenReports)}


class OpenSums:
    """The open ticks of one measure, as rows.

    Blocks are merged when many wait, or on access.
    """

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._pending = [empty_tally(measure)]  # exact

    def add(self, tally: Tally) -> None:
        self._pending.append(tally)
        if sum(len(each.ticks) for each in self._pending[1:]) > MAX_PENDING_ROWS:
            self.merge_pending()

    def merge_pending(self) -> Tally:
        """Return all rows, each (tick, place, cell) once."""
        if len(self._pending) > 1:
            self._pending = [self._merge()]
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
        for tally in load_tallies(self._measure, arrays):
            self.add(tally)

    @staticmethod
    def size(measure: Measure, ticks: int) -> int:
        """Return the bytes in memory if every cell has events."""
        return 8 * (3 + measure.rows) * ticks * count_places(measure)

    def _merge(self) -> Tally:
        at = np.concatenate([[each.ticks, each.groups, each.cells] for each in self._pending], axis=1)
        rows = np.concatenate([each.sums for each in self._pending], axis=1)
        kept, where = find_distinct(at, self._measure.width, count_cells(self._measure))
        sums = np.zeros((len(rows), kept.shape[1]), np.int64)
        for row, numbers in zip(sums, rows, strict=True):
            np.add.at(row, where, numbers)
        return build_tally(kept, sums)


def find_distinct(at: Ints, width: int, count: int) -> tuple[Ints, Ints]:
    """Return the distinct columns, and the index into them of each column."""
    ticks, groups, codes = at
    least = int(ticks.min(initial=2**62))
    if (int(ticks.max(initial=0)) - least + 1) * width * count >= 2**62:
        kept, where = np.unique(at, axis=1, return_inverse=True)
        return kept, where.reshape(-1)
    keys, where = np.unique(((ticks - least) * width + groups) * count + codes, return_inverse=True)
    rest, codes = np.divmod(keys, count)
    ticks, groups = np.divmod(rest, width)
    return np.stack([ticks + least, groups, codes]), where


def empty_tally(measure: Measure) -> Tally:
    none = np.zeros(0, np.int64)
    return Tally(none, none, none, np.zeros((measure.rows, 0), np.int64))


def build_tally(at: Ints, sums: Ints) -> Tally:
    ticks, groups, codes = at
    return Tally(ticks, groups, codes, sums)
