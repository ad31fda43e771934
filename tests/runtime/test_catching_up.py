"""A live run that is far behind its clock reports its progress and can stop after each commit."""

from concurrent.futures import Future
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.localdp import HadamardResponse
from streamgauge.localdp import collector as estimates
from streamgauge.privacy import Pure
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import AddRelease, CommandQueue
from streamgauge.runtime.options import Progress
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.store.reader import StoreReader
from tests.support.pipelines import COUNTS, START, pipeline, run, tables, world

HOUR = {"live": True, "end": "2026-01-05T01:00:00Z"}
MINUTES = HOUR | {"end": "2026-01-05T00:02:30Z"}


def test_run_can_stop_after_each_commit(tmp_path: Path) -> None:
    made, stop = pipeline(tmp_path, tables(**HOUR)), Flag()

    def seen(progress: Progress) -> None:
        if progress.tick >= 8:
            stop.set()

    clock = world(tmp_path, {})
    clock.sleep(3605 * 10**6)
    run(made, clock=clock, stop=stop, on_progress=seen, max_batch_ticks=4)
    with StoreReader.open(made.file.folder) as reader:
        assert reader.tick == 8


def test_catch_up_tick_is_reported_until_one_commit_is_enough(tmp_path: Path) -> None:
    made, texts = pipeline(tmp_path, tables(**MINUTES)), list[Progress]()
    clock = world(tmp_path, {})
    clock.sleep(125 * 10**6)
    run(made, clock=clock, on_progress=texts.append, max_batch_ticks=4)
    found = list(dict.fromkeys((each.tick, each.catch_up_tick) for each in texts))
    assert found[:5] == [(0, 12), (4, 12), (8, 12), (12, 12), (13, None)]
    assert {due for _, due in found[4:]} == {None}


def test_catch_up_is_reported_before_session_opens_and_reads(tmp_path: Path) -> None:
    """The time of the reply would reveal how long the records took to read."""
    made, texts = pipeline(tmp_path, tables(**MINUTES)), list[str]()
    clock = world(tmp_path, {1: [{"ts": START + 1}]})
    clock.sleep(125 * 10**6)

    def seen(progress: Progress) -> None:
        texts.append(f"due {progress.catch_up_tick}")

    run(made, clock=clock, on_progress=seen, step=texts.append, max_batch_ticks=4)
    assert texts.index("due 12") < texts.index("session_opened") < texts.index("block_read")
    after = texts[texts.index("session_opened") :]
    assert after.index("due 12") < after.index("block_read")


def test_run_before_stream_start_sleeps_and_applies_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, clock, stop = pipeline(tmp_path, tables(**HOUR)), world(tmp_path, {}), Flag()
    looks, looked = iter(range(1000)), clock.now
    monkeypatch.setattr(clock, "now", lambda: looked() - 60 * 10**6 + 0 * next(looks))
    queue, outcomes = CommandQueue(now=clock.now), list[Future[Any]]()
    release = parse_adhoc_release({"name": "asked", "sql": COUNTS, "epsilon": "1/4"}, made.file.stream)
    clock.acts[3] = lambda: outcomes.append(queue.submit(AddRelease(AdHocRelease(release, "ana"))))
    clock.acts[9] = stop.set
    run(made, clock=clock, commands=queue, stop=stop)
    assert next(looks) < 900
    assert [each.result(0) for each in outcomes] == [None]
    assert set(made.ledger().releases) == {"counts", "asked"}


def test_interval_of_unchanged_ticks_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = HadamardResponse(Pure(1), items=("a", "b"))
    found, calls = claim.build_collector().estimate(("a", "b")), list[float]()
    ends = estimates.Frequencies._ends

    def counted(of: estimates.Frequencies, tail: float) -> object:
        calls.append(tail)
        return ends(of, tail)

    monkeypatch.setattr(estimates.Frequencies, "_ends", counted)
    texts = LocalFrequency(claim, items=("a", "b"), window="running").build_columns([found] * 50, 0.95)
    assert texts["value"].low.shape == (50, 2)
    assert len(calls) == 1
