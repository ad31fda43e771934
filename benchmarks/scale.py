"""Benchmark of unit costs by size: users of a live source, from 10^4 to 10^7.

    python benchmarks/scale.py [--users N ...] [--rounds N] [--folder FOLDER]

For each number of users:

    first ns     an event of a new user, while the table grows to its size
    event ns     an event of a user that the table has, in one of two open ticks
    floor ns     NumPy alone: one sort of the hashes of a block and one binary search of them in the sorted table
    few ms       a commit of a closed tick with 1,000 visitors: state, encryption, SQLite, flushes
    floor ms     the same number of bytes written to a file and flushed
    base ms      a commit that writes all users, and its floor

Blocks have 40,000 events, about as many as a piece of a live block. Events are CPU time, the mean of the rounds,
because few of them merge large tables. Commits are wall time, the median. Imports and random numbers are excluded.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from streamgauge.engines.duckdb.user_bounds import UserBounds
from streamgauge.privacy import User
from streamgauge.store.keys import create_key
from streamgauge.store.store import Store

BLOCK_EVENTS = 40_000
VISITORS = 1_000  # of a tick that is committed
COMMITS = 7
HEADER = "     users  first ns  event ns  floor ns    few ms (floor)    MB    base ms (floor)     MB"
ROW = "{:>10,} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.1f} {:>7.1f} {:>5.2f} {:>10.0f} {:>7.0f} {:>6.1f}"
Words = npt.NDArray[np.uint64]


@dataclass
class Crowd:
    """Users with random hashes, and their memory."""

    chance: np.random.Generator
    high: Words
    low: Words
    bounds: UserBounds

    @classmethod
    def create(cls, users: int) -> "Crowd":
        chance = np.random.default_rng(users)
        high, low = chance.integers(0, 2**64, (2, users), dtype=np.uint64)
        stream = cast("Any", SimpleNamespace(max_users=None))
        return cls(chance, high, low, UserBounds(stream, User(2, 30)))

    def fill(self) -> float:
        """Admit an event of each user; return the nanoseconds of an event."""
        start = time.process_time()
        for begin in range(0, len(self.high), BLOCK_EVENTS):
            high, low = self.high[begin : begin + BLOCK_EVENTS], self.low[begin : begin + BLOCK_EVENTS]
            self.bounds.admit_events(high, low, np.ones(len(high), np.int64))
        return (time.process_time() - start) / len(self.high) * 1e9

    def visit(self, tick: int, events: int) -> float:
        """Admit events of random users, a tenth of them in the next tick; return the nanoseconds of an event."""
        users = self.chance.integers(0, len(self.high), events)
        high, low, ticks = self.high[users], self.low[users], tick + (self.chance.random(events) < 0.1).astype(np.int64)
        start = time.process_time()
        self.bounds.admit_events(high, low, ticks)
        return (time.process_time() - start) / events * 1e9

    def time_floor(self, table: Words) -> float:
        """Return the nanoseconds of an event for a sort and a binary search."""
        block = self.high[self.chance.integers(0, len(self.high), BLOCK_EVENTS)]
        start = time.process_time()
        block.sort()
        np.searchsorted(table, block)
        return (time.process_time() - start) / BLOCK_EVENTS * 1e9


def time_commit(store: Store, bounds: UserBounds) -> tuple[float, int]:
    """Return the milliseconds of a commit of the users, and its bytes."""
    start = time.perf_counter()
    parts = bounds.save(2)
    store.commit(state=parts)
    seconds = time.perf_counter() - start
    return seconds * 1e3, sum(len(part) for part in parts.values() if part is not None)


def time_write(folder: Path, size: int) -> float:
    """Return the milliseconds to write and flush so many bytes."""
    data = os.urandom(size)
    start = time.perf_counter()
    with (folder / "floor").open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return (time.perf_counter() - start) * 1e3


def repeat(call: Callable[[], float], rounds: int) -> float:
    return sum(call() for _ in range(rounds)) / rounds


def measure(users: int, rounds: int, folder: Path) -> str:
    """Return the row of a number of users."""
    crowd = Crowd.create(users)
    first = crowd.fill()
    crowd.bounds.forget(1)
    events = repeat(lambda: crowd.visit(2, BLOCK_EVENTS), rounds)
    table = np.sort(crowd.high)
    floor = repeat(lambda: crowd.time_floor(table), rounds)
    crowd.bounds.forget(3)
    key = create_key(folder / "bench.key")
    with Store.open_writer(folder / "store", key, create=True) as store:
        base, base_bytes = time_commit(store, crowd.bounds)
        commits = []
        for tick in range(4, 4 + COMMITS):
            crowd.visit(tick, VISITORS)
            crowd.bounds.forget(tick)
            commits.append(time_commit(store, crowd.bounds))
    few, few_bytes = (float(each) for each in np.median(commits, axis=0))
    floors = [time_write(folder, size) for size in (int(few_bytes), base_bytes)]
    return ROW.format(users, first, events, floor, few, floors[0], few_bytes / 1e6, base, floors[1], base_bytes / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--folder", help="parent of the temporary stores")
    options = parser.parse_args()
    print(HEADER)
    for users in options.users:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            print(measure(users, options.rounds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
