"""A part of a release that is about users: who came goes into a table that can be seized, estimates come out.

Who came in a block is read, drawn for and forgotten in one step; a tick's end estimates, and changes nothing.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamgauge.noise import Ints, Noise
from streamgauge.panprivate import TableRun
from streamgauge.query.measure import Tally
from streamgauge.query.parts import Part
from streamgauge.statistics.told import Columns

CONFIDENCE = 0.95


class UserPartRun:
    """The run of one part, as `PartRun` is."""

    def __init__(self, part: Part, run: TableRun[Any, Any]) -> None:
        self.part, self.run = part, run

    @classmethod
    def start(cls, part: Part, noise: Noise | None) -> "UserPartRun":
        return cls(part, table_of(part).start(noise))

    @classmethod
    def load(cls, part: Part, saved: bytes, noise: Noise | None) -> "UserPartRun":
        return cls(part, table_of(part).load(saved, noise))

    @property
    def tick(self) -> int:
        """The number of ticks taken so far: each had its estimate."""
        return self.run.releases

    def save(self) -> bytes:
        return self.run.save()

    def absorb(self, tally: Tally) -> None:
        """Takes who came in part of a tick that is open."""
        self.run.add(appearances(tally))

    def begin_anew(self) -> None:
        """A table stays. The lost run, which may have been looked at, forks off at the last commit: entries
        that are drawn anew in it are of no estimate, and others are those of the run that goes on. So every
        estimate is still in one block of one entry, of which the look shows at most one: the look and all
        estimates lose no more than the claim (`panprivate.own_chance`). Where entries are no bits, the noise
        of each estimate covers any change of one (`panprivate.table_claim`)."""

    def take(self, tally: Tally, first: int, count: int) -> dict[str, Columns]:
        """The estimates of `count` ticks from `first`."""
        table: Any = self.part.statistic
        told: dict[str, Columns] = table.told(list(self._estimates(tally, first, count)), CONFIDENCE)
        return told

    def _estimates(self, tally: Tally, first: int, count: int) -> Iterator[Any]:
        for tick in range(first, first + count):
            self.absorb(tally.of(tick))
            yield self.run.estimate()


def table_of(part: Part) -> Any:
    """The claim of a table of users, which keeps the part's."""
    return part.statistic.counter


def appearances(tally: Tally) -> Ints:
    """The codes of users, each as often as they came."""
    return np.repeat(tally.cells, tally.sums[0])
