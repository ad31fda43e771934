"""Random queries of the dialect over a small stream, and the same questions for a plain DuckDB.

Values lie on quarters, so that sums are exact and naturally on a grid. Some fields are missing, some labels
not declared.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb

from tests.support.pipelines import START

COLUMNS = {
    "g": {"values": ["a", "b", "B", "b ", ""]},
    "h": {"values": ["p", "q"], "other": True},
    "x": {"bounds": [0, 10], "grid": 1},
    "y": {"bounds": [-10, 10], "grid": 0.25},
    "z": {"values": [0, 1, 2, 5]},
    "b": {"type": "boolean"},
    "t": {"type": "text"},
    "s": {"values": ["s1", "s2", "s4"]},
}
SITES = "s,room,area\ns1,r1,10.5\ns2,r2,\ns3,r1,2.0\n"
FIELDS: dict[str, Sequence[Any]] = {
    "g": ["a", "b", "B", "b ", "", "zzz", "other"],
    "h": ["p", "q", "r"],
    "x": range(11),
    "y": [i / 4 for i in range(-40, 41)],
    "z": [0, 1, 2, 3, 4, 5],
    "b": [True, False],
    "t": ["abc", "abd", "xyz", "", "12", "7.5", "true", "ABC"],
    "s": ["s1", "s2", "s3", "s9"],
}
GROUPS = [
    *("g", "h", "z", "b", "s", "FLOOR(x / 4)", "(x > 5)", "CASE WHEN x > 5 THEN 'hi' ELSE 'lo' END"),
    *("COALESCE(g, 'a')", "second(ts) % 3", "x", "NULLIF(h, 'p')", "FLOOR(y)", "room", "area"),
]
JOINED = {"room", "area"}
ROWS = 1500


def events(chance: random.Random) -> list[dict[str, Any]]:
    """Events over a hundred seconds, each field of which may be missing."""
    return [
        {"ts": START + chance.randrange(100) + chance.randrange(2) / 2}
        | {name: chance.choice(values) for name, values in FIELDS.items() if chance.random() > 0.15}
        for _ in range(ROWS)
    ]


def plain_database(records: Sequence[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """The events as the declarations leave them: `v`, with the tick of each."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'").fetchall()
    shape = "ts DOUBLE, g VARCHAR, h VARCHAR, x DOUBLE, y DOUBLE, z DOUBLE, b BOOLEAN, t VARCHAR, s VARCHAR"
    database.execute(f"CREATE TABLE raw ({shape})").fetchall()
    database.executemany(
        "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [[record.get(name) for name in ("ts", *FIELDS)] for record in records],
    )
    database.execute(
        "CREATE TABLE sites AS SELECT * FROM (VALUES ('s1', 'r1', 10.5::DOUBLE), ('s2', 'r2', NULL), "
        "('s3', 'r1', 2.0)) AS sites (key, room, area)"
    ).fetchall()
    database.execute(
        f"CREATE TABLE v AS SELECT CAST(floor((ts - {START}) / 10) AS INTEGER) + 1 AS tick, "
        "make_timestamp(CAST(ts * 1000000 AS BIGINT)) AS ts, "
        "CASE WHEN g IN ('a', 'b', 'B', 'b ', '') THEN g END AS g, "
        "CASE WHEN h IN ('p', 'q') THEN h ELSE 'other' END AS h, x, y, "
        "CASE WHEN z IN (0, 1, 2, 5) THEN z END AS z, b, t, "
        "CASE WHEN s IN ('s1', 's2', 's4') THEN s END AS s, s AS key FROM raw"
    ).fetchall()
    return database


@dataclass(frozen=True)
class Asked:
    """A query of the dialect, and the query for a plain engine."""

    aggregates: tuple[str, ...]
    groups: tuple[str, ...]
    where: str | None
    rollup: bool
    joins: bool

    @cached_property
    def sql(self) -> str:
        keys = ", ".join(f"k{i}" for i in range(len(self.groups)))
        grouped = f" GROUP BY {f'ROLLUP ({keys})' if self.rollup else keys}" if self.groups else ""
        join = " JOIN sites USING (s)" if self.joins else ""
        return f"SELECT {self._selected(self.groups)} FROM v{join}{self._filter([])}{grouped}"

    @property
    def levels(self) -> range:
        return range(0 if self.rollup else len(self.groups), len(self.groups) + 1)

    def plain(self, level: int) -> str:
        """One level: events without a group on it are left out."""
        groups = self.groups[:level]
        there = [f"({group}) IS NOT NULL" for group in groups]
        keys = ", ".join(["tick", *(f"k{i}" for i in range(level))])
        join = " JOIN sites USING (key)" if self.joins else ""
        counts = ", ".join(map(_counted, self.aggregates))
        selected = f"tick, {self._selected(groups)}, {counts}"
        return f"SELECT {selected} FROM v{join}{self._filter(there)} GROUP BY {keys}"

    def _selected(self, groups: Sequence[str]) -> str:
        named = [f"{group} AS k{i}" for i, group in enumerate(groups)]
        return ", ".join(named + [f"{each} AS m{i}" for i, each in enumerate(self.aggregates)])

    def _filter(self, more: list[str]) -> str:
        conditions = [f"({self.where})", *more] if self.where else more
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _counted(aggregate: str) -> str:
    """Return the number of values that an aggregate has."""
    call, found, condition = aggregate.partition(" FILTER ")
    return f"COUNT({call[call.index('(') + 1 : -1]}){found}{condition}"


@dataclass(frozen=True)
class Asker:
    """Makes up queries."""

    chance: random.Random

    def queries(self) -> Iterator[Asked]:
        while True:
            yield self._query()

    def _query(self) -> Asked:
        joins = self.chance.random() < 0.3
        groups = [group for group in GROUPS if joins or group not in JOINED]
        chosen = tuple(self.chance.sample(groups, self.chance.choice([0, 0, 1, 1, 2])))
        where = self._condition(self.chance.randrange(3)) if self.chance.random() < 0.6 else None
        aggregates = tuple(self._aggregate() for _ in range(self.chance.randrange(1, 4)))
        return Asked(aggregates, chosen, where, bool(chosen) and self.chance.random() < 0.5, joins)

    def _aggregate(self) -> str:
        if self.chance.random() < 0.1:
            return f"COUNT_IF({self._condition(self.chance.randrange(2))})"
        call = self._call()
        if self.chance.random() < 0.3:
            return f"{call} FILTER (WHERE {self._condition(self.chance.randrange(2))})"
        return call

    def _call(self) -> str:
        called = self.chance.choice(["COUNT(*)", "COUNT", "COUNT", "SUM", "SUM", "AVG"])
        if called == "COUNT(*)":
            return called
        if called == "COUNT" and self.chance.random() < 0.3:
            return f"COUNT({self.chance.choice('tgsb')})"
        return f"{called}({self._number(self.chance.randrange(3))})"

    def _number(self, depth: int) -> str:
        pick = self.chance.choice
        if depth <= 0:
            return pick(["x", "y", "z", "x", "y", "hour(ts)", "minute(ts)", "second(ts)", "3", "-2", "2.25"])
        a, b, condition = self._number(depth - 1), self._number(depth - 2), self._condition(depth - 1)
        return pick(
            [
                *(f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {pick(['2', '4', '0.5'])})"),
                *(f"(FLOOR({a}) % {pick(['3', '5', '-4'])})", f"ABS({a})", f"FLOOR({a})", f"ROUND({a})"),
                *(f"CASE WHEN {condition} THEN {a} ELSE {b} END", f"CASE WHEN {condition} THEN {a} END"),
                *(f"COALESCE({a}, {b})", f"NULLIF({a}, {pick('0125')})", f"LEAST({a}, {b})"),
                *(f"GREATEST({a}, {b})", f"CAST({condition} AS DOUBLE)", f"CEIL({a})"),
            ]
        )

    def _condition(self, depth: int) -> str:
        pick = self.chance.choice
        if depth > 0 and self.chance.random() < 0.4:
            a, b = self._condition(depth - 1), self._condition(depth - 1)
            return pick([f"({a} AND {b})", f"({a} OR {b})", f"(NOT {a})"])
        number, other = self._number(depth - 1), self._number(0)
        return pick(
            [
                *(f"({pick('xyzgtbs')} IS {pick(['', 'NOT '])}NULL)", f"({number} BETWEEN {other} AND 7)"),
                *(f"({pick('xz')} {pick(['', 'NOT '])}IN (1, 2, 5.0))", f"(t LIKE '{pick(['ab%', '_b_'])}')"),
                *(f"(g {pick(['=', '<>', '<'])} 'b')", f"(b IS {pick(['', 'NOT '])}TRUE)", "b"),
                *("(ts < '2026-01-05 00:00:45')", "(h IN ('p', 'other'))", "(t NOT LIKE '%c')"),
                *("(t ILIKE 'aB%')", "(date_trunc('minute', ts) = '2026-01-05 00:01')"),
                f"({number} {pick(['<', '<=', '>', '>=', '=', '<>'])} {other})",
            ]
        )
