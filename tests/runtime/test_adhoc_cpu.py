"""Ad hoc releases add bounded work to a round, so that its duration does not reveal events."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamgauge.plan.planner import plan_release
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CommandRefusedError
from streamgauge.runtime.ledger import log as book
from streamgauge.runtime.plan.limits import cpu_ms
from tests.support.pipelines import COUNTS, one_a_second, pipeline, run, tables, write

SMALL = {"name": "asked", "sql": COUNTS, "window": "each", "epsilon": "1/100"}


def build_request(made: Any, **body: Any) -> AdHocRelease:
    return AdHocRelease(parse_adhoc_release(SMALL | body, made.file.stream), "ana")


def work(made: Any, sql: str, **body: Any) -> int:
    return cpu_ms(plan_release(made.file, build_request(made, sql=sql, **body).attributed_release))


def bounded(folder: Path, most: int) -> Any:
    made = pipeline(folder, tables())
    write(folder, one_a_second())
    made.file = replace(made.file, server=replace(made.file.server, adhoc_max_cpu_ms=most))
    return made


def two_beside(made: Any) -> None:
    """Add an ad hoc release, and then another one."""
    run(made, adhoc_releases=(build_request(made, name="a"),))
    run(made, adhoc_releases=(build_request(made, name="b"),))


def test_work_of_all_open_releases_is_bounded(tmp_path):
    made = bounded(tmp_path, 2 * work(pipeline(tmp_path, tables()), COUNTS) - 1)
    with pytest.raises(CommandRefusedError, match="must take at most 11 units of work in all"):
        two_beside(made)
    assert set(made.ledger().releases) == {"counts", "a"}
    (why,) = plan_adhoc(made.file, build_request(made, name="b")).refusals
    assert why.endswith("got 12: request fewer aggregates, or end a release")
    two_beside(bounded(make(tmp_path / "more"), 12))


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_twin_that_ignores_open_releases_accepts_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "cpu_ms", lambda plan: 0)
    two_beside(bounded(tmp_path, 11))


def test_every_aggregate_level_and_expression_counts_as_work(tmp_path):
    made = pipeline(tmp_path, tables(live=True))
    count = work(made, "SELECT COUNT(*) FROM v")
    medians = ", ".join(f"MEDIAN(x + {i}) AS m{i}" for i in range(20))
    assert work(made, f"SELECT {medians} FROM v") >= 20 * count
    assert work(made, "SELECT g, COUNT(*) FROM v GROUP BY ROLLUP (g)") == 2 * count
    assert work(made, "SELECT VAR_SAMP(x) FROM v") > work(made, "SELECT SUM(x) FROM v") > count
    terms = ", ".join(str(i) for i in range(500))
    assert work(made, f"SELECT COUNT(*) FROM v WHERE x IN ({terms})") > count + 10
    assert work(made, COUNTS, window="sliding 1000000s") > work(made, COUNTS) + 10


def test_functions_that_engine_binds_repeatedly_count_as_work(tmp_path):
    """Thirty nested calls need 65 ms a round; other SQL of the same length needs 15 ms."""
    made = pipeline(tmp_path, tables(live=True))
    nested = work(made, f"SELECT SUM({'NULLIF(' * 30}x{', 1)' * 30}) FROM v")
    assert nested >= work(made, f"SELECT SUM({'COALESCE(' * 30}x{', x)' * 30}) FROM v") + 60
    assert 200 // nested <= 2


def test_many_medians_are_refused_by_default_work_bound(tmp_path):
    """With them, a tick with one event is published later than a tick without events."""
    made = pipeline(tmp_path, tables(live=True))
    medians = ", ".join(f"MEDIAN(x + {i}) AS m{i}" for i in range(64))
    (why,) = plan_adhoc(made.file, build_request(made, sql=f"SELECT {medians} FROM v")).refusals
    assert "adhoc.max_cpu_ms" in why
    few = ", ".join(f"MEDIAN(x + {i}) AS m{i}" for i in range(10))
    assert plan_adhoc(made.file, build_request(made, sql=f"SELECT {few} FROM v")).refusals == ()
