"""ORDER BY and LIMIT end to end: post-processing of the plain release, with bounds valid after selection."""

import csv
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.parts import CONFIDENCE
from streamgauge.plan.planner import plan_release
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.plan.plan import plan_pipeline
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.discovered import by_hand, chosen, told, words
from tests.support.pipelines import Tables, as_they_happen, event, pipeline, run, tables, world, write

GROUPS = [f"g{i}" for i in range(8)]
PLAIN = "SELECT g, COUNT(*), SUM(x) AS total FROM v GROUP BY g"
TOP = f"{PLAIN} ORDER BY COUNT(*) DESC LIMIT 3"
SINKS = [{"to": "out.jsonl"}, {"to": "out.csv"}, {"to": "long.csv", "shape": "long"}, {"to": "out.parquet"}]
WINDOWS = ["running", "each", "sliding 30s", "decayed half-life 20s"]


def ranked(sql: str = TOP, window: str = "running", **settings: Any) -> Tables:
    columns = {"g": {"values": GROUPS}, "h": {"values": [1, 2]}, "x": {"bounds": [0, 10], "grid": 1}}
    release = {"name": "top", "sql": sql, "window": window}
    return tables(release, **{"columns": columns, **settings})


def events(seed: int = 1, count: int = 900) -> list[Tables]:
    rng = np.random.default_rng(seed)
    groups = np.minimum(rng.geometric(0.35, count) - 1, len(GROUPS) - 1)
    return [event(float(i * 100 / count), GROUPS[g], float(i % 11), h=1 + i % 2) for i, g in enumerate(groups)]


def shown(made: Pipeline) -> list[list[tuple[Any, ...]]]:
    """Return (rank, labels, value) of each place, tick by tick."""
    return [
        [
            (rank, *(label for _, label in place.labels), value)
            for rank, place, value in zip(each.shape.ranks, each.shape.groups, each.value[0].tolist(), strict=True)
        ]
        for each in made.releases("top")
    ]


def run_in(folder: Path, made: Tables, **settings: Any) -> Pipeline:
    folder.mkdir(exist_ok=True)
    write(folder, events())
    found = pipeline(folder, made)
    run(found, **settings)
    return found


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("order", "measure"), [("2", 0), ("total", 1)])
def test_places_are_the_largest_of_the_plain_release(tmp_path: Path, window: str, order: str, measure: int) -> None:
    """The same draws: ranking changes no number, only which are listed, and where."""
    limited = f"{PLAIN} ORDER BY {order} DESC LIMIT 3"
    plain = run_in(tmp_path / "plain", ranked(PLAIN, window), noise=InsecureNoise(5)).releases("top")
    top = run_in(tmp_path / "top", ranked(limited, window), noise=InsecureNoise(5)).releases("top")
    for whole, listed in zip(plain, top, strict=True):
        places = np.argsort(-whole.value[measure], kind="stable")[:3]
        assert listed.shape.groups == tuple(whole.shape.groups[place] for place in places)
        assert listed.shape.ranks == (1, 2, 3)
        for name in ("value", "stddev", "reliable"):
            np.testing.assert_array_equal(getattr(listed, name), getattr(whole, name)[:, places])
        assert (listed.high > whole.high[:, places]).all()


def test_charge_of_a_ranked_release_is_the_plain_one(tmp_path: Path) -> None:
    both = [plan_pipeline(pipeline(tmp_path, ranked(sql)).file) for sql in (PLAIN, TOP)]
    assert both[0].spent == both[1].spent
    assert both[0].releases[0].choices == both[1].releases[0].choices


def test_releases_without_noise_are_exact_with_declared_ties(tmp_path: Path) -> None:
    write(tmp_path, [event(1, "g5"), event(2, "g5"), event(3, "g7"), event(4, "g2")])
    made = pipeline(tmp_path, ranked("SELECT g, COUNT(*) FROM v GROUP BY g ORDER BY 2 DESC LIMIT 4"))
    run(made)
    assert shown(made)[0] == [(1, "g5", 2), (2, "g2", 1), (3, "g7", 1), (4, "g0", 0)]


def test_live_stream_lists_the_same_groups(tmp_path: Path) -> None:
    (tmp_path / "batch").mkdir()
    write(tmp_path / "batch", events())
    batch = pipeline(tmp_path / "batch", ranked())
    run(batch)
    live = pipeline(tmp_path, ranked(live=True, end="2026-01-05T00:01:40Z"))
    run(live, clock=world(tmp_path, as_they_happen(events())))
    assert shown(live) == shown(batch)


def test_limit_above_the_groups_lists_all_of_them(tmp_path: Path) -> None:
    for order in ("ORDER BY 2 DESC LIMIT 99", "ORDER BY 2 DESC"):
        made = pipeline(tmp_path, ranked(f"{PLAIN} {order}"))
        (release,) = plan_pipeline(made.file).releases
        assert release.ranking is not None
        assert (release.ranking.places, release.ranking.margin) == (8, None)


def test_several_group_columns_are_ranked_together(tmp_path: Path) -> None:
    sql = "SELECT h, g, COUNT(*) FROM v GROUP BY h, g ORDER BY 3 DESC LIMIT 5"
    made = run_in(tmp_path, ranked(sql))
    counts: dict[tuple[int, str], int] = {}
    for each in events():
        counts[each["h"], each["g"]] = counts.get((each["h"], each["g"]), 0) + 1
    assert [row[3] for row in shown(made)[-1]] == sorted(counts.values(), reverse=True)[:5]
    assert all(counts[h, g] == value for _, h, g, value in shown(made)[-1])
    frame = made.releases("top").to_pandas()
    assert list(frame.columns[:6]) == ["tick", "start", "end", "rank", "h", "g"]
    assert (str(frame["rank"].dtype), str(frame["h"].dtype)) == ("int64", "int64")
    assert frame["rank"].tolist() == [1, 2, 3, 4, 5] * 10
    assert made.releases("top").to_arrow()["h"].type == made.releases("top")[:0].to_arrow()["h"].type
    assert made.releases("top").to_polars()["rank"].to_list() == [1, 2, 3, 4, 5] * 10


def test_every_sink_has_the_rank_of_every_row(tmp_path: Path) -> None:
    made = run_in(tmp_path, ranked(sinks=SINKS), noise=InsecureNoise(3))
    expected = [(tick, rank, group) for tick, rows in enumerate(shown(made), 1) for rank, group, _ in rows]
    objects = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["tick"], row["rank"], row["group"]["g"]) for row in objects] == expected
    plain = [{key: value for key, value in row.items() if key != "trace"} for row in objects]
    assert plain == [
        {key: value for key, value in row.items() if key != "trace"}
        for each in made.releases("top")
        for row in each.rows()
    ]
    with (tmp_path / "out.csv").open(newline="") as file:
        wide = list(csv.DictReader(file))
    assert [(int(row["tick"]), int(row["rank"]), row["g"]) for row in wide] == expected
    with (tmp_path / "long.csv").open(newline="") as file:
        long = [row for row in csv.DictReader(file) if row["measure"] == "total"]
    assert [(int(row["tick"]), int(row["rank"]), json.loads(row["group"])["g"]) for row in long] == expected
    with duckdb.connect() as engine:
        query = (
            f"SELECT tick, rank, \"group\"::JSON->>'g' FROM '{tmp_path}/out.parquet/*.parquet' WHERE measure = 'count'"
        )
        assert engine.execute(query).fetchall() == expected


def test_restarted_run_continues_with_the_same_series(tmp_path: Path) -> None:
    whole = run_in(tmp_path / "whole", ranked())
    write(tmp_path, events())
    stopped = pipeline(tmp_path, ranked())
    for count in (1, 4, 99):
        ticks = stopped.ticks(noise=SilentNoise(), max_batch_ticks=1)
        for _, _ in zip(range(count), ticks, strict=False):
            pass
        ticks.close()
    assert [each.pack() for each in stopped.releases("top")] == [each.pack() for each in whole.releases("top")]
    shape = whole.releases("top").shape
    assert {TickRelease.unpack(shape, each.pack()).shape.ranks for each in whole.releases("top")} == {(1, 2, 3)}


def cover_zero(folder: Path, made: Tables) -> float:
    """Return how often the bounds of the largest of many noisy zeros hold the truth, by the same draws."""
    folder.mkdir()
    write(folder, [])
    found = pipeline(folder, made)
    run(found, noise=InsecureNoise(11), max_batch_ticks=512)
    first = [(each, int(np.argmax(each.value[0]))) for each in found.releases("top")]
    return float(np.mean([each.low[0, place] <= 0 <= each.high[0, place] for each, place in first]))


def test_bounds_of_the_first_rank_hold_after_selection(tmp_path: Path) -> None:
    """Of 40 zeros. Bounds of groups that are named beforehand hold for the largest in half of the ticks."""
    settings = {"columns": {"g": {"values": [f"g{i}" for i in range(40)]}}, "end": "2026-01-05T01:23:20Z"}
    sql = "SELECT g, COUNT(*) FROM v GROUP BY g"
    assert cover_zero(tmp_path / "ranked", ranked(f"{sql} ORDER BY 2 DESC LIMIT 1", "each", **settings)) >= 0.95
    assert cover_zero(tmp_path / "twin", ranked(sql, "each", **settings)) < 0.5


def test_groups_beyond_the_margin_are_always_listed(tmp_path: Path) -> None:
    """Three groups have the planned margin more than the others, at every tick of ten."""
    sql = "SELECT g, COUNT(*) FROM v GROUP BY g ORDER BY 2 DESC LIMIT 3"
    (release,) = plan_pipeline(pipeline(tmp_path, ranked(sql, "each")).file).releases
    assert release.ranking is not None
    margin = int(release.ranking.margin or 0) + 1
    large = ["g2", "g4", "g7"]
    write(tmp_path, [event(10 * tick + 1, g) for tick in range(10) for g in large for _ in range(margin)])
    made = pipeline(tmp_path, ranked(sql, "each"))
    run(made, noise=InsecureNoise(7))
    listed = [sorted(group for _, group, _ in rows) == large for rows in shown(made)]
    assert sum(listed) >= 9


def test_values_never_rise_with_the_rank(tmp_path: Path) -> None:
    """A twin that ranks by exact counts does not publish its numbers in their order."""
    order = "SELECT g, COUNT(*) FROM v GROUP BY g ORDER BY 2 DESC"
    made = ranked(order, "each")
    made["release"][0]["epsilon"] = "1/10"
    releases = run_in(tmp_path, made, noise=InsecureNoise(2)).releases("top")
    assert all((np.diff(each.value[0]) <= 0).all() for each in releases)
    exact = run_in(tmp_path / "exact", ranked(order, "each")).releases("top")
    twins = []
    for each, true in zip(releases, exact, strict=True):
        values = dict(zip(each.shape.groups, each.value[0].tolist(), strict=True))
        twins.append([values[group] for group in true.shape.groups])
    assert any((np.diff(twin) > 0).any() for twin in twins)


OTHERS: dict[str, Tables] = {
    "users": {"unit": {"user": "u", "max_events_per_tick": 9, "max_ticks": 9}},
    "an adaptive counter": {"release": {"mechanism": "Pegasus"}},
    "distinct values": {
        "release": {"sql": "SELECT g, COUNT(DISTINCT u) AS n FROM v GROUP BY g ORDER BY n DESC LIMIT 2"}
    },
    "a condition": {"release": {"sql": "SELECT g, SUM(x) FROM v WHERE x > 0 GROUP BY g ORDER BY 2 DESC LIMIT 2"}},
}


@pytest.mark.parametrize("settings", OTHERS.values(), ids=OTHERS)
def test_every_kind_of_count_is_ranked(tmp_path: Path, settings: Tables) -> None:
    columns = {"g": {"values": ["a", "b", "c"]}, "u": {"hash_cells": 1000}, "x": {"bounds": [0, 10], "grid": 1}}
    made = ranked("SELECT g, COUNT(*) FROM v GROUP BY g ORDER BY 2 DESC LIMIT 2", "each", columns=columns)
    made["release"][0] |= settings.get("release", {})
    made["stream"] |= {name: value for name, value in settings.items() if name != "release"}
    write(tmp_path, [event(1, "b", u=f"u{i}") for i in range(9)] + [event(2, "c", u=f"v{i}") for i in range(4)])
    found = pipeline(tmp_path, made)
    run(found)
    assert [(rank, group) for rank, group, _ in shown(found)[0]] == [(1, "b"), (2, "c")]


@pytest.mark.parametrize("most", [2, 100])
def test_discovered_groups_list_the_largest_published(tmp_path: Path, most: int) -> None:
    write(tmp_path, chosen())
    made = pipeline(tmp_path, words(most=100, sql=f"SELECT g, COUNT(*) FROM v GROUP BY g ORDER BY 2 DESC LIMIT {most}"))
    run(made)
    assert told(made) == by_hand(chosen(), made, most)
    releases = made.releases("words")
    assert [each.shape.ranks for each in releases] == [tuple(range(1, len(each.shape.groups) + 1)) for each in releases]
    assert releases.to_pandas()["rank"].max() <= most


def test_limit_above_max_groups_is_refused_if_discovered(tmp_path: Path) -> None:
    sql = "SELECT g, COUNT(*) FROM v GROUP BY g ORDER BY 2 DESC LIMIT 4"
    file = pipeline(tmp_path, words(most=3, sql=sql)).file
    with pytest.raises(InvalidReleaseError, match=r"LIMIT must be at most max_groups = 3, .* got 4: declare"):
        plan_release(file, file.releases[0])


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"alerts": {"kind": "threshold", "size": 3}}, "alerts must be left out with ORDER BY"),
        ({"window": ["sliding 20s", "sliding 30s"]}, "window must be one window, not an array, with ORDER BY"),
        ({"sql": f"{TOP}".replace("SUM(x) AS total", "SUM(x) AS rank")}, "must have different names, got 'rank' twice"),
    ],
)
def test_settings_that_ranks_cannot_have_are_refused(tmp_path: Path, changes: Any, refusal: str) -> None:
    made = ranked()
    made["release"][0] |= changes
    file = pipeline(tmp_path, made).file
    with pytest.raises(InvalidReleaseError, match=refusal):
        plan_release(file, file.releases[0])


def test_plan_says_what_is_listed_and_how_surely(tmp_path: Path) -> None:
    plan = plan_pipeline(pipeline(tmp_path, ranked()).file)
    (release,) = plan.releases
    ranking = release.ranking
    assert ranking is not None
    assert ranking.margin == 2 * [error for error in release.errors if error.measure == "count"][-1].half_width
    assert "lists the 3 largest of 8 by count; all are counted, and ranking them costs nothing more" in str(plan)
    assert "lists every group whose count is" in str(plan)
    assert "above that of the 4th" in str(plan)
    assert plan.to_json()["releases"][0]["ranking"]["places"] == 3
    parts = plan_release(plan.file, plan.file.releases[0]).parts
    assert {part.confidence for part in parts} == {1 - (1 - CONFIDENCE) / 8}
