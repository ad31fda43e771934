"""Open ticks of a column of reports, which are private already: what is committed need hide nothing.

Sums of secret events are written anew, all of them, whenever something comes, so that how much came is
hidden. How many reports came is public: only what is new is written, in a part of its own. A part takes in
the one before if that is at most twice as large; so there are as many parts as a number has digits, and a
report is written as often. Parts are cut where they are large, and left as they are from half of that on:
a store takes 10^9 bytes in one at most, and a commit is not much longer than what is new.
"""

from collections.abc import Mapping

import numpy as np

from streamgauge.pipeline.open_table import Array
from streamgauge.pipeline.report_rows import LARGE, ByTick, by_tick, pieces, read, size, together, written
from streamgauge.query.measure import Tally


class OpenReports:
    """Reports by tick, in the parts in which they are written."""

    def __init__(self) -> None:
        self._parts: dict[int, ByTick] = {}  # noisy: those of the last commit, the newest last
        self._new: list[ByTick] = []  # noisy: what came since
        self._gone: list[int] = []

    def add(self, tally: Tally) -> None:
        if tally.reports is not None and len(tally.reports):
            self._new.append(by_tick(tally.ticks, tally.reports, tally.sums[0]))

    def close(self, last: int) -> Tally:
        """Takes out all ticks up to `last`."""
        whole = together([*self._parts.values(), *self._new])
        left = {tick: counted for tick, counted in whole.items() if tick > last}
        self._gone += self._parts
        self._parts, self._new = {}, [left] if left else []
        return _tally({tick: counted for tick, counted in whole.items() if tick <= last})

    def changed(self) -> dict[str, bytes | None]:
        """The parts that are new, and those that are no more: of a commit that follows."""
        gone, self._gone = self._gone, []
        number = max([-1, *self._parts, *gone]) + 1
        if self._new:
            part = together(self._new)
            while self._parts and size(self._parts[max(self._parts)]) <= min(2 * size(part), LARGE // 2):
                before = max(self._parts)
                part, gone = together([self._parts.pop(before), part]), [*gone, before]
            self._parts |= dict(enumerate(pieces(part, LARGE), number))
            self._new = []
        new = {str(mine): written(part) for mine, part in self._parts.items() if mine >= number}
        return {**dict.fromkeys(map(str, gone)), **new}

    def restore_parts(self, parts: Mapping[str, bytes]) -> None:
        """What the last commit had."""
        self._parts = {number: read(parts[str(number)]) for number in sorted(map(int, parts))}

    def saved(self, ticks: int) -> dict[str, Array]:
        """Nothing beside its parts."""
        return {}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Nothing was saved beside its parts."""


def _tally(part: ByTick) -> Tally:
    counts = [len(counted) for counted in part.values()]
    ticks = np.repeat(np.array(list(part), np.int64), counts)
    none, each = np.zeros(len(ticks), np.int64), list(part.values())
    times = np.concatenate([np.zeros(0, np.uint32), *(counted.times for counted in each)]).astype(np.int64)
    rows = np.concatenate([counted.rows for counted in each]) if each else None
    return Tally(ticks, none, none, times[None], reports=rows)
