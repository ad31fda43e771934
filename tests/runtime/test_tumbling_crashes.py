"""Tumbling releases of runs that are killed, and of runs whose memory may be seized."""

import json
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.plan.planner import plan_release
from streamgauge.runtime.live.open_ticks import OpenTicks
from streamgauge.runtime.open_period import POSITION_STRUCT
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.store.keys import load_key
from streamgauge.store.store import Store
from streamgauge.testing.noise import InsecureNoise
from tests.support.forked import Fault
from tests.support.pipelines import (
    START,
    Tables,
    as_they_happen,
    event,
    lines,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
)

PERIODS: Tables = {"name": "periods", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "tumbling 30s"}
LIVE = {"live": True, "end": "2026-01-05T00:01:40Z"}
PRIVATE: Tables = {"source": "http", "mode": "streaming", "pan_private": True, "end": None}
OF_ROWS = "sink_written"  # once a period
STEPS = ("block_read", "noise_drawn", "rows_written", "transaction_committed", "guard_written", OF_ROWS)


def fail_at(step: str, times: int) -> Any:
    """Return a hook that fails at a step, the given time."""
    left = [times]

    def hook(name: str) -> None:
        left[0] -= name == step
        if name == step and not left[0]:
            raise Fault(step)

    return hook


@pytest.mark.parametrize("step", STEPS)
def test_run_killed_within_periods_and_at_ends_is_one_run(tmp_path: Path, step: str) -> None:
    made, clock = pipeline(tmp_path, tables(PERIODS, **LIVE)), world(tmp_path, as_they_happen(one_a_second()))
    for times in (1, 1) if step == OF_ROWS else (1, 2, 3, 4):
        with pytest.raises(Fault):
            run(made, clock=clock, step=fail_at(step, times))
    run(made, clock=clock)
    assert ticks_of(made, "periods") == [3, 6, 9, 10]
    assert published(made, "periods") == [[15, 15], [15, 15], [15, 15], [5, 5]]
    assert [(row["tick"], row["count"]["value"]) for row in lines(tmp_path / "out.jsonl")][::2] == [
        (tick, value[0]) for tick, value in zip([3, 6, 9, 10], published(made, "periods"), strict=True)
    ]


def test_noise_of_a_killed_period_is_published_once(tmp_path: Path) -> None:
    made, clock = pipeline(tmp_path, tables(PERIODS, **LIVE)), world(tmp_path, as_they_happen(one_a_second()))
    with pytest.raises(Fault):
        run(made, clock=clock, noise=InsecureNoise(1), step=fail_at("noise_drawn", 3))
    run(made, clock=clock, noise=InsecureNoise(2))
    assert ticks_of(made, "periods") == [3, 6, 9, 10]
    written = [row["count"]["value"] for row in lines(tmp_path / "out.jsonl")]
    assert written == [value for row in published(made, "periods") for value in row]


def send(folder: Path, made: Pipeline, begin: float, until: float, **settings: Any) -> None:
    """Send an event a second to a pan-private run, and stop it."""
    clock, inbox, stop = world(folder, at=begin), EphemeralInbox(max_waiting_bytes=10**6), Flag()
    for second in range(int(begin) + 1, int(until)):
        body = json.dumps(event(second, "ab"[second % 2])).encode()
        clock.acts[second] = lambda body=body: inbox.put("k", body)
    clock.acts[until] = stop.set
    run(made, clock=clock, source=inbox, stop=stop, **settings)


def spans(made: Pipeline) -> list[tuple[float, float]]:
    return [(each.start / 1e6 - START, each.end / 1e6 - START) for each in made.releases("periods")]


def test_pan_private_period_continues_after_a_clean_stop(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(PERIODS, **PRIVATE))
    send(tmp_path, made, 0, 14)
    send(tmp_path, made, 14, 44)
    send(tmp_path, made, 44, 64)
    assert spans(made) == [(0, 30), (30, 60)]
    assert [sum(row) for row in published(made, "periods")] == [28, 29]  # none at second 0, 14 and 44


def test_pan_private_period_begins_again_after_a_crash(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(PERIODS, **PRIVATE))
    with pytest.raises(Fault):
        send(tmp_path, made, 0, 40, step=fail_at("noise_drawn", 2))
    send(tmp_path, made, 20, 64)
    assert spans(made) == [(10, 30), (30, 60)]
    assert [sum(row) for row in published(made, "periods")] == [9, 30]  # of the seconds after the crash


@pytest.mark.parametrize("ending", [{"horizon": "40s"}, {}])
def test_pan_private_release_publishes_its_cut_last_period(tmp_path: Path, ending: Tables) -> None:
    end = None if ending else "2026-01-05T00:00:40Z"
    made = pipeline(tmp_path, tables({**PERIODS, **ending}, **{**PRIVATE, "end": end}))
    send(tmp_path, made, 0, 64)
    assert spans(made) == [(0, 30), (30, 40)]
    assert [sum(row) for row in published(made, "periods")] == [29, 10]


def test_pan_private_registers_have_noise_since_their_period_began(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(PERIODS, **PRIVATE))
    statistic = plan_release(made.file, made.file.releases[0]).parts[0].statistic
    assert (statistic.window, statistic.open_ticks, statistic.counter.open_ticks) == ("each", True, True)
    send(tmp_path, made, 0, 24)
    with Store.open_writer(made.file.folder, load_key("file:v.key", tmp_path), create=False) as store:
        state = store.state()
    assert {name for name in state if name.startswith("run/")} == {"run/periods/0", "run/periods/period"}
    assert POSITION_STRUCT.unpack_from(state["run/periods/period"]) == (3, 1)
    assert len(state["run/periods/period"]) == len(OpenTicks({}, 1).save(1)) + POSITION_STRUCT.size  # no exact sum
