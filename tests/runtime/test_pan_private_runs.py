"""Pan-private runs: each event is counted at once, in its tick, and committed registers continue."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.config.errors import PipelineFileError
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import AddRelease, CommandQueue
from streamgauge.runtime.live.state import CLEAN_SHUTDOWN_PART
from streamgauge.runtime.options import Progress
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.sources import build_inbox
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.keys import load_key
from streamgauge.store.store import Store
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.forked import Fault
from tests.support.pipelines import SECOND, Tables, World, event, pipeline, published, run, tables, ticks_of, world

PRIVATE: Tables = {"source": "http", "mode": "streaming", "pan_private": True, "end": None}
RUNNING: Tables = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "running"}
TREE: Tables = {**RUNNING, "horizon": "90s", "mechanism": {"name": "Kary", "branching": 2}}
MANY: Tables = {
    "name": "many",
    "sql": "SELECT g, SUM(x), AVG(x), VAR_SAMP(x), MEDIAN(x), MIN(x) FROM v GROUP BY ROLLUP (g)",
    "horizon": "100s",
    "window": "sliding 20s",
}
USERS: Tables = {"unit": {"user": "u"}, "end": "2026-01-05T00:01:40Z", "budget": {"epsilon": 40}}


def lines(*events: Tables) -> bytes:
    return "\n".join(map(json.dumps, events)).encode()


def sending(folder: Path, until: float) -> tuple[World, EphemeralInbox, Flag]:
    clock, stop = world(folder), Flag()
    clock.acts[until] = stop.set
    return clock, EphemeralInbox(max_waiting_bytes=10**6), stop


def test_sent_batches_add_up_in_ticks_of_their_events(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(**PRIVATE))
    clock, inbox, stop = sending(tmp_path, 34)
    for second in (1, 5, 12, 22):
        clock.acts[second] = lambda s=second: inbox.put("same key", lines(event(s), event(s, "b")))
    clock.acts[8] = lambda: inbox.put("k", lines(event(99), event(-3), event(3, "z"), {"g": "a"}))
    clock.acts[20] = lambda: inbox.put("k", lines(event(19.5, "b"), event(20, "b"), event(20, "b")))
    observed: list[Progress] = []
    run(made, clock=clock, source=inbox, stop=stop, on_progress=observed.append)
    assert published(made) == [[2, 2], [1, 2], [1, 3]]
    assert {(each.events, tuple(each.dropped), each.counts_events) for each in observed} == {(0, (), False)}


def test_pan_private_counters_answer_same_aggregates_with_larger_errors(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(MANY, **PRIVATE))
    plain = pipeline(tmp_path, tables(MANY, sinks=[], live=True, source="http"), "w.toml")
    for each in (made, plain):
        clock, inbox, stop = sending(tmp_path, 24)
        source: Any = inbox if each is made else build_inbox(each.file, clock.now)
        for second in (1, 6, 12):
            events = [event(second, "ab"[i % 2], i % 11) for i in range(40)]
            clock.acts[second] = lambda s=second, e=events, b=source: b.put(f"{s}", lines(*e))
        run(each, clock=clock, source=source, stop=stop)
    for one, other in zip(made.releases("many"), plain.releases("many"), strict=False):
        assert one.value[0].tolist() == other.value[0].tolist(), "sums, of which all is made"
        assert (one.stddev[0] > other.stddev[0]).all()
        assert one.value.shape == other.value.shape


@pytest.mark.parametrize("step", ["block_read", "transaction_committed"])
def test_crash_loses_only_events_since_last_commit(tmp_path: Path, step: str) -> None:
    made = pipeline(tmp_path, tables(RUNNING, **PRIVATE, sinks=[{"to": "out.jsonl"}]))
    clock, inbox, stop = sending(tmp_path, 44)
    clock.acts[2] = lambda: inbox.put("a", lines(event(1)))
    clock.acts[12] = lambda: inbox.put("b", lines(event(12), event(12, "b")))
    armed: list[bool] = []
    clock.acts[11] = lambda: armed.append(True)

    def fail(name: str) -> None:
        if armed and name == step:
            armed.clear()
            raise Fault(step)

    with pytest.raises(Fault):
        run(made, clock=clock, source=inbox, stop=stop, step=fail)
    run(made, clock=clock, source=inbox, stop=stop)
    texts = published(made)
    assert texts[0] == [1, 0]
    stored = [2, 1] if step == "transaction_committed" else [1, 0]
    assert texts[1:] == [stored] * 3, "lost with the open tick, or committed with it"
    assert ticks_of(made) == [1, 2, 3, 4]
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len({(row["tick"], str(row.get("groups", row.get("group")))) for row in rows}) == len(rows)


def test_stop_or_command_in_mid_tick_loses_no_event(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(RUNNING, **PRIVATE))
    clock, inbox, stop = sending(tmp_path, 4)
    queue = CommandQueue(now=clock.now)
    body = {"name": "m", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/8", "horizon": "100s"}
    add = AddRelease(AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana"))
    clock.acts |= {2: lambda: inbox.put("a", lines(event(1))), 7: lambda: queue.submit(add)}
    clock.acts[6] = lambda: inbox.put("b", lines(event(5), event(5, "b")))
    clock.acts |= {8: lambda: inbox.put("c", lines(event(8))), 14: stop.set}
    run(made, clock=clock, source=inbox, stop=stop)
    stop.clear()
    run(made, clock=clock, source=inbox, stop=stop, commands=queue)
    add.outcome.result(0)
    assert published(made) == [[3, 1]]


def registers(made: Pipeline) -> tuple[list[list[int]], dict[str, int], bool]:
    """Return the committed registers and record of the first release, and True if the run stopped cleanly."""
    with Store.open_writer(made.file.folder, load_key("file:v.key", made.file.path.parent), create=False) as store:
        state = store.state()
    plan = plan_release(made.file, made.file.releases[0])
    loaded: Any = ReleaseRun.load(plan, plan.name, 1, state, SilentNoise()).runs[0].run
    counter = loaded._state.counter._state
    return (counter.total + counter.entries).tolist(), loaded.record, CLEAN_SHUTDOWN_PART in state


def lost(made: Pipeline, folder: Path) -> list[list[int]]:
    """Publish a tick, read an event of the next one, and fail; return the committed registers."""
    clock, inbox, _ = sending(folder, 99)
    clock.acts |= {2: lambda: inbox.put("a", lines(event(1))), 12: lambda: inbox.put("b", lines(event(12)))}

    def fail(name: str) -> None:
        if name == "block_read" and clock.second >= 12:
            raise Fault(name)

    with pytest.raises(Fault):
        made.run(clock=clock, source=inbox, noise=InsecureNoise(1), step=fail)
    stored, record, marked = registers(made)
    assert ("rerandomizations" not in record, marked) == (True, False)
    return stored


def taken_up(made: Pipeline, folder: Path, begin: float, until: float, seed: int) -> None:
    clock, inbox, stop = sending(folder, until)
    clock.time += int(begin * SECOND)
    made.run(clock=clock, source=inbox, stop=stop, noise=InsecureNoise(seed))


def test_failed_run_rerandomizes_registers_and_stopped_run_does_not(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(TREE, **PRIVATE))
    saved = lost(made, tmp_path)
    texts = published(made)
    taken_up(made, tmp_path, 13, 15, seed=2)
    begun, record, marked = registers(made)
    assert (record["rerandomizations"], marked) == (1, True)
    assert all(new != old for new, old in zip(begun, saved, strict=True))
    taken_up(made, tmp_path, 15, 17, seed=3)
    assert registers(made)[0] == begun
    taken_up(made, tmp_path, 17, 34, seed=4)
    assert registers(made)[1]["rerandomizations"] == 1
    assert published(made)[:1] == texts
    assert ticks_of(made) == [1, 2, 3]
    claim: Any = plan_release(made.file, made.file.releases[0]).parts[0].statistic.counter
    first, second, _ = (each.stddev[0, 0] for each in made.releases("counts"))
    assert first == pytest.approx(claim.stddev(1))
    assert second == pytest.approx(claim.stddev(2) * 2**0.5), "four draws, where there are two"


def test_twin_that_reuses_registers_of_failed_run_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgauge.runtime.live.run.resume", lambda opened: None)
    made = pipeline(tmp_path, tables(TREE, **PRIVATE))
    saved = lost(made, tmp_path)
    taken_up(made, tmp_path, 13, 15, seed=2)
    assert registers(made)[0] == saved


def test_user_table_continues_after_failed_run(tmp_path: Path) -> None:
    columns = {"u": {"values": ["u0", "u1"]}}
    release = {"name": "here", "sql": "SELECT DENSITY(u) FROM v", "window": "running", "epsilon": 12}
    made = pipeline(tmp_path, tables(release, **{**PRIVATE, **USERS, "columns": columns}))
    for until in (14, 24):
        clock, inbox, stop = sending(tmp_path, until)
        clock.acts[until - 2] = lambda b=inbox, s=until - 3: b.put("k", lines(event(s, u="u0")))
        fail = {14: Fault("block_read")}.get(until)

        def failing(name: str, fault: Fault | None = fail, at: World = clock) -> None:
            if fault and name == "block_read" and at.second >= 12:
                raise fault

        with pytest.raises(Fault) if fail else nullcontext():
            made.run(clock=clock, source=inbox, stop=stop, step=failing)
    assert ticks_of(made, "here") == [1, 2]


def test_standard_input_is_counted_as_it_arrives(tmp_path: Path) -> None:
    stream = {**PRIVATE, "source": "-", "format": "jsonl"}
    made = pipeline(tmp_path, tables(RUNNING, **stream))
    reading, writing = os.pipe()
    clock = world(tmp_path)
    for second in (1, 6, 12):
        clock.acts[second] = lambda s=second: os.write(writing, lines(event(s)) + b"\n") and None
    clock.acts[23] = lambda: os.close(writing)
    run(made, clock=clock, standard_input=reading)
    os.close(reading)
    assert published(made) == [[2, 0], [3, 0]]


def test_users_are_estimated_from_pan_private_tables(tmp_path: Path) -> None:
    requested = [
        "SELECT COUNT(DISTINCT u), DENSITY(u) FROM v",
        "SELECT HEAVY_FRACTION(u, 2) AS heavy FROM v WHERE g = 'a'",
        "SELECT CROPPED_MEAN(u, 3) AS mean FROM v",
    ]
    releases = [{"name": f"r{i}", "sql": sql, "window": "running", "epsilon": 12} for i, sql in enumerate(requested)]
    columns = {"g": {"values": ["a", "b"]}, "u": {"values": [f"u{i}" for i in range(1000)]}}
    made = pipeline(tmp_path, tables(*releases, **{**PRIVATE, **USERS, "columns": columns}))
    clock, inbox, stop = sending(tmp_path, 24)
    everybody = [event(2, "ab"[i % 2], u=f"u{i}") for i in range(600)]
    clock.acts |= {2: lambda: inbox.put("k", lines(*everybody)), 12: lambda: inbox.put("k", again)}
    again = lines(*(event(12, "a", u=f"u{i}") for i in range(0, 600, 2)), event(12, u="nobody"))
    made.run(clock=clock, source=inbox, stop=stop, noise=InsecureNoise(1))
    truth = {"r0": [[600, 0.6], [600, 0.6]], "r1": [[0], [0.3]], "r2": [[0.6], [0.9]]}
    for name, ticks in truth.items():
        for one, exact in zip(made.releases(name), ticks, strict=True):
            error = abs(one.value[:, 0] - exact)
            assert (error < 8 * one.stddev[:, 0]).all(), (name, one.tick)
            assert (one.low <= one.high).all()
    assert len(made.plan().releases[0].choices) == 1, "both are read off one table"


def refused(folder: Path, *releases: Tables, **stream: Any) -> str:
    """Return the refusal of the file, or of its plan."""
    try:
        made = pipeline(folder, tables(*releases, **{**PRIVATE, **stream}))
    except PipelineFileError as refusal:
        return str(refusal)
    (texts,) = made.plan().refusals
    return str(texts)


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ({"source": "v.jsonl"}, 'stream.source must be "http" or "-" with pan_private = true'),
        ({"source": "-", "format": "jsonl", "mode": "batch"}, 'stream.mode must be "streaming" with'),
        ({"allowed_lateness": "5s"}, 'stream.allowed_lateness must be "0s" with pan_private = true (one tick'),
        ({"allowed_earliness": "5s"}, 'stream.allowed_earliness must be "0s" with pan_private = true'),
        ({"unit": {"user": "u", "max_ticks": 3}}, "stream.unit.max_ticks must be left out with pan_private"),
        (
            {"pan_private": False, "reserved_intrusions": 1},
            "stream.reserved_intrusions must be left out unless pan_private",
        ),
        ({"pan_private": "yes"}, "stream.pan_private must be true or false"),
        (
            {"reserved_intrusions": 1},
            "stream.reserved_intrusions must be left out unless unit = { user = ... } (counters",
        ),
        ({"reserved_intrusions": -1}, "stream.reserved_intrusions must be a whole number from 0 to 1000"),
    ],
    ids=str,
)
def test_stream_unfit_for_pan_private_is_refused(tmp_path: Path, stream: Tables, told: str) -> None:
    assert told in refused(tmp_path, **stream)


OF_USERS: Tables = {**USERS, "columns": {"u": {"hash_cells": 100}, "g": {"values": ["a"]}}}


@pytest.mark.parametrize(("column", "told"), [({"hash_cells": 100}, "at 100 users"), ({"values": ["u0"]}, "at most")])
def test_plan_of_user_table_depends_on_hashed_column(tmp_path: Path, column: Tables, told: str) -> None:
    release = {"name": "here", "sql": "SELECT COUNT(DISTINCT u) FROM v", "window": "running", "epsilon": 12}
    made = pipeline(tmp_path, tables(release, **{**PRIVATE, **USERS, "columns": {"u": column}}))
    (plan,) = made.plan().releases
    assert {error.note.startswith(told) for error in plan.errors} == {True}
    claim: Any = plan_release(made.file, made.file.releases[0]).parts[0].statistic.counter
    assert claim.hashed == ("before" if "hash_cells" in column else False)


@pytest.mark.parametrize(
    ("release", "stream", "told"),
    [
        ({"window": "decayed half-life 20s"}, {}, 'window must be "running", "each" or "sliding ..." with'),
        ({"mechanism": "Binary", "horizon": "100s"}, {}, 'mechanism must be "auto" or one of "Hybrid", "Kary"'),
        ({"sql": "SELECT COUNT(DISTINCT g) FROM v"}, {}, "COUNT(DISTINCT column) must be of the users' column"),
        ({"sql": "SELECT DENSITY(g) FROM v"}, {}, "DENSITY must be used under unit = { user = ... } with"),
        ({"sql": "SELECT COUNT(*) FROM v"}, OF_USERS, "aggregates must be COUNT(DISTINCT user), DENSITY"),
        ({"sql": "SELECT DENSITY(g) FROM v"}, OF_USERS, "DENSITY must be of the users' column u, got g"),
        ({"sql": "SELECT g, DENSITY(u) FROM v GROUP BY g"}, OF_USERS, "GROUP BY must be left out where"),
        ({"sql": "SELECT DENSITY(u) FROM v", "window": "each"}, OF_USERS, 'window must be "running" where'),
        ({"sql": "SELECT DENSITY(u) FROM v"}, {**OF_USERS, "end": None}, "horizon must be given, or stream.end"),
        (
            {"sql": "SELECT DENSITY(u) FROM v", "epsilon": None, "share": 1},
            {**OF_USERS, "budget": {"rho": 1}},
            "loss must be Pure for a table of users",
        ),
        ({"sql": "SELECT HEAVY_FRACTION(u) FROM v"}, OF_USERS, "HEAVY_FRACTION needs the users' column and"),
        ({"sql": "SELECT CROPPED_MEAN(u, 0) FROM v"}, OF_USERS, "CROPPED_MEAN needs a whole number of times"),
        ({"sql": "SELECT DENSITY(u) + 1 FROM v"}, OF_USERS, "an aggregate must stand alone in SELECT"),
    ],
    ids=str,
)
def test_release_unfit_for_pan_private_is_refused(tmp_path: Path, release: Tables, stream: Tables, told: str) -> None:
    requested = {"epsilon": "1/2", **RUNNING, **release}
    made = tables(**{**PRIVATE, **stream})
    made["release"] = [{name: value for name, value in requested.items() if value is not None}]
    (refusal,) = pipeline(tmp_path, made).plan().refusals
    assert told in refusal


def test_discovered_groups_are_refused(tmp_path: Path) -> None:
    columns = {"g": {"max_groups": 10}}
    release = {**RUNNING, "delta": 1e-6}
    assert "groups must be declared with pan_private = true" in refused(
        tmp_path, release, columns=columns, budget={"epsilon": 1, "delta": 1e-5}
    )


def test_planned_errors_include_every_draw_twice(tmp_path: Path) -> None:
    private = pipeline(tmp_path, tables(RUNNING | {"horizon": "100s"}, **PRIVATE)).plan().releases[0]
    plain = pipeline(tmp_path, tables(RUNNING | {"horizon": "100s"}, live=True, source="http"), "w.toml")
    for one, other in zip(private.errors, plain.plan().releases[0].errors, strict=True):
        assert one.stddev > 1.3 * other.stddev
    assert all(ratio >= 1 for choice in private.choices for _, ratio in choice.runners_up)


def test_pan_private_is_pinned_with_the_stream(tmp_path: Path) -> None:
    blocks = [
        pipeline(tmp_path, tables(**stream), f"{i}.toml").file.blocks["stream"]
        for i, stream in enumerate(
            [
                {"live": True, "source": "http"},
                PRIVATE,
                {**PRIVATE, **USERS},
                {**PRIVATE, **USERS, "reserved_intrusions": 2},
            ]
        )
    ]
    assert len(set(blocks)) == 4
    assert "pan_private" not in blocks[0], "streams that were charged before go on"
