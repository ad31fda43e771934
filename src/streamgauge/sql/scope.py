"""Names of a query: the stream, the public tables joined to it, and their columns.

A lookup is public and has one row for a key, so joining it changes no event and adds none. Its columns are
functions of the event's own key. The engine drops events whose key it lacks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Column, Lookup, Stream
from streamgauge.sql import expressions
from streamgauge.sql.dialect import Node, suggest_name
from streamgauge.sql.expressions import (
    NO_NAMES,
    UNBOUNDED_INTERVAL,
    Expression,
    ExpressionGrid,
    Interval,
    Names,
    merge_grids,
    quote_identifier,
)
from streamgauge.sql.functions import Functions, load_functions

OTHER_LABEL = "other"


@dataclass(frozen=True)
class Scope:
    """Names of a query.

    `non_null` columns are known not to be NULL, `intervals` ones to be in an interval.
    """

    stream: Stream
    names: Names  # of the stream, in the query
    lookups: Mapping[str, Lookup]  # by their names in the query
    non_null: Names = NO_NAMES
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    allow_reports: bool = False  # true if columns of reports may be read: to be counted, and for nothing else

    @property
    def functions(self) -> Functions:
        """Aggregate functions that the query may call, by name."""
        return load_functions(self.stream.plugins)

    def resolve_column(self, node: exp.Column) -> Expression:
        """Return a column of the row source, with its known properties."""
        _, found = self._resolve(node)
        nullable = found.nullable and found.sql not in map(quote_identifier, self.non_null)
        span = next((self.intervals[name] for name in found.needs if name in self.intervals), found.span)
        always = (nullable, span) == (found.nullable, found.span)
        return replace(found, nullable=nullable, span=span, is_unconditional=always)

    def has_column(self, name: str) -> bool:
        return any(self._find_owners(name))

    def is_stream_column(self, node: exp.Column) -> bool:
        """Return whether a column belongs to the stream."""
        return self._resolve(node)[0] == self.stream.name

    def find_stream_columns(self, nodes: Iterable[Node]) -> Names:
        """Return the stream columns of some expressions, the weight of events, and the keys of joined tables."""
        weight = {self.stream.weight} if self.stream.weight is not None else set[str]()
        read = (column for node in nodes for column in node.find_all(exp.Column))
        own = frozenset(column.name for column in read if self.is_stream_column(column))
        return own | weight | {lookup.on for lookup in self.lookups.values()}

    def _resolve(self, node: exp.Column) -> tuple[str, Expression]:
        """Return the table of a column, and the column."""
        owners = [
            (table, column)
            for table, column in self._find_owners(node.name)
            if not node.table or node.table in (self.names if table == self.stream.name else {table})
        ]
        if not owners:
            lookups = [column for lookup in self.lookups.values() for column in lookup.columns]
            hint = suggest_name(node.name, [*self.stream.columns, self.stream.time, *lookups])
            if node.this.args.get("quoted"):
                hint = f"{hint or '.'} A text is written '{node.name}', in single quotes"
            raise InvalidReleaseError(f"column {node.name} is not declared{hint}")
        if len(owners) > 1:
            raise InvalidReleaseError(f"column {node.name} is in several tables: write {owners[-1][0]}.{node.name}")
        return owners[0]

    def _find_owners(self, name: str) -> Iterator[tuple[str, Expression]]:
        if name == self.stream.time:
            time = Expression("time", quote_identifier(name), nullable=False, needs=frozenset({name}))
            yield self.stream.name, time
        elif name in self.stream.columns:
            column = self.stream.columns[name]
            self._check_plain(column)
            listing = next((lookup for lookup in self.lookups.values() if lookup.on == name), None)
            is_listed = column.values is None and column.max_groups is None and listing is not None
            yield self.stream.name, build_key_column(listing) if listing and is_listed else build_stream_column(column)
        for called, lookup in self.lookups.items():
            if name in lookup.columns:
                yield called, build_lookup_column(lookup, name, find_key_needs(lookup, self.stream))

    def _check_plain(self, column: Column) -> None:
        """Reject a column of reports, unless all its reports are counted.

        One report says nothing of its event.
        """
        if column.report is not None and not self.allow_reports:
            form = f"SELECT {column.name}, COUNT(*) FROM {self.stream.name} GROUP BY {column.name}"
            raise InvalidReleaseError(f"column {column.name} is of reports and can be queried only as {form}")


def build_stream_column(column: Column) -> Expression:
    """Return a declared column. With `values`, other texts are NULL, or "other".

    The row source has replaced them.
    """
    if column.hash_cells is not None or column.report is not None:
        return Expression("code", quote_identifier(column.name), needs=frozenset({column.name}))
    if column.other and column.kind != "text":
        raise InvalidReleaseError(f"column {column.name} must be text to have other = true")
    whole = Expression(column.kind, quote_identifier(column.name), needs=frozenset({column.name}))
    if column.kind == "boolean":
        return replace(whole, if_true=whole.needs, if_false=whole.needs, labels=(False, True))
    labels = column.values
    if labels is not None and column.other:
        labels = (*(label for label in labels if label != OTHER_LABEL), OTHER_LABEL)
    whole = replace(whole, labels=labels, nullable=not column.other, needs=NO_NAMES if column.other else whole.needs)
    return _add_bounds(whole, column) if column.kind == "number" else whole


def _add_bounds(whole: Expression, column: Column) -> Expression:
    if column.values:
        return _add_values(whole, [float(value) for value in column.values])
    span = Interval(*map(float, column.bounds)) if column.bounds else UNBOUNDED_INTERVAL
    return replace(whole, span=span, grid=ExpressionGrid(column.grid) if column.grid else None)


def _add_values(whole: Expression, values: Iterable[float]) -> Expression:
    """Return an expression that is one of some numbers."""
    listed = list(values)
    span = Interval(min(listed), max(listed))
    return replace(whole, kind="number", span=span, grid=merge_grids(map(expressions.build_constant_grid, listed)))


def find_key_needs(lookup: Lookup, stream: Stream) -> Names:
    """Return the key, if it cannot be NULL for a joined event.

    Joins compare the text of an event: with `values`, its column is NULL if the text is not declared.
    """
    return NO_NAMES if stream.columns[lookup.on].values is not None else frozenset({lookup.on})


def build_key_column(lookup: Lookup) -> Expression:
    """Return the key of a joined table, which lists all its values. Joins drop events with others."""
    sql = quote_identifier(f"$on {lookup.name}")
    return Expression("text", sql, nullable=False, needs=frozenset({lookup.on}), labels=lookup.keys)


def build_lookup_column(lookup: Lookup, name: str, needs: Names) -> Expression:
    """Return a column of a public table, whose values are known."""
    place = lookup.columns.index(name)
    cells = [row[place] for row in lookup.rows]
    labels = tuple(dict.fromkeys(cell for cell in cells if cell is not None))
    own = f"{lookup.name}.{name}"
    whole = Expression("text", quote_identifier(own), None in cells, needs | {own}, labels=labels)
    if not labels or isinstance(labels[0], str):
        return whole
    ordered = tuple(sorted(labels, key=float))
    return replace(_add_values(whole, map(float, ordered)), labels=ordered)


def build_scope(select: exp.Select, stream: Stream, lookups: Mapping[str, Lookup]) -> Scope:
    """Return the tables of a query: the stream, and lookups joined by their keys."""
    origin = select.args.get("from_")
    if origin is None:
        raise InvalidReleaseError(f"sql must be FROM {stream.name}, got no table")
    table = origin.this.name
    if table != stream.name:
        raise InvalidReleaseError(f"sql must be FROM {stream.name}, got {table}")
    names = frozenset({stream.name, origin.this.alias or stream.name})
    joined: dict[str, Lookup] = {}
    for join in select.args.get("joins") or ():
        called, lookup = _resolve_join(join, names, lookups)
        if called in joined or called in names:
            raise InvalidReleaseError(f"table {called} must be in the query once")
        if any(lookup.name == known.name for known in joined.values()):
            raise InvalidReleaseError(f"lookup {lookup.name} must be joined once")
        joined[called] = lookup
        _check_key(lookup, stream)
    keys = (find_key_needs(lookup, stream) for lookup in joined.values())
    return Scope(stream, names, joined, non_null=NO_NAMES.union(*keys))


def _resolve_join(join: exp.Join, names: Names, lookups: Mapping[str, Lookup]) -> tuple[str, Lookup]:
    name = join.this.name
    if name not in lookups:
        raise InvalidReleaseError(
            f"only a public [lookup] can be joined, got {name}{suggest_name(name, list(lookups))}"
        )
    if join.side or join.kind not in ("", "INNER"):
        rule = f"a lookup must be joined by JOIN {name} USING ({lookups[name].on})"
        raise InvalidReleaseError(f"{rule}, got {join.side or join.kind} JOIN")
    lookup, called = lookups[name], join.this.alias or name
    using = [part.name for part in join.args.get("using") or ()]
    if using != [lookup.on] and not _is_key_condition(join.args.get("on"), names, called, lookup.on):
        raise InvalidReleaseError(f"lookup {name} must be joined USING ({lookup.on})")
    return called, lookup


def _is_key_condition(on: Node | None, names: Names, called: str, key: str) -> bool:
    """Return whether a condition is stream.key = lookup.key."""
    if not isinstance(on, exp.EQ):
        return False
    sides = {(side.table, side.name) for side in (on.this, on.expression) if isinstance(side, exp.Column)}
    return any(sides == {(stream, key), (called, key)} for stream in names)


def _check_key(lookup: Lookup, stream: Stream) -> None:
    column = stream.columns.get(lookup.on)
    if column is None or column.kind != "text" or column.hash_cells is not None:
        raise InvalidReleaseError(f"column {lookup.on} must be declared as text to join lookup {lookup.name}")
