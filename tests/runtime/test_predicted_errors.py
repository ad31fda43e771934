"""Planned errors of means and spreads agree with many runs, if the plan states an error.

Values are spread evenly between their bounds, as the plan assumes; noise is seeded. The same runs catch twins
that predict with a mean at the bounds, or for any number of events.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.noise.tail_bounds import normal_point
from streamgauge.plan.aggregates.prediction import ErrorPrediction
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.plan.predict import predict_errors
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import Tables, tables

SAMPLES, RUNS, TICKS = 25, 60, 10
MEASURES = {"avg_x": "mean", "spread": "variance", "deviation": "stddev"}
BUDGETS: dict[str, Tables] = {"pure": {"epsilon": 1}, "zcdp": {"rho": "1/20"}}
EXPECTED = (5, 50, 500, 5000)


@dataclass(frozen=True)
class Shown:
    """The errors of a measure at a tick in many runs."""

    rmse: float
    half_width: float


def plan_of(budget: str, window: str, expected: int, measures: str) -> ReleasePlan:
    sql = f"SELECT {measures} FROM v"
    made = tables(budget=BUDGETS[budget], columns={"x": {"bounds": [0, 10], "grid": 0.01}})
    made["release"] = [{"name": "r", "sql": sql, "window": window, "share": 1, "expected_events": expected}]
    file = Pipeline.from_tables(made, "v.toml").file
    return plan_release(file, file.releases[0])


def shown(plan: ReleasePlan) -> dict[tuple[str, int], Shown]:
    """Return the errors of many runs on samples of evenly spread values."""
    (part,) = plan.parts
    chance, claim = np.random.default_rng(7), part.statistic
    size = (TICKS, SAMPLES, int(plan.release.expected_events))
    values = chance.integers(0, 1000, size, endpoint=True) / 100
    groups = np.repeat(np.arange(SAMPLES), size[2])
    exact = np.stack([claim.compute_totals(tick.ravel(), groups, SAMPLES).reshape(-1, SAMPLES) for tick in values])
    texts = claim.start(SAMPLES * RUNS, InsecureNoise(3)).feed_totals(np.repeat(exact, RUNS, axis=2)).columns(0.95)
    found = {}
    for tick in range(1, TICKS + 1):
        first = 0 if plan.release.window == "running" else tick - 1
        observed = np.concatenate(values[first:tick], axis=1)
        truths = {"mean": observed.mean(1), "variance": observed.var(1, ddof=1), "stddev": observed.std(1, ddof=1)}
        for name in truths.keys() & texts.keys():
            column, truth = texts[name], np.repeat(truths[name], RUNS)
            rmse = float(np.sqrt(np.mean((column.value[tick - 1] - truth) ** 2)))
            half = float(np.median(column.high[tick - 1] - column.low[tick - 1])) / 2
            found[name, tick] = Shown(rmse, half)
    return found


def plans() -> Iterator[ReleasePlan]:
    for budget in BUDGETS:
        for window in ("each", "running"):
            for expected in EXPECTED:
                yield plan_of(budget, window, expected, "COUNT(x), AVG(x)")
                yield plan_of(budget, window, expected, "AVG(x), VAR_SAMP(x) AS spread, STDDEV(x) AS deviation")


@pytest.fixture(scope="module")
def compared() -> list[tuple[ReleasePlan, ErrorPrediction, Shown]]:
    return [
        (plan, error, observed[MEASURES[error.measure], error.tick])
        for plan in plans()
        for observed in [shown(plan)]
        for error in predict_errors(plan)
        if error.measure in MEASURES
    ]


@pytest.mark.slow
def test_planned_errors_agree_with_many_runs(compared: list[tuple[ReleasePlan, ErrorPrediction, Shown]]) -> None:
    texts = [(error, observed) for _, error, observed in compared if not np.isnan(error.stddev)]
    assert {(error.measure, error.tick) for error, _ in texts} == {
        (measure, tick) for measure in MEASURES for tick in (1, 5, 10)
    }
    for error, observed in texts:
        assert 0.8 < error.stddev / observed.rmse < 1.25, error
        assert 0.8 < error.half_width / observed.half_width < 1.25, error
        assert error.half_width == pytest.approx(normal_point(0.025) * error.stddev)


def test_plan_with_too_few_events_reports_needed_number_only(
    compared: list[tuple[ReleasePlan, ErrorPrediction, Shown]],
) -> None:
    few = [(plan, error) for plan, error, _ in compared if np.isnan(error.stddev)]
    assert {error.measure for _, error in few} == set(MEASURES)
    assert {plan.release.expected_events for plan, _ in few} == {5, 50}
    for _, error in few:
        assert np.isnan(error.half_width)
        assert "not known at" in error.note
        assert "events: takes" in error.note


def test_note_states_assumption_of_known_error(compared: list[tuple[ReleasePlan, ErrorPrediction, Shown]]) -> None:
    for _, error, _ in compared:
        assert ("events, spread evenly over 0 to 10" in error.note) is not np.isnan(error.stddev)


def test_twin_that_assumes_means_at_bound_is_caught(compared: list[tuple[ReleasePlan, ErrorPrediction, Shown]]) -> None:
    for plan, error, observed in compared:
        if error.measure == "avg_x" and plan.release.expected_events >= 500:
            worst = plan.parts[0].statistic.predict_stddev("mean", error.tick, count=count_of(plan, error.tick))
            assert worst / observed.rmse > 1.25


def test_twin_with_delta_method_at_few_events_is_caught(
    compared: list[tuple[ReleasePlan, ErrorPrediction, Shown]],
) -> None:
    hopeful = [
        plan.parts[0].statistic.predict_stddev("stddev", error.tick, count=count_of(plan, error.tick)) / observed.rmse
        for plan, error, observed in compared
        if error.measure == "deviation" and plan.release.expected_events == 5 and error.tick == 1
    ]
    assert len(hopeful) == 4
    assert max(hopeful) < 0.8


def count_of(plan: ReleasePlan, tick: int) -> float:
    expected = float(plan.release.expected_events or 0)
    return expected * tick if plan.release.window == "running" else expected
