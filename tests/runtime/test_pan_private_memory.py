"""Nothing exact is in the memory or on the disk of a pan-private pipeline in the middle of a tick.

The tests inspect a run while it is idle. They search every object that it references, the active frames and every
file for planted marks: numbers and texts. By chance one number may be in a noisy register (about 1e-6), two never.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import duckdb
import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import audit
from streamgauge.audit.subject import Pair
from streamgauge.continual.trees.past_noise import to_floats
from streamgauge.engines.duckdb import rows as keyed_hash
from streamgauge.engines.duckdb.connection import quote_text
from streamgauge.runtime.live import open_ticks
from streamgauge.runtime.live.run import LiveRun
from streamgauge.runtime.live.state import CLEAN_SHUTDOWN_PART, ExactMemory, NoisyMemory
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.encryption import DecryptionError, _compute_check, find_slot, unwrap
from streamgauge.store.keys import load_key
from streamgauge.store.store import Store
from tests.support.memory_searched import found, frames_of, reached
from tests.support.pipelines import START, Tables, World, event, pipeline, tables

VALUES = {"a": 777_777, "b": 888_883, "c": 999_983, "d": 123_457}
NUMBERS = {float(value) for value in VALUES.values()}
TEXT = "patient-4711-of-the-north"
SUMS = {"name": "sums", "sql": "SELECT g, SUM(x), COUNT(*) FROM v GROUP BY g", "window": "running"}
COUNTS = {"name": "n", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "running"}
RUNS = 1100  # groups
LIVE: Tables = {"source": "http", "mode": "streaming", "pan_private": True}


def private_tables(**stream: Any) -> Tables:
    columns = {"g": {"values": list(VALUES)}, "x": {"bounds": [0, 10**6], "grid": 1}}
    releases = [{**SUMS, "horizon": "100s"}, {**SUMS, "name": "latest", "window": "sliding 30s"}]
    return tables(*releases, **{**LIVE, "columns": columns, **stream})


def private(folder: Path, **stream: Any) -> Any:
    return pipeline(folder, private_tables(**stream))


def batch(less: int = 0) -> bytes:
    """Return the marks of all groups in one tick, with a text of an undeclared column, and bad records."""
    rows = [event(13, g, x - less, note=TEXT) for g, x in VALUES.items()]
    return "\n".join([*map(json.dumps, rows), TEXT, json.dumps({"g": TEXT})]).encode()


@dataclass
class Looking(World):
    """A clock that inspects an idle run at given seconds, in the middle of a tick."""

    looks: dict[float, Callable[[], None]] = field(default_factory=dict)

    def sleep(self, microseconds: int) -> None:
        for second in sorted(each for each in self.looks if each <= self.second):
            self.looks.pop(second)()
        super().sleep(microseconds)


@dataclass
class Moments:
    """The seconds at which a run begins, is sent its marks, is inspected while it is idle, and is stopped."""

    begins: int = 0
    sent: int = 13
    looked: int = 16
    stopped: int = 34


def looked_at(
    folder: Path,
    look: Callable[[LiveRun], Any],
    made: Any = None,
    sent: bytes = b"",
    when: Moments | None = None,
    **settings: Any,
) -> list[Any]:
    """Return the result of `look` on an idle run that got its marks in the middle of tick 2."""
    made, when = made or private(folder), when or Moments()
    clock = Looking(time=(START + when.begins) * 1_000_000, path=folder / "v.jsonl")
    stop, inbox = Flag(), EphemeralInbox(max_waiting_bytes=10**7)
    clock.acts = {when.sent: partial(inbox.put, TEXT, sent or batch()), when.stopped: stop.set}
    observation, runs = list[Any](), list[LiveRun]()

    class ListedRun(LiveRun):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            runs.append(self)

    clock.looks = {when.looked: lambda: observation.append(look(runs[0]))}
    components = {LiveRun: ListedRun, **settings.pop("components", {})}
    made.run(clock=clock, source=inbox, stop=stop, components=components, **settings)
    assert len(observation) == 1
    return [*observation, made]


def find_stored(run: LiveRun) -> tuple[set[float], set[str]]:
    """Return the marks in all objects of a run and of the active frames."""
    frames = [frame.f_locals for frame in frames_of()]
    return found(reached([run, *frames]), NUMBERS, {TEXT})


def on_disk(folder: Path) -> tuple[set[float], set[str]]:
    """Return the marks in all files except the curator's key; one of them is the journal."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("v.key")]
    assert any(path.name.endswith("-wal") for path in files)
    return found((path.read_bytes() for path in files), NUMBERS, {TEXT})


@dataclass
class Seen:
    """The findings in one run in the middle of its second tick."""

    folder: Path
    memory: tuple[set[float], set[str]]
    disk: tuple[set[float], set[str]]
    engine: tuple[Any, ...]
    keys: int  # number of keys that open the last commit
    parts: set[str]  # names of the state parts on disk
    made: Any = None


def seen_in(folder: Path, run: LiveRun) -> Seen:
    connection = run.engine._connection
    engine = (connection._database, connection._blocks, run.has_input, run.has_uncommitted)
    return Seen(folder, find_stored(run), on_disk(folder), engine, keys_in(folder, run), parts_of(folder))


def parts_of(folder: Path) -> set[str]:
    """Return the names of the state parts on disk, which are in the clear."""
    with closing(sqlite3.connect(f"file:{folder / 'v.streamgauge' / 'store.db'}?mode=ro", uri=True)) as sql:
        return {name for (name,) in sql.execute("SELECT name FROM parts")}


def keys_in(folder: Path, run: LiveRun) -> int:
    """Return the number of byte strings in a run that open the slot of the last commit."""
    store = run.session.publisher.store
    slot = find_slot((folder / "v.streamgauge" / "store.keys").read_bytes(), store._head.generation)
    texts = {thing for thing in reached([run]) if isinstance(thing, bytes) and len(thing) == 32}
    return sum(opens(secret, store, slot) for secret in texts)


def opens(secret: bytes, store: Any, slot: Any) -> bool:
    head = store._head
    try:
        unwrap(secret, head.identity, head.generation, (slot[0], _compute_check(secret), *slot[2:]))
    except (DecryptionError, ValueError):
        return False
    return True


@pytest.fixture(scope="module")
def observation(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("private")
    found, made = looked_at(folder, partial(seen_in, folder))
    found.made = made
    return found


def test_nothing_exact_is_in_memory_or_on_disk_during_tick(observation: Seen) -> None:
    for numbers, texts in (observation.memory, observation.disk):
        assert len(numbers) < 2
        assert not texts
    last = observation.made.releases("sums")[-1]
    assert last.tick == 3
    for place, value in enumerate(VALUES.values()):
        assert abs(last.value[0][place] - value) < 40 * last.stddev[0][place]


EXACT: dict[type, type] = {NoisyMemory: ExactMemory}


def test_a_run_that_remembers_exactly_is_caught(tmp_path: Path) -> None:
    """The broken twin: open ticks as they are without pan_private."""
    (numbers, texts), _ = looked_at(tmp_path, find_stored, components=EXACT)
    assert numbers == NUMBERS
    assert not texts, "raw text never rests, in either mode"
    assert parts_of(tmp_path) > ON_DISK


USERS = tuple(f"{TEXT}-{n}" for n in range(60))
CODES = 2**18  # so many that half of the users' codes are never found by chance


def codes_of(run: LiveRun) -> set[float]:
    """Return the hash codes of the users."""
    key = keyed_hash.derive_key(run.session.secret, "column u")
    asked = ", ".join(f"({keyed_hash.code_hash_sql(key, quote_text(user), CODES)})" for user in USERS)
    rows = duckdb.connect().execute(f"SELECT * FROM (VALUES {asked})").fetchall()
    return {float(code) for (code,) in rows}


def places_in(thing: Any) -> set[float]:
    """Return the places of nonzero entries in a sparse array with at least one bit for each code."""
    if not isinstance(thing, np.ndarray) or thing.dtype.kind not in "iuf" or thing.size < CODES // 8:
        return set()
    flags = np.unpackbits(thing.reshape(-1)) if thing.dtype == np.uint8 else thing
    places = np.flatnonzero(flags)
    return set((places % CODES).astype(np.float64).tolist()) if len(places) < flags.size / 10 else set()


def users_held(folder: Path, components: dict[type, type] | None = None) -> tuple[float, set[str]]:
    """Return the part of the users whose codes are in a run and its files, and the texts found there."""
    columns = {"u": {"hash_cells": CODES}}
    release = {"name": "n", "sql": "SELECT COUNT(DISTINCT u) FROM v", "window": "running"}
    stream = {**LIVE, "unit": {"user": "u"}, "end": "2026-01-05T00:01:40Z", "columns": columns}
    made = pipeline(folder, tables(release, **stream))

    def look(run: LiveRun) -> tuple[float, set[str]]:
        things = [*reached([run, *(frame.f_locals for frame in frames_of())])]
        things += [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        codes = codes_of(run)
        numbers, texts = found(things, codes, {TEXT})
        numbers |= codes & set[float]().union(*map(places_in, things))
        return len(numbers) / len(codes), texts

    sent = "\n".join(json.dumps({"ts": START + 13, "u": user}) for user in USERS).encode()
    observation: tuple[float, set[str]] = looked_at(folder, look, made, sent, components=components or {})[0]
    return observation


def test_no_user_is_stored_if_users_are_unit(tmp_path: Path) -> None:
    codes, texts = users_held(tmp_path)
    assert codes < 1 / 2
    assert texts == set()


@pytest.mark.parametrize("room", [open_ticks.MAX_TABLE_BYTES, 0], ids=["as places", "as numbers"])
def test_users_that_are_stored_by_code_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(open_ticks, "MAX_TABLE_BYTES", room)
    assert users_held(tmp_path, EXACT) == (1, set())


def test_engine_is_closed_after_round_and_counts_nothing(observation: Seen) -> None:
    assert observation.engine == (None, 0, False, False)


ON_DISK = {"secret", *(f"run/{name}/{part}" for name in ("sums", "latest") for part in (0, 1))}


def test_only_registers_and_the_secret_of_hashes_are_on_disk(observation: Seen) -> None:
    """After the run has stopped, the mark of a clean shutdown is there too."""
    assert observation.parts == ON_DISK
    with Store.open_writer(
        observation.made.file.folder, load_key("file:v.key", observation.folder), create=False
    ) as store:
        assert set(store.state()) == ON_DISK | {CLEAN_SHUTDOWN_PART}
    assert observation.made.quarantine() == ()


def test_keys_in_memory_cannot_open_last_commit(observation: Seen) -> None:
    """Registers of the last commit and of now have the same draws: both would reveal the events since."""
    assert observation.keys == 0


def test_unsealed_store_is_opened_by_key_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "seal", lambda store: None)
    assert looked_at(tmp_path, partial(keys_in, tmp_path))[0] == 1


@dataclass
class MidTick:
    """An audit subject: registers in the middle of tick 2, and releases, of many independent groups.

    Each of the two worlds runs once, and returns each view once.
    """

    folder: Path
    restarts: bool = False  # stop the run after the event, and inspect it after it resumes
    name: str = "a pipeline in the middle of a tick"
    loss: sg.Pure = field(default_factory=lambda: sg.Pure(1))
    left: dict[bool, Any] = field(default_factory=dict)
    components: dict[type, type] = field(default_factory=dict)

    def pairs(self) -> Sequence[Pair]:
        """The sum has the event, and the release before it."""
        return [Pair("an event before the look", True, False, lambda views: views[:, 1:].sum(1) - views[:, 0])]

    def views(self, data: bool, runs: int) -> Any:
        rows = self.left[data] if data in self.left else self._run(data)
        self.left[data] = rows[runs:]
        assert len(rows) >= runs
        return rows[:runs]

    def _run(self, data: bool) -> Any:
        folder = self.folder / str(data)
        folder.mkdir()
        labels = [f"g{i}" for i in range(RUNS)]
        release = {**COUNTS, "epsilon": 1, "horizon": "10000s"}
        stream = {**LIVE, "end": None, "columns": {"g": {"values": labels}}}
        made = pipeline(folder, tables(release, **stream))
        sent = "\n".join([json.dumps({"ts": START + 13, "g": g}) for g in labels] if data else ["{}"]).encode()
        when = Moments()
        if self.restarts:
            looked_at(folder, registers, made, sent, Moments(looked=14, stopped=16), components=self.components)
            sent, when = b"{}", Moments(16, 17, 18, 34)
        observation, _ = looked_at(folder, registers, made, sent, when, components=self.components)
        first, *_ = (each.value[0] for each in made.releases("n"))
        return np.stack([first, *observation], axis=1)


def registers(run: LiveRun) -> Any:
    """Return the sum in the middle of a tick, or the open tick of an exact memory."""
    if isinstance(run.memory, ExactMemory):
        tally = run.memory.open_ticks._sums["n/0"].close(2)
        places = np.bincount(tally.groups, tally.sums[0], run.batches.runs[0].runs[0].part.width)
        return places.astype(np.float64)[None]
    counter = run.batches.runs[0].runs[0].run._state.counter._state
    assert counter.sums.ahead.draws.any(axis=1).sum() > 1
    return to_floats(counter.sums.sum)[None]


@pytest.mark.parametrize("restarts", [False, True], ids=["at once", "after a restart"])
def test_registers_and_releases_together_lose_no_more_than_declared(tmp_path: Path, restarts: bool) -> None:
    verdict = audit(MidTick(tmp_path, restarts), 400, 1 - 1e-9)
    assert not verdict.is_condemned, verdict.reasons


def test_exact_open_tick_is_condemned_by_audit(tmp_path: Path) -> None:
    assert audit(MidTick(tmp_path, components=EXACT), 400, 1 - 1e-9).is_condemned
