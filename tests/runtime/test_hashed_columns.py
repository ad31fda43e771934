"""COUNT(DISTINCT x) of hashed columns in pipelines: values that share a cell count, in plans and releases."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.config.errors import PipelineFileError
from streamgauge.runtime import Plan
from streamgauge.statistics.keys.hash_cells import HashCells
from tests.support.pipelines import Tables, event, lines, pipeline, run, tables, write

CELLS, VALUES = 1024, 1200
ALL, BY_GROUP = "SELECT COUNT(DISTINCT u) FROM v", "SELECT g, COUNT(DISTINCT u) FROM v GROUP BY g"
USERS = {"user": "u", "max_events_per_tick": 1, "max_ticks": 2}
SURE = 8  # standard errors: fewer than one run in 10^14 is farther off


def columns(**declared: Any) -> Tables:
    return {"g": {"values": ["a", "b"]}, "u": declared}


def planned(folder: Path, *releases: Tables, hash_cells: int = CELLS, **declared: Any) -> Plan:
    stream = {"columns": columns(hash_cells=hash_cells, **declared), "budget": {"epsilon": 200}}
    return pipeline(folder, tables(*releases, **stream)).plan()


@pytest.mark.one_of_each
@pytest.mark.parametrize("unit", ["event", USERS], ids=["event", "user"])
@pytest.mark.parametrize("sql", [ALL, BY_GROUP], ids=["all", "groups"])
@pytest.mark.parametrize("window", ["each", "running"])
def test_values_that_share_a_cell_are_published(tmp_path: Path, window: str, sql: str, unit: Any) -> None:
    """The hash is fresh in every run; 706 of 1,024 cells are occupied by 1,200 values, give or take 14."""
    write(tmp_path, [event(5, "ab"[i // VALUES], u=f"u{i}") for i in range(2 * VALUES)])
    release = {"name": "r", "sql": sql, "window": window, "epsilon": 50}
    stream = {"unit": unit, "budget": {"epsilon": 50}, "columns": columns(hash_cells=CELLS)}
    made = pipeline(tmp_path, tables(release, **stream))
    run(made)
    published, truth = made.releases("r"), 2 * VALUES if sql == ALL else VALUES
    assert np.all(np.abs(published.values("count_distinct_u")[0] - truth) < SURE * published[0].stddev[0])
    own = HashCells(CELLS).stddev(published[0].value[0], 0.0)
    assert np.all(published[0].stddev[0] >= own)
    assert np.all(published[0].high[0] - published[0].low[0] > 3 * own)
    later = published.values("count_distinct_u")[1:]
    assert np.all(later == (published[0].value[0] if window == "running" else 0.0))


def test_declared_values_are_counted_without_hash(tmp_path: Path) -> None:
    names = [f"u{i}" for i in range(50)]
    write(tmp_path, [event(5, u=name) for name in names])
    made = pipeline(tmp_path, tables({"name": "r", "sql": ALL, "epsilon": 1}, columns=columns(values=names)))
    run(made)
    first = made.releases("r")[0]
    assert (first.value[0, 0], first.low[0, 0], first.high[0, 0]) == (50.0, 47.0, 53.0)


def test_a_full_table_is_published_with_a_lower_bound_only(tmp_path: Path) -> None:
    """400 values occupy all 4 cells, except once in 10^49."""
    write(tmp_path, [event(5, u=f"u{i}") for i in range(400)])
    release = {"name": "r", "sql": ALL, "epsilon": 50}
    stream = {"budget": {"epsilon": 50}, "columns": columns(hash_cells=4)}
    made = pipeline(tmp_path, tables(release, **stream))
    run(made)
    first = lines(tmp_path / "out.jsonl")[0]["count_distinct_u"]
    assert (first["high"], first["reliable"]) == (None, False)
    assert 3.9 < first["low"] <= first["value"] <= 400
    assert made.releases("r")[0].high[0, 0] == np.inf


@pytest.mark.parametrize("window", ["each", "running"])
@pytest.mark.parametrize("epsilon", [1, 50])
def test_the_plan_predicts_noise_and_shared_cells(tmp_path: Path, window: str, epsilon: int) -> None:
    release = {"name": "r", "sql": ALL, "window": window, "epsilon": epsilon}
    (counted,) = planned(tmp_path, release, expected_distinct=VALUES).releases
    (without,) = planned(tmp_path, release, hash_cells=2**30, expected_distinct=VALUES).releases
    table = HashCells(CELLS)
    for error, noise in zip(counted.errors, without.errors, strict=True):
        assert error.stddev == pytest.approx(table.stddev(VALUES, noise.stddev), rel=1e-3)
        assert error.half_width > 1.9 * error.stddev
        assert (error.note, error.level) == ("at 1,200 values in 1,024 cells", VALUES)


def hints(folder: Path, expected: int | None = None, epsilon: int = 1, **declared: Any) -> list[str]:
    release = {"name": "r", "sql": ALL, "window": "running", "epsilon": epsilon}
    plan = planned(folder, release | ({} if expected is None else {"expected_events": expected}), **declared)
    (choice,) = plan.releases[0].choices
    assert all(hint in str(plan) for hint in choice.hints)
    return list(choice.hints)


def test_the_plan_says_when_a_table_is_too_small(tmp_path: Path) -> None:
    raised = "shared cells raise the std error from 8.852 to 57.73; use at least 32768"
    small = f"hash_cells = 4096 is too small for 4,000 values: {raised}"
    assert hints(tmp_path, hash_cells=4096, expected_distinct=4000) == [small]
    assert hints(tmp_path, hash_cells=32768, expected_distinct=4000) == []
    events = "hash_cells = 4096 is too small for 4,000 values, one for each expected event "
    (hint,) = hints(tmp_path, hash_cells=4096, expected=400)
    assert hint.startswith(f"{events}(declare expected_distinct if there are fewer)")
    assert hints(tmp_path, hash_cells=4096, expected=400, expected_distinct=100) == []
    full = "nearly all cells will be occupied: only a lower bound is known; use at least 32768"
    rule = "hash_cells = 4 is too small for 4,000 values"
    assert hints(tmp_path, hash_cells=4, expected_distinct=4000) == [f"{rule}: {full}"]
    assert hints(tmp_path, hash_cells=4) == [], "nothing is expected"


def test_the_plan_says_when_a_full_table_multiplies_the_noise(tmp_path: Path) -> None:
    release = {"name": "r", "sql": ALL, "window": "running", "epsilon": 0.05}
    (counted,) = planned(tmp_path, release, hash_cells=4096, expected_distinct=4000).releases
    (without,) = planned(tmp_path, release, hash_cells=2**30, expected_distinct=4000).releases
    noise, whole = without.errors[-1].stddev, counted.errors[-1].stddev
    assert whole > 2.5 * noise > 2.5 * HashCells(4096).stddev(4000, 0.0), "the hash alone errs less"
    raised = f"shared cells raise the std error from {noise:,.4g} to {whole:,.4g}"
    assert counted.choices[0].hints == (
        f"hash_cells = 4096 is too small for 4,000 values: {raised}; use at least 32768",
    )


def test_a_plan_without_an_expected_number_says_so(tmp_path: Path) -> None:
    (release,) = planned(tmp_path, {"name": "r", "sql": ALL, "expected_events": 300}).releases
    assert release.errors[0].note == "at 300 values in 1,024 cells, one for each event"
    (release,) = planned(tmp_path, {"name": "r", "sql": ALL}).releases
    note = "at 1,000 values in 1,024 cells; expected_distinct states how many to expect"
    assert release.errors[0].note == note
    (release,) = planned(tmp_path, {"name": "r", "sql": ALL}, hash_cells=4, expected_distinct=999).releases
    assert release.errors[0].note.endswith("nearly all occupied, so that there is a lower bound only")
    assert release.errors[0].half_width == np.inf


def test_user_tables_are_planned_for_expected_number_of_users(tmp_path: Path) -> None:
    sql = "SELECT COUNT(DISTINCT u), HEAVY_FRACTION(u, 3) FROM v"
    release = {"name": "r", "sql": sql, "window": "running", "expected_events": 1000}
    stream = {"pan_private": True, "unit": {"user": "u"}, "source": "http", "mode": "streaming"}
    for users, note in ((None, "at 1,000 users"), (200, "at 200 users")):
        declared = {} if users is None else {"expected_distinct": users}
        made = pipeline(tmp_path, tables(release, columns=columns(hash_cells=4096, **declared), **stream))
        error, *_, heavy = made.plan().releases[0].errors
        assert error.note == note
        assert heavy.note == f"at {200 if users else 3333:,} users who came 3 times or once"


def test_expected_distinct_of_column_is_not_pinned(tmp_path: Path) -> None:
    write(tmp_path, [event(5, u="u1")])
    stream = {"columns": columns(hash_cells=CELLS, expected_distinct=10)}
    run(pipeline(tmp_path, tables({"name": "r", "sql": ALL}, **stream)))
    stream = {"columns": columns(hash_cells=CELLS, expected_distinct=500)}
    again = pipeline(tmp_path, tables({"name": "r", "sql": ALL}, **stream)).plan()
    assert (again.refusals, again.edits.new_releases, again.edits.continued_releases) == ((), (), ("r",))
    assert again.releases[0].errors[0].level == 500


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"values": ["a"], "expected_distinct": 5}, "expected_distinct must be left out unless there are hash_cells"),
        ({"hash_cells": 9, "expected_distinct": 0}, "expected_distinct must be a whole number from 1"),
    ],
)
def test_expected_numbers_without_a_meaning_are_refused(tmp_path: Path, declared: Tables, message: str) -> None:
    with pytest.raises(PipelineFileError, match=message):
        pipeline(tmp_path, tables(columns=columns(**declared)))
