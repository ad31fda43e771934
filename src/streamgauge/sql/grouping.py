"""GROUP BY by expression, alias or position, ROLLUP, and the names of columns.

`GROUP BY a, ROLLUP (b, c)` has the levels (3, 2, 1): each event has one group on each of them.

A group has the finite domain of an expression. Its code is the number of an event's label. Output columns have the
given names, or names made from the expression, all different.

Promise
    Every event has one label or none, for any labels of other events: a code is a function of the event.
    It is always below the number of labels: texts are looked up in an ENUM, numbers put on their grid and
    cut off at its ends.

If an ENUM lacks a text, it searches for similar labels for an error message
(measured: 8 ms for one record and 10^5 labels, a timing that reveals one record). That cannot happen here:
the row source has made undeclared values NULL, and all other texts are labels by construction.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Label
from streamgauge.sql import expressions
from streamgauge.sql.dialect import Node
from streamgauge.sql.expressions import (
    Expression,
    Type,
    find_usable_step,
    format_double,
    quote_text,
    to_decimal_fraction,
)
from streamgauge.sql.functions import Functions, find_function
from streamgauge.sql.query import Codes, GroupColumn
from streamgauge.sql.reader import ExpressionReader

MAX_LABELS = 10**6
MAX_LISTED_NUMBERS = 64  # numbers that are looked up one by one


Domain = tuple[tuple[Label, ...], str]


def build_group_column(name: str, expression: Expression, sql: str) -> GroupColumn:
    """Return the groups of an expression. `sql` is its text in the query."""
    labels, code = DOMAINS.get(expression.kind, _reject_domain)(expression, sql)
    if not 0 < len(labels) <= MAX_LABELS:
        raise InvalidReleaseError(f"GROUP BY {sql} must have 1 to {MAX_LABELS} groups, got {len(labels)}")
    text = expression.sql if expression.kind == "text" else None
    return GroupColumn(name, labels, f"CAST({code} AS INTEGER)", text, expression.nullable)


def build_codes(column: str, expression: Expression, universe: int | None) -> Codes:
    """Return the codes of COUNT(DISTINCT column): bounded hashes, or labels."""
    if universe is not None:
        return Codes(expression.sql, universe, column, is_hashed=True)
    if expression.kind == "text" and expression.labels is None:
        raise InvalidReleaseError(
            f"COUNT(DISTINCT {column}) needs a universe: declare values or hash_cells for column {column}"
        )
    labels, code = DOMAINS.get(expression.kind, _reject_domain)(expression, column)
    return Codes(f"CAST({code} AS BIGINT)", len(labels), column)


def _build_text_domain(expression: Expression, sql: str) -> Domain:
    if expression.labels is None:
        raise InvalidReleaseError(f"GROUP BY {sql} needs its groups: declare its values, values = [...], or max_groups")
    return expression.labels, _build_enum_code(expression.sql, expression.labels)


def _build_enum_code(sql: str, labels: tuple[Label, ...]) -> str:
    return f"enum_code(TRY_CAST({sql} AS ENUM ({', '.join(quote_text(str(label)) for label in labels)})))"


def _build_number_domain(expression: Expression, sql: str) -> Domain:
    """Return declared or written numbers, or those of a bounded grid."""
    if expression.labels is None:
        return _build_grid_domain(expression, sql)
    labels = expression.labels
    if len(labels) > MAX_LISTED_NUMBERS and all(
        float(label).is_integer() and abs(float(label)) <= expressions.MAX_EXACT_INT for label in labels
    ):
        whole = tuple(int(label) for label in labels)
        return whole, _build_enum_code(f"CAST(TRY_CAST({expression.sql} AS BIGINT) AS VARCHAR)", whole)
    listed = ", ".join(format_double(float(label)) for label in labels)
    return labels, f"(list_position([{listed}], {expression.sql}) - 1)"


def _build_grid_domain(expression: Expression, sql: str) -> Domain:
    if not expression.span.is_bounded:
        raise InvalidReleaseError(f"GROUP BY {sql} needs bounds: declare bounds = [lowest, highest], or values")
    lower, upper = to_decimal_fraction(expression.span.lower), to_decimal_fraction(expression.span.upper)
    step = find_usable_step(expression.grid, lower, upper)
    if step is None:
        raise InvalidReleaseError(f"GROUP BY {sql} needs a grid: declare one, or group by FLOOR({sql})")
    first, last = (round_to_int(end / step) for end in (lower, upper))
    if last - first >= MAX_LABELS:
        raise InvalidReleaseError(f"GROUP BY {sql} must have 1 to {MAX_LABELS} groups, got {last - first + 1}")
    values = (i * step for i in range(first, last + 1))
    labels = tuple(int(value) if value.denominator == 1 else float(value) for value in values)
    sure = expression.grid is not None and expression.grid.is_exact and step == 1
    place = expression.sql if sure else f"floor({expression.sql} / {format_double(float(step))} + 0.5e0)"
    code = f"least(greatest({place} - {format_double(float(first))}, 0e0), {format_double(float(last - first))})"
    return labels, f"CASE WHEN {expression.sql} IS NOT NULL THEN {code} END"


def round_to_int(value: Fraction) -> int:
    return (value + Fraction(1, 2)).__floor__()


def _build_time_domain(expression: Expression, sql: str) -> Domain:
    """Return the units of the stream that date_trunc begins."""
    calendar = expression.calendar
    if calendar is None:
        return _reject_domain(expression, sql)
    if calendar.end is None:
        ways = "give stream.end, group by a date part such as EXTRACT(hour FROM ...), or ask for a tumbling window"
        raise InvalidReleaseError(f"GROUP BY {sql} needs a last {calendar.unit}, and the stream has no end: {ways}")
    return calendar.labels, calendar.build_code(expression.sql)


def _reject_domain(expression: Expression, sql: str) -> Domain:
    what = {
        "time": "group by date_trunc('day', ...) of the stream's time, or a date part such as EXTRACT(hour FROM ...)",
        "code": "hashed columns have no labels",
    }
    raise InvalidReleaseError(
        f"GROUP BY {sql} has no finite set of groups: {what.get(expression.kind, 'NULL is none')}"
    )


DOMAINS: dict[Type, Callable[[Expression, str], Domain]] = {
    "boolean": lambda expression, sql: ((False, True), expression.sql),
    "text": _build_text_domain,
    "number": _build_number_domain,
    "time": _build_time_domain,
}


NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
MAX_NAME_CHARS = 48


def parse_alias(item: Node) -> str | None:
    """Return the alias of an item, if it has one."""
    name = item.alias
    if name and not NAME_PATTERN.fullmatch(name):
        raise InvalidReleaseError(f"a name must be letters, digits and _, at most 63 of them, got {name!r}")
    return name or None


def build_name(*parts: str) -> str:
    """Return a name from words.

    >>> build_name("avg", "temperature * 1.8")
    'avg_temperature_1_8'
    """
    words = re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower()).strip("_")[:MAX_NAME_CHARS].rstrip("_")
    return words if NAME_PATTERN.fullmatch(words) else f"_{words}"


def build_group_name(node: Node) -> str:
    """Return the name of a column or a date part, or the words of an expression."""
    if isinstance(node, exp.Column):
        return node.name if NAME_PATTERN.fullmatch(node.name) else build_name(node.name)
    return build_name(format_expression(node))


def format_expression(node: Node) -> str:
    """Return an expression of the query in one spelling."""
    return node.sql(dialect="duckdb", comments=False)


def make_unique(names: Iterable[tuple[str, bool]]) -> list[str]:
    """Return distinct names: a made name gets a number, a given one must be unique."""
    pairs = list(names)
    given_names = {name.lower() for name, is_given in pairs if is_given}
    if len(given_names) != sum(is_given for _, is_given in pairs):
        raise InvalidReleaseError("output names must differ: give each column an AS name of its own")
    return [name if is_given else _find_free_name(name, given_names) for name, is_given in pairs]


def _find_free_name(name: str, used_names: set[str]) -> str:
    free, number = name, 1
    while free.lower() in used_names:
        number += 1
        free = f"{name}_{number}"
    used_names.add(free.lower())
    return free


MAX_GROUP_COLUMNS = 16


@dataclass(frozen=True)
class SelectItem:
    """Column of SELECT, with its alias and the aggregate function that it calls."""

    node: Node
    alias: str | None = None
    function: Any = None


@dataclass(frozen=True)
class Grouping:
    """Columns of GROUP BY, and the number of them on each level."""

    keys: tuple[SelectItem, ...]
    levels: tuple[int, ...]


def parse_items(select: exp.Select, functions: Functions) -> tuple[SelectItem, ...]:
    nodes = [item.unalias().unnest() for item in select.expressions]  # without parentheses around the whole
    return tuple(
        SelectItem(node, parse_alias(item), find_function(node, functions))
        for node, item in zip(nodes, select.expressions, strict=True)
    )


def parse_grouping(select: exp.Select, items: Sequence[SelectItem], read: ExpressionReader) -> Grouping:
    """Return the columns of GROUP BY.

    They must include every item of SELECT that is not an aggregate.
    """
    fixed, rolled, rollup = _split_rollup(select)
    keys = tuple(_resolve_key(node.unnest(), items, read) for node in (*fixed, *rolled))
    meant = [read(key.node).sql for key in keys]
    for item in items:
        if not item.function and read(item.node).sql not in meant:
            raise InvalidReleaseError(f"{format_expression(item.node)} in SELECT must be an aggregate or in GROUP BY")
    if len(set(meant)) < len(meant) or len(meant) > MAX_GROUP_COLUMNS:
        raise InvalidReleaseError(f"GROUP BY must be of different columns, at most {MAX_GROUP_COLUMNS}")
    levels = range(len(keys), len(fixed) - 1, -1) if rollup else [len(keys)]
    return Grouping(keys, tuple(levels))


def _split_rollup(select: exp.Select) -> tuple[list[Node], list[Node], bool]:
    """Return the plain columns, the rolled-up ones, and whether there is a ROLLUP."""
    group = select.args.get("group")
    if group is None:
        return [], [], False
    nodes = list(group.expressions)
    if group.args.get("rollup"):
        return [], nodes, True
    if nodes and isinstance(nodes[-1], exp.Rollup):
        return nodes[:-1], list(nodes[-1].expressions), True
    return nodes, [], False


def _resolve_key(node: Node, items: Sequence[SelectItem], read: ExpressionReader) -> SelectItem:
    if isinstance(node, exp.Rollup):
        raise InvalidReleaseError("ROLLUP must come once and last in GROUP BY")
    chosen = next(_find_items(node, items, read), SelectItem(node, function=find_function(node, read.scope.functions)))
    if chosen.function:
        raise InvalidReleaseError("GROUP BY must not be of an aggregate")
    return chosen


def _find_items(node: Node, items: Sequence[SelectItem], read: ExpressionReader) -> Iterator[SelectItem]:
    """Return the item of SELECT that a key names by position, alias or meaning."""
    name = node.name if isinstance(node, exp.Column) and not node.table else None
    if isinstance(node, exp.Literal) and not node.is_string:
        yield _find_item(node.this, items)
    elif name is not None and not read.scope.has_column(name):
        yield from (item for item in items if item.alias == name)
    else:
        for item in items:
            if not item.function and read(item.node).sql == read(node).sql:
                yield item
            elif name is not None and item.alias == name:
                raise InvalidReleaseError(f"{name} is a column and an alias: give the alias another name")


def _find_item(position: str, items: Sequence[SelectItem]) -> SelectItem:
    if not (position.isdecimal() and 0 < int(position) <= len(items)):
        raise InvalidReleaseError(f"GROUP BY {position[:20]} must be a position in SELECT, 1 to {len(items)}")
    return items[int(position) - 1]
