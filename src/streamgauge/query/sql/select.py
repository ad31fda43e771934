"""From the text of a SELECT to a checked query."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from streamgauge.query.query import Aggregate, GroupColumn, KeyColumn, Query, Refused
from streamgauge.query.settings import Lookup, Stream
from streamgauge.query.sql import domains, naming
from streamgauge.query.sql.aggregates import aggregate
from streamgauge.query.sql.dialect import read
from streamgauge.query.sql.discovered import check_counted, key_of
from streamgauge.query.sql.expressions import Names, all_needs, expect
from streamgauge.query.sql.grouping import Grouping, Item, grouping_of, items_of
from streamgauge.query.sql.narrowing import narrowed
from streamgauge.query.sql.reading import Reader
from streamgauge.query.sql.reports import counted_reports, reads_reports
from streamgauge.query.sql.scope import Scope, scope_of
from streamgauge.query.sql.spelling import spelling

MOST_AGGREGATES = 64


def parse(sql: str, stream: Stream, lookups: Mapping[str, Lookup]) -> Query:
    """The meaning of a SELECT, or `Refused` in a line that depends on its text and on declarations alone."""
    try:
        return meaning(sql, stream, lookups)
    except Refused:
        raise
    except RecursionError:
        raise Refused("sql must be less deeply nested") from None
    except Exception:
        raise Refused("sql cannot be read: it is not in the dialect (see docs/sql.md)") from None


def meaning(sql: str, stream: Stream, lookups: Mapping[str, Lookup]) -> Query:
    """The meaning of a SELECT, without a net."""
    return _query(read(sql), stream, lookups)


def _query(select: exp.Select, stream: Stream, lookups: Mapping[str, Lookup]) -> Query:
    scope = scope_of(select, stream, lookups)
    if reads_reports(select, scope):
        return counted_reports(select, scope)
    where, scope = _where(select, scope)
    items = items_of(select)
    grouping = grouping_of(select, items, Reader(scope))
    key = key_of(grouping, scope)
    groups, scope = ([], scope) if key else _groups(grouping, scope)
    counted = [item for item in items if item.aggregated]
    aggregates = _aggregates(counted, scope)
    if key is not None:
        check_counted(key, aggregates)
    grouped: list[GroupColumn | KeyColumn] = [*groups, *([key] if key else [])]
    names = _names([*grouping.keys, *counted], [*grouped, *aggregates])
    return Query(
        text=spelling(select),
        groups=tuple(replace(group, name=name) for group, name in zip(groups, names, strict=False)),
        levels=grouping.levels,
        aggregates=tuple(
            replace(a, name=name) for a, name in zip(aggregates, names[len(grouped) :], strict=True)
        ),
        where=where,
        columns=_columns(select, [*grouping.keys, *counted], scope),
        lookups=frozenset(lookup.name for lookup in scope.joined.values()),
        key=key and replace(key, name=names[0]),
    )


def _where(select: exp.Select, scope: Scope) -> tuple[str | None, Scope]:
    """The condition of an event, and what is known of those that meet it."""
    where = select.args.get("where")
    if where is None:
        return None, scope
    reader = Reader(scope)
    condition = expect("boolean", reader(where.this), "WHERE")
    known = replace(scope, present=scope.present | condition.if_true, narrowed=narrowed(where.this, reader))
    return condition.sql, known


def _groups(grouping: Grouping, scope: Scope) -> tuple[list[GroupColumn], Scope]:
    """Group columns, and what is known of events that have a group on the coarsest level, so on any."""
    expressions = [Reader(scope)(key.node) for key in grouping.keys]
    found = [
        domains.group(naming.of_group(key.node), expression, naming.words(key.node))
        for key, expression in zip(grouping.keys, expressions, strict=True)
    ]
    kept = tuple(expressions[: min(grouping.levels)])
    return found, replace(scope, present=scope.present | all_needs(kept))


def _aggregates(counted: Sequence[Item], scope: Scope) -> list[Aggregate]:
    if not 0 < len(counted) <= MOST_AGGREGATES:
        raise Refused(
            f"sql must have 1 to {MOST_AGGREGATES} aggregates, such as COUNT(*), got {len(counted)}"
        )
    return [aggregate(item.node, Reader(scope)) for item in counted]


def _names(items: Sequence[Item], made: Sequence[GroupColumn | KeyColumn | Aggregate]) -> list[str]:
    pairs = zip(items, made, strict=True)
    return naming.unique((item.alias or column.name, item.alias is not None) for item, column in pairs)


def _columns(select: exp.Select, items: Sequence[Item], scope: Scope) -> Names:
    """The columns of the stream that the row source must read."""
    where = select.args.get("where")
    return scope.columns([item.node for item in items] + ([where] if where else []))
