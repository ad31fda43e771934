"""A clinic to ask SQL of: its declarations, hostile rows as a row source would give them, and an engine."""

import random
from dataclasses import replace
from fractions import Fraction

import duckdb

from streamgauge import Pure
from streamgauge.config.settings import Column, Lookup, Stream
from streamgauge.privacy import Event
from streamgauge.sql import parse
from streamgauge.sql.dialect import parse_select
from streamgauge.sql.expressions import Expression
from streamgauge.sql.query import Query
from streamgauge.sql.reader import ExpressionReader
from streamgauge.sql.scope import build_scope

REGIONS = ("north", "south", "o'east", "we\\st")
COLUMNS = (
    Column("region", values=REGIONS),
    Column("ward", values=("a", "b"), other=True),
    Column("temperature", "number", bounds=(Fraction(35), Fraction(42)), grid=Fraction("0.1")),
    Column("age", "number", bounds=(Fraction(0), Fraction(120)), grid=Fraction(1)),
    Column("change", "number", bounds=(Fraction("-2.5"), Fraction("0.3"))),
    Column("raw", "number"),
    Column("storey", "number", values=(1, 2, 5)),
    Column("fever", "boolean"),
    Column("note"),
    Column("v"),
    Column("sensor"),
    Column("born", "time"),
    Column("patient", hash_cells=1000),
    Column("town", max_groups=100),
)
DAY = 86_400_000_000
STREAM = Stream(
    name="visits",
    source="visits.jsonl",
    format="jsonl",
    compression=None,
    mode="batch",
    time="ts",
    time_format="iso",
    timezone="Europe/Berlin",
    tick=300_000_000,
    start=20_454 * DAY,  # 2026-01-01
    end=20_544 * DAY,
    unit=Event(),
    budget=Pure(1),
    columns={column.name: column for column in COLUMNS},
)
LIVE = replace(STREAM, mode="streaming", end=None)
SITES = Lookup(
    "sites",
    on="sensor",
    columns=("room", "floor", "area"),
    keys=("s1", "s2", "s3"),
    rows=(("r1", 1, 10.5), ("r2", 1, None), ("r3", 2, 9.0)),
)
LOOKUPS = {"sites": SITES}
TYPES = {"number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "time": "TIMESTAMP"}

HOSTILE: dict[str, tuple[object, ...]] = {
    "region": (None, *REGIONS),
    "ward": ("a", "b", "other"),
    "temperature": (None, 35.0, 42.0, 38.04999999999999, 36.6, 38.0),
    "age": (None, 0.0, 120.0, 17.999999999999996, 5e-324, 60.5, 7.0),
    "change": (None, -2.5, 0.3, 0.0, -0.0, -1e-310, -0.49999999999999994),
    "raw": (None, 0.0, -1.7976931348623157e308, 1.7976931348623157e308, 5e-324, 1.5, -9007199254740993.0),
    "storey": (None, 1.0, 2.0, 5.0),
    "fever": (None, True, False),
    "note": (None, "", "a" * 1024, "nan", "-inf", "1e999", " 12 ", "ÄÖ\U0001f600'\\", "true"),
    "v": (None, "%", "_"),
    "sensor": ("s1", "s2", "s3"),
    "ts": ("2026-01-01 00:00:00", "2026-03-31 23:59:59.999999", "2026-01-04 12:30:00"),
    "born": (None, "1924-02-29 00:00:00", "infinity", "-infinity", "0044-03-15 (BC) 12:00:00"),
    "patient": (None, 0, 999),
    "town": (None, "x"),
}


def rows() -> list[tuple[object, ...]]:
    """Return mixtures of hostile values, the same ones every time."""
    mixed = random.Random(4)
    return [tuple(mixed.choice(values) for values in HOSTILE.values()) for _ in range(400)]


def engine(*settings: str) -> duckdb.DuckDBPyConnection:
    """A table `rows` with all that a row source could give, lookups joined."""
    connection = duckdb.connect(config={"threads": 1})
    types = {c.name: "BIGINT" if c.hash_cells else TYPES[c.kind] for c in COLUMNS} | {"ts": "TIMESTAMP"}
    connection.execute(f"CREATE TABLE events ({', '.join(f'{name} {types[name]}' for name in HOSTILE)})")
    marks = ", ".join(f"CAST(? AS {types[name]})" for name in HOSTILE)
    connection.executemany(f"INSERT INTO events VALUES ({marks})", rows())
    connection.execute(
        'CREATE TABLE sites (k VARCHAR, "sites.room" VARCHAR, "sites.floor" DOUBLE, "sites.area" DOUBLE)'
    )
    joined = [(key, *row) for key, row in zip(SITES.keys, SITES.rows, strict=True)]
    connection.executemany("INSERT INTO sites VALUES (?, ?, ?, ?)", joined)
    connection.execute("CREATE TABLE rows AS SELECT * EXCLUDE (k) FROM events JOIN sites ON sensor = k")
    for setting in settings:
        connection.execute(setting)
    return connection


def query(sql: str, stream: Stream = STREAM) -> Query:
    return parse(sql, stream, LOOKUPS)


def expression(sql: str) -> Expression:
    """Return the parsed expression over the clinic."""
    select = parse_select(f"SELECT {sql} FROM visits JOIN sites USING (sensor)")
    return ExpressionReader(build_scope(select, STREAM, LOOKUPS))(select.expressions[0].unalias())
