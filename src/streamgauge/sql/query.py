"""Checked SELECT: public groups, bounded aggregates, total DuckDB expressions."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from streamgauge.config.mapper import MapperSettings
from streamgauge.config.settings import Label


@dataclass(frozen=True)
class GroupColumn:
    """Column of groups, with all its labels."""

    name: str
    labels: tuple[Label, ...]
    code: str  # SQL: the number of the label, or NULL for events that are dropped
    text: str | None = None  # SQL: the label itself, if it is a text
    nullable: bool = False  # true if an event may have none of the labels


@dataclass(frozen=True)
class KeyColumn:
    """Column with discovered groups. Its texts are secret until they are published."""

    name: str
    sql: str  # VARCHAR, or NULL for events that are dropped
    max_groups: int  # groups of a release


@dataclass(frozen=True)
class Value:
    """Bounded number that an event counts for."""

    sql: str  # a finite DOUBLE, or NULL
    lower: Fraction | None
    upper: Fraction | None
    step: Fraction | None  # its natural grid, if it has one
    nullable: bool  # true if it may be NULL where the filter is true
    filter: str | None = None  # SQL of FILTER's condition: the number is NULL unless it is true

    @property
    def is_partial(self) -> bool:
        """True if some events have no value."""
        return self.nullable or self.filter is not None


@dataclass(frozen=True)
class Codes:
    """Codes that COUNT(DISTINCT column) counts: whole numbers below a public one.

    Reports may be vectors.
    """

    sql: str  # BIGINT or NULL; VARCHAR for a vector
    universe: int  # 0 for vectors
    column: str
    report_bytes: int = 0  # bytes of a report
    is_hashed: bool = False  # cells of a hash table, which values may share


@dataclass(frozen=True)
class Aggregate:
    """One output column."""

    name: str
    kind: str  # a word for clients
    value: Value | None = None  # None for COUNT(*)
    codes: Codes | None = None
    arguments: tuple[Fraction, ...] = ()  # numbers after the first argument
    item: str = ""  # the text of APPROX_FREQUENCY(x, 'text')
    window: int = 0  # ticks of its own sliding window, if the release has several
    function: Any = field(default=None, compare=False, repr=False)  # a `plan.aggregates.function.AggregateFunction`


@dataclass(frozen=True)
class TopGroups:
    """The largest groups of each tick, by one measure."""

    measure: int  # index of its aggregate
    limit: int | None  # None for all groups, ranked


@dataclass(frozen=True)
class Query:
    """Checked SELECT."""

    text: str  # canonical
    groups: tuple[GroupColumn, ...]
    levels: tuple[int, ...]  # number of group columns on each level: ROLLUP (a, b) is (2, 1, 0)
    aggregates: tuple[Aggregate, ...]
    where: str | None  # SQL: BOOLEAN; events are dropped if it is NULL or false
    columns: frozenset[str]  # of the stream
    lookups: frozenset[str]
    key: KeyColumn | None = None  # instead of groups, on one level: 1
    top: TopGroups | None = None  # the places of a release are ranks, if it ranks its groups
    report: Codes | None = None  # codes of a column of reports, whose values are the only groups
    mapper: MapperSettings | None = None  # whose pairs are the events
