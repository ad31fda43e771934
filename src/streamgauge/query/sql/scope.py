"""The names of a query: the stream, the public tables joined to it, and their columns.

A lookup is public and has one row for a key, so joining it changes no event and adds none: its columns are
functions of the event's own key. Events whose key it lacks are dropped, by the engine.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from streamgauge.query.query import Refused
from streamgauge.query.settings import Column, Lookup, Stream
from streamgauge.query.sql import grids
from streamgauge.query.sql.dialect import near
from streamgauge.query.sql.expressions import NOTHING, Expression, Names, identifier
from streamgauge.query.sql.grids import Grid, joint
from streamgauge.query.sql.intervals import ANYWHERE, Interval
from streamgauge.query.sql.nodes import Node

OTHER = "other"


@dataclass(frozen=True)
class Scope:
    """What names mean. `present` columns are known not to be NULL, `narrowed` ones to be in an interval."""

    stream: Stream
    names: Names  # of the stream, in the query
    joined: Mapping[str, Lookup]  # by the names they have in the query
    present: Names = NOTHING
    narrowed: Mapping[str, Interval] = field(default_factory=dict)
    collected: bool = False  # whether columns of reports may be read: to be counted, and for nothing else

    def column(self, node: exp.Column) -> Expression:
        """A column as it comes from the row source, with what is known of it here."""
        _, found = self._owned(node)
        nullable = found.nullable and found.sql not in map(identifier, self.present)
        span = next((self.narrowed[name] for name in found.needs if name in self.narrowed), found.span)
        always = (nullable, span) == (found.nullable, found.span)
        return replace(found, nullable=nullable, span=span, always=always)

    def has(self, name: str) -> bool:
        return any(self._owners(name))

    def is_own(self, node: exp.Column) -> bool:
        """Whether a column is the stream's."""
        return self._owned(node)[0] == self.stream.name

    def columns(self, nodes: Iterable[Node]) -> Names:
        """The columns of the stream that some expressions read, and the keys of what was joined."""
        read = (column for node in nodes for column in node.find_all(exp.Column))
        own = frozenset(column.name for column in read if self.is_own(column))
        return own | {lookup.on for lookup in self.joined.values()}

    def _owned(self, node: exp.Column) -> tuple[str, Expression]:
        """The table that a column is in, and the column."""
        owners = [
            (table, column)
            for table, column in self._owners(node.name)
            if not node.table or node.table in self._called(table)
        ]
        if not owners:
            raise Refused(f"column {node.name} is not declared{near(node.name, self._all())}")
        if len(owners) > 1:
            raise Refused(f"column {node.name} is in several tables: write {owners[-1][0]}.{node.name}")
        return owners[0]

    def _owners(self, name: str) -> Iterator[tuple[str, Expression]]:
        if name == self.stream.time:
            time = Expression("time", identifier(name), nullable=False, needs=frozenset({name}))
            yield self.stream.name, time
        elif name in self.stream.columns:
            self._check_plain(self.stream.columns[name])
            yield self.stream.name, stream_column(self.stream.columns[name])
        for called, lookup in self.joined.items():
            if name in lookup.columns:
                yield called, lookup_column(lookup, name, key_needs(lookup, self.stream))

    def _check_plain(self, column: Column) -> None:
        """What devices have made private says nothing of an event: it is counted, all of it, or not read."""
        if column.report is not None and not self.collected:
            form = f"SELECT {column.name}, COUNT(*) FROM {self.stream.name} GROUP BY {column.name}"
            raise Refused(f"column {column.name} is of reports and can be asked only as {form}")

    def _called(self, table: str) -> Names:
        return self.names if table == self.stream.name else frozenset({table})

    def _all(self) -> list[str]:
        lookups = [column for lookup in self.joined.values() for column in lookup.columns]
        return [*self.stream.columns, self.stream.time, *lookups]


def stream_column(column: Column) -> Expression:
    """A declared column. With `values`, the row source has made everything else NULL, or "other"."""
    if column.hashed is not None or column.report is not None:
        return Expression("code", identifier(column.name), needs=frozenset({column.name}))
    if column.other and column.kind != "text":
        raise Refused(f"column {column.name} must be text to have other = true")
    whole = Expression(column.kind, identifier(column.name), needs=frozenset({column.name}))
    if column.kind == "boolean":
        return replace(whole, if_true=whole.needs, if_false=whole.needs, labels=(False, True))
    labels = column.values
    if labels is not None and column.other:
        labels = (*(label for label in labels if label != OTHER), OTHER)
    whole = replace(
        whole, labels=labels, nullable=not column.other, needs=NOTHING if column.other else whole.needs
    )
    return _bounded(whole, column) if column.kind == "number" else whole


def _bounded(whole: Expression, column: Column) -> Expression:
    if column.values:
        return _spread(whole, [float(value) for value in column.values])
    span = Interval(*map(float, column.bounds)) if column.bounds else ANYWHERE
    return replace(whole, span=span, grid=Grid(column.grid) if column.grid else None)


def _spread(whole: Expression, values: Iterable[float]) -> Expression:
    """An expression that is one of some numbers."""
    listed = list(values)
    span = Interval(min(listed), max(listed))
    return replace(whole, kind="number", span=span, grid=joint(map(grids.constant, listed)))


def key_needs(lookup: Lookup, stream: Stream) -> Names:
    """The key, if it cannot be NULL where an event was joined.

    Joins go by the text that an event has: with `values`, its column is NULL if the text is not declared.
    """
    return NOTHING if stream.columns[lookup.on].values is not None else frozenset({lookup.on})


def lookup_column(lookup: Lookup, name: str, needs: Names) -> Expression:
    """A column of a public table: its values are known."""
    place = lookup.columns.index(name)
    cells = [row[place] for row in lookup.rows]
    labels = tuple(dict.fromkeys(cell for cell in cells if cell is not None))
    own = f"{lookup.name}.{name}"
    whole = Expression("text", identifier(own), None in cells, needs | {own}, labels=labels)
    if not labels or isinstance(labels[0], str):
        return whole
    ordered = tuple(sorted(labels, key=float))
    return replace(_spread(whole, map(float, ordered)), labels=ordered)


def scope_of(select: exp.Select, stream: Stream, lookups: Mapping[str, Lookup]) -> Scope:
    """The tables of a query: the stream, and lookups joined by their keys."""
    origin = select.args.get("from_")
    if origin is None:
        raise Refused(f"sql must be FROM {stream.name}, got no table")
    table = origin.this.name
    if table != stream.name:
        raise Refused(f"sql must be FROM {stream.name}, got {table}")
    names = frozenset({stream.name, origin.this.alias or stream.name})
    joined: dict[str, Lookup] = {}
    for join in select.args.get("joins") or ():
        called, lookup = _join(join, names, lookups)
        if called in joined or called in names:
            raise Refused(f"table {called} must be in the query once")
        if any(lookup.name == known.name for known in joined.values()):
            raise Refused(f"lookup {lookup.name} must be joined once")
        joined[called] = lookup
        _check_key(lookup, stream)
    keys = (key_needs(lookup, stream) for lookup in joined.values())
    return Scope(stream, names, joined, present=NOTHING.union(*keys))


def _join(join: exp.Join, names: Names, lookups: Mapping[str, Lookup]) -> tuple[str, Lookup]:
    name = join.this.name
    if name not in lookups:
        raise Refused(f"only a public [lookup] can be joined, got {name}{near(name, list(lookups))}")
    if join.side or join.kind not in ("", "INNER"):
        raise Refused(f"a lookup must be joined by JOIN, got {join.side or join.kind} JOIN")
    lookup, called = lookups[name], join.this.alias or name
    using = [part.name for part in join.args.get("using") or ()]
    if using != [lookup.on] and not _on_key(join.args.get("on"), names, called, lookup.on):
        raise Refused(f"lookup {name} must be joined USING ({lookup.on})")
    return called, lookup


def _on_key(on: Node | None, names: Names, called: str, key: str) -> bool:
    """Whether a condition is stream.key = lookup.key."""
    if not isinstance(on, exp.EQ):
        return False
    sides = {(side.table, side.name) for side in (on.this, on.expression) if isinstance(side, exp.Column)}
    return any(sides == {(stream, key), (called, key)} for stream in names)


def _check_key(lookup: Lookup, stream: Stream) -> None:
    column = stream.columns.get(lookup.on)
    if column is None or column.kind != "text" or column.hashed is not None:
        raise Refused(f"column {lookup.on} must be declared as text to join lookup {lookup.name}")
