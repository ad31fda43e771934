"""Nothing raw on disk: a disk that is seized at any instant has nothing of a record.

The command itself runs over marked records, with so little memory that DuckDB would spill them; it is stopped
and killed at several instants, and all that it could have touched is searched for the marks, in clear, in
other alphabets, as numbers, and as hashes that need no key (`marks`, `seized_runs`).
"""

import base64
import hashlib
import io
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from tests.support.marks import DECLARED, NUMBER, OF_EVENTS, STEP, TEXTS, found, records, write
from tests.support.seized_runs import MAIN, House

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors of a process are seen on Linux")

START = 1_767_571_200  # 2026-01-05T00:00:00Z
MANY = 150_000
SHORT = "--memory=60MB"
FEW = 3000
FEW_LINES = 10  # that a whole run publishes at least
STREAM = """
[stream]
name = "v"
source = "{source}"
format = "jsonl"
mode = "{mode}"
time = "ts"
time_format = "epoch s"
tick = "{tick}s"
start = {start}
end = {end}
unit = {unit}
budget = {{ epsilon = 100, delta = 1e-6 }}
key = "file:v.key"
"""
LIVE = 'allowed_lateness = "1s"\nallowed_earliness = "5s"\n'
EVENTS = '"event"'
USERS = '{ user = "who", max_events_per_tick = 2, max_ticks = 4 }'
SPILLS = (
    "from streamgauge.engines.duckdb import connection as c; c.SETTINGS['temp_directory'] = 'spilled'; "
    "c.LOCK_STATEMENTS = [each for each in c.LOCK_STATEMENTS if 'external' not in each]; " + MAIN
)
UNSEALED = (
    "from streamgauge.store import store, integrity; "
    "store.seal_part = lambda identity, name, generation, plain: (bytes(32), plain); "
    "integrity.unseal_part = lambda key, identity, name, generation, sealed: sealed; " + MAIN
)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder where flushing costs nothing, if the machine has such a place."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def house() -> Iterator[House]:
    with in_memory() as folder:
        yield House(folder)


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    """A file of so many records that their words do not fit into memory."""
    with in_memory() as folder:
        yield str(write(folder / "v.jsonl", records(START, 100, MANY)))


def moment(second: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def declared(
    source: str, *, live: bool = False, unit: str = EVENTS, start: int = START, tick: int = 10, ticks: int = 10
) -> str:
    stream = STREAM.format(
        source=source,
        mode="streaming" if live else "batch",
        tick=tick,
        start=f'"{moment(start)}"',
        end=f'"{moment(start + tick * ticks)}"',
        unit=unit,
    )
    return stream + LIVE * live + DECLARED + OF_EVENTS * (unit == EVENTS)


def marked(house: House, count: int, *, start: int = START, seconds: int = 100) -> Path:
    return write(house.source / "v.jsonl", records(start, seconds, count))


@pytest.mark.slow
def test_of_a_finished_file_nothing_raw_is_on_the_disk_however_short_memory_is(house: House, large: str) -> None:
    house.declare(declared(large))
    for instant in (0.1, 0.7):
        with house.started(SHORT) as run:
            run.at_work()
            time.sleep(instant)
            assert found(run.killed()) == set()
    with house.started(SHORT) as run:
        run.wait_until(lambda: house.published > 0)
        assert found(run.looked_at()) == set()
        assert found(run.ended()) == set()
    assert house.published > 20


def test_a_twin_that_lets_the_engine_spill_is_caught(house: House, large: str) -> None:
    house.declare(declared(large))
    observed: set[str] = set()
    with house.started(SHORT, main=SPILLS) as run:
        while run.process.poll() is None and not observed:
            observed = {mark for name, mark in found(run.looked_at()) if "duckdb_temp" in name}
            time.sleep(0.02)
    assert observed & {"word", "note", "badge"}


@pytest.mark.one_of_each
@pytest.mark.parametrize("unit", [USERS, EVENTS], ids=["users", "events"])
def test_of_a_followed_file_nothing_raw_is_on_the_disk_between_two_ticks(house: House, unit: str) -> None:
    """Ticks of a second, of which the first are over before it begins."""
    start = int(time.time()) - 3
    source = marked(house, FEW, start=start, seconds=6)
    house.declare(declared(str(source), live=True, unit=unit, start=start, tick=1, ticks=7))
    with house.started() as run:
        run.wait_until(lambda: house.published > 0)
        assert found(run.killed()) == set()
    with house.started() as run:
        assert found(run.ended()) == set()
    assert house.published > FEW_LINES


def typed(house: House, unit: str, main: str = MAIN) -> dict[str, bytes]:
    """What is there in the middle of a tick whose events came in by standard input, and will not again."""
    start = int(time.time()) - 5
    house.declare(declared("-", live=True, unit=unit, start=start, tick=3600, ticks=2))
    data = marked(house, FEW, start=start, seconds=4).read_bytes()
    with house.started(main=main, given=subprocess.PIPE) as run, run.process.stdin as writing:
        writing.write(data)
        writing.flush()
        run.wait_until(house.keeps_open_ticks)
        return run.killed()


@pytest.mark.slow
@pytest.mark.parametrize("unit", [USERS, EVENTS], ids=["users", "events"])
def test_of_standard_input_nothing_raw_is_on_the_disk_though_open_ticks_are(house: House, unit: str) -> None:
    assert found(typed(house, unit)) == set()


def test_a_twin_that_keeps_its_state_unsealed_is_caught(house: House) -> None:
    assert {mark for _, mark in found(typed(house, EVENTS, UNSEALED))} == {"x", "word"}


def test_of_a_finished_input_nothing_raw_is_on_the_disk(house: House) -> None:
    house.declare(declared("-", unit=USERS))
    source = marked(house, FEW)
    with house.started(given=subprocess.PIPE) as run, run.process.stdin as writing:
        writing.write(source.read_bytes())
        writing.flush()
        run.at_work()
        time.sleep(0.3)
        assert found(run.killed()) == set()
    with source.open("rb") as given, house.started(given=given) as run:
        assert found(run.ended()) == set()
    assert house.published > FEW_LINES


WRITTEN: dict[str, Callable[[str], bytes]] = {
    "clear": str.encode,
    "wide": lambda text: text.encode("utf-16-le"),
    "hex": lambda text: text.encode().hex().encode(),
    "base64": lambda text: base64.b64encode(text.encode()),
    "base64, later": lambda text: base64.b64encode(b"1" + text.encode()),
    "base64, later still": lambda text: base64.b64encode(b"12" + text.encode()),
    "base64 of wide": lambda text: base64.b64encode(text.encode("utf-16-le")),
}


@pytest.mark.parametrize("way", WRITTEN)
@pytest.mark.parametrize("column", TEXTS)
def test_a_mark_is_found_however_it_is_written(column: str, way: str) -> None:
    data = WRITTEN[way](f"before {TEXTS[column]} after")
    assert found({"file": data, "other": b"nothing"}) == {("file", column)}


@pytest.mark.parametrize("hashed", [hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.blake2b])
def test_so_is_a_hash_of_it_that_needs_no_key_or_the_half_of_one(hashed: Any) -> None:
    digest = hashed(TEXTS["who"].encode())
    for data in (digest.digest()[:8], digest.hexdigest()[:16].encode(), base64.b64encode(digest.digest())):
        assert found({"file": data}) == {("file", "who")}


@pytest.mark.parametrize(("number", "kind"), [(NUMBER, "<f8"), (NUMBER, ">f8"), (NUMBER // STEP, "<i8")])
def test_so_is_a_number_in_a_saved_array(number: float, kind: str) -> None:
    with io.BytesIO() as file:
        np.savez(file, sums=np.array([[1, 0], [number, 2]], kind))
        assert found({"file": file.getvalue()}) == {("file", "x")}
