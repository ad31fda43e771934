"""A round that closes a tick runs the same queries and commits with and without events."""

import json
import re
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.engines import DuckEngine
from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.runtime.live.run import LiveRun
from streamgauge.runtime.release_run import Batches
from streamgauge.sources import build_inbox
from tests.support.pipelines import COUNTS, event, open_engine_of, pipeline, published, run, tables, world

RELEASES = [
    {"name": "counts", "sql": COUNTS, "epsilon": "1/4"},
    {"name": "medians", "sql": "SELECT MEDIAN(x), SUM(x) FROM v", "epsilon": "1/4"},
]


def list_work(folder: Path, came: dict[float, Any], source: str, components: dict[type, type]) -> list[str]:
    """Return the queries and commits of the rounds from second 14 to 15, when tick 1 closes."""
    folder.mkdir()
    made = pipeline(folder, tables(*RELEASES, live=True, source=source))
    clock, stop = world(folder), Flag()
    inbox = build_inbox(made.file, clock.now) if source == "http" else None
    found: list[str] = []
    for second, each in came.items():
        clock.acts[second] = lambda each=each: send(clock, inbox, each)
    clock.acts[15.5] = stop.set

    class ListedConnection(DuckConnection):
        def execute(self, sql: str, fetch: str) -> Any:
            note(re.sub(r"/fd/\d+", "/fd", sql))
            return super().execute(sql, fetch)

    class ListedBatches(Batches):
        def open_engine(self) -> Any:
            kind = type("ListedEngine", (DuckEngine,), {"CONNECTION": ListedConnection})
            return open_engine_of(self, kind)

    def note(what: str) -> None:
        if clock.second >= 14 and not stop.is_set():
            found.append(what)

    run(
        made,
        clock=clock,
        stop=stop,
        source=inbox,
        step=lambda name: note(name) if name == "store_committed" else None,
        components={Batches: ListedBatches, **components},
    )
    assert published(made) == [[1.0 * len(came), 0.0]]
    return found


def send(clock: Any, inbox: Any, each: Any) -> None:
    if inbox is not None:
        inbox.put("key", json.dumps(each).encode())
        return
    with clock.path.open("a") as file:
        file.write(json.dumps(each) + "\n")


def both(folder: Path, source: str, components: dict[type, type] | None = None) -> tuple[list[str], list[str]]:
    without = list_work(folder / "without", {}, source, components or {})
    return without, list_work(folder / "with", {15.0: event(3)}, source, components or {})


@pytest.mark.parametrize("source", ["http", "v.jsonl"])
def test_one_event_changes_neither_queries_nor_commits(tmp_path, source):
    without, with_one = both(tmp_path, source)
    assert with_one == without
    assert any("GROUPING SETS" in what for what in without)
    assert without.count("store_committed") == 1 + (source == "http")


class RestingRun(LiveRun):
    """A broken twin: it does nothing in a round without events."""

    def pad_work(self):
        pass


def test_a_run_that_rests_without_events_is_caught(tmp_path):
    without, with_one = both(tmp_path, "http", {LiveRun: RestingRun})
    assert len(without) < len(with_one)
