"""Parser from the text of a SELECT to a checked query.

WHERE narrows bounds: under `WHERE temperature > 38` an AVG needs noise for 38 to 42 only. Events for which WHERE
is not true are dropped, and the engine clamps the others to the narrowed bounds. Guards against division by zero
and overflow do not rely on it: they apply to events that WHERE drops, too.

Two queries have a fixed form: over a column of reports, and over discovered groups.

    SELECT emoji, COUNT(*) FROM s GROUP BY emoji                with reports of emoji
    SELECT word, COUNT(*) FROM s WHERE ... GROUP BY word        with word = { max_groups = 1000 }

A report contains next to no information by itself. It cannot be filtered, joined, rolled up or combined with other
columns, only estimated over all reports.

Privacy
    A query that discovers groups must hide which groups exist. So it can count the events of each and do nothing
    else: a group is published once its noisy count is above a threshold, for a delta.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from streamgauge.config.columns import ReportColumn
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Column, Lookup, Stream
from streamgauge.records.reports import text_size
from streamgauge.sql.arguments import filter_aggregate
from streamgauge.sql.dialect import Node, parse_select
from streamgauge.sql.expressions import Expression, Interval, expect, quote_identifier, unite_needs
from streamgauge.sql.functions import load_functions
from streamgauge.sql.grouping import (
    Grouping,
    SelectItem,
    build_group_column,
    build_group_name,
    format_expression,
    make_unique,
    parse_grouping,
    parse_items,
)
from streamgauge.sql.query import Aggregate, Codes, GroupColumn, KeyColumn, Query
from streamgauge.sql.ranking import parse_top_groups
from streamgauge.sql.reader import ExpressionReader, format_query
from streamgauge.sql.scope import Scope, build_scope


def has_report_column(select: exp.Select, scope: Scope) -> bool:
    """Return whether a query names a column of reports anywhere."""
    return any(node.name in scope.stream.reports for node in select.find_all(exp.Column))


def build_report_query(select: exp.Select, scope: Scope) -> Query:
    """Return the only query form for such a column. Errors name the first of several."""
    items = parse_items(select, scope.functions)
    column = next(node.name for node in select.find_all(exp.Column) if node.name in scope.stream.reports)
    form = f"SELECT {column}, COUNT(*) FROM {scope.stream.name} GROUP BY {column}"
    refusal = InvalidReleaseError(f"column {column} is of reports and can be queried only as {form}")
    if select.args.get("where") is not None or scope.lookups:
        raise refusal
    if not all(isinstance(item.node, exp.Column) or is_row_count(item) for item in items):
        raise refusal
    grouping = parse_grouping(select, items, ExpressionReader(replace(scope, allow_reports=True)))
    counts = [item for item in items if item.function]
    if len(counts) != 1 or not _is_alone(grouping, column):
        raise refusal
    named = ((grouping.keys[0], column), (counts[0], "count"))
    name, count = make_unique((item.alias or default, item.alias is not None) for item, default in named)
    query = _build_query(format_query(select), column, scope.stream.reports[column], name, count)
    return replace(query, top=parse_top_groups(select, counts, query.aggregates, grouping))


def is_row_count(item: SelectItem) -> bool:
    """Return whether an item is COUNT(*)."""
    return isinstance(item.node, exp.Count) and isinstance(item.node.this, exp.Star)


def _is_alone(grouping: Grouping, column: str) -> bool:
    nodes = [key.node for key in grouping.keys]
    return grouping.levels == (1,) and [isinstance(node, exp.Column) and node.name for node in nodes] == [column]


def _build_query(text: str, column: str, report: ReportColumn, name: str, count: str) -> Query:
    claim = report.mechanism
    codes = Codes(_build_report_sql(column, report), 0 if report.is_vector else claim.codes, column, claim.report_size)
    return Query(
        text=text,
        groups=(GroupColumn(name, report.values, "NULL"),),
        levels=(1,),
        aggregates=(Aggregate(count, "count"),),
        where=None,
        columns=frozenset({column}),
        lookups=frozenset(),
        report=codes,
    )


def _build_report_sql(column: str, report: ReportColumn) -> str:
    """Return SQL for a code, or for the text of a vector if it has the length of one."""
    own = quote_identifier(column)
    if report.is_vector:
        return f"CASE WHEN strlen({own}) = {text_size(report.mechanism.report_size)} THEN {own} END"
    return f"CASE WHEN {own} = floor({own}) THEN {own} END"


def find_key(grouping: Grouping, scope: Scope) -> KeyColumn | None:
    """Return the column with discovered groups, if any. It must stand alone."""
    found = [(key, column) for key in grouping.keys for column in _find_discovered_columns(key, scope)]
    if not found:
        return None
    key, column = found[0]
    if not isinstance(key.node, exp.Column):
        shown = format_expression(key.node)
        raise InvalidReleaseError(
            f"GROUP BY {shown} must be the column {column.name} itself, whose groups are discovered"
        )
    if len(grouping.keys) > 1 or grouping.levels != (1,):
        what = "leave the others and ROLLUP out"
        raise InvalidReleaseError(f"GROUP BY {column.name} must stand alone, its groups are discovered: {what}")
    return KeyColumn(build_group_name(key.node), scope.resolve_column(key.node).sql, int(column.max_groups or 1))


def check_single_count(key: KeyColumn, items: Sequence[SelectItem]) -> None:
    """Reject everything but one COUNT(*)."""
    if [is_row_count(item) for item in items] != [True]:
        rule = f"GROUP BY {key.name} takes one COUNT(*) and nothing else, its groups are discovered"
        raise InvalidReleaseError(f"{rule}: declare its values to ask for more")


def _find_discovered_columns(key: SelectItem, scope: Scope) -> list[Column]:
    """Return the columns in a key whose groups are discovered."""
    nodes = key.node.find_all(exp.Column)
    columns = [scope.stream.columns.get(node.name) for node in nodes if scope.is_stream_column(node)]
    return [column for column in columns if column is not None and column.max_groups is not None]


MAX_AGGREGATES = 64


def parse(sql: str, stream: Stream, lookups: Mapping[str, Lookup]) -> Query:
    """Return the meaning of a SELECT.

    Raises:
        InvalidReleaseError: One line that depends on the text and on declarations alone.
        RegistryError: A package that the file allows cannot provide its aggregate functions.
    """
    load_functions(stream.plugins)
    try:
        return parse_unguarded(sql, stream, lookups)
    except InvalidReleaseError:
        raise
    except RecursionError:
        raise InvalidReleaseError("sql must be less deeply nested") from None
    except Exception:
        raise InvalidReleaseError("sql cannot be read: it is not in the dialect (see docs/sql.md)") from None


def parse_unguarded(sql: str, stream: Stream, lookups: Mapping[str, Lookup]) -> Query:
    """Return the meaning of a SELECT, or raise anything."""
    functions = load_functions(stream.plugins)
    select = parse_select(sql, functions)
    scope = build_scope(select, stream, lookups)
    if has_report_column(select, scope):
        return build_report_query(select, scope)
    where, scope = _read_where(select, scope)
    items = parse_items(select, scope.functions)
    grouping = parse_grouping(select, items, ExpressionReader(scope))
    key = find_key(grouping, scope)
    groups, scope = ([], scope) if key else _build_groups(grouping, scope, lookups)
    counted = [item for item in items if item.function]
    aggregates = _build_aggregates(counted, scope)
    if key is not None:
        check_single_count(key, counted)
    grouped: list[GroupColumn | KeyColumn] = [*groups, *([key] if key else [])]
    items = (*grouping.keys, *counted)
    pairs = zip(items, [*grouped, *aggregates], strict=True)
    names = make_unique((item.alias or column.name, item.alias is not None) for item, column in pairs)
    named = tuple(replace(a, name=name) for a, name in zip(aggregates, names[len(grouped) :], strict=True))
    return Query(
        text=format_query(select),
        groups=tuple(replace(group, name=name) for group, name in zip(groups, names, strict=False)),
        levels=grouping.levels,
        aggregates=named,
        where=where,
        columns=scope.find_stream_columns([item.node for item in items] + [*filter(None, [select.args.get("where")])]),
        lookups=frozenset(lookup.name for lookup in scope.lookups.values()),
        key=key and replace(key, name=names[0]),
        top=parse_top_groups(select, counted, named, grouping),
    )


def _read_where(select: exp.Select, scope: Scope) -> tuple[str | None, Scope]:
    """Return the condition of an event, and the scope of events that meet it."""
    where = select.args.get("where")
    if where is None:
        return None, scope
    condition, known = _read_condition("WHERE", where.this, scope)
    return condition.sql, known


def _read_condition(called: str, node: Node, scope: Scope) -> tuple[Expression, Scope]:
    """Return a condition, and the scope of events for which it is true."""
    reader = ExpressionReader(scope)
    condition = expect("boolean", reader(node), called)
    narrowed = narrow_columns(node, reader, called)
    known = replace(scope, non_null=scope.non_null | condition.if_true, intervals={**scope.intervals, **narrowed})
    return condition, known


def _build_groups(grouping: Grouping, scope: Scope, lookups: Mapping[str, Lookup]) -> tuple[list[GroupColumn], Scope]:
    """Return group columns, and the scope of events that have a group on any level.

    Such an event has a group on the coarsest level.
    """
    expressions = [ExpressionReader(scope)(key.node) for key in grouping.keys]
    for key, expression in zip(grouping.keys, expressions, strict=True):
        listing = [
            lookup for lookup in lookups.values() if isinstance(key.node, exp.Column) and lookup.on == key.node.name
        ]
        if listing and expression.kind == "text" and expression.labels is None:
            name, on = listing[0].name, listing[0].on
            raise InvalidReleaseError(f"GROUP BY {on} needs its groups: JOIN {name} USING ({on}), which lists them")
    found = [
        build_group_column(build_group_name(key.node), expression, format_expression(key.node))
        for key, expression in zip(grouping.keys, expressions, strict=True)
    ]
    common = tuple(expressions[: min(grouping.levels)])
    return found, replace(scope, non_null=scope.non_null | unite_needs(common))


def _build_aggregates(counted: Sequence[SelectItem], scope: Scope) -> list[Aggregate]:
    if not 0 < len(counted) <= MAX_AGGREGATES:
        raise InvalidReleaseError(
            f"sql must have 1 to {MAX_AGGREGATES} aggregates, such as COUNT(*), got {len(counted)}"
        )
    read = [(item.function, _read_aggregate(item, scope)) for item in counted]
    return [replace(aggregate, function=aggregate.function or function) for function, aggregate in read]


def _read_aggregate(item: SelectItem, scope: Scope) -> Aggregate:
    """Return an aggregate, over the events for which its FILTER is true.

    Its number, or its code, is NULL for the others. So the filter is a part of the value: bounds narrow as under WHERE,
    and aggregates share a run, or a count, only if their filters are equal.
    """
    if not isinstance(item.node, exp.Filter):
        plain: Aggregate = item.function.read(item.node, ExpressionReader(scope))
        return plain
    condition, inner = _read_condition("FILTER", item.node.expression.this, scope)
    aggregate = item.function.read(item.node.this, ExpressionReader(inner))
    return filter_aggregate(aggregate, condition, format_expression(item.node.expression.this))


COMPARISON_BOUNDS: dict[type[Node], tuple[bool, bool]] = {  # true if a value bounds from below, and from above
    exp.GT: (True, False),
    exp.GTE: (True, False),
    exp.LT: (False, True),
    exp.LTE: (False, True),
}


def narrow_columns(where: Node, read: ExpressionReader, called: str = "WHERE") -> Mapping[str, Interval]:
    """Return intervals of the columns that a true condition bounds by numbers."""
    found: dict[str, Interval] = {}
    for name, declared, bounds in _find_bounds(where, read):
        left = found.get(name, declared) & bounds
        if left is None:
            raise InvalidReleaseError(f"{called} must be possible: column {name} never meets its conditions")
        if left.lower < left.upper:
            found[name] = left
    return found


def _find_bounds(node: Node, read: ExpressionReader) -> Iterator[tuple[str, Interval, Interval]]:
    """Yield (column, its interval, the narrowed interval) for required conditions."""
    if isinstance(node, exp.And | exp.Paren):
        for part in (node.this, node.args.get("expression")):
            if part is not None:
                yield from _find_bounds(part, read)
    elif isinstance(node, exp.Between):
        yield from _build_bound(node.this, read, read(node.args["low"]), read(node.args["high"]))
    elif type(node) in COMPARISON_BOUNDS:
        below, above = COMPARISON_BOUNDS[type(node)]
        value, turned = read(node.expression), read(node.this)
        yield from _build_bound(node.this, read, value if below else None, value if above else None)
        yield from _build_bound(node.expression, read, turned if above else None, turned if below else None)


def _build_bound(
    node: Node, read: ExpressionReader, low: Expression | None, high: Expression | None
) -> Iterator[tuple[str, Interval, Interval]]:
    if not isinstance(node, exp.Column) or read(node).kind != "number":
        return
    (name,) = read(node).needs & frozenset({node.name}) or (None,)
    if name is not None:
        yield (
            name,
            read(node).span,
            Interval(low.span.lower if low else -float("inf"), high.span.upper if high else float("inf")),
        )
