"""Ticks that are not closed yet: exact sums of what has arrived for each. Secret.

They are kept apart by tick, so that a tick that closes leaves with all of its sums and nothing else. Saved,
they are arrays, which the store encrypts. How many there are is secret too: rows of nothing are added up to
as many as all groups and cells of the open ticks have, or, where these are too many, to a power of two.
"""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from streamgauge.noise import Ints
from streamgauge.pipeline.open_keys import KeySums
from streamgauge.query.measure import Measure, Tally

TOGETHER = 2**20  # rows that may wait to be added up
ROWS = 2**17  # up to so many, saved ticks tell nothing of how full they are


class OpenTicks:
    """Sums by measure; `add` what a block brings, `close` ticks that are over."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        self._sums: dict[str, Sums | KeySums] = {
            name: Sums(measure) if measure.key is None else KeySums() for name, measure in measures.items()
        }

    def add(self, tallies: Sequence[Tally]) -> None:
        for sums, tally in zip(self._sums.values(), tallies, strict=True):
            sums.add(tally)

    def close(self, last: int) -> list[Tally]:
        """Takes out all ticks up to `last`."""
        return [sums.close(last) for sums in self._sums.values()]

    def saved(self, ticks: int) -> bytes:
        """Everything, secret as it is; at most `ticks` ticks are open."""
        arrays: dict[str, Ints] = {}
        for name, sums in self._sums.items():
            arrays |= {f"{name}/{part}": array for part, array in sums.saved(ticks).items()}
        with io.BytesIO() as file:
            np.savez(file, allow_pickle=False, **arrays)
            return file.getvalue()

    def restore(self, saved: bytes) -> None:
        """What was saved of the measures that are still asked for."""
        with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
            for name, sums in self._sums.items():
                parts = [key for key in arrays if key.startswith(f"{name}/")]
                if parts:
                    sums.restore({key.removeprefix(f"{name}/"): arrays[key] for key in parts})


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

    def saved(self, ticks: int) -> dict[str, Ints]:
        tally = padded(self.added_up(), self.room(ticks))
        return {"at": np.stack([tally.ticks, tally.places, tally.cells]), "sums": tally.sums}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        whole = tally_of(arrays["at"], arrays["sums"])
        self.add(whole.only(whole.ticks > 0))

    def room(self, ticks: int) -> int:
        """How many rows so many ticks can have at all."""
        return ticks * self._measure.width * self._cells

    @property
    def _cells(self) -> int:
        return 1 if self._measure.cell is None else self._measure.cell.count

    def _merged(self) -> Tally:
        at = np.concatenate([[each.ticks, each.places, each.cells] for each in self._waiting], axis=1)
        rows = np.concatenate([each.sums for each in self._waiting], axis=1)
        kept, where = distinct(at, self._measure.width, self._cells)
        sums = np.zeros((len(rows), kept.shape[1]), np.int64)
        for row, numbers in zip(sums, rows, strict=True):
            np.add.at(row, where, numbers)
        return tally_of(kept, sums)


def distinct(at: Ints, width: int, cells: int) -> tuple[Ints, Ints]:
    """The distinct columns, and which of them each column is."""
    ticks, places, codes = at
    least = int(ticks.min(initial=2**62))
    if (int(ticks.max(initial=0)) - least + 1) * width * cells >= 2**62:
        kept, where = np.unique(at, axis=1, return_inverse=True)
        return kept, where.reshape(-1)
    keys, where = np.unique(((ticks - least) * width + places) * cells + codes, return_inverse=True)
    rest, codes = np.divmod(keys, cells)
    ticks, places = np.divmod(rest, width)
    return np.stack([ticks + least, places, codes]), where


def padded(tally: Tally, room: int) -> Tally:
    """With rows of tick 0, which is none, so that the number of rows tells as little as can be."""
    known = len(tally.ticks)
    size = max(room, known) if room <= ROWS else max(ROWS, 1 << (known - 1).bit_length())
    more = np.zeros(size - known, np.int64)
    at = np.stack([np.concatenate([column, more]) for column in (tally.ticks, tally.places, tally.cells)])
    return tally_of(at, np.pad(tally.sums, ((0, 0), (0, size - known))))


def nothing(measure: Measure) -> Tally:
    none = np.zeros(0, np.int64)
    return Tally(none, none, none, np.zeros((measure.rows, 0), np.int64))


def tally_of(at: Ints, sums: Ints) -> Tally:
    ticks, places, cells = at
    return Tally(ticks, places, cells, sums)
