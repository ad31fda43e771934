"""Nothing raw on disk: a disk that is seized at any instant has no content of a record.

The command runs on marked records, with so little memory that DuckDB would spill them. The tests stop and kill it
at several instants, and search all that it could have touched for the marks: in clear, in other encodings, as
numbers, and as hashes without a key (`marks`, `seized_runs`).
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
FEW_LINES = 10  # minimum of a complete run
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
    """A folder in memory, if the machine has /dev/shm: flushing costs nothing there."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def house() -> Iterator[House]:
    with in_memory() as folder:
        yield House(folder)


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    """A file with more records than fit into memory."""
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
def test_batch_file_leaves_nothing_raw_on_disk_with_little_memory(house: House, large: str) -> None:
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
def test_followed_file_leaves_nothing_raw_on_disk_between_ticks(house: House, unit: str) -> None:
    """Ticks last one second, and the first of them end before the run begins."""
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
    """Return the files in the middle of a tick with events from standard input, which cannot be read again."""
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
def test_standard_input_leaves_nothing_raw_despite_stored_open_ticks(house: House, unit: str) -> None:
    assert found(typed(house, unit)) == set()


def test_twin_with_unsealed_state_is_caught(house: House) -> None:
    assert {mark for _, mark in found(typed(house, EVENTS, UNSEALED))} == {"x", "word"}


def test_batch_standard_input_leaves_nothing_raw_on_disk(house: House) -> None:
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
def test_mark_is_found_in_every_encoding(column: str, way: str) -> None:
    data = WRITTEN[way](f"before {TEXTS[column]} after")
    assert found({"file": data, "other": b"nothing"}) == {("file", column)}


@pytest.mark.parametrize("hashed", [hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.blake2b])
def test_unkeyed_or_truncated_hash_of_mark_is_found(hashed: Any) -> None:
    digest = hashed(TEXTS["who"].encode())
    for data in (digest.digest()[:8], digest.hexdigest()[:16].encode(), base64.b64encode(digest.digest())):
        assert found({"file": data}) == {("file", "who")}


@pytest.mark.parametrize(("number", "kind"), [(NUMBER, "<f8"), (NUMBER, ">f8"), (NUMBER // STEP, "<i8")])
def test_number_in_saved_array_is_found(number: float, kind: str) -> None:
    with io.BytesIO() as file:
        np.savez(file, sums=np.array([[1, 0], [number, 2]], kind))
        assert found({"file": file.getvalue()}) == {("file", "x")}
