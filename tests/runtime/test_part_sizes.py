"""Sizes of stored state: predicted from declarations, at least the true size, refused before a charge."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CommandRefusedError
from streamgauge.runtime.plan.limits import MAX_VALUE_BYTES, max_part_bytes
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import RunRefusedError
from streamgauge.store.schema import STORE_FILE
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import COUNTS, Tables, one_a_second, pipeline, run, tables, write
from tests.support.reported_polls import POLL, poll

LARGE: Tables = {"name": "large", "sql": COUNTS, "window": "sliding 650000000s", "epsilon": "1/4"}
RULE = r"release large must keep at most 1\.0 GB in a part of its state, got up to 3\.\d GB: take fewer groups"
EVERYTHING: Tables = {
    "name": "everything",
    "sql": "SELECT g, COUNT(*), SUM(x), AVG(x), VAR_SAMP(x), MEDIAN(x), MIN(x) FROM v GROUP BY ROLLUP (g)",
    "window": "sliding 50s",
    "alerts": [{"kind": "jump", "size": 3, "window": "30s", "measure": "count"}],
}
DISTINCT: Tables = {
    "name": "distinct",
    "sql": "SELECT g, COUNT(DISTINCT u) FROM v GROUP BY g",
    "window": "running",
    "consistent": True,
    "epsilon": "1/8",
}
COLUMNS: Tables = {"g": {"values": ["a", "b"]}, "u": {"hash_cells": 65536}}
UNIT: Tables = {"user": "u", "max_events_per_tick": 2, "max_ticks": 5}
USER_SQL = "SELECT COUNT(DISTINCT u) FROM v"
USERS: Tables = {
    **{"source": "http", "mode": "streaming", "pan_private": True, "unit": {"user": "u"}},
    **{"budget": {"epsilon": 40}, "columns": {"u": {"hash_cells": 4096}}},
}


def large_file(folder: Path) -> Pipeline:
    """A file with a release of 130 million ticks' sums, which nothing here allocates."""
    write(folder, one_a_second())
    return pipeline(folder, tables({"name": "counts", "sql": COUNTS, "epsilon": "1/4"}, LARGE))


def plans_of(made: Pipeline) -> list[ReleasePlan]:
    return [plan_release(made.file, release) for release in made.file.releases]


def test_part_too_large_for_store_is_refused_before_charge(tmp_path: Path) -> None:
    made = large_file(tmp_path)
    assert [reason for reason in made.plan().refusals if "a part of its state" in reason]
    with pytest.raises(RunRefusedError, match=RULE):
        run(made)
    assert not made.ledger().releases


@pytest.mark.slow
def test_ad_hoc_release_too_large_for_store_is_refused(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables())
    write(tmp_path, one_a_second())
    made.file = replace(made.file, server=replace(made.file.server, adhoc_max_memory=2**60))
    wanted = AdHocRelease(parse_adhoc_release(LARGE, made.file.stream), "ana")
    (reason,) = [each for each in plan_adhoc(made.file, wanted).refusals if "part of its state" in each]
    assert reason.startswith("v.toml: release large must keep at most 1.0 GB in a part of its state, got")
    with pytest.raises(CommandRefusedError, match=RULE):
        run(made, adhoc_releases=(wanted,))
    assert "large" not in made.ledger().releases


def test_bound_of_part_size_respects_sqlite_limit() -> None:
    with sqlite3.connect(":memory:") as sql:
        assert sql.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) >= MAX_VALUE_BYTES
    sql.close()


@pytest.mark.parametrize(
    "made",
    [
        lambda folder: pipeline(folder, tables(EVERYTHING, live=True)),
        lambda folder: pipeline(folder, tables(DISTINCT, columns=COLUMNS, unit=UNIT)),
        lambda folder: pipeline(folder, tables({"name": "n", "sql": USER_SQL, "window": "running"}, **USERS)),
        lambda folder: poll(folder, *POLL["release"]),
    ],
    ids=["counters", "distinct", "users", "reports"],
)
def test_no_saved_part_of_release_is_larger_than_predicted(made: Any, tmp_path: Path) -> None:
    for plan in plans_of(made(tmp_path)):
        saved = ReleaseRun.start(plan, plan.name, 1, InsecureNoise(1)).save_state()
        assert saved
        assert max(len(value or b"") for value in saved.values()) <= max(max_part_bytes(plan))


def test_no_value_in_the_store_is_larger_than_predicted(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(EVERYTHING))
    write(tmp_path, one_a_second())
    run(made)
    (plan,) = plans_of(made)
    with sqlite3.connect(made.file.folder / STORE_FILE) as sql:
        parts = dict(sql.execute("SELECT name, length(sealed) FROM parts WHERE name LIKE 'run/%'"))
        (row,) = sql.execute("SELECT max(length(payload)) FROM releases").fetchone()
    sql.close()
    assert len(parts) >= len(plan.parts)
    assert max(*parts.values(), row) <= max(max_part_bytes(plan))
