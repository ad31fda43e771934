"""Small streams whose runs are killed: their declarations, their events, and the world around them.

A followed file needs a writer and a clock, and both must outlive a child that is killed. So `World` has no state of its
own: its time follows from the number of lines that were written.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamgauge import Pipeline
from streamgauge.sources import build_inbox
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.keys import create_key

SECOND = 1_000_000
TICK = 10  # seconds, one event in each
PACE = 5  # seconds, and events, that come at once
START = 1_767_571_200  # 2026-01-05T00:00:00Z
LATENESS = 5

COLUMNS = {
    "g": {"values": ["a", "b"]},
    "k": {"values": [f"k{i}" for i in range(40)]},
    "x": {"bounds": [0, 10], "grid": 1},
    "u": {"hash_cells": 1000},
}
WEIGHED = {"d": {"values": [f"k{i}" for i in range(5)], "max_changes": 3}, "w": {"values": [-1, 1]}}
EACH = {"name": "each", "sql": "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g", "window": "each"}
BINARY_INSIDE = {"name": "Hybrid", "inner": "Binary"}
RUNNING = {"name": "running", "sql": "SELECT COUNT(*), AVG(x) FROM v", "mechanism": BINARY_INSIDE, "consistent": True}
DISTINCT = {"name": "distinct", "sql": "SELECT COUNT(DISTINCT k) FROM v", "mechanism": "Hybrid"}
SLIDING = {"name": "sliding", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "sliding 60s"}
SEVERAL = {**SLIDING, "name": "windows", "window": ["sliding 20s", "sliding 60s"]}
SEEN = {"name": "distinct", "sql": "SELECT COUNT(DISTINCT u) FROM v", "window": "each"}
SHORT = {"name": "short", "sql": "SELECT COUNT(*) FROM v", "window": "decayed polynomial 1.5", "horizon": "70s"}
SMOOTH = {
    "name": "smooth",
    "sql": "SELECT g, COUNT(*) FROM v GROUP BY g",
    "window": "sliding 30s",
    "mechanism": "Pegasus",
    "alerts": [{"kind": "jump", "size": 1, "window": "30s"}, {"kind": "low", "size": 40, "window": "30s"}],
}
COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "running"}
LATEST = {**COUNTS, "name": "latest", "window": "sliding 30s"}
DENSITY = {"name": "density", "sql": "SELECT DENSITY(u) FROM v", "window": "running", "epsilon": 6}
DENSITIES = tuple({**DENSITY, "name": f"density_{place}", "epsilon": 1} for place in range(8))
LEFT = {"name": "distinct", "sql": "SELECT COUNT(DISTINCT d) FROM v"}
NET = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g"}
PAGES = {
    "name": "pages",
    "sql": (  # two items share 5 of 9 cells with probability below 1e-9, so sums without noise do not follow the key
        "SELECT g, APPROX_FREQUENCY(k, 'k1', 256), APPROX_FREQUENCY(k, 'k17', 256) FROM v "
        "WHERE k IN ('k1', 'k17') GROUP BY g"
    ),
    "window": "running",
}
RELEASES = (EACH, RUNNING, DISTINCT, SLIDING, SHORT)
BRIEF = (EACH, RUNNING)
OF_USERS = (EACH, RUNNING, SEEN, SLIDING, SHORT)
PLACES = {"each": 2, "running": 1, "distinct": 1, "sliding": 2, "short": 1, "smooth": 2, "windows": 2} | {
    "counts": 2,
    "latest": 2,
    "pages": 2,
    "density": 1,
    **{str(each["name"]): 1 for each in DENSITIES},
}
MEASURES = {"each": 2, "running": 2, "distinct": 1, "sliding": 1, "short": 1, "smooth": 3, "windows": 2} | {
    "counts": 1,
    "latest": 1,
    "pages": 2,
    "density": 1,
    **{str(each["name"]): 1 for each in DENSITIES},
}
SHORT_TICKS = 7
SINKS = ({"to": "out.jsonl"}, {"to": "out.parquet"}, {"to": "short.csv", "releases": ["short"]})
NARROW = ({"to": "out.jsonl", "releases": ["running"]}, {"to": "out.parquet", "releases": ["each"]})

USERS = {"user": "u", "max_events_per_tick": 2, "max_ticks": 6}
RENEWED = {"user": "u", "max_events_per_tick": 1, "max_ticks": 1, "per": 2}


@dataclass(frozen=True)
class Kind:
    """A stream, but for where it lies."""

    ticks: int
    source: str = "v.jsonl"
    mode: str = "batch"
    unit: object = "event"
    releases: tuple[Mapping[str, Any], ...] = RELEASES
    sinks: tuple[Mapping[str, Any], ...] = SINKS
    batch: int = 1  # ticks in a commit
    every: int = 1  # seconds between two events that are there from the beginning
    private: bool = False  # whether its memory may be seized
    weight: str | None = None  # the column of weights
    silent: bool = True  # whether it can be run without noise: tables of users cannot

    @property
    def tables(self) -> dict[str, object]:
        """The pipeline file."""
        stream = {
            "name": "v",
            "source": self.source,
            "mode": self.mode,
            "time": "ts",
            "time_format": "epoch s",
            "tick": f"{TICK}s",
            "start": text_of(START),
            "end": text_of(START + TICK * self.ticks),
            "unit": self.unit,
            "budget": {"epsilon": 12},
            "key": "file:c.key",
            "columns": COLUMNS,
        }
        if self.weight is not None:
            stream |= {"weight": self.weight, "columns": COLUMNS | WEIGHED}
        if self.private:
            stream["pan_private"] = True
        elif self.mode == "streaming":
            stream |= {"allowed_lateness": f"{LATENESS}s", "allowed_earliness": "3s"}
        if self.source == "-":
            stream["format"] = "jsonl"
        releases = [{"epsilon": 1, **release} for release in self.releases]
        return {"stream": stream, "release": releases, "sink": list(self.sinks)}

    def pipeline(self, folder: Path) -> Pipeline:
        return Pipeline.from_tables(self.tables, folder / "c.toml")

    def prepare(self, folder: Path) -> None:
        """A folder with the file, a key and, unless the world writes it, the source."""
        folder.mkdir(parents=True)
        create_key(folder / "c.key")
        (folder / "c.toml").write_text("".join(f"{name} = {toml(of)}\n" for name, of in self.tables.items()))
        there = range(0, 0 if self.mode == "streaming" else self.ticks * TICK, self.every)
        (folder / "v.jsonl").write_text("".join(map(line, there)))

    def of(self, name: str) -> int:
        """The ticks of a release."""
        return min(SHORT_TICKS, self.ticks) if name == "short" else self.ticks


def toml(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {toml(of)}" for name, of in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def text_of(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(number: int) -> int:
    """Return the claimed time of event `number`, which arrives at second `number`: early, in time or late."""
    return START + max(0, number + (2, 0, -1, -4)[number % 4])


def group(number: int) -> str:
    return "ab"[number * 5 % 7 % 2]


def line(number: int) -> str:
    told = {"ts": moment(number), "g": group(number), "k": f"k{number * number % 47}"}
    told |= {"d": f"k{number % 5}", "w": (1, 1, -1, 1, 5)[number * 3 % 7 % 5]}
    return json.dumps(told | {"x": number % 11, "u": f"u{number * 7 % 23}"}) + "\n"


KINDS = {
    "batch": Kind(30),
    "long batch": Kind(120, sinks=(SINKS[0], SINKS[2])),
    "batch users": Kind(30, unit=USERS, releases=OF_USERS),
    "followed": Kind(30, mode="streaming", releases=(*RELEASES, SMOOTH)),
    "followed users": Kind(30, mode="streaming", unit=USERS, releases=OF_USERS, sinks=SINKS[:2]),
    "weighed": Kind(30, releases=(LEFT, NET), sinks=SINKS[:1], weight="w"),
    "followed weighed": Kind(30, mode="streaming", releases=(LEFT, NET), sinks=SINKS[:1], weight="w"),
    "windows": Kind(30, releases=(SEVERAL,), sinks=SINKS[:1]),
    "sketched": Kind(30, releases=(PAGES,), sinks=SINKS[:1]),
    "followed sketched": Kind(30, mode="streaming", releases=(PAGES,), sinks=SINKS[:1]),
    "private sketched": Kind(
        5, "http", "streaming", releases=({**PAGES, "horizon": "50s"},), sinks=SINKS[:1], private=True
    ),
    "input": Kind(30, source="-", unit=USERS, releases=OF_USERS, sinks=SINKS[:1]),
    "sent": Kind(12, source="http", mode="streaming", sinks=SINKS[:1]),
    "sent users": Kind(12, source="http", mode="streaming", unit=RENEWED, releases=BRIEF, sinks=SINKS[:1]),
    "live input": Kind(12, source="-", mode="streaming", sinks=SINKS[:1]),
    "brief": Kind(12, releases=BRIEF, sinks=SINKS[:1]),
    "brief narrow": Kind(12, releases=BRIEF, sinks=NARROW),
    "brief wide": Kind(12, releases=BRIEF, sinks=SINKS[:2]),
    "brief parquet": Kind(12, releases=BRIEF, sinks=SINKS[1:2]),
    "printed": Kind(12, releases=BRIEF, sinks=({"to": "-"},)),
    "brief more": Kind(12, releases=(*BRIEF, SLIDING), sinks=SINKS[:1]),
    "brief live": Kind(16, mode="streaming", unit=USERS, releases=BRIEF, sinks=SINKS[:1]),
    "private": Kind(5, "http", "streaming", releases=(COUNTS, LATEST), sinks=SINKS[:1], private=True),
    "private users": Kind(
        5, "http", "streaming", {"user": "u"}, releases=(DENSITY,), sinks=SINKS[:1], private=True, silent=False
    ),
    "private often": Kind(  # of which no tick is equal in two draws by chance
        5, "http", "streaming", {"user": "u"}, releases=DENSITIES, sinks=SINKS[:1], private=True, silent=False
    ),
    "cold": Kind(5000, releases=(EACH, SHORT), sinks=SINKS[:2], batch=4096, every=50),
}


class World:
    """A clock by which events arrive: each sleep lets seconds pass, and writes an event in each.

    Arrived events are in `v.jsonl`. If that is not the source itself, they also go to a descriptor.
    """

    def __init__(self, folder: Path, also: int | None = None) -> None:
        self._file = os.open(folder / "v.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._also = also
        self._came = (folder / "v.jsonl").read_bytes().count(b"\n")

    def now(self) -> int:
        return (START + self._came) * SECOND

    steady = now

    def sleep(self, microseconds: int) -> None:
        told = "".join(map(line, range(self._came, self._came + PACE))).encode()
        os.write(self._file, told)
        if self._also is not None:
            os.write(self._also, told)
        self._came += PACE


class Sender(World):
    """A world whose events are sent in batches, each repeated until it is acknowledged.

    A file has the acknowledged batches, so it outlives the child. A new child sends all others, and, as a network may,
    every second acknowledged one again.
    """

    def __init__(self, folder: Path, pipeline: Pipeline) -> None:
        super().__init__(folder)
        self.inbox = build_inbox(pipeline.file, self.now)
        self._acknowledged = folder / "acknowledged"
        self._acknowledged.touch()
        done = set(map(int, self._acknowledged.read_text().split()))
        for batch in range(0, self._came, PACE):
            if batch not in done or batch % (2 * PACE) == 0:
                self._send(batch)

    def sleep(self, microseconds: int) -> None:
        super().sleep(microseconds)
        self._send(self._came - PACE)

    def _send(self, batch: int) -> None:
        """Send a batch whose last line has no end."""
        told = "".join(map(line, range(batch, batch + PACE))).rstrip()
        ticket = self.inbox.put(f"batch {batch}", told.encode())
        ticket.done.add_done_callback(lambda done: self._take_note(batch))

    def _take_note(self, batch: int) -> None:
        with self._acknowledged.open("a") as file:
            file.write(f"{batch}\n")


class Passing(World):
    """A world whose events are sent once: a run that dies loses the events that it has read and not committed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.inbox = EphemeralInbox(max_waiting_bytes=10**6)

    def sleep(self, microseconds: int) -> None:
        super().sleep(microseconds)
        self.inbox.put("", "".join(map(line, range(self._came - PACE, self._came))).encode())
