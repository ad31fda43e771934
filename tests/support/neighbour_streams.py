"""Small streams for the law of neighbours: visits over eight ticks, and releases of every kind over them.

A record is a mapping; `json_line` and `csv_line` write it as its source would.
"""

import csv
import io
import json
from typing import Any

Record = dict[str, Any]

START = 1_767_571_200_000_000  # 2026-01-05T00:00:00Z
HOUR = 3_600_000_000
TICKS = 8

COLUMNS: dict[str, dict[str, Any]] = {
    "region": {"values": ["north", "south", "east", "west"]},
    "kind": {"values": ["a", "b"], "other": True},
    "level": {"values": [1, 2, 3]},
    "temperature": {"bounds": [35.0, 42.0], "grid": 0.1},
    "amount": {"bounds": [-50, 50]},
    "age": {"bounds": [0, 100], "grid": 1},
    "flag": {"type": "boolean"},
    "note": {"type": "text"},
    "sensor": {"type": "text"},
    "patient": {"hash_cells": 12},
}
FIELDS = ("ts", *COLUMNS)
SITES = "sensor,floor,price\ns0,1,2.5\ns1,2,3\ns2,1,\n"

MOMENTS = (
    "SELECT region, COUNT(*), COUNT(temperature), SUM(temperature), AVG(temperature), VAR_SAMP(temperature), "
    "STDDEV(temperature) FROM v GROUP BY region"
)
AXES = (
    "SELECT MIN(temperature), MAX(temperature), MEDIAN(amount), QUANTILE(amount, 0.9), "
    "COUNT(DISTINCT patient), SUM(amount) FROM v"
)
SO_FAR = "SELECT level, MIN(age), MAX(age), MEDIAN(age), COUNT(DISTINCT patient), COUNT(note) FROM v GROUP BY level"
CHOSEN = (
    "SELECT SUM(CASE WHEN flag THEN amount * 2 + 1 ELSE age / temperature END), COUNT(note), "
    "AVG(LEAST(amount, age)), COUNT(*) FROM v WHERE amount BETWEEN -10 AND 40 OR note LIKE '%x%'"
)
ROLLED = (
    "SELECT kind, EXTRACT(minute FROM ts) >= 30 AS later, COUNT(*), SUM(age), STDDEV(age) FROM v "
    "GROUP BY ROLLUP (kind, later)"
)
JOINED = (
    "SELECT floor, COUNT(*), AVG(price * age) FROM v JOIN sites ON v.sensor = sites.sensor WHERE age > 3 GROUP BY floor"
)
RELEASES: dict[str, tuple[str, Any]] = {
    "moments": (MOMENTS, "running"),
    "axes": (AXES, "each"),
    "so_far": (SO_FAR, "running"),
    "chosen": (CHOSEN, "sliding 3h"),
    "rolled": (ROLLED, "decayed half-life 2h"),
    "joined": (JOINED, "each"),
    "several": ("SELECT region, COUNT(*), SUM(amount) FROM v GROUP BY region", ["sliding 2h", "sliding 3h"]),
}
VALUED = {name: (sql, "running" if name == "so_far" else "each") for name, (sql, _) in RELEASES.items()}
COUNTED = "SELECT region, COUNT(*), SUM(amount), COUNT(DISTINCT patient) FROM v GROUP BY region"
FEW = {"counted": (COUNTED, "each")}
FILTERED = {
    "low": ("SELECT COUNT(*), SUM(amount) FROM v WHERE amount <= 0", "each"),
    "high": ("SELECT region, COUNT(*), SUM(amount) FROM v WHERE amount > 0 GROUP BY region", "each"),
}
USER = {"user": "patient", "max_events_per_tick": 2, "max_ticks": 3}


def record(number: int, **other: Any) -> Record:
    """A visit: which one, by its number; the number says its tick too."""
    return {
        "ts": f"2026-01-05T{number % TICKS:02d}:{number * 7 % 60:02d}:00Z",
        "region": ("north", "south", "east", "west", "mars")[number % 5],
        "kind": "abc"[number % 3],
        "level": number % 4,
        "temperature": 35 + number % 70 / 10,
        "amount": number - 20.5,
        "age": number,
        "flag": number % 2 == 0,
        "note": "xyz"[number % 3],
        "sensor": f"s{number % 4}",
        "patient": f"p{number % 9}",
    } | other


VICTIM = record(13, ts="2026-01-05T03:20:00Z", region="north", level=1, kind="a", sensor="s1", patient="zed")


def json_line(record: Record) -> bytes:
    return json.dumps(record).encode()


def csv_line(record: Record) -> bytes:
    out = io.StringIO()
    row = [record.get(field) for field in FIELDS]
    csv.writer(out, lineterminator="").writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in row])
    return out.getvalue().encode()


HEADER = ",".join(FIELDS).encode()


def without(record: Record, *fields: str) -> Record:
    return {name: value for name, value in record.items() if name not in fields}


def with_column(name: str, **declared: Any) -> Record:
    """A stream in which a column is declared in another way."""
    return {"columns": COLUMNS | {name: declared}}
