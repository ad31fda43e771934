"""GROUP BY: by expression, alias or position, and ROLLUP, which keeps fewer and fewer columns.

`GROUP BY a, ROLLUP (b, c)` has the levels (3, 2, 1): each event has one group on each of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from streamgauge.query.query import Refused
from streamgauge.query.sql.naming import given, words
from streamgauge.query.sql.nodes import Node, is_aggregate
from streamgauge.query.sql.reading import Reader

MOST_COLUMNS = 16


@dataclass(frozen=True)
class Item:
    """Something in SELECT, and the name that it was given."""

    node: Node
    alias: str | None = None

    @property
    def aggregated(self) -> bool:
        return is_aggregate(self.node)


@dataclass(frozen=True)
class Grouping:
    """The columns that are grouped by, and how many of them each level keeps."""

    keys: tuple[Item, ...]
    levels: tuple[int, ...]


def items_of(select: exp.Select) -> tuple[Item, ...]:
    return tuple(Item(bare(item.unalias()), given(item)) for item in select.expressions)


def bare(node: Node) -> Node:
    """Without parentheses around the whole."""
    return node.unnest()


def grouping_of(select: exp.Select, items: Sequence[Item], read: Reader) -> Grouping:
    """What is grouped by; everything in SELECT that is not an aggregate must be."""
    fixed, rolled, rollup = _written(select)
    keys = tuple(_key(bare(node), items, read) for node in (*fixed, *rolled))
    meant = [read(key.node).sql for key in keys]
    for item in items:
        if not item.aggregated and read(item.node).sql not in meant:
            raise Refused(f"{words(item.node)} in SELECT must be an aggregate or in GROUP BY")
    if len(set(meant)) < len(meant) or len(meant) > MOST_COLUMNS:
        raise Refused(f"GROUP BY must be of different columns, at most {MOST_COLUMNS}")
    levels = range(len(keys), len(fixed) - 1, -1) if rollup else [len(keys)]
    return Grouping(keys, tuple(levels))


def _written(select: exp.Select) -> tuple[list[Node], list[Node], bool]:
    """Columns that every level keeps, columns that are rolled up, and whether there is a ROLLUP."""
    group = select.args.get("group")
    if group is None:
        return [], [], False
    nodes = list(group.expressions)
    if group.args.get("rollup"):
        return [], nodes, True
    if nodes and isinstance(nodes[-1], exp.Rollup):
        return nodes[:-1], list(nodes[-1].expressions), True
    return nodes, [], False


def _key(node: Node, items: Sequence[Item], read: Reader) -> Item:
    if isinstance(node, exp.Rollup):
        raise Refused("ROLLUP must come once and last in GROUP BY")
    chosen = next(_in_select(node, items, read), Item(node))
    if chosen.aggregated:
        raise Refused("GROUP BY must not be of an aggregate")
    return chosen


def _in_select(node: Node, items: Sequence[Item], read: Reader) -> Iterator[Item]:
    """The item of SELECT that a key means by its position, its alias or its meaning."""
    name = node.name if isinstance(node, exp.Column) and not node.table else None
    if isinstance(node, exp.Literal) and not node.is_string:
        yield _at(node.this, items)
    elif name is not None and not read.scope.has(name):
        yield from (item for item in items if item.alias == name)
    else:
        for item in items:
            if not item.aggregated and read(item.node).sql == read(node).sql:
                yield item
            elif name is not None and item.alias == name:
                raise Refused(f"{name} is a column and an alias: give the alias another name")


def _at(position: str, items: Sequence[Item]) -> Item:
    if not (position.isdecimal() and 0 < int(position) <= len(items)):
        raise Refused(f"GROUP BY {position[:20]} must be a position in SELECT, 1 to {len(items)}")
    return items[int(position) - 1]
