"""Requests to an engine and its results: exact sums by tick, group and cell.

    SELECT tick, place, cell, count(*), count(v), sum(i), sum(i * i) ... GROUP BY tick, place, cell

Every increment of a statistic is a linear function of these sums. So all statistics of an
expression need one pass over the events.

A `Pass` is the result for some ticks: the sums, and the numbers of dropped records by rule. Declarations alone cut a
batch run into passes: as many ticks as surely fit into memory, even if every group and cell of every measure occurs.
The engine decides how often it reads the files for them.

Inside the engine a dropped record has the number of its rule instead of a tick.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate

import numpy as np

from streamgauge.config.mapper import MapperSettings
from streamgauge.noise import Ints
from streamgauge.noise.entropy import Bytes
from streamgauge.sql.query import GroupColumn


@dataclass(frozen=True)
class GridValue:
    """Value on its grid: i = floor(x/step + 1/2), cut off at `first` and `last`."""

    sql: str  # DOUBLE or NULL
    first: int
    last: int
    step: Fraction
    power: int  # the highest power of i that is added up: 0 (counted only), 1 or 2


@dataclass(frozen=True)
class Cell:
    """Index of an event on an axis or in a universe, below `count`. NULL is dropped.

    A report may be a vector of bits instead of a number. Then it is a text (`records.reports`), and `count` is 0.
    """

    sql: str  # BIGINT or NULL; VARCHAR for a text
    count: int
    lower: Fraction | None = None  # with a step: the cell of a DOUBLE, floor((x - lower)/step), cut off
    step: Fraction | None = None
    size: int = 0  # bytes, if it is a report
    assumed: int = 0  # cells of a tick that are planned for, if far fewer than `count` can occur

    @property
    def is_report(self) -> bool:
        """True for a report: private already, and each of them counts."""
        return self.size > 0

    @property
    def is_text(self) -> bool:
        return self.is_report and self.count == 0


@dataclass(frozen=True)
class Measure:
    """One grouped aggregation.

    Events whose `where` is not true, or whose group is NULL, are dropped.
    """

    where: str | None
    groups: tuple[GroupColumn, ...]
    values: tuple[GridValue, ...] = ()
    cell: Cell | None = None
    lookups: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    key: str | None = None  # SQL: VARCHAR or NULL, of groups that are discovered, instead of `groups`
    mapper: MapperSettings | None = None  # reads `columns`; SQL is of its pairs, PAIR_KEY and PAIR_VALUE

    @property
    def width(self) -> int:
        """Number of places: all combinations of labels, the last column running fastest."""
        return int(np.prod([len(group.labels) for group in self.groups], dtype=object)) if self.groups else 1

    @property
    def text(self) -> str | None:
        """SQL: VARCHAR or NULL, if events are counted by text: keys, or vectors of bits."""
        return self.cell.sql if self.cell is not None and self.cell.is_text else self.key

    @property
    def rows(self) -> int:
        """Number of sums: of events, and for each value of its items, of i and of i^2."""
        return 1 + sum(1 + value.power for value in self.values)


def find_value_rows(wanted: Iterable[GridValue], values: Iterable[GridValue]) -> list[int]:
    """Return the rows of some values among the sums of all `values`, from 0."""
    begins, begin = {}, 0
    for value in values:
        begins[value] = begin
        begin += 1 + value.power
    return [begins[value] + more for value in wanted for more in range(1 + value.power)]


@dataclass(frozen=True, eq=False)
class Tally:
    """Exact sums of some ticks, in any order. Rows of one (tick, place, cell) add up.

    If groups are discovered, a place is the number of a key among all that were found in these ticks.
    If cells are reports, `reports` has each as bytes.
    """

    ticks: Ints
    groups: Ints
    cells: Ints
    sums: Ints  # (rows, n)
    keys: tuple[str, ...] = field(default=(), repr=False)  # text of each place, if groups are discovered
    reports: Bytes | None = field(default=None, repr=False)  # (n, bytes of one)

    def select_tick(self, tick: int) -> "Tally":
        """Return the part of one tick."""
        return self.select(self.ticks == tick)

    def select(self, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> "Tally":
        at = self.ticks[chosen], self.groups[chosen], self.cells[chosen]
        reports = None if self.reports is None else self.reports[chosen]
        return Tally(*at, self.sums[:, chosen], self.keys, reports)


MAX_PASS_NUMBERS = 2**25  # numbers of all tallies of a pass
OUTSIDE, NO_TIME, NOT_READABLE, NO_USER, OTHER_SCAN, BOUNDED, LATE, EARLY = range(0, -8, -1)
NO_PLACE = -1  # of events that a measure drops
ASSUMED_KEYS = 2**14  # assumed keys of a tick, if they are discovered
RULES = {
    OUTSIDE: "outside",
    NO_TIME: "no time",
    NOT_READABLE: "not readable",
    NO_USER: "no user",
    BOUNDED: "bounded",
    LATE: "late",
    EARLY: "early",
}
Counts = dict[str, int]  # records that were read, and those dropped by rule: for the curator only
Absences = dict[str, int]  # records without a column, a value of it or a user: for the curator only


@dataclass(frozen=True, eq=False)
class Pass:
    """Ticks from `first` to `last`, with one tally for each measure."""

    first: int
    last: int
    tallies: list[Tally]
    counts: Counts
    absences: Absences = field(default_factory=dict)  # of all records in `counts`


def zero_counts() -> Counts:
    return {"records": 0} | dict.fromkeys(RULES.values(), 0)


def build_counts(numbers: Iterable[tuple[int, int]]) -> Counts:
    """Return counts from pairs of a tick, or a rule's number, and its records."""
    counts = zero_counts()
    for tick, count in numbers:
        counts["records"] += count
        if tick in RULES:
            counts[RULES[tick]] += count
    return counts


def merge_passes(parts: Sequence[Pass]) -> Pass:
    """Merge passes of the same ticks over different records."""
    if len(parts) == 1:
        return parts[0]
    counts = {rule: sum(part.counts[rule] for part in parts) for rule in zero_counts()}
    columns = {what: sum(part.absences[what] for part in parts) for what in parts[0].absences}
    tallies = zip(*(part.tallies for part in parts), strict=True)
    return Pass(parts[0].first, parts[0].last, [concatenate_tallies(tally) for tally in tallies], counts, columns)


def concatenate_tallies(tallies: Sequence[Tally]) -> Tally:
    """Concatenate tallies, and their keys if groups are discovered."""
    reports = [tally.reports for tally in tallies if tally.reports is not None]
    begins = [0, *accumulate(len(tally.keys) for tally in tallies)]
    return Tally(
        np.concatenate([tally.ticks for tally in tallies]),
        np.concatenate([tally.groups + begin for tally, begin in zip(tallies, begins, strict=False)]),
        np.concatenate([tally.cells for tally in tallies]),
        np.concatenate([tally.sums for tally in tallies], axis=1),
        tuple(key for tally in tallies for key in tally.keys),
        np.concatenate(reports) if reports else None,
    )


def split_ticks(
    measures: Sequence[Measure], first: int, last: int, max_numbers: int = MAX_PASS_NUMBERS
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last tick of each pass."""
    size = max(1, max_numbers // max(1, sum(count_tally_numbers(measure) for measure in measures)))
    for begin in range(first, last + 1, size):
        yield begin, min(last, begin + size - 1)


def count_tally_numbers(measure: Measure) -> int:
    """Return the maximum, or assumed, numbers in the tally of one tick."""
    if measure.text is not None:
        return ASSUMED_KEYS * 4
    cells = 1 if measure.cell is None else measure.cell.assumed or measure.cell.count
    return measure.width * cells * (3 + measure.rows)
