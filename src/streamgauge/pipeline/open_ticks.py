"""Ticks that are not closed yet: exact sums of what has arrived for each. Secret.

They are kept apart by tick, so that a tick that closes leaves with all of its sums and nothing else. Saved,
they are arrays, which the store encrypts.

    tables    a number for each group and cell of each open tick, where all of them fit into ROOM bytes
    rows      what is not nothing, where they do not
    keys      of groups that are discovered
    reports   which are private already, so that only those that are new are written (`open_reports`)

Privacy
    How much there is is secret too. Tables are as long as ever. The rows of all measures are saved together,
    with zeros, so that all of them are as long as ROWS or, where these do not suffice, as a power of two.
"""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from streamgauge.noise import Ints
from streamgauge.pipeline.open_keys import KeySums, power
from streamgauge.pipeline.open_reports import OpenReports
from streamgauge.pipeline.open_table import Array, Table, cells, places, tallies_of
from streamgauge.query.measure import Measure, Tally

TOGETHER = 2**20  # rows that may wait to be added up
ROOM = 2**23  # bytes of a table
ROWS = 2**22  # bytes: up to so many, the rows of all measures tell nothing of how full they are
ZEROS = "zeros"
KEYS = 2**16  # bytes, saved, of so few keys that nothing is told of them


def is_small(measure: Measure, ticks: int) -> bool:
    """Whether all that can come for open ticks has room; `ticks` are open at most, 0 if nobody knows."""
    return ticks > 0 and Table.size(measure, ticks) <= ROOM


def open_bytes(measure: Measure, ticks: int) -> int:
    """What open ticks of a measure take at most, by declarations; of reports and found groups at least."""
    if measure.key is not None or is_reports(measure):
        return KEYS * (ticks > 0)
    return (Table if is_small(measure, ticks) else Sums).size(measure, ticks)


def saved_open_bytes(measure: Measure, ticks: int) -> int:
    """What they take in a commit, unless more has come than ROWS have room for."""
    if measure.key is not None or is_reports(measure):
        return KEYS * (ticks > 0)
    return Table.size(measure, ticks) if is_small(measure, ticks) else ROWS * (ticks > 0)


def is_reports(measure: Measure) -> bool:
    return measure.cell is not None and measure.cell.reports


def sums_for(measure: Measure, ticks: int) -> "Table | Sums | KeySums | OpenReports":
    if measure.key is not None:
        return KeySums()
    if is_reports(measure):
        return OpenReports()
    return Table(measure, ticks) if is_small(measure, ticks) else Sums(measure)


class OpenTicks:
    """Sums by measure; `add` what a block brings, `close` ticks that are over."""

    def __init__(self, measures: Mapping[str, Measure], ticks: int = 0) -> None:
        self._sums = {name: sums_for(measure, ticks) for name, measure in measures.items()}

    def add(self, tallies: Sequence[Tally]) -> None:
        for sums, tally in zip(self._sums.values(), tallies, strict=True):
            sums.add(tally)

    def close(self, last: int) -> list[Tally]:
        """Takes out all ticks up to `last`."""
        return [sums.close(last) for sums in self._sums.values()]

    def saved(self, ticks: int) -> bytes:
        """Everything, secret as it is; at most `ticks` ticks are open."""
        arrays: dict[str, Array] = {}
        loose = 0  # bytes of rows
        for name, sums in self._sums.items():
            parts = sums.saved(ticks)
            arrays |= {f"{name}/{part}": array for part, array in parts.items()}
            loose += sum(array.nbytes for array in parts.values()) if isinstance(sums, Sums) else 0
        if any(isinstance(sums, Sums) for sums in self._sums.values()):
            arrays[ZEROS] = np.zeros(power(loose, ROWS) - loose, np.uint8)
        with io.BytesIO() as file:
            np.savez(file, allow_pickle=False, **arrays)
            return file.getvalue()

    def changed(self) -> dict[str, bytes | None]:
        """The parts of reports that are new since the last commit, or are no more."""
        found = of_reports(self._sums).items()
        return {f"{name}/{part}": data for name, each in found for part, data in each.changed().items()}

    def restore_reports(self, state: Mapping[str, bytes]) -> None:
        for name, each in of_reports(self._sums).items():
            begin = f"{name}/"
            each.restore_parts({k.removeprefix(begin): v for k, v in state.items() if k.startswith(begin)})

    def restore(self, saved: bytes) -> None:
        """What was saved of the measures that are still asked for."""
        with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
            for name, sums in self._sums.items():
                parts = [key for key in arrays if key.startswith(f"{name}/")]
                if parts:
                    sums.restore({key.removeprefix(f"{name}/"): arrays[key] for key in parts})


def of_reports(sums: Mapping[str, "Table | Sums | KeySums | OpenReports"]) -> dict[str, OpenReports]:
    """Those that are written by themselves, by the name of their parts."""
    return {f"run/{name}/open": each for name, each in sums.items() if isinstance(each, OpenReports)}


class Sums:
    """The open ticks of one measure; blocks are added up when many wait, or somebody asks."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._waiting = [nothing(measure)]  # exact

    def add(self, tally: Tally) -> None:
        self._waiting.append(tally)
        if sum(len(each.ticks) for each in self._waiting[1:]) > TOGETHER:
            self.added_up()

    def added_up(self) -> Tally:
        """All of it, each (tick, place, cell) once."""
        if len(self._waiting) > 1:
            self._waiting = [self._merged()]
        return self._waiting[0]

    def close(self, last: int) -> Tally:
        whole = self.added_up()
        self._waiting = [whole.only(whole.ticks > last)]
        return whole.only(whole.ticks <= last)

    def saved(self, ticks: int) -> dict[str, Array]:
        """All rows, and none of nothing: how many there are is hidden by who saves them."""
        tally = self.added_up()
        return {"at": np.stack([tally.ticks, tally.places, tally.cells]), "sums": tally.sums}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        for tally in tallies_of(self._measure, arrays):
            self.add(tally)

    @staticmethod
    def size(measure: Measure, ticks: int) -> int:
        """Bytes in memory, if all that can come has come."""
        return 8 * (3 + measure.rows) * ticks * places(measure)

    def _merged(self) -> Tally:
        at = np.concatenate([[each.ticks, each.places, each.cells] for each in self._waiting], axis=1)
        rows = np.concatenate([each.sums for each in self._waiting], axis=1)
        kept, where = distinct(at, self._measure.width, cells(self._measure))
        sums = np.zeros((len(rows), kept.shape[1]), np.int64)
        for row, numbers in zip(sums, rows, strict=True):
            np.add.at(row, where, numbers)
        return tally_of(kept, sums)


def distinct(at: Ints, width: int, count: int) -> tuple[Ints, Ints]:
    """The distinct columns, and which of them each column is."""
    ticks, groups, codes = at
    least = int(ticks.min(initial=2**62))
    if (int(ticks.max(initial=0)) - least + 1) * width * count >= 2**62:
        kept, where = np.unique(at, axis=1, return_inverse=True)
        return kept, where.reshape(-1)
    keys, where = np.unique(((ticks - least) * width + groups) * count + codes, return_inverse=True)
    rest, codes = np.divmod(keys, count)
    ticks, groups = np.divmod(rest, width)
    return np.stack([ticks + least, groups, codes]), where


def nothing(measure: Measure) -> Tally:
    none = np.zeros(0, np.int64)
    return Tally(none, none, none, np.zeros((measure.rows, 0), np.int64))


def tally_of(at: Ints, sums: Ints) -> Tally:
    ticks, groups, codes = at
    return Tally(ticks, groups, codes, sums)
