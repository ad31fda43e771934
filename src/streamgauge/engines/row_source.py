"""From raw fields to rows that a query can be asked of: the declared columns, a tick, and who it is about.

    raw fields  ->  cast  ->  finished, bounded, with a tick  ->  joined with public tables

Of a finished source users are known by their texts, in a part of the users of which nothing is remembered; of
a live one by a keyed hash, which is.

Tick 1 begins at the stream's start. A record that is dropped keeps its row until it is counted, with the
number of its rule in place of a tick (`streamgauge.engines.passes`); all its groups will be NULL.

Promise
    A row is a function of one record and of public settings. Joins never multiply rows: keys are unique. Two
    users are never taken for one: a text that is too long is cut down by SHA-256 to something that is longer
    than any text that is not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from streamgauge.engines import keyed_hash
from streamgauge.engines.fields import Relation
from streamgauge.engines.passes import EARLY, ELSEWHERE, LATE, NO_TIME, NO_USER, NOT_READABLE, OUTSIDE
from streamgauge.engines.quoting import double, name, text
from streamgauge.engines.typed import Typed
from streamgauge.privacy import User
from streamgauge.query import event_times as times
from streamgauge.query.measure import Measure
from streamgauge.query.settings import Lookup, Stream

TICK, MOMENT, RULE, USER, ORDER = '"$tick"', '"$moment"', '"$rule"', '"$user"', '"$order"'
LONG = 64  # bytes of a user's text, the digits of a hash
Ruled = Callable[[str], str]  # SQL of a tick: the tick that it counts in, or the number of a rule


def finished_ticks(stream: Stream, first: int, last: int) -> Ruled:
    """Ticks outside of a range are another scan's."""
    if first <= 1 and stream.ticks is not None and last >= stream.ticks:
        return lambda tick: tick
    return lambda tick: (
        f"CASE WHEN {tick} < 1 OR {tick} BETWEEN {first} AND {last} THEN {tick} ELSE {ELSEWHERE} END"
    )


def live_ticks(first: int, last: int, *, carry: bool) -> Ruled:
    """Ticks before the first open one are late, those after the last allowed one early."""
    late = first if carry else LATE
    return lambda tick: (
        f"CASE WHEN {tick} < 1 OR {tick} BETWEEN {first} AND {last} THEN {tick} "
        f"WHEN {tick} < {first} THEN {late} ELSE {EARLY} END"
    )


@dataclass(frozen=True)
class UserPart:
    """Some of the users, by a hash of their texts: one of a number of parts that is a power of two."""

    part: int = 0
    parts: int = 1

    def known(self, who: str) -> str:
        """SQL of the user whose text this is."""
        return f"CASE WHEN strlen({who}) <= {LONG} THEN {who} ELSE 'sha256 ' || sha256({who}) END"

    @property
    def chosen(self) -> str:
        """SQL that tells whether a user is one of these; records without one are together."""
        return f"hash({USER}) & {self.parts - 1} = {self.part}"


@dataclass(frozen=True)
class RowSource:
    """What a stream's records are read as, for some measures."""

    stream: Stream
    lookups: Mapping[str, Lookup]
    measures: Sequence[Measure]
    secret: bytes
    count_columns: bool = False  # whether records are counted by what they have

    @cached_property
    def joined(self) -> list[Lookup]:
        used = frozenset().union(*(measure.lookups for measure in self.measures))
        return [self.lookups[each] for each in sorted(used)]

    @cached_property
    def typed(self) -> list[Typed]:
        read = frozenset().union(*(measure.columns for measure in self.measures)) - {self.stream.time}
        columns = [self.stream.columns[each] for each in sorted(read) if each in self.stream.columns]
        return [Typed(column, self.stream, self.secret) for column in columns]

    @cached_property
    def reads_time(self) -> bool:
        return any(self.stream.time in measure.columns for measure in self.measures)

    @cached_property
    def bounds_users(self) -> bool:
        return isinstance(self.stream.unit, User)

    @cached_property
    def fields(self) -> list[str]:
        """All fields of the file that are read."""
        wanted = [self.stream.time, *(typed.column.name for typed in self.typed)]
        wanted += [lookup.on for lookup in self.joined]
        return list(dict.fromkeys([*wanted, self.stream.user] if self.stream.user else wanted))

    @cached_property
    def counters(self) -> dict[str, str]:
        """SQL that is not NULL where a record lacks something, by what that is.

        Only what the measures read is looked at: the time is counted by its rules. What a record lacks is
        counted, not what it has: a count of NULLs costs next to nothing.
        """
        if not self.count_columns:
            return {}
        found = {f"a user in {self.stream.user}": _absent(USER)} if self.bounds_users else {}
        for typed in self.typed:
            found[f"the column {typed.column.name}"] = _lacks(typed)
            if typed.valid is not None:
                found[typed.valid[0]] = _absent(typed.valid[1])
        for lookup in self.joined:
            found[f"the column {lookup.on}"] = _absent(_key(lookup))
            found[f"a row of {lookup.name} for {lookup.on}"] = _absent(matched(lookup.name))
        return found

    @property
    def declarations(self) -> list[str]:
        """SQL to run once: types of labels, and the public tables."""
        types = [each for typed in self.typed for each in typed.declarations]
        return types + [each for lookup in self.joined for each in tables(lookup)]

    def sql(
        self, relation: Relation, ticks: Ruled, users: UserPart | None = None, also: Sequence[str] = ()
    ) -> str:
        """Rows with TICK, the columns of the measures and, where users are bounded, USER: a text and with it
        an ORDER in one of the parts of a finished source, a hash elsewhere.

        Columns of the relation that are named in `also` are handed on.
        """
        order = [f"hash({relation.record}) AS {ORDER}"] if users else []
        cast = [*self._cast(relation), *order, *also]
        rows = f"SELECT {', '.join(cast)} FROM {self._records(relation, users)}"
        handed_on = [*([ORDER] if users else []), *also]
        finished = f"SELECT {', '.join([*self._finished(ticks), *handed_on])} FROM ({rows})"
        found = [typed.looked_up for typed in self.typed if typed.labelled]
        joins = [join for join, _, _ in found] + [_join(lookup) for lookup in self.joined]
        labels = f"REPLACE ({', '.join(label for _, label, _ in found)})" if found else ""
        public = [*(code for _, _, code in found), *(f"{_table(lookup)}.*" for lookup in self.joined)]
        return (
            f"(SELECT {', '.join([f'own.* {labels}', *public])} FROM ({finished}) AS own {' '.join(joins)})"
        )

    def _records(self, relation: Relation, users: UserPart | None) -> str:
        if not self.bounds_users or not self.stream.user:
            return relation.sql
        who = relation.fields[self.stream.user].text
        if users is None:
            hashed = keyed_hash.wide(keyed_hash.key(self.secret, "users"), who)
            return f"(SELECT *, {hashed} AS {USER} FROM {relation.sql})"
        known = f"(SELECT *, {users.known(who)} AS {USER} FROM {relation.sql})"
        return f"(SELECT * FROM {known} WHERE {users.chosen})" if users.parts > 1 else known

    def _cast(self, relation: Relation) -> list[str]:
        fields, stream = relation.fields, self.stream
        moment = times.microseconds(fields[stream.time], stream, times.span(stream))
        columns = [f"{moment} AS {MOMENT}", f"{_rule(relation, stream.time)} AS {RULE}"]
        if self.bounds_users:
            columns.append(USER)
        columns += [f"{fields[each.on].text} AS {_key(each)}" for each in self.joined]
        if self.count_columns:
            columns += [
                f"CASE WHEN {fields[typed.column.name].sql} IS NULL THEN true END AS {_lacks(typed)}"
                for typed in self.typed
            ]
        return columns + [
            f"{typed.cast(fields[typed.column.name])} AS {name(typed.column.name)}" for typed in self.typed
        ]

    def _finished(self, ticks: Ruled) -> list[str]:
        columns = [f"{ticks(self._tick())} AS {TICK}"]
        if self.bounds_users:
            columns.append(USER)
        if self.reads_time:
            shown = times.timestamp(MOMENT, self.stream.timezone, times.span(self.stream))
            columns.append(f"{shown} AS {name(self.stream.time)}")
        columns += [_key(each) for each in self.joined]
        columns += [_lacks(typed) for typed in self.typed if self.count_columns]
        return columns + [f"{typed.finished()} AS {name(typed.column.name)}" for typed in self.typed]

    def _tick(self) -> str:
        first, last = times.span(self.stream)
        inside = f"({MOMENT} - {first}) // {self.stream.tick} + 1"
        nobody = f"WHEN {MOMENT} BETWEEN {first} AND {last} AND {USER} IS NULL THEN {NO_USER} "
        who = nobody if self.bounds_users else ""
        return (
            f"(CASE {who}WHEN {MOMENT} BETWEEN {first} AND {last} THEN {inside} "
            f"WHEN {MOMENT} IS NULL THEN {RULE} ELSE {OUTSIDE} END)"
        )


def _rule(relation: Relation, time: str) -> str:
    """Why a record has no time; whether it is readable is looked into only where the field is missing."""
    return (
        f"CASE WHEN {relation.fields[time].sql} IS NOT NULL THEN {NO_TIME} "
        f"WHEN {relation.readable} THEN {NO_TIME} ELSE {NOT_READABLE} END"
    )


def tables(lookup: Lookup) -> list[str]:
    """SQL that makes a public table and fills it."""
    if len(set(lookup.keys)) < len(lookup.keys):
        raise ValueError(f"keys of the lookup {lookup.name} must be unique, got one twice")
    kinds = [_kind([row[place] for row in lookup.rows]) for place in range(len(lookup.columns))]
    named = [name(f"{lookup.name}.{each}") for each in lookup.columns]
    columns = [f"{each} {kind}" for each, kind in zip(named, kinds, strict=True)]
    shape = ", ".join([f"{_on(lookup)} VARCHAR", *columns, f"{matched(lookup.name)} BOOLEAN"])
    made = [f"CREATE TABLE {_table(lookup)} ({shape})"]
    rows = [
        f"({', '.join([text(key), *(_literal(value) for value in row), 'true'])})"
        for key, row in zip(lookup.keys, lookup.rows, strict=True)
    ]
    return [*made, f"INSERT INTO {_table(lookup)} VALUES {', '.join(rows)}"] if rows else made


def matched(lookup: str) -> str:
    """The column that is true where a lookup has the event's key, and NULL elsewhere."""
    return name(f"$matched {lookup}")


def _lacks(typed: Typed) -> str:
    """Return the column that is not NULL where a record has no field of that name."""
    return name(f"$lacks {typed.column.name}")


def _absent(value: str) -> str:
    """Return SQL that is not NULL where a value is."""
    return f"CASE WHEN {value} IS NULL THEN true END"


def _kind(values: Sequence[object]) -> str:
    return "DOUBLE" if all(value is None or isinstance(value, int | float) for value in values) else "VARCHAR"


def _literal(value: str | int | float | bool | None) -> str:
    if value is None:
        return "NULL"
    return text(value) if isinstance(value, str) else double(value)


def _join(lookup: Lookup) -> str:
    return f"LEFT JOIN {_table(lookup)} ON own.{_key(lookup)} = {_table(lookup)}.{_on(lookup)}"


def _table(lookup: Lookup) -> str:
    return name(f"lookup {lookup.name}")


def _key(lookup: Lookup) -> str:
    return name(f"$key {lookup.name}")


def _on(lookup: Lookup) -> str:
    return name(f"$on {lookup.name}")
