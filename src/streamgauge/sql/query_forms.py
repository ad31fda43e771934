"""Queries of one fixed form: over a column of reports, and over discovered groups.

    SELECT emoji, COUNT(*) FROM s GROUP BY emoji                with reports of emoji
    SELECT word, COUNT(*) FROM s WHERE ... GROUP BY word        with word = { max_groups = 1000 }

A report contains next to no information by itself. It cannot be filtered, joined, rolled up or combined with other
columns, only estimated over all reports.

Privacy
    A query that discovers groups must hide which groups exist. So it can count the events of each and do nothing
    else: a group is published once its noisy count is above a threshold, for a delta.
"""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from streamgauge.config.columns import ReportColumn
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Column
from streamgauge.records.reports import text_size
from streamgauge.sql import grouping as naming
from streamgauge.sql.expressions import quote_identifier
from streamgauge.sql.grouping import Grouping, SelectItem, parse_grouping, parse_items
from streamgauge.sql.query import Aggregate, Codes, GroupColumn, KeyColumn, Query
from streamgauge.sql.reader import ExpressionReader, format_query
from streamgauge.sql.scope import Scope


def has_report_column(select: exp.Select, scope: Scope) -> bool:
    """Return whether a query names a column of reports anywhere."""
    return any(node.name in scope.stream.reports for node in select.find_all(exp.Column))


def build_report_query(select: exp.Select, scope: Scope) -> Query:
    """Return the only query form for such a column. Errors name the first of several."""
    items = parse_items(select, scope.functions)
    column = next(node.name for node in select.find_all(exp.Column) if node.name in scope.stream.reports)
    form = f"SELECT {column}, COUNT(*) FROM {scope.stream.name} GROUP BY {column}"
    refusal = InvalidReleaseError(f"column {column} is of reports and can be asked only as {form}")
    if select.args.get("where") is not None or scope.lookups:
        raise refusal
    if not all(isinstance(item.node, exp.Column) or is_row_count(item) for item in items):
        raise refusal
    grouping = parse_grouping(select, items, ExpressionReader(replace(scope, allow_reports=True)))
    counts = [item for item in items if item.function]
    if len(counts) != 1 or not _is_alone(grouping, column):
        raise refusal
    named = ((grouping.keys[0], column), (counts[0], "count"))
    name, count = naming.make_unique((item.alias or default, item.alias is not None) for item, default in named)
    return _build_query(format_query(select), column, scope.stream.reports[column], name, count)


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
        asked = naming.format_expression(key.node)
        raise InvalidReleaseError(
            f"GROUP BY {asked} must be the column {column.name} itself, whose groups are discovered"
        )
    if len(grouping.keys) > 1 or grouping.levels != (1,):
        what = "leave the others and ROLLUP out"
        raise InvalidReleaseError(f"GROUP BY {column.name} must stand alone, its groups are discovered: {what}")
    return KeyColumn(naming.build_group_name(key.node), scope.resolve_column(key.node).sql, int(column.max_groups or 1))


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
