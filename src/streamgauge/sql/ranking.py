"""ORDER BY and LIMIT: the largest groups of each tick, by one of their measures.

    SELECT dest, COUNT(*) FROM flights GROUP BY dest ORDER BY COUNT(*) DESC LIMIT 10

The measure is named by its expression, its position or its name. It is a count or a sum: the noise of these is the
same for all groups, so the largest are those that have most. Averages and quantiles of small groups are mostly noise,
and would come first.

Privacy
    Groups are ranked by released numbers, so ranking costs nothing. No query ranks by exact ones.
"""

from collections.abc import Sequence

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql.dialect import Node
from streamgauge.sql.grouping import Grouping, SelectItem, format_expression
from streamgauge.sql.query import Aggregate, TopGroups

RANKING_KINDS = ("count", "sum", "distinct")
EXAMPLE = "ORDER BY COUNT(*) DESC LIMIT 10"
MAX_PLACES = 10**6


def parse_top_groups(
    select: exp.Select, counted: Sequence[SelectItem], aggregates: Sequence[Aggregate], grouping: Grouping
) -> TopGroups | None:
    """Return the ranking of a query, or None if it ranks nothing.

    `counted` are the items of SELECT that are aggregates, and `aggregates` their columns under their names.
    """
    order, limit = select.args.get("order"), select.args.get("limit")
    if order is None and limit is None:
        return None
    if order is None:
        rule = f"LIMIT must have ORDER BY, as in {EXAMPLE}"
        raise InvalidReleaseError(f"{rule}; without LIMIT every group is released at every tick")
    if not grouping.keys:
        raise InvalidReleaseError("ORDER BY must have GROUP BY: without groups every tick is one row")
    if len(grouping.levels) > 1:
        raise InvalidReleaseError("ORDER BY must be without ROLLUP: make a release of its own for the largest groups")
    index = _find_measure(order, select, counted, aggregates)
    return TopGroups(index, None if limit is None else _parse_limit(limit.expression))


def _find_measure(
    order: exp.Order, select: exp.Select, counted: Sequence[SelectItem], aggregates: Sequence[Aggregate]
) -> int:
    """Return the index of the aggregate that ranks."""
    if len(order.expressions) > 1:
        extra = format_expression(order.expressions[1].this)
        rule = "ORDER BY must be of one count or sum: equal ones come in the order of the groups"
        raise InvalidReleaseError(f"{rule}, so leave {extra} out")
    (ordered,) = order.expressions
    node, shown = ordered.this.unnest(), format_expression(ordered.this)
    index = _find_aggregate(node, select, counted, aggregates)
    if index is None:
        what = "groups come in the order they were declared in" if isinstance(node, exp.Column) else "SELECT it too"
        raise InvalidReleaseError(f"ORDER BY must be of a count or sum in SELECT, as in {EXAMPLE}, got {shown}: {what}")
    if aggregates[index].kind not in RANKING_KINDS:
        rule = f"ORDER BY must be of a count or sum, got {shown}, which is mostly noise where events are few"
        raise InvalidReleaseError(f"{rule}: take {EXAMPLE}, with {shown} beside it in SELECT")
    if not ordered.args.get("desc"):
        why = "noise hides the smallest groups, so only the largest can be listed"
        raise InvalidReleaseError(f"ORDER BY must be descending, as in ORDER BY {shown} DESC: {why}")
    return index


def _find_aggregate(
    node: Node, select: exp.Select, counted: Sequence[SelectItem], aggregates: Sequence[Aggregate]
) -> int | None:
    """Return the index of the aggregate that a node means: a position, an expression or a name."""
    if isinstance(node, exp.Literal) and not node.is_string:
        places = [item.unalias().unnest() for item in select.expressions]
        position = int(node.this) if node.this.isdecimal() and len(node.this) < 5 else 0
        if not 0 < position <= len(places):
            raise InvalidReleaseError(f"ORDER BY {node.this[:20]} must be a position in SELECT, 1 to {len(places)}")
        return next((i for i, item in enumerate(counted) if item.node is places[position - 1]), None)
    if isinstance(node, exp.Column) and not node.table:
        name = node.name.lower()
        return next((i for i, aggregate in enumerate(aggregates) if aggregate.name.lower() == name), None)
    shown = format_expression(node)
    return next((i for i, item in enumerate(counted) if format_expression(item.node) == shown), None)


def _parse_limit(node: Node) -> int:
    """Return the number of places."""
    text = node.this if isinstance(node, exp.Literal) and not node.is_string else ""
    if not (text.isdecimal() and text.isascii() and len(text) <= len(str(MAX_PLACES)) and 0 < int(text) <= MAX_PLACES):
        shown = format_expression(node)[:20]
        raise InvalidReleaseError(f"LIMIT must be a whole number of groups from 1 to {MAX_PLACES:,}, got {shown}")
    return int(text)
