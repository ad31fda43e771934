"""A seized disk without the key: the stores of two neighbouring inputs look the same after every commit.

Both runs read their input at the same moments. The comparison covers everything in the clear and every length:
names, times of change and sizes of the state parts, the head, the history, the files, and the pages that each
transaction wrote into the journal. Releases, and sink lengths that follow from them, are public.
"""

import json
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from streamgauge.engines.duckdb.user_bounds import BASE, CHANGED, STATE_PREFIX, UserBounds
from streamgauge.runtime.live import state as exact_memory
from streamgauge.runtime.quarantine import QUARANTINE_PART, Quarantine
from tests.support.discovered import BUDGET, DELTA
from tests.support.pipelines import START, Tables, World, event, one_a_second, pipeline, run, tables, world

USER = {"user": "u", "max_events_per_tick": 2, "max_ticks": 4}
RELEASES = [
    {"name": "counts", "sql": "SELECT g, COUNT(*), AVG(x) FROM v GROUP BY g"},
    {"name": "sums", "sql": "SELECT SUM(x) FROM v", "window": "running"},
]
OF_EVENTS = [  # if events are the unit
    {"name": "values", "sql": "SELECT COUNT(DISTINCT x) FROM v", "window": "running"},
    {"name": "words", "sql": "SELECT w, COUNT(*) FROM v GROUP BY w", "delta": DELTA, "window": "running"},
]
COLUMNS: Tables = {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}, "w": {"max_groups": 3}}
Line = Tables | str  # an event, or a line that is no event
EVENTS: list[Line] = [each | {"w": f"word {n % 7}"} for n, each in enumerate(one_a_second(60, users=11)) if n % 20 < 15]
NEIGHBOURS: dict[str, list[Line]] = {
    "a user more": [event(31.5, u="somebody")],
    "a user in one more tick": [event(41.5, u="u3")],
    "a bad record": ["no json"],
    "bad records": ["{", "no time at all", '{"ts": 1e400}', '{"u": 7}'],
    "no user": [event(31.5, x=3)],
    "a value out of bounds": [event(31.5, x=1e300, u="u1")],
    "a late one": [event(3, u="u1")],
    "an early one": [event(900, u="u2")],
    "a group that nobody else has": [event(31.5, "zed", u="u1", w="a secret of one")],
    "a long text": [event(31.5, w="secret " * 2000, u="u1")],
}
WAYS: dict[str, Tables] = {
    "batch": {"end": "2026-01-05T00:01:00Z"},
    "piped": {"end": "2026-01-05T00:01:00Z", "source": "-", "format": "jsonl"},
    "followed": {"live": True, "end": "2026-01-05T00:01:00Z"},
    "typed": {"live": True, "end": "2026-01-05T00:01:00Z", "source": "-", "format": "jsonl"},
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder, in memory if the machine has /dev/shm: flushing costs nothing there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def text(lines: list[Line]) -> bytes:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines).encode()


def in_time(more: list[Line]) -> dict[float, bytes]:
    """Return the bytes that arrive every five seconds; those of `more` arrive at 45 s, with others."""
    seconds = range(0, 60, 5)
    came = {s + 5.0: text([e for e in EVENTS if s <= e["ts"] - START < s + 5]) for s in seconds}
    return {second: data + text(more) * (second == 45) for second, data in came.items() if data}


def look(folder: Path) -> dict[str, Any]:
    """Return everything on the disk except releases, their chain, and ciphertexts."""
    with closing(sqlite3.connect(folder / "store.db")) as sql:
        found: dict[str, Any] = {
            "parts": sql.execute("SELECT name, generation, length(sealed) FROM parts ORDER BY name").fetchall(),
            "head": sql.execute("SELECT generation, number, tick, length(sealed) FROM head").fetchall(),
            "marks": sql.execute("SELECT name, value FROM marks WHERE name NOT LIKE 'sink/%'").fetchall(),
            "entries": sql.execute("SELECT number, tick FROM entries").fetchall(),
        }
    found["files"] = {path.name: path.stat().st_size for path in folder.iterdir() if path.name != "lock"}
    found["journal"] = list(frames((folder / "store.db-wal").read_bytes()))
    return found


def frames(journal: bytes) -> Iterator[tuple[int, int]]:
    """Yield the page of each frame and, for the last one of a transaction, the database size after it."""
    page = int.from_bytes(journal[8:12], "big")
    for at in range(32, len(journal) - 24 - page + 1, 24 + page):
        yield struct.unpack_from(">II", journal, at)


def watched(folder: Path, way: str, unit: Any, more: list[Line]) -> list[dict[str, Any]]:
    """Run a pipeline and return the disk content after each commit."""
    folder.mkdir()
    released = [*RELEASES, *OF_EVENTS] if unit == "event" else RELEASES
    made = pipeline(folder, tables(*released, unit=unit, columns=COLUMNS, budget=BUDGET | {"epsilon": 50}, **WAYS[way]))
    happens, looks = in_time(more), []

    def step(name: str) -> None:
        if name == "store_committed":
            looks.append(look(folder / "v.streamgauge"))

    clock, given = world(folder), 0
    if way == "batch":
        (folder / "v.jsonl").write_bytes(b"".join(happens.values()))
    else:
        given = feed(clock, folder, way, happens)
    run(made, clock=clock, step=step, standard_input=given, max_batch_ticks=1)
    if given:
        os.close(given)
    return looks


def feed(clock: World, folder: Path, way: str, happens: dict[float, bytes]) -> int:
    """Deliver bytes by the clock, or at once if they are piped; return the descriptor."""
    if way == "followed":
        for second, data in happens.items():
            clock.acts[second] = lambda data=data: append(folder / "v.jsonl", data)
        return 0
    given, writing = os.pipe()
    if way == "piped":
        os.write(writing, b"".join(happens.values()))
        os.close(writing)
    else:
        clock.acts |= {second: lambda data=data: os.write(writing, data) for second, data in happens.items()}
        clock.acts[70] = lambda: os.close(writing)
    return given


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def differences(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    found = [] if len(one) == len(other) else [f"{len(one)} commits became {len(other)}"]
    for number, (before, after) in enumerate(zip(one, other, strict=False)):
        found += [
            f"{what} of commit {number}: {set(map(repr, before[what])) ^ set(map(repr, after[what]))}"
            for what in before
            if before[what] != after[what]
        ]
    return found


def told(folder: Path, way: str, only: tuple[str, ...], unit: Any = USER) -> list[str]:
    """Return the differences by which a store reveals each neighbour."""
    alone = watched(folder / "alone", way, unit, [])
    assert len(alone) > 6
    return [
        f"{name}: {difference}"
        for name in only
        for difference in differences(alone, watched(folder / name, way, unit, NEIGHBOURS[name]))
    ]


def test_seized_store_looks_same_for_every_neighbour(folder: Path) -> None:
    assert told(folder, "followed", tuple(NEIGHBOURS), USER | {"max_users": 20}) == []


@pytest.mark.one_of_each
@pytest.mark.parametrize("unit", [USER, "event"], ids=["users", "event"])
@pytest.mark.parametrize("way", WAYS)
def test_seized_store_hides_all_neighbours_in_every_source_mode(
    folder: Path, way: str, unit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = [line for lines in NEIGHBOURS.values() for line in lines]
    monkeypatch.setitem(NEIGHBOURS, "all", everything)
    assert told(folder, way, ("all",), unit) == []


def test_followed_run_writes_every_state_part_at_every_tick(folder: Path) -> None:
    """The time of the last write of a part then shows only when the last tick closed."""
    looks = watched(folder / "f", "followed", USER, [])
    for before, after in pairwise(looks[1:]):
        names = {name for name, *_ in after["parts"]} - {"secret"}
        assert {name for name, *_ in before["parts"]} - {"secret"} == names
        assert {generation for name, generation, _ in after["parts"] if name in names} == {after["head"][0][0]}


def in_buckets(bounds: UserBounds, ticks: int) -> dict[str, bytes]:
    """A twin that saves users in buckets by the first bits of their hash, and only changed buckets."""
    rows = bounds._collect_users(BASE)
    changed = {int(high) >> 56 for high in bounds._collect_users(CHANGED)["high"]}
    for table in bounds._used_ticks.values():
        table.limit_stages(BASE)
    return {f"{STATE_PREFIX}{each:02x}": rows[rows["high"] >> np.uint64(56) == each].tobytes() for each in changed}


def test_twin_that_writes_only_changed_users_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UserBounds, "save", in_buckets)
    monkeypatch.setattr("streamgauge.runtime.session.read_system_key", lambda: bytes(32))  # the same buckets
    found = told(folder, "followed", ("a user more", "a user in one more tick", "a bad record"))
    assert {each.split(":")[0] for each in found} == {"a user more", "a user in one more tick"}


def test_twin_that_saves_quarantine_only_after_growth_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Quarantine.save_state

    def changed(quarantine: Any) -> dict[str, bytes | None]:
        before = getattr(quarantine, "known", -1)
        quarantine.known = len(quarantine.records)
        return own(quarantine) if quarantine.known > before else {}

    monkeypatch.setattr(Quarantine, "save_state", changed)
    found = told(folder, "followed", ("a bad record", "a late one"))
    assert {each.split(" of commit")[0] for each in found} >= {"a bad record: parts", "a bad record: journal"}
    assert not any(each.startswith("a late one") for each in found)


def test_twin_that_reveals_length_of_bad_records_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Quarantine.save_state
    monkeypatch.setattr(
        Quarantine, "save_state", lambda each: {QUARANTINE_PART: (own(each)[QUARANTINE_PART] or b"").rstrip()}
    )
    assert told(folder, "piped", ("a bad record",)) != []


def test_twin_that_reveals_length_of_position_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1,000 bytes, one more record makes the offset one digit longer."""
    monkeypatch.setattr(exact_memory, "next_power_of_two", lambda size, least: size)
    assert told(folder, "followed", ("a long text",)) != []
