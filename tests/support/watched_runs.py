"""Whole runs of a pipeline under silent noise, recorded: each exact vector that enters a mechanism, and all output.

The output without releases must be equal for all neighbours (`neighbour_law`).
"""

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.continual.run import Run
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import plan_release
from streamgauge.runtime import session as opening
from streamgauge.runtime.part_runs import EventPartRun
from streamgauge.statistics import EventRun
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import ManualClock, SilentNoise
from tests.support.neighbour_streams import COLUMNS, RELEASES, SITES

SECRET = bytes(range(32))  # one for all runs: with another, other values would share a hash
PLANS: dict[Any, Any] = {}
ONE = {"epsilon": 1}


def tables(
    source: str,
    unit: Any = "event",
    releases: Mapping[str, tuple[str, str]] = RELEASES,
    loss: Mapping[str, Any] = ONE,
    **stream: Any,
) -> dict[str, Any]:
    """A pipeline file over the streams of `neighbour_streams`; every release has the same loss."""
    settings = {
        "name": "v",
        "source": source,
        "mode": "batch",
        "time": "ts",
        "tick": "1h",
        "start": "2026-01-05T00:00:00Z",
        "end": "2026-01-05T08:00:00Z",
        "unit": unit,
        "budget": {"epsilon": 1000},
        "key": "file:v.key",
        "columns": COLUMNS,
    }
    return {
        "stream": settings | stream,
        "lookup": {"sites": {"file": "sites.csv", "on": "sensor"}},
        "release": [{"name": name, "sql": sql, "window": window, **loss} for name, (sql, window) in releases.items()],
        "sink": [{"to": "out.jsonl"}],
    }


@dataclass
class Watched:
    """Record of one run."""

    parts: list[tuple[CounterPart, Any]] = field(default_factory=list)  # with (ticks, places), or a tick's keys
    public: dict[str, Any] = field(default_factory=dict)  # what must be the same for all neighbours
    raised: BaseException | None = None
    progress: list[Any] = field(default_factory=list)  # for the curator
    diagnoses: list[str] = field(default_factory=list)  # the same
    rows: list[dict[str, Any]] = field(default_factory=list)  # what the sink has

    @property
    def counted(self) -> int:
        """Return how often each key of a tick occurs; NULL is no key."""
        return sum(int(np.abs(vectors).sum()) for part, vectors in self.parts if part.measure.key is None)


class House:
    """A folder in which one pipeline after another is run from nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sites.csv").write_text(SITES)
        create_key(folder / "v.key")
        self.own = {"sites.csv", "v.key"}

    def clear(self) -> None:
        for folder in ("v.streamgauge", "out.parquet"):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        for path in self.folder.iterdir():
            if path.name.startswith(("out", "v.key.")):
                path.unlink()

    def run(self, tables: Mapping[str, Any], **options: Any) -> Watched:
        """Run to the end, or to the first exception."""
        self.clear()
        seen = Watched()
        settings: dict[str, Any] = {"noise": SilentNoise(), "clock": ManualClock(), "on_progress": seen.progress.append}
        settings |= options | {"diagnose": seen.diagnoses.append}
        with spied() as parts, planned_once():
            try:
                pipeline = sg.Pipeline.from_tables(tables, self.folder / "v.toml")
                seen.public["report"] = str(pipeline.run(**settings))
            except Exception as error:
                seen.raised = error
        seen.parts = [(run.part, together(run.part, ticks)) for run, ticks in parts if ticks]
        self._look_around(seen, tables["stream"]["source"])
        return seen

    def _look_around(self, seen: Watched, source: str) -> None:
        lines = self._lines()
        seen.rows = [json.loads(line) for line in lines]
        files = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
        seen.public |= {
            "raised": (type(seen.raised), str(seen.raised)),
            "rows": [shape_of(row) for row in seen.rows],
            "files": sorted(files - {source}),
            "store": self._store(),
        }

    def _lines(self) -> list[str]:
        out = self.folder / "out.jsonl"
        return out.read_text().splitlines() if out.exists() else []

    def _store(self) -> dict[str, Any]:
        """Return everything that an owner of the disk without the key can read, but releases and their chain."""
        path = self.folder / "v.streamgauge" / "store.db"
        if not path.exists():
            return {}
        sql = sqlite3.connect(path)
        try:
            sealed = dict(sql.execute("SELECT name, length(sealed) FROM parts"))
            marks = dict(sql.execute("SELECT name, value FROM marks WHERE name NOT LIKE 'sink/%'"))
            entries = sql.execute("SELECT number, tick FROM entries").fetchall()
            acts = sql.execute("SELECT number, act FROM acts").fetchall()
        finally:
            sql.close()
        return {"sealed": sealed, "marks": marks, "entries": entries, "acts": acts}


@contextmanager
def house_in_memory() -> Iterator[House]:
    """A house where flushing costs nothing, if the machine has such a place."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield House(Path(folder))


def shape_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """A line of a sink without its numbers."""
    told = ("release", "tick", "start", "end", "level", "group")
    return tuple(json.dumps(row.get(name)) for name in told) + tuple(
        (name, tuple(value)) for name, value in row.items() if name not in told and isinstance(value, dict)
    )


@contextmanager
def spied() -> Iterator[list[tuple[EventPartRun, list[Any]]]]:
    """Yield the parts that start, with the input of their counters, tick by tick."""
    parts: list[tuple[EventPartRun, list[Any]]] = []
    taken: dict[int, list[Any]] = {}  # by counter, or by run where keys are discovered
    step, feed, take_keys, init = Run.step, Run.feed, EventRun.step_keys, EventPartRun.__init__
    feed_windows = Run.feed_windows

    def stepped(self: Any, values: Any) -> Any:
        taken.get(id(self), []).append(np.array(values, np.int64).reshape(1, -1))
        return step(self, values)

    def fed(self: Any, block: Any) -> Any:
        taken.get(id(self), []).append(np.array(block, np.int64))
        return feed(self, block)

    def fed_windows(self: Any, block: Any, windows: Any) -> Any:
        taken.get(id(self), []).append(np.array(block, np.int64))
        return feed_windows(self, block, windows)

    def discovered(self: Any, keys: Any, counts: Any, **settings: Any) -> Any:
        taken[id(self)].append(counted(keys, counts))
        return take_keys(self, keys, counts, **settings)

    def begun(self: Any, part: CounterPart, run: Any) -> None:
        init(self, part, run)
        parts.append((self, []))
        with run._locked() as held:
            taken[id(run if part.measure.key else held.counter)] = parts[-1][1]

    counter: Any = Run
    keyed: Any = EventRun
    part_run: Any = EventPartRun
    counter.step, counter.feed, keyed.step_keys, part_run.__init__ = stepped, fed, discovered, begun
    counter.feed_windows = fed_windows
    try:
        yield parts
    finally:
        counter.step, counter.feed, keyed.step_keys, part_run.__init__ = step, feed, take_keys, init
        counter.feed_windows = feed_windows


def counted(keys: Any, counts: Any) -> Counter[str]:
    """Return how often each key of a tick occurs; NULL is no key."""
    found: Counter[str] = Counter()
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        if key is not None:
            found[key] += count
    return found


def together(part: CounterPart, ticks: list[Any]) -> Any:
    """All ticks; where groups are discovered each has keys of its own."""
    return ticks if part.measure.key else np.concatenate(ticks)


@contextmanager
def planned_once() -> Iterator[None]:
    """Return the plan of a file. Plans follow from declarations alone, so equal ones are built once."""
    session: Any = opening
    key_of = session.read_system_key

    def known(file: Any, release: Any) -> Any:
        key = file.blocks["stream"], file.blocks[f"release.{release.name}"]
        if key not in PLANS:
            PLANS[key] = plan_release(file, release)
        return PLANS[key]

    session.plan_release, session.read_system_key = known, lambda: SECRET
    try:
        yield
    finally:
        session.plan_release, session.read_system_key = plan_release, key_of
