"""The law of neighbours for pan-private pipelines whose events are sent.

One event at each tick, with any content, moves the increments of the counters at that tick by at most the bound of
one event. One user, with all their events, changes one entry of a table, under the same draws. All else is the
same: errors and outputs, the curator's progress, files, rows, marks, the history, and the lengths of the sealed
state parts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.live.state import NoisyMemory, StateParts
from streamgauge.runtime.release_run import Batches, ReleaseRun
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.keys import load_key
from streamgauge.store.store import Store
from streamgauge.testing.noise import InsecureNoise
from tests.support.neighbour_law import told_apart
from tests.support.neighbour_streams import HOUR, START, TICKS, VICTIM, Record, json_line, record, without
from tests.support.neighbour_ways import Arriving, moment
from tests.support.watched_runs import House, Watched, house_in_memory, tables

PRIVATE: dict[str, Any] = {"mode": "streaming", "pan_private": True}
COUNTED = "SELECT region, COUNT(*), SUM(amount) FROM v GROUP BY region"
COUNTERS = tables("http", "event", {"so_far": (COUNTED, "running"), "latest": (COUNTED, "sliding 3h")}, **PRIVATE)
HERE = {"here": ("SELECT DENSITY(patient) FROM v", "running")}
TABLE = tables("http", {"user": "patient"}, HERE, {"epsilon": 8}, **PRIVATE)
PEOPLE = [record(number) for number in range(24)]
REACH = {"count": 1, "sum_amount": 50}

Arrival = tuple[int, bytes]


def hostile() -> Iterator[Arrival]:
    """One line in each tick."""
    worst = [
        json_line(VICTIM),
        json_line(VICTIM | {"amount": 1e300, "region": "north"}),
        json_line(VICTIM)[:-9],
        json_line(without(VICTIM, "ts")),
        json_line(VICTIM | {"ts": "2031-01-05T00:00:00Z"}),
        json_line(VICTIM | {"patient": None, "amount": "NaN", "note": "x" * 10_000}),
        b"[" * 3000,
        b'{"ts": "2026-01-05T07:30:00Z", "region": "north", "amount": ' + b"9" * 4000 + b"}",
    ]
    for tick, line in enumerate(worst):
        at = START + tick * HOUR + HOUR // 2
        yield at, line.replace(b"T03:20", b"T%02d:20" % tick)


def arrivals(records: Sequence[Record]) -> list[Arrival]:
    return [(moment(each), json_line(each)) for each in records]


def sent(house: House, made: Any, lines: Sequence[Arrival], last: int = TICKS, **options: Any) -> Watched:
    """Run a pipeline, send it lines at their moments, and stop it after `last` ticks."""
    inbox, stop = EphemeralInbox(max_waiting_bytes=10**7), Flag()

    def write(data: bytes) -> None:
        inbox.put("", data)

    def act(name: str) -> None:
        if clock.time >= START + last * HOUR and not inbox.has_waiters:
            stop.set()

    ends = [(at, line + b"\n") for at, line in sorted(lines, key=lambda each: each[0])]
    clock = Arriving(ends, write)
    options |= {"step": act} if last < TICKS else {}
    observed = house.run(made, clock=clock, source=inbox, stop=stop, **options)
    observed.public["progress"] = observed.progress
    return observed


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with house_in_memory() as found:
        yield found


@pytest.fixture(scope="module")
def before(house: House) -> Watched:
    return sent(house, COUNTERS, arrivals(PEOPLE))


def added(observed: Watched, measure: str) -> Any:
    """Return the increments of a measure by tick and group."""
    rows = [row for row in observed.rows if row["release"] == "so_far"]
    totals = np.array([row[measure]["value"] for row in rows]).reshape(TICKS, -1)
    return np.diff(totals, axis=0, prepend=0)


def broken(before: Watched, after: Watched) -> list[str]:
    found = told_apart(before, after)
    for measure, reach in REACH.items():
        moved = abs(added(after, measure) - added(before, measure)).sum(axis=1)
        found += [f"{measure} of tick {t}: {far}" for t, far in enumerate(moved, 1) if far > reach + 1e-9]
    return found


def test_one_event_per_tick_moves_only_counters_by_its_bound(house: House, before: Watched) -> None:
    after = sent(house, COUNTERS, [*arrivals(PEOPLE), *hostile()])
    assert before.raised is None
    assert added(before, "count").sum() > 10
    assert broken(before, after) == []
    assert (added(before, "count") != added(after, "count")).any()


def test_event_that_counts_twice_or_is_stored_is_caught(house: House, before: Watched) -> None:
    count = [0]

    class DoublingBatches(Batches):
        def add_partial(self, answers: Any, tick: int) -> None:
            count[0] += sum(int(tally.sums.sum() != 0) for tally in answers)
            super().add_partial(answers, tick)
            super().add_partial(answers, tick)

    class CountingMemory(NoisyMemory):
        def save_all(self, *given: Any) -> StateParts:
            return {**super().save_all(*given), "came": bytes(count[0])}

    components = {Batches: DoublingBatches, NoisyMemory: CountingMemory}
    runs = [sent(house, COUNTERS, [*arrivals(PEOPLE), *more], components=components) for more in ((), hostile())]
    found = " ".join(broken(*runs))
    assert "count of tick 1: 2.0" in found
    assert "'came'" in found


def entries_of(folder: Path) -> Any:
    """Return the table of the release from the store."""
    file = parse_pipeline(TABLE, folder / "v.toml")
    with Store.open_writer(file.folder, load_key("file:v.key", folder), create=False) as store:
        state = store.state()
    run = ReleaseRun.load(plan_release(file, file.releases[0]), "here", 1, state, InsecureNoise(1))
    return run.runs[0].run._state.entries.copy()


def tables_of(house: House, *patients: str) -> tuple[list[str], Any]:
    """Run without and with these patients at the end; return the visible differences and those of the tables."""
    people = arrivals([each for each in PEOPLE if each["ts"] < "2026-01-05T02"])
    visits = [VICTIM | {"ts": "2026-01-05T02:00:01Z", "patient": each} for each in patients]
    runs, found = [], []
    for more in ([], arrivals(visits)):
        runs.append(sent(house, TABLE, [*people, *more], last=3, noise=InsecureNoise(7)))
        found.append(entries_of(house.folder))
    return told_apart(*runs), found[0] != found[1]


def test_one_user_changes_at_most_one_table_entry(house: House) -> None:
    texts, differ = tables_of(house, *["zed"] * 5)
    assert texts == []
    assert differ.sum() <= 1


def test_visits_that_fall_to_several_entries_are_caught(house: House) -> None:
    """The broken twin: each visit of a user comes under another name."""
    texts, differ = tables_of(house, *(f"zed {visit}" for visit in range(10)))
    assert texts == []
    assert differ.sum() > 1
