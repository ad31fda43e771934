"""What analysts ask for adds only so much work to a round: the clock must not tell what came."""

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
    """Asks for a release, and then for one more."""
    run(made, adhoc_releases=(build_request(made, name="a"),))
    run(made, adhoc_releases=(build_request(made, name="b"),))


def test_the_work_of_all_that_is_open_is_bounded(tmp_path):
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


def test_a_twin_that_forgets_what_is_open_takes_it(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "cpu_ms", lambda plan: 0)
    two_beside(bounded(tmp_path, 11))


def test_every_aggregate_level_expression_and_group_is_work(tmp_path):
    made = pipeline(tmp_path, tables(live=True))
    count = work(made, "SELECT COUNT(*) FROM v")
    medians = ", ".join(f"MEDIAN(x + {i}) AS m{i}" for i in range(20))
    assert work(made, f"SELECT {medians} FROM v") >= 20 * count
    assert work(made, "SELECT g, COUNT(*) FROM v GROUP BY ROLLUP (g)") == 2 * count
    assert work(made, "SELECT VAR_SAMP(x) FROM v") > work(made, "SELECT SUM(x) FROM v") > count
    terms = ", ".join(str(i) for i in range(500))
    assert work(made, f"SELECT COUNT(*) FROM v WHERE x IN ({terms})") > count + 10
    assert work(made, COUNTS, window="sliding 1000000s") > work(made, COUNTS) + 10


def test_functions_that_an_engine_binds_again_are_work(tmp_path):
    """Thirty within each other took 65 ms a round, and as many characters of other SQL 15."""
    made = pipeline(tmp_path, tables(live=True))
    nested = work(made, f"SELECT SUM({'NULLIF(' * 30}x{', 1)' * 30}) FROM v")
    assert nested >= work(made, f"SELECT SUM({'COALESCE(' * 30}x{', x)' * 30}) FROM v") + 60
    assert 200 // nested <= 2


def test_a_hundred_medians_are_refused_by_the_usual_bound(tmp_path):
    """They made a tick with one event leave later than a tick without."""
    made = pipeline(tmp_path, tables(live=True))
    medians = ", ".join(f"MEDIAN(x + {i}) AS m{i}" for i in range(64))
    (why,) = plan_adhoc(made.file, build_request(made, sql=f"SELECT {medians} FROM v")).refusals
    assert "adhoc.max_cpu_ms" in why
    few = ", ".join(f"MEDIAN(x + {i}) AS m{i}" for i in range(10))
    assert plan_adhoc(made.file, build_request(made, sql=f"SELECT {few} FROM v")).refusals == ()
