"""What an engine is asked for, and what it answers: exact sums, by tick, group and cell.

    SELECT tick, place, cell, count(*), count(v), sum(i), sum(i * i) ... GROUP BY tick, place, cell

Everything that a statistic adds up for an event is a linear function of these sums: so all statistics of an
expression are made from one pass over the events.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Bytes
from streamgauge.query.query import GroupColumn


@dataclass(frozen=True)
class Pinned:
    """A value on its grid: i = floor(x/step + 1/2), cut off at `first` and `last`."""

    sql: str  # DOUBLE or NULL
    first: int
    last: int
    step: Fraction
    power: int  # the highest power of i that is added up: 0 (counted only), 1 or 2


@dataclass(frozen=True)
class Cell:
    """Where an event lies on an axis or in a universe: from 0 below `count`; NULL is dropped.

    A report may be a vector of bits in place of a number: then it is a text (`report_texts`), and `count` 0.
    """

    sql: str  # BIGINT or NULL; of a text VARCHAR
    count: int
    lower: Fraction | None = None  # with a step: the cell of a DOUBLE, floor((x - lower)/step), cut off
    step: Fraction | None = None
    size: int = 0  # bytes, if it is a report

    @property
    def reports(self) -> bool:
        """Whether it is a report: private already, and each of them counts."""
        return self.size > 0

    @property
    def is_text(self) -> bool:
        return self.reports and self.count == 0


@dataclass(frozen=True)
class Measure:
    """One grouped aggregation. Events whose `where` is not true, or whose group is NULL, are dropped."""

    where: str | None
    groups: tuple[GroupColumn, ...]
    values: tuple[Pinned, ...] = ()
    cell: Cell | None = None
    lookups: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    key: str | None = None  # SQL: VARCHAR or NULL, of groups that are discovered, in place of `groups`

    @property
    def width(self) -> int:
        """The number of places: all combinations of labels, the last column running fastest."""
        return int(np.prod([len(group.labels) for group in self.groups], dtype=object)) if self.groups else 1

    @property
    def text(self) -> str | None:
        """SQL: VARCHAR or NULL, where events are counted by their texts: keys, or vectors of bits."""
        return self.cell.sql if self.cell is not None and self.cell.is_text else self.key

    @property
    def rows(self) -> int:
        """How many sums there are: of events, and for each value of its items, of i and of i^2."""
        return 1 + sum(1 + value.power for value in self.values)


@dataclass(frozen=True, eq=False)
class Tally:
    """Exact sums of some ticks, in any order; a (tick, place, cell) may come more than once: add them up.

    Where groups are discovered, a place is the number of a key among all that were found in these ticks.
    Where cells are reports, `reports` has each as bytes.
    """

    ticks: Ints
    places: Ints
    cells: Ints
    sums: Ints  # (rows, n)
    keys: tuple[str, ...] = field(
        default=(), repr=False
    )  # where groups are discovered: the text of each place
    reports: Bytes | None = field(default=None, repr=False)  # (n, bytes of one)

    def of(self, tick: int) -> "Tally":
        """The part of one tick."""
        return self.only(self.ticks == tick)

    def only(self, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> "Tally":
        at = self.ticks[chosen], self.places[chosen], self.cells[chosen]
        reports = None if self.reports is None else self.reports[chosen]
        return Tally(*at, self.sums[:, chosen], self.keys, reports)
