"""Columns of reports in SQL: how many reports are of each value, and nothing else.

    SELECT emoji, COUNT(*) FROM s GROUP BY emoji

A report says next to nothing by itself: what it is of cannot be filtered, joined, rolled up or combined with
other columns, only estimated over all of them. So there is one form, with whichever names.
"""

from dataclasses import replace

from sqlglot import exp

from streamgauge.query.query import Aggregate, Codes, GroupColumn, Query, Refused
from streamgauge.query.report_columns import ReportColumn
from streamgauge.query.report_texts import text_size
from streamgauge.query.sql import naming
from streamgauge.query.sql.expressions import identifier
from streamgauge.query.sql.grouping import Grouping, Item, grouping_of, items_of
from streamgauge.query.sql.reading import Reader
from streamgauge.query.sql.scope import Scope
from streamgauge.query.sql.spelling import spelling


def reads_reports(select: exp.Select, scope: Scope) -> bool:
    """Whether a query speaks of a column of reports anywhere."""
    known = scope.stream.reports
    return any(node.name in known for node in select.find_all(exp.Column))


def counted_reports(select: exp.Select, scope: Scope) -> Query:
    """The one query that such a column can be in; the first of them says what is refused."""
    items = items_of(select)
    column = next(node.name for node in select.find_all(exp.Column) if node.name in scope.stream.reports)
    form = f"SELECT {column}, COUNT(*) FROM {scope.stream.name} GROUP BY {column}"
    refusal = Refused(f"column {column} is of reports and can be asked only as {form}")
    if select.args.get("where") is not None or scope.joined:
        raise refusal
    if not all(isinstance(item.node, exp.Column) or _is_count(item) for item in items):
        raise refusal
    grouping = grouping_of(select, items, Reader(replace(scope, collected=True)))
    counts = [item for item in items if item.aggregated]
    if len(counts) != 1 or not _is_alone(grouping, column):
        raise refusal
    name, count = naming.unique(
        (i.alias or d, i.alias is not None) for i, d in _named(grouping, counts, column)
    )
    return _query(spelling(select), column, scope.stream.reports[column], name, count)


def _is_count(item: Item) -> bool:
    return isinstance(item.node, exp.Count) and isinstance(item.node.this, exp.Star)


def _is_alone(grouping: Grouping, column: str) -> bool:
    nodes = [key.node for key in grouping.keys]
    return grouping.levels == (1,) and [isinstance(node, exp.Column) and node.name for node in nodes] == [
        column
    ]


def _named(grouping: Grouping, counts: list[Item], column: str) -> list[tuple[Item, str]]:
    return [(grouping.keys[0], column), (counts[0], "count")]


def _query(text: str, column: str, report: ReportColumn, name: str, count: str) -> Query:
    claim, universe = report.claim, 0 if report.is_vector else report.claim.codes
    return Query(
        text=text,
        groups=(GroupColumn(name, report.values, "NULL"),),
        levels=(1,),
        aggregates=(Aggregate(count, "count"),),
        where=None,
        columns=frozenset({column}),
        lookups=frozenset(),
        report=Codes(_report(column, report), universe, column, claim.report_size),
    )


def _report(column: str, report: ReportColumn) -> str:
    """SQL: a code, or the text of a vector, if it is as long as a text of one."""
    own = identifier(column)
    if report.is_vector:
        return f"CASE WHEN strlen({own}) = {text_size(report.claim.report_size)} THEN {own} END"
    return f"CASE WHEN {own} = floor({own}) THEN {own} END"
