"""`window = "tumbling 30s"`: a row for each period, whose exact sums are those of its ticks."""

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.config.errors import PipelineFileError
from streamgauge.plan.planner import plan_release
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import AddRelease, CommandQueue, EndRelease
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import (
    START,
    Tables,
    World,
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

WINDOW = "tumbling 30s"
MOMENTS = "SELECT g, COUNT(*), SUM(x) AS sum, AVG(x) AS mean, VARIANCE(x) AS v FROM v GROUP BY ROLLUP (g)"
PERIODS: Tables = {"name": "periods", "sql": MOMENTS, "window": WINDOW}
LIVE = {"live": True, "end": "2026-01-05T00:01:40Z"}


def add_up(each: list[list[float]], *lengths: int) -> list[list[float]]:
    """Return the sums of so many ticks each."""
    parts = np.split(np.array(each), np.cumsum(lengths)[:-1])
    return [part.sum(axis=0).tolist() for part in parts]


def run_until(made: Pipeline, clock: World, second: float, **settings: Any) -> None:
    stop = Flag()
    clock.acts[second] = stop.set
    run(made, clock=clock, stop=stop, **settings)


def spans(made: Pipeline, release: str = "periods") -> list[tuple[float, float]]:
    """Return the seconds of each row, from the stream's start."""
    return [(each.start / 1e6 - START, each.end / 1e6 - START) for each in made.releases(release)]


def test_rows_are_of_periods_and_the_last_is_cut(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables(PERIODS, {**PERIODS, "name": "ticks", "window": "each"}))
    run(made)
    assert ticks_of(made, "periods") == [3, 6, 9, 10]
    assert spans(made) == [(0, 30), (30, 60), (60, 90), (90, 100)]
    for measure in (0, 1):
        assert published(made, "periods", measure) == add_up(published(made, "ticks", measure), 3, 3, 3, 1)
    assert len(lines(tmp_path / "out.jsonl")) == 4 * 3 + 10 * 3


@pytest.mark.parametrize("places", [1, 60])
def test_rows_do_not_depend_on_the_ticks_of_a_commit(tmp_path: Path, places: int) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables(PERIODS))
    run(made, max_batch_places=places)
    assert published(made, "periods") == [[15.0, 15.0, 30.0]] * 3 + [[5.0, 5.0, 10.0]]


@pytest.mark.parametrize("kill", [12, 27, 36, 64])
def test_live_periods_survive_stops_inside_and_at_ends(tmp_path: Path, kill: int) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    made = pipeline(tmp_path, tables(PERIODS, **LIVE))
    run_until(made, clock, kill)
    run(made, clock=clock)
    assert ticks_of(made, "periods") == [3, 6, 9, 10]
    assert published(made, "periods") == [[15.0, 15.0, 30.0]] * 3 + [[5.0, 5.0, 10.0]]


def test_live_period_is_published_when_its_last_tick_closes(tmp_path: Path) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    made = pipeline(tmp_path, tables(PERIODS, **LIVE))
    closed = [(each.tick, clock.second) for ticks in made.ticks(clock=clock) for each in ticks]
    assert closed == [(3, 35), (6, 65), (9, 95), (10, 105)]


QUERIES = {
    "moments": MOMENTS,
    "distinct": "SELECT g, COUNT(DISTINCT who) AS n FROM v GROUP BY g",
    "hashed": "SELECT COUNT(DISTINCT badge) FROM v",
    "ordered": "SELECT MEDIAN(x) AS mid, MAX(x) AS top, MIN(x) AS low FROM v",
    "words": "SELECT word, COUNT(*) FROM v GROUP BY word",
}
COLUMNS = {
    "g": {"values": ["a", "b"]},
    "x": {"bounds": [0, 10], "grid": 1},
    "who": {"values": [f"p{i}" for i in range(9)]},
    "badge": {"hash_cells": 64},
    "word": {"max_groups": 5},
}


def test_every_statistic_equals_its_release_of_longer_ticks(tmp_path: Path) -> None:
    events = [
        event(
            s, "ab"[s % 2], s % 11, who=f"p{s % 7}", badge=None if 30 <= s < 60 else "b", word="tea" if s % 3 else "oil"
        )
        for s in range(90)
    ]
    stream = {"columns": COLUMNS, "budget": {"epsilon": 50, "delta": 0.02}, "end": "2026-01-05T00:01:30Z"}
    more: dict[str, Tables] = {"words": {"delta": 1e-2}}
    found = []
    for name, tick, window in (("periods", "10s", WINDOW), ("ticks", "30s", "each")):
        (tmp_path / name).mkdir()
        write(tmp_path / name, events)
        releases = [
            {"name": key, "sql": sql, "window": window, "epsilon": 8, **more.get(key, {})}
            for key, sql in QUERIES.items()
        ]
        made = pipeline(tmp_path / name, tables(*releases, tick=tick, **stream))
        run(made)
        found.append(
            {key: [(each.start, each.end, each.value.tolist()) for each in made.releases(key)] for key in QUERIES}
        )
    assert found[0] == found[1]
    assert len(found[0]["words"]) == 3
    assert found[0]["distinct"][0][2] == [[7.0, 7.0]]


def test_a_later_release_begins_inside_a_period_and_says_so(tmp_path: Path) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    made = pipeline(tmp_path, tables({"name": "ticks", "sql": MOMENTS}, **LIVE, budget={"epsilon": 2}))
    run_until(made, clock, 26)
    more = pipeline(tmp_path, tables({"name": "ticks", "sql": MOMENTS}, PERIODS, **LIVE, budget={"epsilon": 2}))
    plan = next(each for each in more.plan().to_json()["releases"] if each["name"] == "periods")
    run(more, clock=clock)
    assert plan["periods"] == {"longest_ticks": 3, "first_row_tick": 6, "is_first_cut": True, "partial": False}
    assert ticks_of(more, "periods") == [6, 9, 10]
    assert spans(more) == [(50, 60), (60, 90), (90, 100)]
    assert published(more, "periods") == [[5.0, 5.0, 10.0], [15.0, 15.0, 30.0], [5.0, 5.0, 10.0]]


@pytest.mark.parametrize(("second", "rows", "end"), [(46, [], 4), (76, [6], 7), (96, [6, 9], 9)])
def test_an_ended_release_has_no_row_for_its_open_period(
    tmp_path: Path, second: float, rows: list[int], end: int
) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    made = pipeline(tmp_path, tables({"name": "ticks", "sql": MOMENTS}, **LIVE, budget={"epsilon": 2}))
    queue = CommandQueue(now=clock.now)
    adhoc = AdHocRelease(parse_adhoc_release({**PERIODS, "epsilon": 1}, made.file.stream), "ann")
    clock.acts |= {second: lambda: ended.append(queue.submit(EndRelease("periods"))), 99: queue.close}
    ended: list[Any] = []
    queue.submit(AddRelease(adhoc))
    run(made, clock=clock, commands=queue)
    ended[0].result()
    entry = made.ledger().releases["periods"]
    assert (entry.first, entry.end_tick, entry.drain_tick, entry.is_draining) == (4, end, max([3, *rows]), True)
    assert (
        ticks_of(made, "periods") == rows if rows else "periods" not in [e.release for e in [*made.releases("ticks")]]
    )
    assert not made.ledger().active_releases(["periods"]).keys() - {"ticks"}
    run(made, clock=clock)  # it does not run on


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"window": "tumbling 25s"}, r'"tumbling 1d".* of a whole number of ticks of 10s, .*got "tumbling 25s"'),
        ({"window": "tumbling day Mars"}, 'got "tumbling day Mars"'),
        ({"window": "tumbling year"}, 'got "tumbling year"'),
    ],
)
def test_windows_that_do_not_fit_are_refused(tmp_path: Path, change: Tables, words: str) -> None:
    with pytest.raises(PipelineFileError, match=words):
        pipeline(tmp_path, tables({**PERIODS, **change}))


def test_a_period_of_one_tick_is_each(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables({**PERIODS, "window": "tumbling 10s"}))
    assert made.file.releases[0].window == "each"


def test_alerts_compare_periods(tmp_path: Path) -> None:
    write(tmp_path, [event(second) for second in range(60, 100)])
    steep = {"kind": "jump", "size": 20, "window": "1m"}
    counts = {"name": "periods", "sql": "SELECT COUNT(*) FROM v", "window": WINDOW, "alerts": steep}
    made = pipeline(tmp_path, tables(counts))
    run(made)
    assert published(made, "periods", 1) == [[0.0], [0.0], [1.0], [0.0]]
    assert "has risen by 20 or more within 1m" in str(made.plan())
    with pytest.raises(PipelineFileError, match="whole number of ticks of 30s"):
        pipeline(tmp_path, tables({**counts, "alerts": {**steep, "window": "50s"}}))


def test_plan_states_periods_and_their_error(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(PERIODS, {**PERIODS, "name": "each", "window": "each"}))
    text, (periods, each) = str(made.plan()), made.plan().to_json()["releases"]
    assert "periods: tumbling 30s, epsilon 0.5" in text
    assert "a row for each period, at its last tick; the first at tick 3" in text
    assert periods["errors"][0]["tick"] == 3
    assert periods["errors"][0]["stddev"] == each["errors"][0]["stddev"]
    assert periods["periods"] == {"longest_ticks": 3, "first_row_tick": 3, "is_first_cut": False, "partial": False}


@pytest.mark.parametrize(
    ("unit", "start", "hours"),
    [
        ("day", "2026-03-28T12:00:00Z", [11, 23, 24, 14]),
        ("day", "2026-10-24T12:00:00Z", [10, 25, 24, 13]),
        ("week", "2026-03-28T12:00:00Z", [34, 38]),
        ("month", "2026-03-30T12:00:00Z", [34, 38]),
    ],
)
def test_calendar_periods_follow_the_clocks_of_their_zone(
    tmp_path: Path, unit: str, start: str, hours: list[int]
) -> None:
    begin = int(datetime.fromisoformat(start).timestamp())
    write(tmp_path, [{"ts": begin + 3600 * hour + 1800, "g": "a", "x": 1} for hour in range(72)])
    end = format_utc_time((begin + 72 * 3600) * 10**6)
    stream = {"start": start, "end": end, "tick": "1h", "timezone": "Europe/Berlin"}
    made = pipeline(tmp_path, tables({**PERIODS, "window": f"tumbling {unit}"}, **stream))
    assert made.file.releases[0].window == f"tumbling {unit} Europe/Berlin"
    run(made)
    assert [row[0] for row in published(made, "periods")] == hours
    assert ticks_of(made, "periods") == np.cumsum(hours).tolist()


def test_daily_counts_of_hourly_ticks_have_errors_of_daily_ticks(tmp_path: Path) -> None:
    counts = {"sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "epsilon": 0.15}
    releases = [{**counts, "name": name, "window": name} for name in ("tumbling 1d", "sliding 24h")]
    releases = [{**each, "name": each["name"].split()[0]} for each in releases]
    made = pipeline(tmp_path, tables(*releases, tick="1h", end="2026-12-31T00:00:00Z"))
    periods, sliding = ([error["half_width"] for error in each["errors"]] for each in made.plan().to_json()["releases"])
    assert round(max(periods)) == 20
    assert max(sliding) > 60


SO_FAR: Tables = {**PERIODS, "name": "so_far", "partial": True}


def running_sums(each: list[list[float]], *lengths: int) -> list[list[float]]:
    """Return the sums so far, from 0 again after so many ticks each."""
    parts = np.split(np.array(each), np.cumsum(lengths)[:-1])
    return [row for part in parts for row in np.cumsum(part, axis=0).tolist()]


@pytest.mark.parametrize("places", [1, 60, 10**6])
def test_partial_rows_are_of_the_period_so_far(tmp_path: Path, places: int) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(
        tmp_path, tables(SO_FAR, {**PERIODS, "name": "ticks", "window": "each"}, PERIODS, budget={"epsilon": 2})
    )
    run(made, max_batch_places=places)
    assert ticks_of(made, "so_far") == [*range(1, 11)]
    for measure in (0, 1):
        assert published(made, "so_far", measure) == running_sums(published(made, "ticks", measure), 3, 3, 3, 1)
    ends = [row for row in made.releases("so_far") if row.tick in (3, 6, 9, 10)]
    assert [row.value[:2].tolist() for row in ends] == [row.value[:2].tolist() for row in made.releases("periods")]
    assert spans(made, "so_far")[2:5] == [(0, 30), (30, 40), (30, 50)]


@pytest.mark.parametrize("kill", [12, 36, 64])
def test_partial_rows_survive_stops_and_ends(tmp_path: Path, kill: int) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    alerts = {"kind": "drop", "size": 15, "measure": "count", "window": "20s"}
    made = pipeline(tmp_path, tables({**SO_FAR, "alerts": alerts}, **LIVE))
    run_until(made, clock, kill)
    run(made, clock=clock)
    totals = [row[2] for row in published(made, "so_far")]
    assert totals == [10, 20, 30, 10, 20, 30, 10, 20, 30, 10]
    assert [row[2] for row in published(made, "so_far", 4)] == [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]


def test_partial_noise_is_of_a_counter_over_one_period(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    counts = {**SO_FAR, "sql": "SELECT COUNT(*) FROM v"}
    made = pipeline(tmp_path, tables(counts))
    statistic = plan_release(made.file, made.file.releases[0]).parts[0].statistic
    assert (statistic.horizon, statistic.window, statistic.loss.epsilon) == (3, "running", Fraction(1, 2))
    run(made, noise=InsecureNoise(1))
    errors = [float(each.stddev[0, 0]) for each in made.releases("so_far")]
    assert errors == [statistic.stddev(tick) for tick in (1, 2, 3, 1, 2, 3, 1, 2, 3, 1)]
    assert "the figure so far of a period at each tick; the first at tick 1" in str(made.plan())


def test_each_partial_period_has_noise_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, [])
    made = pipeline(tmp_path, tables({**SO_FAR, "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/10000"}))
    run(made, noise=InsecureNoise(1))
    noise = np.array(published(made, "so_far"))[:9].reshape(3, 3)
    for other in (1, 2):
        assert (noise != np.roll(noise, other, axis=0)).all()  # of a large scale, so that no two draws are equal
        assert (np.diff(noise) != np.roll(np.diff(noise), other, axis=0)).all()


def test_distinct_values_count_anew_in_each_partial_period(tmp_path: Path) -> None:
    write(tmp_path, [event(second, "a", who=f"p{second % 7}") for second in range(60)])
    columns = {"g": {"values": ["a", "b"]}, "who": {"values": [f"p{i}" for i in range(9)]}}
    made = pipeline(tmp_path, tables({**SO_FAR, "sql": "SELECT COUNT(DISTINCT who) AS n FROM v"}, columns=columns))
    run(made)
    assert published(made, "so_far") == [[7.0]] * 6 + [[0.0]] * 4


def test_partial_needs_a_tumbling_window(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="partial must be left out unless window is a tumbling one"):
        pipeline(tmp_path, tables({**SO_FAR, "window": "running"}))


def test_ad_hoc_partial_release_ends_like_any_other(tmp_path: Path) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    made = pipeline(tmp_path, tables({"name": "ticks", "sql": MOMENTS}, **LIVE, budget={"epsilon": 2}))
    queue = CommandQueue(now=clock.now)
    adhoc = AdHocRelease(parse_adhoc_release({**SO_FAR, "epsilon": 1}, made.file.stream), "ann")
    queue.submit(AddRelease(adhoc))
    run_until(made, clock, 46, commands=queue)
    queue = CommandQueue(now=clock.now)
    queue.submit(EndRelease("so_far"))
    clock.acts[66] = queue.close
    run(made, clock=clock, commands=queue)
    assert ticks_of(made, "so_far") == [4]
    assert made.ledger().releases["so_far"].drain_tick == 4
