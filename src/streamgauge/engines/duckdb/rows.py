"""Typed rows from raw fields: the declared columns, a tick and a user.

    raw fields  ->  cast  ->  finished, bounded, with a tick  ->  joined with public tables

A batch source identifies users by their texts, in a part of the users that is not stored. A live source identifies
them by a keyed hash, which is stored.

Tick 1 begins at the stream's start. The row of a dropped record stays until it is counted. It has the
number of its rule instead of a tick (`streamgauge.plan.measure`), and all its groups are NULL.

Promise
    A row is a function of one record and of public settings. Joins never multiply rows: keys are unique. Two
    users are never confused: SHA-256 shortens a text that is too long, and the result is longer than any text
    that is not shortened.

**Columns.** Each raw field becomes a typed value.

    text      at most 1024 characters; with `values`, NULL (or "other") unless declared; with `hash_cells`, a
              code (a report that is a vector of bits stays complete: its query checks its length)
    number    a finite DOUBLE in its bounds; NULL if it cannot be read or is NaN
    boolean   TRUE, FALSE or NULL
    time      local clock time in the stream's time zone

Columns are total, and depend on one field alone. An infinity is clamped if there are bounds, and NULL otherwise.

**Keyed hashes.** DuckDB computes them. They alone identify users and the values of columns with `hash_cells`.
Each purpose (a column, the users, the order of records) has its own key, derived from the secret by HMAC. The
hash is SHA-256 of that key followed by the text, truncated. Without the secret an adversary can neither construct
a collision nor find the user of a hash.
"""

import hmac
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from streamgauge.config.settings import Column, Lookup, Stream
from streamgauge.engines.duckdb.connection import double_literal, quote_name, quote_text
from streamgauge.engines.duckdb.readers import Relation
from streamgauge.plan.measure import EARLY, LATE, NO_TIME, NO_USER, NOT_READABLE, OTHER_SCAN, OUTSIDE, Measure
from streamgauge.privacy import Tick, User
from streamgauge.records import fields as times
from streamgauge.records.fields import MAX_TIME_MICROSECONDS, MIN_TIME_MICROSECONDS, RawField
from streamgauge.sql.query import GroupColumn


def derive_key(secret: bytes, purpose: str) -> str:
    """Return the key of a purpose as 64 hexadecimal digits."""
    return hmac.digest(secret, purpose.encode(), "sha256").hex()


def wide_hash_sql(key: str, value: str) -> str:
    """Return SQL of a 16-byte hash as UHUGEINT; NULL for NULL."""
    return f"CAST('0x' || substr(sha256({quote_text(key)} || {value}), 1, 32) AS UHUGEINT)"


def code_hash_sql(key: str, value: str, universe: int) -> str:
    """Return SQL of a BIGINT below `universe`; NULL for NULL.

    It is the first 8 bytes of the hash, modulo the universe.
    """
    digits = f"CAST('0x' || substr(sha256({quote_text(key)} || {value}), 1, 16) AS UBIGINT)"
    return f"CAST({digits} % {universe} AS BIGINT)"


MAX_TEXT_CHARACTERS = 1024  # of a text column
OTHER_LABEL = "other"
KINDS = {"number": "a number", "boolean": "true or false", "time": "a time"}


@dataclass(frozen=True)
class TypedColumn:
    """Column as it is read: `cast` converts the raw field, `finish` the result."""

    column: Column
    stream: Stream
    secret: bytes

    @property
    def declarations(self) -> list[str]:
        """SQL to run before the columns are read: a table of declared labels."""
        if not self.is_labelled:
            return []
        rows = ", ".join(f"({quote_text(label)}, {code})" for code, label in enumerate(self.labels))
        made = f"CREATE TABLE {self._labels_table} (label VARCHAR, code INTEGER)"
        return [made, f"INSERT INTO {self._labels_table} VALUES {rows}"] if rows else [made]

    @property
    def labels(self) -> tuple[str, ...]:
        """Declared labels, each once."""
        return tuple(dict.fromkeys(str(label) for label in self.column.values or ()))

    @property
    def is_labelled(self) -> bool:
        """True if texts are looked up among declared labels.

        The lookup is a join. A cast to ENUM is slow for a missing text, because it searches for similar ones.
        """
        return self.column.kind == "text" and self.column.hash_cells is None and self.column.values is not None

    @property
    def label_join(self) -> tuple[str, str, str]:
        """SQL: a join with the labels, the label that was found, and its number."""
        own, label = quote_name(self.column.name), f"{self._labels_table}.label"
        found = f"COALESCE({label}, {quote_text(OTHER_LABEL)})" if self.column.other else label
        code = f"{self._labels_table}.code AS {self.code}"
        return f"LEFT JOIN {self._labels_table} ON own.{own} = {label}", f"{found} AS {own}", code

    @property
    def code(self) -> str:
        """Column with the number of a declared label."""
        return quote_name(f"$code of {self.column.name}")

    @property
    def validity(self) -> tuple[str, str] | None:
        """Rule for a valid value, in words, and SQL that is not NULL if it is met."""
        column, own = self.column, quote_name(self.column.name)
        if column.hash_cells is not None or column.report is not None:
            return None
        if column.values is not None:
            return f"a declared value of {column.name}", self.code if self.is_labelled else own
        return (f"{KINDS[column.kind]} in {column.name}", own) if column.kind in KINDS else None

    def has_same_labels(self, group: GroupColumn) -> bool:
        """Return whether a group has the declared labels with the same numbers."""
        mine = self.is_labelled and not self.column.other and group.text == quote_name(self.column.name)
        return mine and group.labels == self.labels

    def cast(self, raw: RawField) -> str:
        kind = self.column.kind
        if kind == "number":
            return f"TRY_CAST({raw.number} AS DOUBLE)"
        if kind == "boolean":
            return f"TRY_CAST({raw.text} AS BOOLEAN)"
        if kind == "time":
            return times.to_microseconds(raw, self.stream, (MIN_TIME_MICROSECONDS, MAX_TIME_MICROSECONDS))
        return self._text(raw.text)

    def finish(self) -> str:
        column, own = self.column, quote_name(self.column.name)
        if column.kind == "time":
            return times.to_timestamp(own, self.stream.timezone, (MIN_TIME_MICROSECONDS, MAX_TIME_MICROSECONDS))
        if column.kind == "number":
            return self._number(own)
        if column.kind == "boolean":
            return self._filter_declared(own, [str(bool(label)).lower() for label in column.values or ()])
        return own

    def _text(self, value: str) -> str:
        column = self.column
        if column.hash_cells is not None:
            key = derive_key(self.secret, f"column {column.name}")
            return code_hash_sql(key, value, column.hash_cells)
        return value if self.is_labelled or column.report is not None else f"left({value}, {MAX_TEXT_CHARACTERS})"

    def _number(self, own: str) -> str:
        if self.column.bounds is None:
            bounded = f"CASE WHEN isfinite({own}) THEN {own} END"
        else:
            low, high = (double_literal(bound) for bound in self.column.bounds)
            bounded = (
                f"CASE WHEN {own} BETWEEN {low} AND {high} THEN {own} WHEN {own} < {low} THEN {low} "
                f"WHEN {own} > {high} AND NOT isnan({own}) THEN {high} END"
            )
        return self._filter_declared(bounded, [double_literal(float(label)) for label in self.column.values or ()])

    def _filter_declared(self, value: str, labels: list[str]) -> str:
        if self.column.values is None:
            return value
        return f"CASE WHEN {value} IN ({', '.join(labels)}) THEN {value} END" if labels else "NULL"

    @property
    def _labels_table(self) -> str:
        return quote_name(f"labels of {self.column.name}")


def reuse_label_codes(measure: Measure, columns: "list[TypedColumn]") -> Measure:
    """Return the measure with label numbers from the join instead of a second lookup."""
    codes = {group: typed.code for group in measure.groups for typed in columns if typed.has_same_labels(group)}
    groups = tuple(replace(group, code=codes.get(group, group.code)) for group in measure.groups)
    return replace(measure, groups=groups)


TICK, MOMENT, RULE, USER, ORDER = '"$tick"', '"$moment"', '"$rule"', '"$user"', '"$order"'
MAX_USER_TEXT_BYTES = 64  # bytes of a user's text, the digits of a hash
TickRule = Callable[[str], str]  # SQL of a tick -> SQL of the tick that counts, or of the number of a rule


def build_file_tick_rule(stream: Stream, first: int, last: int) -> TickRule:
    """Return a rule that leaves ticks outside of a range to another scan."""
    if first <= 1 and stream.ticks is not None and last >= stream.ticks:
        return lambda tick: tick
    return lambda tick: f"CASE WHEN {tick} < 1 OR {tick} BETWEEN {first} AND {last} THEN {tick} ELSE {OTHER_SCAN} END"


def build_live_tick_rule(first: int, last: int, *, carry: bool) -> TickRule:
    """Return a rule for late ticks, before the first open one, and early ticks.

    With `carry` late ticks count in the first open one. Ticks after the last allowed one are early.
    """
    late = first if carry else LATE
    return lambda tick: (
        f"CASE WHEN {tick} < 1 OR {tick} BETWEEN {first} AND {last} THEN {tick} "
        f"WHEN {tick} < {first} THEN {late} ELSE {EARLY} END"
    )


@dataclass(frozen=True)
class UserPart:
    """One of a power of two of parts of the users, by a hash of their texts."""

    part: int = 0
    parts: int = 1

    def user_sql(self, who: str) -> str:
        """Return SQL of the user of this text."""
        return f"CASE WHEN strlen({who}) <= {MAX_USER_TEXT_BYTES} THEN {who} ELSE 'sha256 ' || sha256({who}) END"

    @property
    def filter_sql(self) -> str:
        """SQL of the filter for these users. Records without a user are all in one part."""
        return f"hash({USER}) & {self.parts - 1} = {self.part}"


@dataclass(frozen=True)
class RowSource:
    """Typed rows of a stream's records, for some measures."""

    stream: Stream
    lookups: Mapping[str, Lookup]
    measures: Sequence[Measure]
    secret: bytes
    count_columns: bool = False  # if true, records are counted by the fields that they have

    @cached_property
    def joined_lookups(self) -> list[Lookup]:
        used = frozenset().union(*(measure.lookups for measure in self.measures))
        return [self.lookups[each] for each in sorted(used)]

    @cached_property
    def typed_columns(self) -> list[TypedColumn]:
        read = frozenset().union(*(measure.columns for measure in self.measures)) - {self.stream.time}
        columns = [self.stream.columns[each] for each in sorted(read) if each in self.stream.columns]
        return [TypedColumn(column, self.stream, self.secret) for column in columns]

    @cached_property
    def bounds_users(self) -> bool:
        return isinstance(self.stream.unit, User)

    @cached_property
    def bounds_events(self) -> bool:
        """True if rows have a USER: one for all events if ticks are the unit."""
        return isinstance(self.stream.unit, User | Tick)

    @cached_property
    def fields(self) -> list[str]:
        """All fields of the file that are read."""
        wanted = [self.stream.time, *(typed.column.name for typed in self.typed_columns)]
        wanted += [lookup.on for lookup in self.joined_lookups]
        return list(dict.fromkeys([*wanted, self.stream.user] if self.stream.user else wanted))

    @cached_property
    def counters(self) -> dict[str, str]:
        """SQL that is not NULL if a record lacks something, by its description.

        Only fields of the measures are counted: the rules of time count it already. The counters count absences,
        because a count of NULLs costs next to nothing.
        """
        if not self.count_columns:
            return {}
        found = {f"a user in {self.stream.user}": _absent_sql(USER)} if self.bounds_users else {}
        for typed in self.typed_columns:
            found[f"the column {typed.column.name}"] = _lacks_column(typed)
            if typed.validity is not None:
                found[typed.validity[0]] = _absent_sql(typed.validity[1])
        for lookup in self.joined_lookups:
            found[f"the column {lookup.on}"] = _absent_sql(_key_column(lookup))
            found[f"a row of {lookup.name} for {lookup.on}"] = _absent_sql(matched_column(lookup.name))
        return found

    def build_declarations(self, known: Container[str] = ()) -> dict[str, list[str]]:
        """Return SQL to run once, by its subject: tables of labels, and the public tables.

        `known` subjects are left out.
        """
        columns = {f"column {each.column.name}": each for each in self.typed_columns}
        lookups = {f"lookup {each.name}": each for each in self.joined_lookups}
        found = {name: each.declarations for name, each in columns.items() if name not in known}
        return found | {name: build_table_sql(each) for name, each in lookups.items() if name not in known}

    def sql(self, relation: Relation, ticks: TickRule, users: UserPart | None = None, also: Sequence[str] = ()) -> str:
        """Return SQL of rows with TICK, the columns of the measures and USER.

        USER is present if users are bounded. In one of the parts of a batch source it is a text, with an ORDER.
        Elsewhere it is a hash. Columns of the relation that are named in `also` are added.
        """
        order = [f"hash({relation.record}) AS {ORDER}"] if users else []
        cast = [*self._cast(relation), *order, *also]
        rows = f"SELECT {', '.join(cast)} FROM {self._records(relation, users)}"
        handed_on = [*([ORDER] if users else []), *also]
        finished = f"SELECT {', '.join([*self._finish_columns(ticks), *handed_on])} FROM ({rows})"
        found = [typed.label_join for typed in self.typed_columns if typed.is_labelled]
        joins = [join for join, _, _ in found] + [_join_sql(lookup) for lookup in self.joined_lookups]
        labels = f"REPLACE ({', '.join(label for _, label, _ in found)})" if found else ""
        public = [*(code for _, _, code in found), *(f"{_table_name(lookup)}.*" for lookup in self.joined_lookups)]
        return f"(SELECT {', '.join([f'own.* {labels}', *public])} FROM ({finished}) AS own {' '.join(joins)})"

    def _records(self, relation: Relation, users: UserPart | None) -> str:
        if not self.bounds_events:
            return relation.sql
        if not self.bounds_users or not self.stream.user:
            everybody = "0::UHUGEINT" if users is None else "''"
            return f"(SELECT *, {everybody} AS {USER} FROM {relation.sql})"
        who = relation.fields[self.stream.user].text
        if users is None:
            hashed = wide_hash_sql(derive_key(self.secret, "users"), who)
            return f"(SELECT *, {hashed} AS {USER} FROM {relation.sql})"
        known = f"(SELECT *, {users.user_sql(who)} AS {USER} FROM {relation.sql})"
        return f"(SELECT * FROM {known} WHERE {users.filter_sql})" if users.parts > 1 else known

    def _cast(self, relation: Relation) -> list[str]:
        fields, stream = relation.fields, self.stream
        moment = times.to_microseconds(fields[stream.time], stream, times.find_span(stream))
        columns = [f"{moment} AS {MOMENT}", f"{_rule(relation, stream.time)} AS {RULE}"]
        if self.bounds_events:
            columns.append(USER)
        columns += [f"{fields[each.on].text} AS {_key_column(each)}" for each in self.joined_lookups]
        if self.count_columns:
            names = {typed.column.name: _lacks_column(typed) for typed in self.typed_columns}
            columns += [f"{_absent_sql(fields[name].sql)} AS {lacks}" for name, lacks in names.items()]
        return columns + [
            f"{typed.cast(fields[typed.column.name])} AS {quote_name(typed.column.name)}"
            for typed in self.typed_columns
        ]

    def _finish_columns(self, ticks: TickRule) -> list[str]:
        columns = [f"{ticks(self._tick())} AS {TICK}"]
        if self.bounds_events:
            columns.append(USER)
        if any(self.stream.time in measure.columns for measure in self.measures):
            shown = times.to_timestamp(MOMENT, self.stream.timezone, times.find_span(self.stream))
            columns.append(f"{shown} AS {quote_name(self.stream.time)}")
        columns += [_key_column(each) for each in self.joined_lookups]
        columns += [_lacks_column(typed) for typed in self.typed_columns if self.count_columns]
        return columns + [f"{typed.finish()} AS {quote_name(typed.column.name)}" for typed in self.typed_columns]

    def _tick(self) -> str:
        first, last = times.find_span(self.stream)
        inside = f"({MOMENT} - {first}) // {self.stream.tick} + 1"
        no_user = f"WHEN {MOMENT} BETWEEN {first} AND {last} AND {USER} IS NULL THEN {NO_USER} "
        return (
            f"(CASE {no_user if self.bounds_users else ''}WHEN {MOMENT} BETWEEN {first} AND {last} THEN {inside} "
            f"WHEN {MOMENT} IS NULL THEN {RULE} ELSE {OUTSIDE} END)"
        )


def _rule(relation: Relation, time: str) -> str:
    """Return SQL of the rule by which a record has no time.

    Readability is checked only if the field is missing.
    """
    return (
        f"CASE WHEN {relation.fields[time].sql} IS NOT NULL THEN {NO_TIME} "
        f"WHEN {relation.readable} THEN {NO_TIME} ELSE {NOT_READABLE} END"
    )


def build_table_sql(lookup: Lookup) -> list[str]:
    """Return SQL that creates and fills a public table."""
    if len(set(lookup.keys)) < len(lookup.keys):
        raise ValueError(f"keys of the lookup {lookup.name} must be unique, got one twice")
    kinds = [_find_type([row[place] for row in lookup.rows]) for place in range(len(lookup.columns))]
    named = [quote_name(f"{lookup.name}.{each}") for each in lookup.columns]
    columns = [f"{each} {kind}" for each, kind in zip(named, kinds, strict=True)]
    shape = ", ".join([f"{_on_column(lookup)} VARCHAR", *columns, f"{matched_column(lookup.name)} BOOLEAN"])
    made = [f"CREATE TABLE {_table_name(lookup)} ({shape})"]
    rows = [
        f"({', '.join([quote_text(key), *(_literal(value) for value in row), 'true'])})"
        for key, row in zip(lookup.keys, lookup.rows, strict=True)
    ]
    return [*made, f"INSERT INTO {_table_name(lookup)} VALUES {', '.join(rows)}"] if rows else made


def matched_column(lookup: str) -> str:
    """Return the column that is true if a lookup has the event's key, and else NULL."""
    return quote_name(f"$matched {lookup}")


def _lacks_column(typed: TypedColumn) -> str:
    """Return the column that is not NULL if a record has no field of that name."""
    return quote_name(f"$lacks {typed.column.name}")


def _absent_sql(value: str) -> str:
    """Return SQL that is not NULL if a value is NULL."""
    return f"CASE WHEN {value} IS NULL THEN true END"


def _find_type(values: Sequence[object]) -> str:
    return "DOUBLE" if all(value is None or isinstance(value, int | float) for value in values) else "VARCHAR"


def _literal(value: str | int | float | bool | None) -> str:
    if value is None:
        return "NULL"
    return quote_text(value) if isinstance(value, str) else double_literal(value)


def _join_sql(lookup: Lookup) -> str:
    return f"LEFT JOIN {_table_name(lookup)} ON own.{_key_column(lookup)} = {_table_name(lookup)}.{_on_column(lookup)}"


def _table_name(lookup: Lookup) -> str:
    return quote_name(f"lookup {lookup.name}")


def _key_column(lookup: Lookup) -> str:
    return quote_name(f"$key {lookup.name}")


def _on_column(lookup: Lookup) -> str:
    return quote_name(f"$on {lookup.name}")
