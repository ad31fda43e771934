"""A pipeline whose groups are discovered, its events, and the releases that plain Python computes."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from streamgauge import Pipeline
from streamgauge.plan.planner import plan_release
from tests.support.pipelines import Tables, event, tables

WORDS = "SELECT g, COUNT(*) FROM v GROUP BY g"
BUDGET = {"epsilon": 2, "delta": "1/1000000"}
DELTA = "1/10000000"
SINKS = [{"to": "out.jsonl"}, {"to": "out.csv"}, {"to": "out.parquet"}]
TICKS = 10

Told = list[list[tuple[str, float]]]


def words(*, most: int = 3, sql: str = WORDS, window: str = "running", **stream: Any) -> Tables:
    """A pipeline that discovers the groups of g."""
    release = {"name": "words", "sql": sql, "rho": "1/50", "delta": DELTA, "window": window}
    columns = {"g": {"max_groups": most}, "x": {"bounds": [0, 10], "grid": 1}}
    made = tables(release, **{"budget": BUDGET, "columns": columns, "sinks": SINKS[:1], **stream})
    del made["release"][0]["epsilon"]
    return made


def chosen(seed: int = 1, events: int = 4000) -> list[Tables]:
    """Events of some twenty words, a few of which are frequent, over ten ticks."""
    rng = np.random.default_rng(seed)
    names = ["tea", "Tee", "thé", "чай", "茶", 'a,"b"', "", " ", "x\ny", "\x1b[2J", *(f"w{i}" for i in range(12))]
    ranks = np.minimum(rng.zipf(1.6, events) - 1, len(names) - 1)
    seconds = np.sort(rng.random(events) * 100)
    return [event(float(s), names[r], float(r % 11)) for s, r in zip(seconds, ranks, strict=True)]


def told(made: Pipeline) -> Told:
    """Return the groups and values of each tick."""
    return [
        [(str(place.labels[0][1]), float(value)) for place, value in zip(each.shape.groups, each.value[0], strict=True)]
        for each in made.releases("words")
    ]


def by_hand(events: list[Tables], made: Pipeline, most: int = 3) -> Told:
    """The same from plain counts: published once above the threshold of a tick, then the largest of them."""
    (part,) = plan_release(made.file, made.file.releases[0]).parts
    statistic: Any = part.statistic
    span = {"running": TICKS, "each": 1}.get(made.file.releases[0].window, 3)
    ticks = [(int(each["ts"] - 1_767_571_200) // 10 + 1, each["g"]) for each in events]
    published: set[str] = set()
    found = []
    for tick in range(1, TICKS + 1):
        counts = Counter(g for t, g in ticks if tick - span < t <= tick)
        published |= {g for g, n in counts.items() if n > statistic.selection.threshold(tick)}
        largest = sorted(published, key=lambda g: (-counts[g], g))[:most]
        found.append([(g, float(counts[g])) for g in largest])
    return found


def _label(cell: str) -> Any:
    """A label of wide CSV: a cell that begins with a quotation mark is JSON."""
    return json.loads(cell) if cell.startswith('"') else cell


def rows(path: Path) -> dict[str, Any]:
    """Return the rows (tick, group, value) of each sink."""
    found: dict[str, Any] = {}
    found["jsonl"] = [
        (row["tick"], json.dumps(row["group"], sort_keys=True), row["count"]["value"])
        for row in map(json.loads, (path / "out.jsonl").read_text().split("\n")[:-1])
    ]
    with (path / "out.csv").open(newline="") as file:
        wide = csv.reader(file)
        key = next(wide)[4]
        found["csv"] = [(int(row[1]), json.dumps({key: _label(row[4])}), float(row[5])) for row in wide]
    with duckdb.connect() as engine:
        parts = engine.execute(f"SELECT tick, \"group\", value FROM '{path}/out.parquet/*.parquet'").fetchall()
    found["parquet"] = [(tick, json.dumps(json.loads(group)), value) for tick, group, value in parts]
    return found
