"""Ends of releases: at a tick that follows from the clock, not from the progress of the run or its crashes."""

from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Pipeline, Pure
from streamgauge.runtime.adhoc.releases import AdHocRelease, DrainingReleases, parse_adhoc_release
from streamgauge.runtime.session import SessionBuilder
from streamgauge.store.keys import load_pipeline_key
from streamgauge.store.store import Store
from tests.support.forked import forked, killed_at
from tests.support.pipelines import (
    COUNTS,
    as_they_happen,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
    write,
)

MORE = {"name": "more", "sql": COUNTS, "window": "each", "epsilon": "1/4"}
USUAL = {"name": "counts", "sql": COUNTS}
LAST = (98 - 5) // 10  # of a release that ends at a start 98 s after the stream's start


def until(made: Pipeline, folder: Path, second: float, at: float = 0, **settings: Any) -> None:
    """Run a live pipeline between two seconds; earlier events that are not written yet are written first."""
    path = folder / "v.jsonl"
    written = len(path.read_text().splitlines()) if path.exists() else 0
    clock, stop = world(folder, as_they_happen(one_a_second(200)[written:]), at=at), Flag()
    clock.acts[second] = stop.set
    run(made, clock=clock, stop=stop, **settings)


def left(folder: Path, stopped: float) -> Pipeline:
    """Return a pipeline with one release removed from its file after the run stopped."""
    until(pipeline(folder, tables(USUAL, MORE, live=True)), folder, stopped)
    return pipeline(folder, tables(USUAL, live=True))


def unwanted(folder: Path, stopped: float) -> Pipeline:
    """Return a stopped pipeline with an ad hoc release that is to end at the next start."""
    made = pipeline(folder, tables(live=True))
    until(made, folder, stopped, adhoc_releases=(AdHocRelease(parse_adhoc_release(MORE, made.file.stream), "ana"),))
    return made


def ended_by(way: Any, folder: Path, stopped: float, components: dict[type, type] | None = None) -> list[int]:
    """Return the ticks of a release that ends at a start at 98 s."""
    folder.mkdir()
    made = way(folder, stopped)
    ended = ("more",) if way is unwanted else ()
    until(made, folder, 130, at=98, end_releases=ended, components=components or {})
    assert made.ledger().releases["more"].end_tick == LAST
    assert ticks_of(made) == list(range(1, 13))
    return ticks_of(made, "more")


@pytest.mark.parametrize("way", [left, unwanted])
def test_last_tick_depends_on_clock_not_on_progress(tmp_path: Path, way: Any) -> None:
    found = [ended_by(way, tmp_path / str(stopped), stopped) for stopped in (20, 52)]
    assert found[0] == found[1]
    assert found[0][-1] == LAST


class StoppingBuilder(SessionBuilder):
    """A broken twin: no ended release drains."""

    @property
    def draining_releases(self) -> DrainingReleases:
        return replace(super().draining_releases, is_source_missing=True)


def test_twin_without_draining_reveals_progress_of_run(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        ended_by(left, tmp_path / "twin", 52, {SessionBuilder: StoppingBuilder})


@pytest.mark.parametrize("step", ["transaction_committed", "noise_drawn"])
def test_killed_run_drains_release_to_same_tick(tmp_path: Path, step: str) -> None:
    made = left(tmp_path, 52)
    assert forked(lambda: until(made, tmp_path, 130, at=98, step=killed_at(step))) == -9
    assert made.ledger().releases["more"].end_tick == LAST
    until(made, tmp_path, 160, at=140)
    assert ticks_of(made, "more") == list(range(1, LAST + 1))
    assert published(made, "more") == [[5.0, 5.0]] * LAST


def test_state_of_drained_release_is_removed(tmp_path: Path) -> None:
    made = left(tmp_path, 52)
    until(made, tmp_path, 130, at=98)
    store = Store.open_writer(made.file.folder, load_pipeline_key(made.file), create=False)
    try:
        assert {name.split("/")[1] for name in store.state() if name.startswith("run/")} == {"counts"}
    finally:
        store.close()


def test_new_release_begins_after_last_tick_of_ended_one(tmp_path: Path) -> None:
    whole = USUAL | {"epsilon": 1}
    until(pipeline(tmp_path, tables(whole, live=True)), tmp_path, 20)
    made = pipeline(tmp_path, tables(whole | {"name": "next"}, live=True))
    until(made, tmp_path, 130, at=98)
    assert (ticks_of(made)[-1], ticks_of(made, "next")[0]) == (LAST, LAST + 1)
    assert made.ledger().ledger.spent_loss() == Pure(1)


@pytest.mark.parametrize("stopped", [3, 6])
def test_ended_release_gets_all_ticks_of_finished_file(tmp_path: Path, stopped: int) -> None:
    write(tmp_path, one_a_second())
    stop = Flag()

    def seen(progress: Any) -> None:
        if progress.tick >= stopped:
            stop.set()

    run(pipeline(tmp_path, tables(USUAL, MORE)), max_batch_ticks=3, stop=stop, on_progress=seen)
    made = pipeline(tmp_path, tables(USUAL))
    assert ticks_of(made, "more")[-1] == stopped
    run(made)
    assert published(made, "more") == published(made) == [[5.0, 5.0]] * 10


def test_ended_release_stops_when_source_changes(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    stop = Flag()
    wide = {"budget": {"epsilon": 2}}
    both, one = (pipeline(tmp_path, tables(*each, **wide)) for each in ((USUAL, MORE), (USUAL,)))
    run(both, max_batch_ticks=3, stop=stop, on_progress=lambda progress: stop.set())
    run(one, max_batch_ticks=3, stop=stop)
    assert (ticks_of(one, "more")[-1], one.ledger().releases["more"].end_tick) == (3, 10)
    write(tmp_path, one_a_second(50))
    run(one, recharge_source=True)
    assert (ticks_of(one, "more")[-1], ticks_of(one, "counts@2")[-1]) == (3, 10)


def test_ended_release_stops_without_its_lookup_table(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("g,floor\na,1st\nb,2nd\n")
    sql = "SELECT sites.floor, COUNT(*) FROM v JOIN sites ON v.g = sites.g GROUP BY sites.floor"
    both = tables(USUAL, MORE | {"sql": sql}, live=True)
    both["lookup"] = {"sites": {"file": "sites.csv", "on": "g"}}
    until(pipeline(tmp_path, both), tmp_path, 52)
    made = pipeline(tmp_path, tables(USUAL, live=True))
    until(made, tmp_path, 130, at=98)
    assert (ticks_of(made, "more")[-1], made.ledger().releases["more"].end_tick) == (4, 4)
