"""From a SELECT to statistics: which of them answer it, and what each needs of the events.

Aggregates of one expression share one run: COUNT(x), SUM(x), AVG(x), VAR_SAMP(x) and STDDEV(x) are read off
one summary, all quantiles of x off one tree, MIN(x) and MAX(x) off another. COUNT(*) is read off a summary
whose expression cannot be NULL, if there is one. So the loss of a release is shared by as few runs as can
be: evenly among its parts, and each level of a ROLLUP has all of them; unless one run answers all levels
(see `rollups`), which then share its loss.

Privacy
    One unit moves the vector of each part by at most the part's `reach`; each part of each level keeps an
    even share of the release's loss, and losses of the same events add up: to the release's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from streamgauge.noise import Grid
from streamgauge.privacy import Loss, Unit, User, WEvent
from streamgauge.query.few_events import counted, expected_at
from streamgauge.query.fitting import check_fit
from streamgauge.query.measure import Cell, Measure, Pinned
from streamgauge.query.mechanism_names import AUTO, mechanism_named
from streamgauge.query.pan_private import WITH, check_no_users, check_release
from streamgauge.query.query import Aggregate, AggregateKind, Codes, KeyColumn, Query, Refused, Value
from streamgauge.query.rollups import TOGETHER, hierarchy_of, levels_run, named_for, width_of
from streamgauge.query.settings import Release, Stream
from streamgauge.query.value_grids import bounds_of, fine_step
from streamgauge.statistics import Count, Distinct, Extremes, Quantile, Statistic, Sum, Summary, TopK
from streamgauge.statistics.axis import Axis
from streamgauge.statistics.moments import MOST_PLACES
from streamgauge.statistics.tuned import AskedMechanism, Tuned

MOST_CELLS = 1024  # of an axis whose step nobody chose to be finer
CELLS = 256  # of an axis without any natural step
MOMENTS: tuple[AggregateKind, ...] = ("count", "sum", "mean", "variance", "stddev")
SPREADS: tuple[AggregateKind, ...] = ("variance", "stddev")


@dataclass(frozen=True)
class Output:
    """Which column of a part's release answers which aggregate."""

    aggregate: int  # its place in the SELECT
    column: str  # its name in the part's release


@dataclass(frozen=True)
class Part:
    """One run of a release: a statistic, what the engine adds up for it, and what is read off."""

    level: int  # how many of the group columns it keeps, the finest of several
    statistic: Statistic[Any]
    measure: Measure
    outputs: tuple[Output, ...]
    codes: bool = False  # whether the cells that are there are counted, whatever is in them
    groups: int = 1  # that are released at most, where they are discovered

    @property
    def width(self) -> int:
        return self.measure.width

    @property
    def places(self) -> int:
        """Numbers of a tick, where they are known beforehand; else of those released."""
        return self.groups if self.measure.key is not None else self.width * self.statistic.channels


@dataclass(frozen=True)
class Asked:
    """Settings that all parts of a release share."""

    loss: Loss
    horizon: int | None
    window: str
    mechanism: AskedMechanism
    unit: Unit
    width: int  # groups of its level
    expected: Fraction | None = None  # events of one of them in a tick
    private: bool = False  # whether nothing exact may rest in memory

    def given(self) -> dict[str, Any]:
        private = {"pan_private": True, "open_ticks": True} if self.private else {}
        return private | {name: getattr(self, name) for name in ("horizon", "window", "mechanism", "unit")}


def parts_of(release: Release, query: Query, stream: Stream) -> tuple[Part, ...]:
    """The parts of a release, level by level."""
    check_delta(release, query)
    check_release(release, stream)
    sorts = list(sorted_out(query.aggregates))
    check_fit(release, query, stream, [sort.kinds for sort in sorts])
    if query.key is not None:
        return (discovered(release, query, query.key, stream),)
    check_no_users(query.aggregates)
    levels = levels_run(release.mechanism, query)
    share = Fraction(1, len(sorts) * len(levels))
    chosen = asked_for(release, query)
    found = []
    for level in levels:
        width = check_width(release, query, level)
        loss = release.loss.part(share)
        few = None if stream.pan_private else expected_at(release, query, level)
        asked = Asked(
            loss, release.horizon, release.window, chosen, stream.unit, width, few, stream.pan_private
        )
        found += [_part(sort, query, level, asked, stream) for sort in sorts]
    return tuple(found)


def check_delta(release: Release, query: Query) -> None:
    """A delta is for groups that are discovered, and they need one."""
    if query.key is None and release.delta is not None:
        raise Refused(f"delta must be left out unless groups are discovered, got {float(release.delta):g}")
    if query.key is not None and release.delta is None:
        raise Refused(f"delta must be given, the groups of {query.key.name} are discovered, got none")


def discovered(release: Release, query: Query, key: KeyColumn, stream: Stream) -> Part:
    """The one part of groups that are discovered; thresholds take the release's delta."""
    if stream.pan_private:
        rule = f"groups must be declared {WITH}, since a memory of keys is exact"
        raise Refused(f"{rule}, got some of {key.name} that are discovered: declare values")
    if isinstance(stream.unit, User):
        rule = "unit must be an event, or w_event, where groups are discovered"
        raise Refused(f"{rule}, got a user, of whom the number of groups is not bounded: declare values")
    most = min(key.most, release.max_groups)
    statistic = TopK(
        release.loss,
        k=most,
        delta=release.delta,
        horizon=release.horizon,
        window=release.window,
        mechanism=asked_for(release, query),
        unit=stream.unit,
    )
    measure = Measure(query.where, (), lookups=query.lookups, columns=query.columns, key=key.sql)
    return Part(1, statistic, measure, (Output(0, "value"),), groups=most)


def check_width(release: Release, query: Query, level: int) -> int:
    """The number of groups of a level; refuses more than are allowed."""
    width = width_of(query, level)
    if width > release.max_groups:
        names = " x ".join(f"{len(group.labels)} {group.name}" for group in query.groups[:level])
        rule = f"groups must be at most max_groups = {release.max_groups}"
        raise Refused(f"{rule}, got {names} = {width}: group by less, or declare a larger max_groups")
    return width


def asked_for(release: Release, query: Query) -> Tuned | None:
    """The mechanism that a release names, with its settings; none if it is to be chosen."""
    if release.mechanism == AUTO:
        return None
    name = named_for(release.mechanism, query)
    levels = {"hierarchy": hierarchy_of(query)} if name == TOGETHER else {}
    return Tuned.of(mechanism_named(name), **release.settings, **levels)


@dataclass(frozen=True)
class Sort:
    """Aggregates that one run answers."""

    kind: str  # "moments", "quantile", "extremes" or "distinct"
    members: tuple[tuple[int, Aggregate], ...]

    @property
    def value(self) -> Value | None:
        """The expression that they share, which counts of others may be read off; none for events alone."""
        values = [aggregate.value for _, aggregate in self.members if aggregate.kind != "count"]
        values += [aggregate.value for _, aggregate in self.members]
        return next((value for value in values if value is not None), None)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(aggregate.kind for _, aggregate in self.members)


def sorted_out(aggregates: tuple[Aggregate, ...]) -> Iterator[Sort]:
    """Which aggregates are answered together, in the order of the SELECT."""
    host = _host_of_counts(aggregates)
    found: dict[tuple[str, str], list[tuple[int, Aggregate]]] = {}
    for place, aggregate in enumerate(aggregates):
        found.setdefault(_sort_key(aggregate, host), []).append((place, aggregate))
    for (kind, _), members in found.items():
        yield Sort(kind, tuple(members))


def _sort_key(aggregate: Aggregate, host: str) -> tuple[str, str]:
    if aggregate.codes is not None and aggregate.kind in ("distinct", "density"):
        return "distinct", aggregate.codes.sql
    if aggregate.codes is not None:
        return aggregate.kind, f"{aggregate.codes.sql} {aggregate.times}"
    if aggregate.kind == "quantile":
        return "quantile", _expression(aggregate)
    if aggregate.kind in ("min", "max"):
        return "extremes", _expression(aggregate)
    if aggregate.kind == "count" and (aggregate.value is None or not aggregate.value.nullable):
        return "moments", host
    return "moments", _expression(aggregate)


def _expression(aggregate: Aggregate) -> str:
    return "" if aggregate.value is None else aggregate.value.sql


def _host_of_counts(aggregates: tuple[Aggregate, ...]) -> str:
    """The expression whose summary counts all events too, since it is never NULL."""
    for aggregate in aggregates:
        summed = aggregate.kind in MOMENTS and aggregate.kind != "count"
        if summed and aggregate.value is not None and not aggregate.value.nullable:
            return aggregate.value.sql
    return ""


def _part(sort: Sort, query: Query, level: int, asked: Asked, stream: Stream) -> Part:
    make = {"moments": _moments, "quantile": _quantile, "extremes": _extremes, "distinct": _distinct}
    statistic, needs, outputs = make[sort.kind](sort, asked, stream)
    measure = Measure(
        where=query.where,
        groups=query.groups[:level],
        lookups=query.lookups,
        columns=query.columns,
        **needs,
    )
    return Part(level, statistic, measure, tuple(outputs), sort.kind == "distinct")


Made = tuple[Statistic[Any], Mapping[str, Any], Iterator[Output]]


def _moments(sort: Sort, asked: Asked, stream: Stream) -> Made:
    value, kinds = sort.value, sort.kinds
    if kinds == {"count"}:
        there = () if value is None or not value.nullable else (Pinned(value.sql, 0, 0, Fraction(1), 0),)
        return (
            counted(Count(asked.loss, **asked.given()), asked.expected),
            {"values": there},
            (Output(i, "value") for i, _ in sort.members),
        )
    if value is None:
        raise Refused("an aggregate must have an expression, got none")
    squares = bool(kinds & set(SPREADS))
    bounds = bounds_of(value, MOST_PLACES if squares else None)
    if kinds == {"sum"}:
        alone = Sum(asked.loss, **bounds, **asked.given())
        return alone, pinned(value, alone.grid, 1), (Output(i, "value") for i, _ in sort.members)
    summary = Summary(asked.loss, **bounds, squares=squares, **asked.given())
    needs = pinned(value, summary.moments.grid, 2 if squares else 1)
    return summary, needs, (Output(i, aggregate.kind) for i, aggregate in sort.members)


def pinned(value: Value, grid: Grid, power: int) -> Mapping[str, Any]:
    return {"values": (Pinned(value.sql, grid.first, grid.last, grid.step, power),)}


def _quantile(sort: Sort, asked: Asked, stream: Stream) -> Made:
    parts = tuple(aggregate.q for _, aggregate in sort.members if aggregate.q is not None)
    axis = axis_of(sort)
    settings: dict[str, Any] = {"lower": axis.lower, "upper": axis.upper, "step": axis.step}
    quantiles = Quantile(asked.loss, q=parts, **settings, **asked.given())
    return quantiles, cell(sort, axis), (Output(p, str(k)) for k, (p, _) in enumerate(sort.members))


def _extremes(sort: Sort, asked: Asked, stream: Stream) -> Made:
    axis = axis_of(sort)
    settings: dict[str, Any] = {"lower": axis.lower, "upper": axis.upper, "step": axis.step}
    extremes = Extremes(asked.loss, **settings, **asked.given())
    return extremes, cell(sort, axis), (Output(place, each.kind) for place, each in sort.members)


def _distinct(sort: Sort, asked: Asked, stream: Stream) -> Made:
    codes = sort.members[0][1].codes
    if codes is None:
        raise Refused("COUNT(DISTINCT ...) must be of a column, got an expression")
    if stream.pan_private:
        rule = f"COUNT(DISTINCT column) must be of the users' column, with unit = {{ user = ... }}, {WITH}"
        raise Refused(f"{rule}, got {codes.column}: whoever came in an open tick would be remembered")
    if isinstance(stream.unit, User) and codes.column != stream.user:
        rule = f"COUNT(DISTINCT column) must be of the users' column {stream.user} where users are the unit"
        raise Refused(f"{rule}, got {codes.column}: one user may bring in any number of others")
    return (
        distinct_of(codes, asked),
        {"cell": Cell(codes.sql, codes.universe)},
        (Output(place, "value") for place, _ in sort.members),
    )


def distinct_of(codes: Codes, asked: Asked) -> Count | Distinct:
    """What counts codes: of each tick by themselves, or at their first appearance.

    Users may share a code: a hash, or "other". So codes are never bounded as if they were users; the engine
    has bounded the users. One of them is in so many groups at most, each of which gets one more code at the
    user's ticks or, running, has one code's first appearance moved from a later tick, as by one event.
    Estimates of hashed columns are of the values, corrected for those that share a code.
    """
    given, unit = asked.given(), asked.unit
    if asked.window == "each":
        if isinstance(unit, User):
            given["unit"] = User(min(asked.width, unit.max_events_per_tick), unit.max_ticks)
        return Count(asked.loss, cells=codes.universe if codes.hashed else None, **given)
    if isinstance(unit, User):
        given["unit"] = WEvent(min(asked.width, unit.max_events_per_tick * unit.max_ticks))
    return Distinct(asked.loss, universe=codes.universe, hashed=codes.hashed, **given)


def axis_of(sort: Sort) -> Axis:
    """The cells of an expression: its own grid, or a coarser one where that has too many."""
    if sort.value is None:
        raise Refused("an aggregate must have an expression, got none")
    bounds = bounds_of(sort.value)
    low, high, step = bounds["lower"], bounds["upper"], bounds["step"]
    if (high - low) / step <= MOST_CELLS:
        return Axis(low, high, step)
    coarse = fine_step(low, high, CELLS)
    return Axis(floor(low / coarse) * coarse, ceil(high / coarse) * coarse, coarse)


def cell(sort: Sort, axis: Axis) -> Mapping[str, Any]:
    sql = "" if sort.value is None else sort.value.sql
    return {"cell": Cell(sql, axis.cells, axis.lower, axis.step)}
