"""A part of a release at work: exact sums of ticks in, columns of estimates out.

Power sums and counts of cells become the vectors of the part's statistic by whole-number arithmetic; noise is
drawn inside the statistic's run and nowhere else.
"""

from typing import Any

import numpy as np

from streamgauge.noise import Ints, Noise
from streamgauge.query.measure import Tally
from streamgauge.query.parts import Part
from streamgauge.statistics import EventRun
from streamgauge.statistics.told import Columns

CONFIDENCE = 0.95


class PartRun:
    """The run of one part."""

    def __init__(self, part: Part, run: EventRun[Any]) -> None:
        self.part, self.run = part, run

    @classmethod
    def start(cls, part: Part, noise: Noise | None) -> "PartRun":
        return cls(part, part.statistic.start(part.width, noise))

    @classmethod
    def load(cls, part: Part, saved: bytes, noise: Noise | None) -> "PartRun":
        return cls(part, part.statistic.load(saved, noise))

    @property
    def tick(self) -> int:
        """The number of ticks taken so far."""
        return self.run.tick

    def save(self) -> bytes:
        return self.run.save()

    def take(self, tally: Tally, first: int, count: int) -> dict[str, Columns]:
        """The estimates of `count` ticks from `first`, a row for each tick, by the name of the column."""
        rows = tally.ticks - first
        inside = (rows >= 0) & (rows < count)
        mine, rows = tally.only(inside), rows[inside]
        if self.part.statistic.REMEMBERS:
            release = self._by_events(mine, rows, count)
        else:
            release = self.run.take_all(self._vectors(mine, rows, count))
        told: dict[str, Columns] = release.told(CONFIDENCE)
        return told

    def absorb(self, tally: Tally) -> None:
        """Takes part of the tick that is open, into registers that are noisy already."""
        self.run.absorb(self._vectors(tally, np.zeros(len(tally.ticks), np.int64), 1)[0])

    def begin_anew(self) -> None:
        """Lets open registers go for what was released and fresh draws."""
        self.run.begin_anew()

    def _vectors(self, tally: Tally, rows: Ints, count: int) -> Ints:
        """(ticks, channels, width)."""
        statistic, width = self.part.statistic, self.part.width
        if self.part.codes:
            return self._codes(tally, rows, count)
        if self.part.measure.cell is not None:
            return statistic.of_cells(tally.cells, tally.places, tally.sums[0], width, rows, count)
        sums = np.zeros((len(tally.sums), count * width), np.int64)
        for row, numbers in zip(sums, tally.sums, strict=True):
            np.add.at(row, rows * width + tally.places, numbers)
        counted = sums[1:] if self.part.measure.values else sums
        n, *powers = (row.reshape(count, width) for row in counted)
        channels = statistic.of_power_sums(n, *powers)
        return np.ascontiguousarray(np.moveaxis(channels.reshape(-1, count, width), 0, 1))

    def _codes(self, tally: Tally, rows: Ints, count: int) -> Ints:
        """How many codes each group has at each tick."""
        width = self.part.width
        found = np.unique(np.stack([rows * width + tally.places, tally.cells]), axis=1)
        numbers = np.bincount(found[0], minlength=count * width)
        return numbers.reshape(count, 1, width)

    def _by_events(self, tally: Tally, rows: Ints, count: int) -> Any:
        """Tick by tick, where one depends on what was remembered of another."""
        releases = []
        for row in range(count):
            of = rows == row
            releases.append(self.run.step(users=tally.cells[of], groups=tally.places[of]))
        return self.part.statistic.joined(releases)
