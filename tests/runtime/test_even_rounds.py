"""A round in which a tick closes does the same whether something came or not: queries and commits."""

import json
import re
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.runtime.live.run import LiveRun
from streamgauge.sources import build_inbox
from tests.support.pipelines import COUNTS, event, pipeline, published, run, tables, world

RELEASES = [
    {"name": "counts", "sql": COUNTS, "epsilon": "1/4"},
    {"name": "medians", "sql": "SELECT MEDIAN(x), SUM(x) FROM v", "epsilon": "1/4"},
]


def done(folder: Path, monkeypatch: pytest.MonkeyPatch, came: dict[float, Any], source: str) -> list[str]:
    """The queries and commits of the rounds from second 14 to 15, when tick 1 closes."""
    folder.mkdir()
    made = pipeline(folder, tables(*RELEASES, live=True, source=source))
    clock, stop = world(folder), Flag()
    inbox = build_inbox(made.file, clock.now) if source == "http" else None
    found: list[str] = []
    for second, each in came.items():
        clock.acts[second] = lambda each=each: send(clock, inbox, each)
    clock.acts[15.5] = stop.set
    own = DuckConnection.execute

    def arrays(self: DuckConnection, sql: str, fetch: str) -> Any:
        note(re.sub(r"/fd/\d+", "/fd", sql))
        return own(self, sql, fetch)

    def note(what: str) -> None:
        if clock.second >= 14 and not stop.is_set():
            found.append(what)

    monkeypatch.setattr(DuckConnection, "execute", arrays)
    run(made, clock=clock, stop=stop, inbox=inbox, step=lambda name: note(name) if name == "store_committed" else None)
    monkeypatch.setattr(DuckConnection, "execute", own)
    assert published(made) == [[1.0 * len(came), 0.0]]
    return found


def send(clock: Any, inbox: Any, each: Any) -> None:
    if inbox is not None:
        inbox.put("key", json.dumps(each).encode())
        return
    with clock.path.open("a") as file:
        file.write(json.dumps(each) + "\n")


def both(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> tuple[list[str], list[str]]:
    without = done(folder / "without", monkeypatch, {}, source)
    return without, done(folder / "with", monkeypatch, {15.0: event(3)}, source)


@pytest.mark.parametrize("source", ["http", "v.jsonl"])
def test_one_event_changes_neither_queries_nor_commits(tmp_path, monkeypatch, source):
    without, with_one = both(tmp_path, monkeypatch, source)
    assert with_one == without
    assert any("GROUPING SETS" in what for what in without)
    assert without.count("store_committed") == 1 + (source == "http")


def test_a_twin_that_rests_when_nothing_came_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(LiveRun, "_pad_work", lambda self: None)
    without, with_one = both(tmp_path, monkeypatch, "http")
    assert len(without) < len(with_one)
