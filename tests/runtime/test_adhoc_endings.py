"""Where releases end: at the tick that the clock says, however far the run had come, and over crashes."""

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
LAST = (98 - 5) // 10  # of what ends at a start 98 seconds after the stream's


def until(made: Pipeline, folder: Path, second: float, at: float = 0, **settings: Any) -> None:
    """Runs a live pipeline between two seconds; what happened before, and is not written yet, is."""
    path = folder / "v.jsonl"
    written = len(path.read_text().splitlines()) if path.exists() else 0
    clock, stop = world(folder, as_they_happen(one_a_second(200)[written:]), at=at), Flag()
    clock.acts[second] = stop.set
    run(made, clock=clock, stop=stop, **settings)


def left(folder: Path, stopped: float) -> Pipeline:
    """A file of which one release was taken out after the run was stopped."""
    until(pipeline(folder, tables(USUAL, MORE, live=True)), folder, stopped)
    return pipeline(folder, tables(USUAL, live=True))


def unwanted(folder: Path, stopped: float) -> Pipeline:
    """One whose analyst's release is to end when it starts again."""
    made = pipeline(folder, tables(live=True))
    until(made, folder, stopped, adhoc_releases=(AdHocRelease(parse_adhoc_release(MORE, made.file.stream), "ana"),))
    return made


def ended_by(way: Any, folder: Path, stopped: float, components: dict[type, type] | None = None) -> list[int]:
    """The ticks of a release that ends at a start at 98 s."""
    folder.mkdir()
    made = way(folder, stopped)
    ended = ("more",) if way is unwanted else ()
    until(made, folder, 130, at=98, end_releases=ended, components=components or {})
    assert made.ledger().releases["more"].end_tick == LAST
    assert ticks_of(made) == list(range(1, 13))
    return ticks_of(made, "more")


@pytest.mark.parametrize("way", [left, unwanted])
def test_the_last_tick_is_that_of_the_clock_however_far_the_run_had_come(tmp_path: Path, way: Any) -> None:
    found = [ended_by(way, tmp_path / str(stopped), stopped) for stopped in (20, 52)]
    assert found[0] == found[1]
    assert found[0][-1] == LAST


class StoppingBuilder(SessionBuilder):
    """A broken twin: no ended release runs on."""

    @property
    def draining_releases(self) -> DrainingReleases:
        return replace(super().draining_releases, is_source_missing=True)


def test_a_twin_that_ends_it_where_it_was_tells_how_far_that_was(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        ended_by(left, tmp_path / "twin", 52, {SessionBuilder: StoppingBuilder})


@pytest.mark.parametrize("step", ["transaction_committed", "noise_drawn"])
def test_a_run_that_is_killed_runs_on_to_the_same_tick(tmp_path: Path, step: str) -> None:
    made = left(tmp_path, 52)
    assert forked(lambda: until(made, tmp_path, 130, at=98, step=killed_at(step))) == -9
    assert made.ledger().releases["more"].end_tick == LAST
    until(made, tmp_path, 160, at=140)
    assert ticks_of(made, "more") == list(range(1, LAST + 1))
    assert published(made, "more") == [[5.0, 5.0]] * LAST


def test_what_has_ended_and_is_over_is_not_remembered(tmp_path: Path) -> None:
    made = left(tmp_path, 52)
    until(made, tmp_path, 130, at=98)
    store = Store.open_writer(made.file.folder, load_pipeline_key(made.file), create=False)
    try:
        assert {name.split("/")[1] for name in store.state() if name.startswith("run/")} == {"counts"}
    finally:
        store.close()


def test_what_begins_when_others_end_begins_after_them(tmp_path: Path) -> None:
    whole = USUAL | {"epsilon": 1}
    until(pipeline(tmp_path, tables(whole, live=True)), tmp_path, 20)
    made = pipeline(tmp_path, tables(whole | {"name": "next"}, live=True))
    until(made, tmp_path, 130, at=98)
    assert (ticks_of(made)[-1], ticks_of(made, "next")[0]) == (LAST, LAST + 1)
    assert made.ledger().ledger.spent_loss() == Pure(1)


@pytest.mark.parametrize("stopped", [3, 6])
def test_over_a_finished_file_it_has_all_ticks_however_far_the_run_had_come(tmp_path: Path, stopped: int) -> None:
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


def test_once_the_source_is_another_it_runs_on_no_more(tmp_path: Path) -> None:
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


def test_without_the_table_that_it_reads_it_ends_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("g,floor\na,1st\nb,2nd\n")
    sql = "SELECT sites.floor, COUNT(*) FROM v JOIN sites ON v.g = sites.g GROUP BY sites.floor"
    both = tables(USUAL, MORE | {"sql": sql}, live=True)
    both["lookup"] = {"sites": {"file": "sites.csv", "on": "g"}}
    until(pipeline(tmp_path, both), tmp_path, 52)
    made = pipeline(tmp_path, tables(USUAL, live=True))
    until(made, tmp_path, 130, at=98)
    assert (ticks_of(made, "more")[-1], made.ledger().releases["more"].end_tick) == (4, 4)
