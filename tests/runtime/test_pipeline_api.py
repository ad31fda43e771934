"""The pipeline in Python: from a file or from tables, planned, run, iterated and read."""

import asyncio
import json
from itertools import islice
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.config.pipeline_file import PipelineFileError
from streamgauge.releases.release import TickRelease
from streamgauge.runtime import Options
from streamgauge.store.errors import AlreadyRunningError, StoreNotFoundError
from streamgauge.testing.noise import SilentNoise
from tests.support.pipelines import (
    COUNTS,
    TABLES,
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
    write,
)

TOML = """
[stream]
name = "v"
source = "v.jsonl"
time = "ts"
time_format = "epoch s"
tick = "10s"
start = "2026-01-05T00:00:00Z"
end = "2026-01-05T00:01:40Z"
unit = "event"
budget = { epsilon = 1 }
key = "file:v.key"

[stream.columns]
g = { values = ["a", "b"] }
x = { bounds = [0, 10], grid = 1 }

[[release]]
name = "counts"
sql = "SELECT g, COUNT(*) FROM v GROUP BY g"
window = "each"
epsilon = 0.5

[[sink]]
to = "out.jsonl"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, one_a_second())
    return tmp_path


def test_a_file_and_its_tables_are_the_same_pipeline(folder: Path) -> None:
    (folder / "v.toml").write_text(TOML)
    read, made = sg.Pipeline.from_file(folder / "v.toml"), pipeline(folder, tables())
    assert read.file == made.file
    run(read)
    assert str(run(made)) == "nothing was left to publish"
    assert published(made) == [[5.0, 5.0]] * 10


def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "v.toml").write_text(TOML.replace("tick =", "tikc ="))
    with pytest.raises(PipelineFileError, match=r"^v\.toml: .*tikc.*tick"):
        sg.Pipeline.from_file(tmp_path / "v.toml")


def test_making_a_pipeline_touches_nothing(tmp_path: Path) -> None:
    made = sg.Pipeline.from_tables(TABLES, tmp_path / "v.toml")
    assert list(tmp_path.iterdir()) == []
    assert repr(made) == "<pipeline v.toml, 1 release>"


def test_a_run_reports_how_much_was_published(folder: Path) -> None:
    report = run(pipeline(folder, tables()))
    assert report.ticks == {"counts": 10}
    assert str(report) == "counts: 10 ticks published"


def test_options_are_an_object_or_keywords(folder: Path) -> None:
    made = pipeline(folder, tables())
    report = made.run(Options(noise=SilentNoise(), max_batch_ticks=3), max_batch_places=2**10)
    assert report.ticks == {"counts": 10}
    with pytest.raises(TypeError, match="nois"):
        made.run(nois=SilentNoise())


def test_iteration_yields_ticks_after_they_are_published(folder: Path) -> None:
    made = pipeline(folder, tables())
    observed = []
    for released in made:
        assert isinstance(released, TickRelease)
        assert ticks_of(made)[: released.tick] == list(range(1, released.tick + 1))
        observed.append(released.tick)
    assert observed == list(range(1, 11))


def test_stopped_iteration_stops_run_and_later_run_continues(folder: Path) -> None:
    made = pipeline(folder, tables())
    first = [each.tick for ticks in islice(made.ticks(noise=SilentNoise(), max_batch_ticks=2), 2) for each in ticks]
    assert first == ticks_of(made) == [1, 2, 3, 4]
    rest = [each.tick for ticks in made.ticks(noise=SilentNoise()) for each in ticks]
    assert rest == [5, 6, 7, 8, 9, 10]
    assert published(made) == [[5.0, 5.0]] * 10
    assert [line["tick"] for line in lines(folder / "out.jsonl")] == sorted([*range(1, 11)] * 2)


def test_two_runs_exclude_each_other_but_not_readers(folder: Path) -> None:
    made = pipeline(folder, tables())
    ticks = made.ticks(noise=SilentNoise(), max_batch_ticks=2)
    next(ticks)
    with pytest.raises(AlreadyRunningError):
        run(pipeline(folder, tables()))
    assert ticks_of(pipeline(folder, tables())) == [1, 2]
    assert made.plan().refusals == ()
    ticks.close()
    run(made)


def test_two_pipelines_in_one_process_are_independent(tmp_path: Path) -> None:
    """The pipelines run tick by tick and alternate, each with its own events."""
    made = []
    for name, seconds in (("one", 100), ("two", 50)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, one_a_second(seconds))
        made.append(pipeline(tmp_path / name, tables()))
    runs = [each.ticks(noise=SilentNoise(), max_batch_ticks=1) for each in made]
    for _ in range(10):
        for ticks in runs:
            next(ticks)
    assert [next(ticks, None) for ticks in runs] == [None, None]
    assert published(made[0]) == [[5.0, 5.0]] * 10
    assert published(made[1]) == [[5.0, 5.0]] * 5 + [[0.0, 0.0]] * 5


def test_two_pipelines_may_run_in_threads(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, one_a_second())
        made.append(pipeline(tmp_path / name, tables()))
    threads = [Thread(target=run, args=(each,)) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [published(each) for each in made] == [[[5.0, 5.0]] * 10] * 2


def test_a_run_works_under_a_running_event_loop(folder: Path) -> None:
    """A notebook always has a running event loop."""

    async def cell() -> list[list[float]]:
        made = pipeline(folder, tables())
        run(made)
        return published(made)

    assert asyncio.run(cell()) == [[5.0, 5.0]] * 10


def test_live_run_in_event_loop_thread_stops_by_flag(tmp_path: Path) -> None:
    made, stop = pipeline(tmp_path, tables(live=True)), Flag()
    clock = world(tmp_path, as_they_happen(one_a_second(60)))
    clock.acts[30] = stop.set

    async def main() -> None:
        await asyncio.to_thread(run, made, clock=clock, stop=stop)

    asyncio.run(main())
    assert ticks_of(made) == [1, 2]


def test_releases_are_tables_for_arrow_pandas_and_polars(folder: Path) -> None:
    made = pipeline(folder, tables({"name": "counts", "sql": "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g"}))
    run(made)
    releases = made.releases("counts")
    frame = releases.to_pandas()
    assert list(frame.columns[:5]) == ["tick", "start", "end", "g", "count"]
    assert frame["count"].tolist() == releases.to_polars()["count"].to_list() == [5.0] * 20
    assert releases.to_arrow().column("sum_x").to_pylist() == releases.values("sum_x").ravel().tolist()
    assert frame["g"].tolist() == ["a", "b"] * 10
    assert np.array_equal(frame["count_stddev"], releases.stddevs("count").ravel())


def test_release_name_may_be_omitted_if_there_is_one(folder: Path) -> None:
    made = pipeline(folder, tables())
    run(made)
    assert len(made.releases()) == 10
    with pytest.raises(ValueError, match="release must be one of counts, got other"):
        made.releases("other")
    both = pipeline(folder, tables({"name": "counts", "sql": COUNTS}, {"name": "more", "sql": COUNTS}))
    run(both)
    with pytest.raises(ValueError, match="release must be one of counts, more, got None"):
        both.releases()


def test_before_the_first_run_there_is_nothing_to_read(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables())
    assert made.ledger().ledger is None
    with pytest.raises(StoreNotFoundError):
        made.releases()


def test_labels_are_escaped_in_notebooks(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    write(tmp_path, [event(1, evil)])
    made = pipeline(tmp_path, tables(columns={"g": {"values": [evil]}, "x": {"bounds": [0, 10]}}))
    run(made)
    for shown in (made.releases(), made.releases()[0], made):
        assert "<img" not in shown._repr_html_()
    assert "&lt;img" in made.releases()._repr_html_()


def test_the_ledger_is_read_without_the_key(folder: Path) -> None:
    made = pipeline(folder, tables())
    run(made)
    (folder / "v.key").rename(folder / "elsewhere.key")
    assert made.ledger().ledger.spent_loss() == sg.Pure("1/2")
    assert len(made.releases()) == 10


def test_run_without_options_draws_noise(folder: Path) -> None:
    """With wide noise, the values of ten ticks and two groups are never all exact by chance."""
    made = pipeline(folder, tables({"name": "counts", "sql": COUNTS, "epsilon": "1/100"}))
    made.run()
    assert published(made) != [[5.0, 5.0]] * 10


@pytest.mark.parametrize("stops", [0, 1, 4])
def test_users_of_batch_file_are_bounded_across_resumed_runs(folder: Path, stops: int) -> None:
    """Three users have 3 or 4 events in every tick: two of each survive, in the first three ticks."""
    unit = {"user": "u", "max_events_per_tick": 2, "max_ticks": 3}
    made = pipeline(folder, tables({"name": "counts", "sql": "SELECT COUNT(*) FROM v"}, unit=unit))
    for _ in islice(made.ticks(noise=SilentNoise(), max_batch_ticks=1), stops):
        pass
    run(made)
    assert [row[0] for row in published(made)] == [6, 6, 6, *[0] * 7]


def test_reader_output_reveals_nothing_about_dropped_records(tmp_path: Path) -> None:
    texts = []
    for name, more in (("without", []), ("with", [event(3, "elsewhere"), {"ts": "never"}, {"no": "time"}])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, one_a_second() + more)
        made = pipeline(tmp_path / name, tables())
        texts.append(
            (
                str(run(made)),
                published(made),
                [json.dumps(line["group"]) for line in lines(tmp_path / name / "out.jsonl")],
            )
        )
    assert texts[0] == texts[1]
