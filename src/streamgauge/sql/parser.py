"""Parser from the text of a SELECT to a checked query.

WHERE narrows bounds: under `WHERE temperature > 38` an AVG needs noise for 38 to 42 only. Events for which WHERE
is not true are dropped, and the engine clamps the others to the narrowed bounds. Guards against division by zero
and overflow do not rely on it: they apply to events that WHERE drops, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Lookup, Stream
from streamgauge.sql import grouping as domains
from streamgauge.sql import grouping as naming
from streamgauge.sql.dialect import Node, parse_select
from streamgauge.sql.expressions import Expression, Interval, expect, unite_needs
from streamgauge.sql.functions import load_functions
from streamgauge.sql.grouping import Grouping, SelectItem, parse_grouping, parse_items
from streamgauge.sql.query import Aggregate, GroupColumn, KeyColumn, Query
from streamgauge.sql.query_forms import build_report_query, check_single_count, find_key, has_report_column
from streamgauge.sql.reader import ExpressionReader, format_query
from streamgauge.sql.scope import Scope, build_scope

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
    groups, scope = ([], scope) if key else _build_groups(grouping, scope)
    counted = [item for item in items if item.function]
    aggregates = _build_aggregates(counted, scope)
    if key is not None:
        check_single_count(key, counted)
    grouped: list[GroupColumn | KeyColumn] = [*groups, *([key] if key else [])]
    items = (*grouping.keys, *counted)
    pairs = zip(items, [*grouped, *aggregates], strict=True)
    names = naming.make_unique((item.alias or column.name, item.alias is not None) for item, column in pairs)
    return Query(
        text=format_query(select),
        groups=tuple(replace(group, name=name) for group, name in zip(groups, names, strict=False)),
        levels=grouping.levels,
        aggregates=tuple(replace(a, name=name) for a, name in zip(aggregates, names[len(grouped) :], strict=True)),
        where=where,
        columns=scope.find_stream_columns([item.node for item in items] + [*filter(None, [select.args.get("where")])]),
        lookups=frozenset(lookup.name for lookup in scope.lookups.values()),
        key=key and replace(key, name=names[0]),
    )


def _read_where(select: exp.Select, scope: Scope) -> tuple[str | None, Scope]:
    """Return the condition of an event, and the scope of events that meet it."""
    where = select.args.get("where")
    if where is None:
        return None, scope
    reader = ExpressionReader(scope)
    condition = expect("boolean", reader(where.this), "WHERE")
    known = replace(scope, non_null=scope.non_null | condition.if_true, intervals=narrow_columns(where.this, reader))
    return condition.sql, known


def _build_groups(grouping: Grouping, scope: Scope) -> tuple[list[GroupColumn], Scope]:
    """Return group columns, and the scope of events that have a group on any level.

    Such an event has a group on the coarsest level.
    """
    expressions = [ExpressionReader(scope)(key.node) for key in grouping.keys]
    found = [
        domains.build_group_column(naming.build_group_name(key.node), expression, naming.format_expression(key.node))
        for key, expression in zip(grouping.keys, expressions, strict=True)
    ]
    kept = tuple(expressions[: min(grouping.levels)])
    return found, replace(scope, non_null=scope.non_null | unite_needs(kept))


def _build_aggregates(counted: Sequence[SelectItem], scope: Scope) -> list[Aggregate]:
    if not 0 < len(counted) <= MAX_AGGREGATES:
        raise InvalidReleaseError(
            f"sql must have 1 to {MAX_AGGREGATES} aggregates, such as COUNT(*), got {len(counted)}"
        )
    read = [(item.function, item.function.read(item.node, ExpressionReader(scope))) for item in counted]
    return [replace(aggregate, function=aggregate.function or function) for function, aggregate in read]


COMPARISON_BOUNDS: dict[type[Node], tuple[bool, bool]] = {  # true if a value bounds from below, and from above
    exp.GT: (True, False),
    exp.GTE: (True, False),
    exp.LT: (False, True),
    exp.LTE: (False, True),
}


def narrow_columns(where: Node, read: ExpressionReader) -> Mapping[str, Interval]:
    """Return intervals of the columns that a true condition bounds by numbers."""
    found: dict[str, Interval] = {}
    for name, declared, told in _find_bounds(where, read):
        left = found.get(name, declared) & told
        if left is None:
            raise InvalidReleaseError(f"WHERE must be possible: column {name} is never within what is asked of it")
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
