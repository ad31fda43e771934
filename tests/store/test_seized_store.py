"""Who seizes the disk and has no key: of two neighbouring inputs, read at the same moments, both stores look
the same after every commit.

What is looked at is all that is in the clear and all that has a length: names, times of change and sizes of
the parts of the state, the head, the history, the files, and which pages each transaction wrote into the
journal. What was published, and the lengths of sinks that follow from it, is public.
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

import pytest

from streamgauge.engines.duckdb.user_bounds import STATE_PREFIX, UserBounds
from streamgauge.runtime.live import state as exact_memory
from streamgauge.runtime.quarantine import QUARANTINE_PART, Quarantine
from tests.support.discovered import BUDGET, DELTA
from tests.support.pipelines import START, Tables, World, event, one_a_second, pipeline, run, tables, world

USER = {"user": "u", "max_events_per_tick": 2, "max_ticks": 4}
RELEASES = [
    {"name": "counts", "sql": "SELECT g, COUNT(*), AVG(x) FROM v GROUP BY g"},
    {"name": "sums", "sql": "SELECT SUM(x) FROM v", "window": "running"},
]
OF_EVENTS = [  # where users are not the unit
    {"name": "values", "sql": "SELECT COUNT(DISTINCT x) FROM v", "window": "running"},
    {"name": "words", "sql": "SELECT w, COUNT(*) FROM v GROUP BY w", "delta": DELTA, "window": "running"},
]
COLUMNS: Tables = {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}, "w": {"max_groups": 3}}
Line = Tables | str  # an event, or something that is none
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
    """Where flushing costs nothing, if the machine has such a place."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def text(lines: list[Line]) -> bytes:
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines).encode()


def in_time(more: list[Line]) -> dict[float, bytes]:
    """Bytes that come in every five seconds; what is added comes at 45 s, together with others."""
    seconds = range(0, 60, 5)
    came = {s + 5.0: text([e for e in EVENTS if s <= e["ts"] - START < s + 5]) for s in seconds}
    return {second: data + text(more) * (second == 45) for second, data in came.items() if data}


def look(folder: Path) -> dict[str, Any]:
    """What is on the disk, but for releases, the chain over them, and ciphertexts."""
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
    """The page of each frame, and for the last of a transaction the size of the database after it."""
    page = int.from_bytes(journal[8:12], "big")
    for at in range(32, len(journal) - 24 - page + 1, 24 + page):
        yield struct.unpack_from(">II", journal, at)


def watched(folder: Path, way: str, unit: Any, more: list[Line]) -> list[dict[str, Any]]:
    """What was on the disk after each commit of a run."""
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
    """Lets bytes come in as the clock goes, or, where they are piped, at once; returns the descriptor."""
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
    """By which neighbours a store shows that it is theirs."""
    alone = watched(folder / "alone", way, unit, [])
    assert len(alone) > 6
    return [
        f"{name}: {difference}"
        for name in only
        for difference in differences(alone, watched(folder / name, way, unit, NEIGHBOURS[name]))
    ]


def test_a_seized_store_looks_the_same_whatever_one_record_was(folder: Path) -> None:
    assert told(folder, "followed", tuple(NEIGHBOURS), USER | {"max_users": 20}) == []


@pytest.mark.one_of_each
@pytest.mark.parametrize("unit", [USER, "event"], ids=["users", "event"])
@pytest.mark.parametrize("way", WAYS)
def test_and_so_it_does_with_all_of_them_however_the_source_is_read(
    folder: Path, way: str, unit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = [line for lines in NEIGHBOURS.values() for line in lines]
    monkeypatch.setitem(NEIGHBOURS, "all", everything)
    assert told(folder, way, ("all",), unit) == []


def test_every_part_of_a_followed_run_is_written_at_every_tick(folder: Path) -> None:
    """So that when a part was last written tells when a tick was closed last, and nothing else."""
    looks = watched(folder / "f", "followed", USER, [])
    for before, after in pairwise(looks[1:]):
        names = {name for name, *_ in after["parts"]} - {"secret"}
        assert {name for name, *_ in before["parts"]} - {"secret"} == names
        assert {generation for name, generation, _ in after["parts"] if name in names} == {after["head"][0][0]}


def in_buckets(bounds: UserBounds, ticks: int) -> dict[str, bytes]:
    """A twin that saves users by the first byte of their hashes, and of these what changed."""
    changed, bounds._changed_users = {user[:1] for user in bounds._changed_users}, set()
    return {
        f"{STATE_PREFIX}{each.hex()}": bounds._rows([user for user in bounds._used_ticks if user[:1] == each]).tobytes()
        for each in changed
    }


def test_a_twin_that_writes_only_the_users_who_changed_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UserBounds, "save", in_buckets)
    monkeypatch.setattr("streamgauge.runtime.session.read_system_key", lambda: bytes(32))  # the same buckets
    found = told(folder, "followed", ("a user more", "a user in one more tick", "a bad record"))
    assert {each.split(":")[0] for each in found} == {"a user more", "a user in one more tick"}


def test_a_twin_that_writes_bad_records_only_when_there_are_more_is_caught(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Quarantine.save_state

    def changed(quarantine: Any) -> dict[str, bytes | None]:
        before = getattr(quarantine, "known", -1)
        quarantine.known = len(quarantine.records)
        return own(quarantine) if quarantine.known > before else {}

    monkeypatch.setattr(Quarantine, "save_state", changed)
    found = told(folder, "followed", ("a bad record", "a late one"))
    assert {each.split(" of commit")[0] for each in found} >= {"a bad record: parts", "a bad record: journal"}
    assert not any(each.startswith("a late one") for each in found)


def test_a_twin_that_tells_the_length_of_bad_records_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Quarantine.save_state
    monkeypatch.setattr(
        Quarantine, "save_state", lambda each: {QUARANTINE_PART: (own(each)[QUARANTINE_PART] or b"").rstrip()}
    )
    assert told(folder, "piped", ("a bad record",)) != []


def test_a_twin_that_tells_how_long_a_position_is_is_caught(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the source has 1,000 bytes, one more record makes the offset longer by a digit."""
    monkeypatch.setattr(exact_memory, "next_power_of_two", lambda size, least: size)
    assert told(folder, "followed", ("a long text",)) != []
