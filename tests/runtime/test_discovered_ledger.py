"""The cost of discovered groups: the chance to publish a one-event key, charges, plans and refusals."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge import Approx, Event, Pipeline, Pure, WEvent, Zcdp
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import BudgetExceededError, Ledger
from streamgauge.runtime.ledger.log import LedgerLog
from tests.support.discovered import DELTA, TICKS, WORDS, chosen, words
from tests.support.pipelines import pipeline, run, write


@pytest.mark.parametrize("epsilon", ["1/8", "1/4"])
@pytest.mark.parametrize("window", ["running", "each"])
def test_one_event_key_is_published_with_at_most_charged_delta(epsilon: str, window: str) -> None:
    """A union bound of all ticks at which the event may be eligible, from the exact tail of each tick's noise."""
    made = words(window=window)
    made["release"][0] = {**made["release"][0], "epsilon": epsilon}
    del made["release"][0]["rho"]
    file = Pipeline.from_tables(made, Path("v.toml")).file
    plan = plan_release(file, file.releases[0])
    statistic: Any = plan.parts[0].statistic
    assert statistic.native_charge == (Pure(epsilon), Fraction(DELTA)) == (plan.release.loss, plan.release.delta)

    def chance(lower: float = 0) -> float:
        noises = [statistic.noise_at(tick) for tick in range(1, TICKS + 1)]
        tails = [
            noise.upper_tail(np.nextafter(statistic.selection.threshold(tick) - lower - 1, np.inf))
            for tick, noise in enumerate(noises, 1)
        ]
        return sum(tails) if window == "running" else max(tails)

    assert chance() <= float(Fraction(DELTA)) < chance(lower=1 if window == "each" else 6)


@pytest.mark.parametrize("unit", ["event", {"w_event": 3}])
def test_the_ledger_is_charged_the_loss_and_the_delta(tmp_path: Path, unit: Any) -> None:
    write(tmp_path, chosen())
    made = pipeline(tmp_path, words(unit=unit))
    run(made)
    ledger_log = made.ledger()
    assert ledger_log.ledger is not None
    (charge,) = ledger_log.ledger.entries
    assert (charge.timeline.steps[0].loss, charge.delta) == (Zcdp("1/50"), Fraction(DELTA))
    (act,) = [act for act in ledger_log.ledger_entries if act.kind == "charge"]
    assert (act.body["delta"], act.body["layout"]["discovered"]) == (DELTA, "g")
    by_itself = Ledger(Approx(2, "1/1000000"), Event() if unit == "event" else WEvent(3))
    by_itself.charge("words", Zcdp("1/50"), 1, 10, native=unit != "event", delta=Fraction(DELTA))
    assert ledger_log.ledger.spent_loss() == by_itself.spent_loss()
    assert ledger_log.ledger.remaining_loss() == by_itself.remaining_loss()
    assert ledger_log.ledger.spent_delta() == Fraction(DELTA)
    assert LedgerLog.read(ledger_log.ledger_entries, ledger_log.unit).ledger.spent_delta() == Fraction(DELTA)  # type: ignore[union-attr]


def test_recharge_charges_delta_again(tmp_path: Path) -> None:
    plan = plan_release(file := Pipeline.from_tables(words(), tmp_path / "v.toml").file, file.releases[0])
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Approx(2, "1/1000000"))
    ledger_log.charge("words", plan, 1)
    ledger_log.recharge("words", 4)
    assert ledger_log.ledger is not None
    assert ledger_log.ledger.spent_delta() == 2 * Fraction(DELTA)
    assert ledger_log.ledger.spent_delta(first=5) == Fraction(DELTA)
    assert ledger_log.ledger_entries[-1].body["delta"] == DELTA


def test_delta_above_budget_is_refused_with_both_numbers(tmp_path: Path) -> None:
    made = words()
    made["release"] = [{**made["release"][0], "name": f"w{i}", "delta": "1/1900000"} for i in range(2)]
    write(tmp_path, chosen())
    with pytest.raises(BudgetExceededError, match="and delta 1/1900000 on top of"):
        run(pipeline(tmp_path, made))
    (refused,) = pipeline(tmp_path, made).plan().refusals
    assert "beside delta 5.263e-07 on top of epsilon" in refused


def test_shares_are_of_budget_after_deltas(tmp_path: Path) -> None:
    made = words()
    made["release"] = [
        {"name": "words", "sql": WORDS, "share": "1/2", "delta": DELTA},
        {"name": "all", "sql": "SELECT COUNT(*) FROM v", "share": "1/2"},
    ]
    write(tmp_path, chosen())
    p = pipeline(tmp_path, made)
    left = Approx(2, "1/1000000").additive_loss_after_delta(Fraction(DELTA))
    assert [release.loss for release in p.file.releases] == [left.part("1/2")] * 2
    run(p)
    assert p.ledger().ledger.remaining_loss().amount == 0  # type: ignore[union-attr]


def test_plan_states_threshold_of_each_tick_it_shows(tmp_path: Path) -> None:
    made = pipeline(tmp_path, words(most=1000))
    plan = made.plan()
    statistic: Any = plan_release(made.file, made.file.releases[0]).parts[0].statistic
    for error in plan.releases[0].errors:
        assert error.threshold == statistic.selection.threshold(error.tick)
        assert f"a group appears at {int(error.threshold) + 1:,} events" in str(plan)
        assert error.half_width > statistic.noise_at(error.tick).half_width(0.95)
    assert [error.tick for error in plan.releases[0].errors] == [1, 5, 10]
    assert "at most 1,000 groups, discovered" in str(plan)
    assert "rho 0.02 beside delta 1e-07" in str(plan)
    release = plan.to_json()["releases"][0]
    assert (release["delta"], release["discovered"], release["columns"]) == (DELTA, True, ["g"])


REFUSED = {
    "a budget without a delta": ({"budget": {"epsilon": 2}}, {}, "left out unless the budget has a delta"),
    "a zCDP budget": ({"budget": {"rho": 1}}, {}, "left out unless the budget has a delta"),
    "no delta": ({}, {"delta": None}, "delta must be given, the groups of g are discovered"),
    "a delta for nothing": ({}, {"sql": "SELECT COUNT(*) FROM v"}, "left out unless groups are discovered"),
    "users": (
        {"unit": {"user": "x", "max_events_per_tick": 1, "max_ticks": 3}},
        {},
        "unit must be an event, or w_event, where groups are discovered",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_discovered_release_is_refused_with_rule(case: str) -> None:
    stream, release, rule = REFUSED[case]
    made = words(**stream)
    made["release"][0] = {k: v for k, v in (made["release"][0] | release).items() if v is not None}
    with pytest.raises(ValueError, match=rule):
        plan_release(file := Pipeline.from_tables(made, Path("v.toml")).file, file.releases[0])


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g", "takes one COUNT"),
        ("SELECT g, COUNT(x) FROM v GROUP BY g", "takes one COUNT"),
        ("SELECT g, COUNT(*), COUNT(*) AS n FROM v GROUP BY g", "takes one COUNT"),
        ("SELECT g, x, COUNT(*) FROM v GROUP BY g, x", "must stand alone"),
        ("SELECT g, COUNT(*) FROM v GROUP BY ROLLUP (g)", "must stand alone"),
        ("SELECT UPPER(g), COUNT(*) FROM v GROUP BY 1", "must be the column g itself"),
    ],
)
def test_discovered_groups_refuse_all_queries_but_one_count(sql: str, rule: str) -> None:
    file = Pipeline.from_tables(words(sql=sql), Path("v.toml")).file
    with pytest.raises(InvalidReleaseError, match=rule):
        plan_release(file, file.releases[0])
