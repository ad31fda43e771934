"""Losses of releases add up if one event can be in all of them, else not."""

from pathlib import Path
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.audit.pipeline.audit import compute_worst_loss
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Pure
from tests.support.pipelines import tables

COUNT = "SELECT COUNT(*) FROM v"
SUM = "SELECT SUM(x) FROM v"


def ends(folder: Path, *queries: str, **settings: Any) -> tuple[float, float]:
    """Return the loss bounds of releases that lose 1/2 each."""
    result = [{"name": f"r{number}", "sql": sql} for number, sql in enumerate(queries)]
    file = Pipeline.from_tables(tables(*result, **settings), folder / "v.toml").file
    worst = compute_worst_loss([plan_release(file, release) for release in file.releases], 2, Pure(1))
    assert worst is not None
    return worst.floor, float(worst.amount)


@pytest.mark.parametrize(
    ("wheres", "least", "most"),
    [
        (["", ""], 1, 1),
        ([" WHERE g = 'a'", " WHERE g = 'a'"], 1, 1),
        ([" WHERE g = 'a'", ""], 1, 1),
        ([" WHERE g = 'a'", " WHERE g = 'b'"], 0.5, 0.5),
        ([" WHERE x > 3 AND (g IN ('a') AND x < 9)", " WHERE 'b' = g"], 0.5, 0.5),
        ([" WHERE g = 'a'", " WHERE g = 'b'", ""], 1, 1),
        ([" WHERE g IN ('a', 'b')", " WHERE g = 'b'"], 0.5, 1),
        ([" WHERE g = 'a' OR x > 3", " WHERE g = 'b'"], 0.5, 1),
        ([" WHERE NOT g = 'a'", " WHERE g = 'a'"], 0.5, 1),
    ],
    ids=str,
)
def test_only_losses_of_overlapping_releases_add(tmp_path: Path, wheres: list[str], least: float, most: float) -> None:
    assert ends(tmp_path, *(COUNT + where for where in wheres)) == pytest.approx((least, most))


def test_a_user_may_be_in_releases_that_no_event_shares(tmp_path: Path) -> None:
    user = {"user": "u", "max_events_per_tick": 2, "max_ticks": 2}
    queries = [f"{COUNT} WHERE g = '{label}'" for label in "ab"]
    assert ends(tmp_path, *queries, unit=user) == pytest.approx((0.5, 1))


@pytest.mark.parametrize(
    "queries",
    [[SUM, f"{SUM} WHERE x < 3"], [COUNT, "SELECT SUM(CASE WHEN g = 'a' THEN x ELSE 0 END) FROM v"]],
    ids=["no number is at both bounds", "an expression may ask for more"],
)
def test_unknown_overlap_is_an_interval(tmp_path: Path, queries: list[str]) -> None:
    assert ends(tmp_path, *queries) == pytest.approx((0.5, 1))
