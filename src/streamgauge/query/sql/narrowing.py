"""What WHERE leaves of a number: under `WHERE temperature > 38` an AVG needs noise for 38 to 42 only.

Events where WHERE is not true are dropped, and what is left is clamped to the narrowed bounds by the engine.
Guards against division by zero and overflow do not rely on it: they hold for events that WHERE drops, too.
"""

from collections.abc import Iterator, Mapping

from sqlglot import exp

from streamgauge.query.query import Refused
from streamgauge.query.sql.expressions import Expression
from streamgauge.query.sql.intervals import Interval
from streamgauge.query.sql.nodes import Node
from streamgauge.query.sql.reading import Reader

BOUNDS: dict[type[Node], tuple[bool, bool]] = {  # whether a value bounds from below, and from above
    exp.GT: (True, False),
    exp.GTE: (True, False),
    exp.LT: (False, True),
    exp.LTE: (False, True),
}


def narrowed(where: Node, read: Reader) -> Mapping[str, Interval]:
    """Intervals of the columns that a true condition bounds by numbers."""
    found: dict[str, Interval] = {}
    for name, declared, told in _told(where, read):
        left = found.get(name, declared) & told
        if left is None:
            raise Refused(f"WHERE must be possible: column {name} is never within what is asked of it")
        if left.lower < left.upper:
            found[name] = left
    return found


def _told(node: Node, read: Reader) -> Iterator[tuple[str, Interval, Interval]]:
    """(column, what it was, what a condition leaves), for each condition that must hold."""
    if isinstance(node, exp.And | exp.Paren):
        for part in (node.this, node.args.get("expression")):
            if part is not None:
                yield from _told(part, read)
    elif isinstance(node, exp.Between):
        yield from _of(node.this, read, read(node.args["low"]), read(node.args["high"]))
    elif type(node) in BOUNDS:
        below, above = BOUNDS[type(node)]
        value, turned = read(node.expression), read(node.this)
        yield from _of(node.this, read, value if below else None, value if above else None)
        yield from _of(node.expression, read, turned if above else None, turned if below else None)


def _of(
    node: Node, read: Reader, low: Expression | None, high: Expression | None
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
