"""Ticks that are not closed yet: exact sums of what has arrived for each. Secret.

They are kept apart by tick, so that a tick that closes leaves with all of its sums and nothing else. Saved,
they are arrays, which the store encrypts.
"""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from streamgauge.noise import Ints
from streamgauge.query.measure import Measure, Tally


class OpenTicks:
    """Sums by measure; `add` what a block brings, `close` ticks that are over."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        self._names = list(measures)
        self._tallies = [nothing(measure) for measure in measures.values()]  # exact

    def add(self, tallies: Sequence[Tally]) -> None:
        self._tallies = [merged(old, new) for old, new in zip(self._tallies, tallies, strict=True)]

    def close(self, last: int) -> list[Tally]:
        """Takes out all ticks up to `last`."""
        out = [tally.only(tally.ticks <= last) for tally in self._tallies]
        self._tallies = [tally.only(tally.ticks > last) for tally in self._tallies]
        return out

    def saved(self) -> bytes:
        """Everything, secret as it is."""
        arrays = {}
        for name, tally in zip(self._names, self._tallies, strict=True):
            arrays[f"{name}/at"] = np.stack([tally.ticks, tally.places, tally.cells])
            arrays[f"{name}/sums"] = tally.sums
        with io.BytesIO() as file:
            np.savez(file, allow_pickle=False, **arrays)
            return file.getvalue()

    def restore(self, saved: bytes) -> None:
        """What was saved of the measures that are still asked for."""
        with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
            for place, name in enumerate(self._names):
                if f"{name}/at" in arrays:
                    self._tallies[place] = tally_of(arrays[f"{name}/at"], arrays[f"{name}/sums"])


def nothing(measure: Measure) -> Tally:
    none = np.zeros(0, np.int64)
    return Tally(none, none, none, np.zeros((measure.rows, 0), np.int64))


def merged(old: Tally, new: Tally) -> Tally:
    """Both, with equal (tick, place, cell) added up."""
    at = np.concatenate(
        [[old.ticks, old.places, old.cells], [new.ticks, new.places, new.cells]], axis=1, dtype=np.int64
    )
    distinct, where = np.unique(at, axis=1, return_inverse=True)
    sums = np.zeros((len(old.sums), distinct.shape[1]), np.int64)
    both = np.concatenate([old.sums, new.sums], axis=1)
    for row, numbers in zip(sums, both, strict=True):
        np.add.at(row, where.reshape(-1), numbers)
    return tally_of(distinct, sums)


def tally_of(at: Ints, sums: Ints) -> Tally:
    ticks, places, cells = at
    return Tally(ticks, places, cells, sums)
