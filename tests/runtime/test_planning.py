"""Plans predict the published errors, read declarations only, and spend nothing."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from streamgauge import Pipeline, Pure, Zcdp
from streamgauge.runtime import Plan
from tests.support.pipelines import COUNTS, Tables, one_a_second, pipeline, run, tables, write

SUMS = "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g"
EVERYTHING = "SELECT COUNT(*), SUM(x), AVG(x), VAR_SAMP(x) AS spread, MEDIAN(x), MIN(x), COUNT(DISTINCT g) FROM v"


def plan_of(folder: Path, *releases: Tables, **stream: object) -> Plan:
    return pipeline(folder, tables(*releases, **stream)).plan()


def bytes_of(folder: Path) -> dict[str, str]:
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.one_of_each
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 1}, {"epsilon": 2, "delta": "1/1000000"}])
@pytest.mark.parametrize(
    "window", ["each", "running", "sliding 30s", "decayed half-life 20s", "decayed polynomial 1.5"]
)
def test_planned_standard_errors_of_counts_and_sums_equal_published_ones(
    tmp_path: Path, budget: Tables, window: str
) -> None:
    write(tmp_path, one_a_second())
    made = tables(budget=budget)
    made["release"] = [{"name": "r", "sql": SUMS, "window": window, "share": "1/2"}]
    made["sink"] = []
    planned = pipeline(tmp_path, made)
    run(planned)
    (release,) = planned.plan().releases
    assert {error.tick for error in release.errors} == {1, 5, 10}
    for error in release.errors:
        published = planned.releases("r").stddevs(error.measure)[error.tick - 1]
        assert np.allclose(published, error.stddev, rtol=1e-12)


def test_twin_that_predicts_another_tick_is_caught(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    planned = pipeline(tmp_path, tables({"name": "r", "sql": SUMS, "window": "running"}))
    run(planned)
    errors = planned.plan().releases[0].errors
    published = planned.releases("r").stddevs("count")
    assert any(
        not np.allclose(published[error.tick % 10], error.stddev) for error in errors if error.measure == "count"
    )


def test_means_and_variances_are_predicted_at_expected_event_count(tmp_path: Path) -> None:
    for expected, count in ((None, "1,000"), (200, "2,000")):
        release = {"name": "r", "sql": EVERYTHING, "window": "running", "horizon": "end"}
        plan = plan_of(tmp_path, release | ({} if expected is None else {"expected_events": expected}))
        texts = {error.measure: error for error in plan.releases[0].errors if error.tick == 10}
        assert texts["avg_x"].note == f"at {count} events, spread evenly over 0 to 10"
        assert f"at {count} events" in texts["spread"].note
        assert texts["median_x"].note == "events at most between it and the true one, beside its cell's"


def test_unknown_error_is_dash_in_text_and_null_in_json(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {"name": "r", "sql": "SELECT AVG(x) FROM v", "window": "each", "expected_events": 2})
    row = next(line for line in str(plan).splitlines() if "avg_x" in line and "takes" in line)
    assert " ".join(row.split()) == "avg_x 1 - - not known at 2 events: takes 20"
    (first, *_) = plan.to_json()["releases"][0]["errors"]
    assert (first["stddev"], first["half_width"], first["relative"]) == (None, None, None)
    assert "takes 20" in first["note"]
    assert row in plan._repr_html_()


def test_an_expected_level_gives_relative_errors(tmp_path: Path) -> None:
    windows = {"each": [50, 50, 50], "running": [50, 250, 500], "sliding 20s": [50, 100, 100]}
    for window, levels in windows.items():
        plan = plan_of(tmp_path, {"name": "r", "sql": COUNTS, "window": window, "expected_events": 50})
        errors = plan.releases[0].errors
        assert [error.level for error in errors] == levels
        assert [error.relative for error in errors] == [
            error.half_width / level for error, level in zip(errors, levels, strict=True)
        ]
        assert f"± {errors[0].relative:.1%}" in str(plan)
    decayed = plan_of(tmp_path, {"name": "r", "sql": COUNTS, "window": "decayed half-life 10s", "expected_events": 50})
    assert [error.level for error in decayed.releases[0].errors] == pytest.approx([50, 96.875, 99.90234375])
    powers = plan_of(tmp_path, {"name": "r", "sql": COUNTS, "window": "decayed polynomial 2", "expected_events": 50})
    squares = [50 * sum(age**-2 for age in range(1, tick + 1)) for tick in (1, 5, 10)]
    assert [error.level for error in powers.releases[0].errors] == pytest.approx(squares)
    assert "r: decayed polynomial 2, " in str(powers)
    assert powers.releases[0].choices[0].mechanism == "PolynomialDecay(exponent=2)"
    assert "relative" not in str(plan_of(tmp_path, {"name": "r", "sql": COUNTS}))


def test_runners_up_are_worse_than_chosen_mechanism(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {"name": "r", "sql": COUNTS, "window": "running"})
    (choice,) = plan.releases[0].choices
    ratios = [ratio for _, ratio in choice.runners_up]
    assert len(ratios) == 3
    assert ratios == sorted(ratios)
    assert ratios[0] >= 1
    name, ratio = choice.runners_up[0]
    assert f"the next best and their errors: {name} x {ratio:.2f}" in str(plan)


def test_a_mechanism_that_was_named_is_compared_with_better_ones(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {"name": "r", "sql": COUNTS, "window": "running", "mechanism": "Binary"})
    (choice,) = plan.releases[0].choices
    assert choice.mechanism.startswith("Binary")
    assert choice.runners_up[0][1] < 1


def test_plan_without_data_and_key_writes_nothing(tmp_path: Path) -> None:
    plan = Pipeline.from_tables(tables(), tmp_path / "v.toml").plan()
    assert plan.refusals == ()
    assert list(tmp_path.iterdir()) == []


def test_a_plan_spends_nothing(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    run(pipeline(tmp_path, tables()))
    (tmp_path / "v.jsonl").unlink()
    before = bytes_of(tmp_path)
    made = tables({"name": "other", "sql": COUNTS}, budget={"epsilon": 2})
    plan = pipeline(tmp_path, made).plan()
    assert (plan.edits.new_releases, plan.edits.ended_releases) == (("other",), ("counts",))
    after = bytes_of(tmp_path)
    assert {path: after[path] for path in before} == before
    assert {Path(path).name for path in after.keys() - before.keys()} <= {"store.db-shm", "store.db-wal"}


def test_planned_ledger_equals_ledger_after_run(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    releases = ({"name": name, "sql": COUNTS, "epsilon": "1/4"} for name in ("one", "two"))
    planned = pipeline(tmp_path, tables(*releases))
    plan = planned.plan()
    assert (plan.spent, plan.remaining) == ((None, Pure("1/2")), (None, Pure("1/2")))
    run(planned)
    ledger = planned.ledger().ledger
    assert (ledger.spent_loss(), ledger.remaining_loss()) == (plan.spent[1], plan.remaining[1])
    assert planned.plan().spent == (Pure("1/2"), Pure("1/2"))


def test_refused_releases_are_listed_and_others_are_planned(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        {"name": "good", "sql": COUNTS},
        {"name": "secrets", "sql": "SELECT name FROM v"},
        {"name": "unbounded", "sql": "SELECT SUM(x / 0.0001 * 1e308) FROM other"},
        {"name": "greedy", "sql": COUNTS, "epsilon": 3},
    )
    assert [release.name for release in plan.releases] == ["good", "greedy"]
    assert [reason.split(":")[1] for reason in plan.refusals] == [
        " release secrets",
        " release unbounded",
        " release greedy",
    ]
    assert "got epsilon 3 on top of epsilon 0.5" in plan.refusals[2]
    assert all("\n" not in reason for reason in plan.refusals)
    assert "refused\n  v.toml: release secrets: " in str(plan)


def test_keys_that_are_not_confirmed_are_reported(tmp_path: Path) -> None:
    made = tables() | {"confirm": ["stream.columns.g"]}
    assert "before it can run\n  confirm stream.columns.g" in str(pipeline(tmp_path, made).plan())


def test_the_json_of_a_plan_keeps_its_keys(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {"name": "r", "sql": EVERYTHING, "window": "each", "expected_events": 5})
    texts = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    keys = ["file", "releases", "ledger", "edits", "refusals", "notes", "memory_bytes", "intrusions", "columns"]
    assert list(texts) == [*keys, "plugins", "unit"]
    (release,) = texts["releases"]
    assert list(release) == [
        *("name", "sql", "window", "loss", "first_tick", "last_tick", "groups", "columns", "parts", "errors"),
        *("delta", "discovered", "ranking", "requested_by", "alerts", "column", "contributions", "periods"),
        *("consistent", "alternatives"),
    ]
    assert list(release["parts"][0]) == [
        "measures",
        "level",
        "loss",
        "mechanism",
        "runners_up",
        "error_depends_on",
        "reason",
        "hints",
    ]
    assert list(release["errors"][0]) == [
        "measure",
        "tick",
        "stddev",
        "half_width",
        "level",
        "relative",
        "note",
        "threshold",
    ]
    assert (list(texts["ledger"]), list(texts["edits"])) == (
        ["budget", "before", "after"],
        [
            *("new_releases", "continued_releases", "ended_releases"),
            *("new_columns", "changed_columns", "removed_columns", "budget"),
        ],
    )
    assert texts["ledger"]["after"] == {"spent": {"epsilon": "1/2"}, "remaining": {"epsilon": "1/2"}}
    extremes = next(error for error in release["errors"] if error["measure"] == "min_x")
    assert extremes["stddev"] is None


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("event", "one event\n  budget    epsilon 1"),
        (
            {"w_event": 6},
            "one event a tick, in any 6 ticks in a row\n"
            "  budget    epsilon 1, if a person has at most one event a tick, which is not checked",
        ),
        (
            {"user": "u", "max_events_per_tick": 2, "max_ticks": 5},
            "one user: at most 2 events a tick, in at most 5 ticks\n"
            "  counts    at most 2 events in 10s and 5 ticks of 10s for each u; "
            "events beyond that are not counted, and the band does not include that\n"
            "  budget    epsilon 1",
        ),
    ],
)
def test_plan_text_has_plain_words_and_no_internals(tmp_path: Path, unit: object, words: str) -> None:
    release = {"name": "r", "sql": "SELECT g, COUNT(*) FROM v GROUP BY ROLLUP (g)", "window": "sliding 20s"}
    text = str(plan_of(tmp_path, release, unit=unit))
    assert f"protects  {words}\n  ticks     of 10s from 2026-01-05T00:00:00Z" in text
    assert "r: sliding 20s, epsilon 0.5\n" in text
    assert "epsilon 0.25, at each of 2 levels" in text
    assert "ledger    spent        left\n  before  nothing      epsilon 1\n  after   epsilon 0.5  epsilon 0.5" in text
    for inside in ("Pure(", "Zcdp(", "Event(", "User(", "replace=", "Fraction", "nan"):
        assert inside not in text


def test_plan_of_endless_release_shows_first_thousand_ticks(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, {"name": "r", "sql": COUNTS, "window": "running"}, live=True)
    (release,) = plan.releases
    assert (release.first, release.last) == (1, None)
    assert [error.tick for error in release.errors] == [1, 500, 1000]
    assert "from 2026-01-05T00:00:00Z on (ticks 1 on)" in str(plan)


def test_a_plan_in_a_notebook_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    columns = {"g": {"values": [evil, "b"]}, "x": {"bounds": [0, 10]}}
    sql = f"SELECT COUNT(*) AS \"{evil}\" FROM v WHERE g = '{evil}'"
    made = pipeline(tmp_path, tables({"name": "r", "sql": sql}, columns=columns), "<b>.toml")
    for shown in (made._repr_html_(), made.plan()._repr_html_()):
        assert "<script>" not in shown
        assert "<b>.toml" not in shown
        assert "&lt;script&gt;" in shown


def test_a_budget_in_rho_is_reported_in_rho(tmp_path: Path) -> None:
    made = tables(budget={"rho": "1/2"})
    made["release"] = [{"name": "r", "sql": COUNTS, "rho": "1/8"}]
    plan = pipeline(tmp_path, made).plan()
    assert (plan.spent[1], plan.remaining[1]) == (Zcdp("1/8"), Zcdp("3/8"))
    assert "budget    rho 0.5" in str(plan)
