"""What a SELECT means: public groups, aggregates with known bounds, and total expressions in DuckDB's SQL."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from streamgauge.query.settings import Label

AggregateKind = (
    Literal["count", "sum", "mean", "variance", "stddev", "min", "max", "quantile", "distinct"]
    | Literal["density", "heavy_fraction", "cropped_mean"]
)


class Refused(ValueError):  # noqa: N818 - refusals are named by what they say
    """A query that cannot be answered privately, or is not in the dialect: what, which rule, what to do."""


@dataclass(frozen=True)
class GroupColumn:
    """A column of groups, with all its labels."""

    name: str
    labels: tuple[Label, ...]
    code: str  # SQL: the number of the label, or NULL for events that are dropped
    text: str | None = None  # SQL: the label itself, where it is a text
    nullable: bool = False  # whether an event may have none of the labels


@dataclass(frozen=True)
class KeyColumn:
    """A column whose groups are discovered: its texts are secret until they are published."""

    name: str
    sql: str  # VARCHAR, or NULL for events that are dropped
    most: int  # groups of a release


@dataclass(frozen=True)
class Value:
    """A number that an event counts for, within bounds."""

    sql: str  # a finite DOUBLE, or NULL
    lower: Fraction | None
    upper: Fraction | None
    step: Fraction | None  # its natural grid, if it has one
    nullable: bool


@dataclass(frozen=True)
class Codes:
    """What COUNT(DISTINCT column) counts: whole numbers below a public one. Of reports also vectors."""

    sql: str  # BIGINT or NULL; of a vector VARCHAR
    universe: int  # 0 of vectors
    column: str
    size: int = 0  # bytes of a report
    hashed: bool = False  # cells of a hash table, which values may share


@dataclass(frozen=True)
class Aggregate:
    """One output column."""

    name: str
    kind: AggregateKind
    value: Value | None = None  # none for COUNT(*)
    codes: Codes | None = None
    q: Fraction | None = None
    times: int = 1  # of users: from how many appearances on, or up to how many


@dataclass(frozen=True)
class Query:
    """A checked SELECT."""

    text: str  # canonical
    groups: tuple[GroupColumn, ...]
    levels: tuple[int, ...]  # how many of the group columns each level keeps: ROLLUP (a, b) is (2, 1, 0)
    aggregates: tuple[Aggregate, ...]
    where: str | None  # SQL: BOOLEAN; events where it is NULL or false are dropped
    columns: frozenset[str]  # of the stream
    lookups: frozenset[str]
    key: KeyColumn | None = None  # in place of groups, on one level: 1
    report: Codes | None = None  # of a column of reports, whose values are the only groups
