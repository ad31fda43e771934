"""Small pipelines for tests: ten ticks of ten seconds, two groups, silent noise, clocks moved by hand."""

import json
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamgauge import Pipeline
from streamgauge.engines import DuckEngine
from streamgauge.runtime.adhoc.releases import AdHocRelease
from streamgauge.runtime.commands.queue import AddRelease, CommandQueue
from streamgauge.runtime.release_run import Batches
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import ManualClock, SilentNoise

SECOND = 1_000_000
START = 1_767_571_200  # 2026-01-05T00:00:00Z
TICKS = 10

Tables = dict[str, Any]

COUNTS = "SELECT g, COUNT(*) FROM v GROUP BY g"
TABLES: Tables = {
    "stream": {
        "name": "v",
        "source": "v.jsonl",
        "mode": "batch",
        "time": "ts",
        "time_format": "epoch s",
        "tick": "10s",
        "start": "2026-01-05T00:00:00Z",
        "end": "2026-01-05T00:01:40Z",
        "unit": "event",
        "budget": {"epsilon": 1},
        "key": "file:v.key",
        "columns": {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}},
    },
    "release": [{"name": "counts", "sql": COUNTS, "epsilon": "1/2", "window": "each"}],
    "sink": [{"to": "out.jsonl"}],
}


def tables(*releases: Tables, live: bool = False, sinks: Sequence[Tables] | None = None, **stream: Any) -> Tables:
    """The tables of a file: given releases, or the usual one; None takes a key of the stream away."""
    made = deepcopy(TABLES)
    if releases:
        made["release"] = [{"window": "each", "epsilon": "1/2", **deepcopy(each)} for each in releases]
    if live:
        made["stream"] |= {"mode": "streaming", "allowed_lateness": "5s", "allowed_earliness": "20s"}
        del made["stream"]["end"]
    if sinks is not None:
        made["sink"] = [dict(sink) for sink in sinks]
    made["stream"] |= stream
    made["stream"] = {name: value for name, value in made["stream"].items() if value is not None}
    return made


def pipeline(folder: Path, made: Tables, name: str = "v.toml") -> Pipeline:
    """A pipeline in a folder that has a key."""
    if not (folder / "v.key").exists():
        create_key(folder / "v.key")
    return Pipeline.from_tables(made, folder / name)


def event(second: float, g: str = "a", x: float = 1, **more: Any) -> Tables:
    """An event so many seconds after the start."""
    return {"ts": START + second, "g": g, "x": x, **more}


def write(folder: Path, events: Iterable[Tables], name: str = "v.jsonl") -> None:
    (folder / name).write_text("".join(f"{json.dumps(each)}\n" for each in events))


def one_a_second(seconds: int = 100, users: int = 3) -> list[Tables]:
    """One event a second, of the groups in turn, with a user and a value."""
    return [event(s, "ab"[s % 2], s % 11, u=f"u{s % users}") for s in range(seconds)]


def run(made: Pipeline, adhoc_releases: Sequence[AdHocRelease] = (), **settings: Any) -> Any:
    """Run it with silent noise, so that releases are exact.

    Commands add ad hoc releases. The first refusal of one is raised at the end.
    """
    if not adhoc_releases:
        return made.run(**{"noise": SilentNoise(), **settings})
    queue = CommandQueue(now=settings["clock"].now if "clock" in settings else lambda: 0)
    queue.on_idle = queue.close
    added = [queue.submit(AddRelease(each)) for each in adhoc_releases]
    report = made.run(**{"noise": SilentNoise(), "commands": queue, **settings})
    for outcome in added:
        outcome.result()
    return report


def open_engine_of(batches: Batches, kind: type[DuckEngine]) -> DuckEngine:
    """Open an engine of another kind for the measures of a run."""
    file, measures = batches.session.file, list(batches.measures.values())
    return kind(file.stream, file.lookups, measures, secret=batches.session.secret)


def published(made: Pipeline, release: str = "counts", measure: int = 0) -> list[list[float]]:
    """The values of a measure, tick by tick."""
    return [each.value[measure].tolist() for each in made.releases(release)]


def ticks_of(made: Pipeline, release: str = "counts") -> list[int]:
    return [each.tick for each in made.releases(release)]


def lines(path: Path) -> list[Tables]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass
class World(ManualClock):
    """A clock that starts at the stream's start, and a file that changes as the clock moves.

    `happens` maps seconds after the start to events that are written then, `acts` to functions that are called then. It
    never sleeps for less than `stride`, so that an hour takes no time.
    """

    path: Path = Path("v.jsonl")
    happens: dict[float, list[Tables]] = field(default_factory=dict)
    acts: dict[float, Callable[[], None]] = field(default_factory=dict)
    stride: int = SECOND

    def sleep(self, microseconds: int) -> None:
        super().sleep(max(microseconds, self.stride))
        self.catch_up()

    @property
    def second(self) -> float:
        return (self.time - START * SECOND) / SECOND

    def catch_up(self) -> None:
        for second in sorted(each for each in self.happens if each <= self.second):
            with self.path.open("a") as file:
                file.writelines(f"{json.dumps(each)}\n" for each in self.happens.pop(second))
        for second in sorted(each for each in self.acts if each <= self.second):
            self.acts.pop(second)()


def world(folder: Path, happens: dict[float, list[Tables]] | None = None, *, at: float = 0) -> World:
    """Return a world at a second after the start, whose file has all events up to then."""
    made = World(time=int((START + at) * SECOND), path=folder / "v.jsonl", happens=dict(happens or {}))
    made.path.touch()
    made.catch_up()
    return made


def as_they_happen(events: Iterable[Tables], every: int = 5, delay: float = 0) -> dict[float, list[Tables]]:
    """Events are written as they happen, a few seconds' together, or so much later."""
    found: dict[float, list[Tables]] = {}
    for each in events:
        happened = each["ts"] - START
        found.setdefault(happened - happened % every + every + delay, []).append(each)
    return found
