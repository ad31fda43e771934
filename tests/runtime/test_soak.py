"""A live run for ten minutes: killed and started again, every event counted once, memory flat.

`STREAMGAUGE_SOAK_SECONDS` sets another duration. Noise of scale 1/1000 is 0, so counts are exact.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from streamgauge.store.keys import create_key

SECONDS = int(os.environ.get("STREAMGAUGE_SOAK_SECONDS", "600"))
STEADY_PART = 0.5  # of the time without kills, to watch the memory
LONGEST_LIFE = 15  # seconds between two kills
EVENTS_A_SECOND = 200
WARM_UP = 0.2  # of the steady part
MAX_GROWTH_BYTES = 24 * 2**20
MAIN = "from streamgauge.cli import main; main()"
PIPELINE = """
[stream]
name = "v"
source = "v.jsonl"
mode = "streaming"
time = "ts"
time_format = "epoch s"
tick = "1s"
allowed_lateness = "2s"
start = "{start}"
end = "{end}"
unit = "event"
budget = {{epsilon = 2000}}
key = "file:v.key"

[stream.columns]
g = {{values = ["a", "b"]}}

[[release]]
name = "counts"
sql = "SELECT g, COUNT(*) FROM v GROUP BY g"
epsilon = 1000
window = "each"

[[release]]
name = "running"
sql = "SELECT COUNT(*) FROM v"
epsilon = 1000
horizon = "end"

[[sink]]
to = "out.jsonl"
"""


class Feeder(Thread):
    """Append events of the present second to the source, until it is stopped."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self.path, self.stopped, self.written = path, Event(), Counter[str]()

    def run(self) -> None:
        with self.path.open("a") as file:
            while not self.stopped.wait(0.1):
                groups = "ab" * (EVENTS_A_SECOND // 20)
                file.write("".join(json.dumps({"ts": time.time(), "g": group}) + "\n" for group in groups))
                file.flush()
                self.written.update(groups)


def as_text(second: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def start(folder: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", MAIN, "run", "--quiet", str(folder / "v.toml")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_memory(process: "subprocess.Popen[str]") -> int:
    """Return the resident bytes of a process, 0 when it has ended."""
    try:
        text = Path(f"/proc/{process.pid}/statm").read_text()
    except OSError:
        return 0
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def fed(folder: Path) -> Iterator[Feeder]:
    feeder = Feeder(folder / "v.jsonl")
    feeder.path.touch()
    feeder.start()
    try:
        yield feeder
    finally:
        feeder.stopped.set()
        feeder.join()


def watch_memory(process: "subprocess.Popen[str]", seconds: float) -> list[int]:
    sizes, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.5)
        assert process.poll() is None, process.communicate()
        sizes.append(read_memory(process))
    return sizes


def kill_at_random(folder: Path, until: float) -> int:
    chance, kills = random.Random(7), 0
    while time.time() < until:
        with start(folder) as process:
            time.sleep(2 + chance.random() * LONGEST_LIFE)
            process.kill()
        kills += process.returncode < 0
    return kills


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory of a process is read as Linux shows it")
def test_killed_live_run_counts_events_once_with_flat_memory(tmp_path: Path) -> None:
    begun = int(time.time())
    ticks = SECONDS + 10  # some for the last start
    text = PIPELINE.format(start=as_text(begun), end=as_text(begun + ticks))
    (tmp_path / "v.toml").write_text(text)
    create_key(tmp_path / "v.key")
    with fed(tmp_path) as feeder:
        with start(tmp_path) as process:
            sizes = watch_memory(process, SECONDS * STEADY_PART)
            process.kill()
        kills = 1 + kill_at_random(tmp_path, begun + SECONDS)
    with start(tmp_path) as process:
        texts = process.communicate(timeout=300)
    assert (process.returncode, *texts) == (0, "", "")
    steady = sizes[int(len(sizes) * WARM_UP) :]
    assert max(steady[len(steady) // 2 :]) - max(steady[: len(steady) // 2]) < MAX_GROWTH_BYTES
    assert kills > SECONDS * (1 - STEADY_PART) / (LONGEST_LIFE + 10)
    check_published([json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()], ticks, feeder)


def check_published(rows: list[dict], ticks: int, feeder: Feeder) -> None:
    """Check that each tick is there once, and that counts add up to the events."""
    keys = Counter((row["release"], row["tick"], json.dumps(row["group"])) for row in rows)
    assert set(keys.values()) == {1}
    assert len(keys) == 3 * ticks
    counted = Counter[str]()
    for row in rows:
        if row["release"] == "counts":
            counted[row["group"]["g"]] += round(row["count"]["value"])
    assert counted == feeder.written
    last = max((row for row in rows if row["release"] == "running"), key=lambda row: row["tick"])
    assert round(last["count"]["value"]) == feeder.written.total()
