"""Groups that are discovered: a column whose values nobody declared, counted by itself.

    SELECT word, COUNT(*) FROM s WHERE ... GROUP BY word        with word = { max_groups = 1000 }

Privacy
    Which groups there are is what has to be hidden, so that nothing else can be asked of them than how many
    events each has: a group is published once its noisy count is above a threshold, for a delta.
"""

from collections.abc import Sequence

from sqlglot import exp

from streamgauge.query.query import Aggregate, KeyColumn, Refused
from streamgauge.query.settings import Column
from streamgauge.query.sql import naming
from streamgauge.query.sql.grouping import Grouping, Item
from streamgauge.query.sql.scope import Scope


def key_of(grouping: Grouping, scope: Scope) -> KeyColumn | None:
    """The column whose groups are discovered, if there is one: it must stand alone."""
    found = [(key, column) for key in grouping.keys for column in _mentioned(key, scope)]
    if not found:
        return None
    key, column = found[0]
    if not isinstance(key.node, exp.Column):
        asked = naming.words(key.node)
        raise Refused(
            f"GROUP BY {asked} must be the column {column.name} itself, whose groups are discovered"
        )
    if len(grouping.keys) > 1 or grouping.levels != (1,):
        what = "leave the others and ROLLUP out"
        raise Refused(f"GROUP BY {column.name} must stand alone, its groups are discovered: {what}")
    return KeyColumn(naming.of_group(key.node), scope.column(key.node).sql, int(column.max_groups or 1))


def check_counted(key: KeyColumn, aggregates: Sequence[Aggregate]) -> None:
    """Refuses everything but one COUNT(*)."""
    if [(each.kind, each.value) for each in aggregates] != [("count", None)]:
        rule = f"GROUP BY {key.name} takes one COUNT(*) and nothing else, its groups are discovered"
        raise Refused(f"{rule}: declare its values to ask for more")


def _mentioned(key: Item, scope: Scope) -> list[Column]:
    """The columns in a key whose groups are discovered."""
    nodes = key.node.find_all(exp.Column)
    columns = [scope.stream.columns.get(node.name) for node in nodes if scope.is_own(node)]
    return [column for column in columns if column is not None and column.max_groups is not None]
