"""FILTER and COUNT_IF: a filter is part of the value, and aggregates of equal filters share a run."""

from fractions import Fraction
from pathlib import Path

import pytest

from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Pure
from streamgauge.sql.query import Aggregate
from tests.support.pipelines import event, pipeline, published, run, tables, write
from tests.support.sql_clinic import engine, query

FILTERED = [
    ("SUM(age) FILTER (WHERE fever)", "fever"),
    ("SUM(temperature) FILTER (WHERE temperature > 38)", "temperature > 38"),
    ("COUNT(*) FILTER (WHERE region = 'north' OR fever)", "region = 'north' OR fever"),
    ("COUNT_IF(temperature > 38)", "temperature > 38"),
    ("MEDIAN(age / 3) FILTER (WHERE raw BETWEEN 1 AND 2)", "raw BETWEEN 1 AND 2"),
    ("COUNT(DISTINCT patient) FILTER (WHERE age > 7)", "age > 7"),
    ("AVG(1 / raw) FILTER (WHERE raw BETWEEN 1 AND 2)", "raw BETWEEN 1 AND 2"),
]


def read(sql: str, where: str = "") -> Aggregate:
    (found,) = query(f"SELECT {sql} FROM visits {where}").aggregates
    return found


@pytest.mark.parametrize(("sql", "condition"), FILTERED, ids=[sql for sql, _ in FILTERED])
def test_value_is_bounded_and_null_outside_of_its_filter(sql: str, condition: str) -> None:
    found = read(sql)
    item = found.value or found.codes
    assert item is not None
    with engine("SET ieee_floating_point_ops = false") as rows:
        outside = rows.execute(f"SELECT count({item.sql}) FROM rows WHERE ({condition}) IS NOT TRUE").fetchall()
        inside = rows.execute(
            f"SELECT min({item.sql}), max({item.sql}), count(*) FROM rows WHERE {condition}"
        ).fetchall()
    low, high, count = inside[0]
    assert outside == [(0,)]
    assert count
    if found.value is not None:
        assert found.value.lower is not None
        assert found.value.upper is not None
        assert float(found.value.lower) <= low <= high <= float(found.value.upper)


def test_filter_narrows_bounds_as_a_condition_does() -> None:
    filtered = read(
        "AVG(temperature) FILTER (WHERE temperature > 38 AND temperature < 41)", "WHERE temperature < 40"
    ).value
    plain = read("AVG(temperature)", "WHERE temperature > 38 AND temperature < 40").value
    assert filtered is not None
    assert plain is not None
    assert (filtered.lower, filtered.upper, filtered.nullable) == (plain.lower, plain.upper, plain.nullable)
    assert (plain.lower, plain.upper, plain.nullable) == (Fraction(38), Fraction(40), False)


def plan_parts(folder: Path, select: str) -> tuple[CounterPart, ...]:
    made = pipeline(folder, tables({"name": "r", "sql": f"SELECT {select} FROM v", "epsilon": 1}))
    return plan_release(made.file, made.file.releases[0]).parts


@pytest.mark.parametrize(
    ("select", "runs"),
    [
        ("COUNT(*) FILTER (WHERE x > 3), COUNT_IF(x > 3), AVG(x) FILTER (WHERE x > 3)", 1),
        ("COUNT_IF(x > 3), SUM(x) FILTER (WHERE x > 3), COUNT(x) FILTER (WHERE x > 3)", 1),
        ("COUNT(*), COUNT(*) FILTER (WHERE x > 3)", 2),
        ("COUNT_IF(x > 3), COUNT_IF(x <= 3)", 2),
        ("COUNT(*), COUNT_IF(x > 3), AVG(x) FILTER (WHERE x > 5)", 3),
        ("SUM(x), SUM(x) FILTER (WHERE g = 'a'), COUNT(*) FILTER (WHERE g = 'a')", 3),
        ("MEDIAN(x), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), APPROX_QUANTILE(x, 0.1)", 1),
        ("MEDIAN(x), MEDIAN(x) FILTER (WHERE g = 'a')", 2),
    ],
)
def test_runs_of_different_filters_share_the_loss(tmp_path: Path, select: str, runs: int) -> None:
    parts = plan_parts(tmp_path, select)
    assert len(parts) == runs
    assert {part.statistic.loss for part in parts} == {Pure(Fraction(1, runs))}


def test_filtered_counts_are_those_of_the_events(tmp_path: Path) -> None:
    write(tmp_path, [event(second, "ab"[second % 2], second % 11) for second in range(100)])
    select = "g, COUNT(*) AS n, COUNT(*) FILTER (WHERE x > 5) AS high, COUNT_IF(x = 0) AS zero, COUNT_IF(g = 'a') AS a"
    made = pipeline(tmp_path, tables({"name": "r", "sql": f"SELECT {select} FROM v GROUP BY g", "epsilon": 1}))
    run(made)
    for place, condition in enumerate(
        [lambda s: True, lambda s: s % 11 > 5, lambda s: s % 11 == 0, lambda s: s % 2 == 0]
    ):
        wanted = [
            [sum(condition(s) for s in range(10 * tick, 10 * tick + 10) if s % 2 == group) for group in (0, 1)]
            for tick in range(10)
        ]
        assert [list(map(int, row)) for row in published(made, "r", place)] == wanted


@pytest.mark.parametrize("x", [0, 4, 6, 10, -3, 99, None])
def test_an_event_moves_each_filtered_aggregate_by_its_bound(tmp_path: Path, x: float | None) -> None:
    """Neighbours by one event, without noise; values outside of the declared bounds are clamped."""
    select = (
        "COUNT(*) AS n, COUNT(*) FILTER (WHERE x > 5) AS high, COUNT_IF(x <= 5) AS low, "
        "SUM(x) FILTER (WHERE x BETWEEN 2 AND 7) AS middle, COUNT(DISTINCT g) FILTER (WHERE x > 5) AS groups"
    )
    rows = [event(second, "ab"[second % 2], second % 11) for second in range(100)]
    found = []
    for name, records in (("without", rows), ("with", [*rows[:50], {**rows[50], "x": x}, *rows[50:]])):
        (tmp_path / name).mkdir()
        write(tmp_path / name, records)
        release = {"name": "r", "sql": f"SELECT {select} FROM v", "epsilon": 1}
        made = pipeline(tmp_path / name, tables(release))
        run(made)
        found.append([published(made, "r", measure) for measure in range(5)])
        parts = plan_release(made.file, made.file.releases[0]).parts
    moved = [
        [abs(a - b) for (a,), (b,) in zip(before, after, strict=True)] for before, after in zip(*found, strict=True)
    ]
    assert [sum(change > 0 for change in changes) <= 1 for changes in moved] == [True] * 5, "at one tick"
    assert all(max(changes) <= bound for changes, bound in zip(moved, (1, 1, 1, 7, 1), strict=True))
    assert sum(max(changes) for changes in moved) > 0
    assert sum(part.statistic.loss.epsilon for part in parts) == 1
    assert len(parts) == 5


def test_groups_are_the_keys_of_a_joined_lookup(tmp_path: Path) -> None:
    names = ["s1", "s2", "s9", None, "s1" + "x" * 2000]
    write(tmp_path, [event(second, s=names[second % 5]) for second in range(100)])
    (tmp_path / "s.csv").write_text("s,room\ns1,r1\ns2,r2\ns3,r1\n")
    made = tables({"name": "r", "sql": "SELECT s, COUNT(*) FROM v JOIN sites USING (s) GROUP BY s", "epsilon": 1})
    release = pipeline(tmp_path, made | {"lookup": {"sites": {"file": "s.csv", "on": "s"}}})
    run(release)
    assert [group.labels for group in release.releases("r").shape.groups] == [
        (("s", key),) for key in ("s1", "s2", "s3")
    ]
    assert published(release, "r", 0) == [[2, 2, 0]] * 10


def test_days_are_groups_of_a_run(tmp_path: Path) -> None:
    write(tmp_path, [event(second) for second in range(100)])
    sql = "SELECT date_trunc('minute', ts) AS minute, COUNT(*) FROM v GROUP BY 1"
    made = pipeline(tmp_path, tables({"name": "r", "sql": sql, "epsilon": 1, "window": "running"}))
    run(made)
    labels = [group.labels for group in made.releases("r").shape.groups]
    assert labels == [(("minute", "2026-01-05 00:00"),), (("minute", "2026-01-05 00:01"),)]
    assert published(made, "r", 0)[-1] == [60, 40]
