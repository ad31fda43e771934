"""Units with unequal events and malformed records: broken code is condemned for both."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.audit.pipeline.audit import PipelineAuditor, compute_charge, find_distinct_pairs
from streamgauge.audit.pipeline.compare import PipelineTrial, RunByRunSubject, TrialComparison
from streamgauge.audit.pipeline.runs import create_private_folder
from streamgauge.audit.subject import Pair
from streamgauge.engines.duckdb import scan_files as finished_scan
from streamgauge.engines.duckdb.scan_files import ORDER, bound_users_sql
from streamgauge.interfaces import ignore
from streamgauge.privacy import Tick
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import tables

BOTH = {"name": "both", "sql": "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g", "epsilon": 1}
COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "epsilon": 1}
USER = {"user": "u", "max_events_per_tick": 2, "max_ticks": 2}
COLUMNS = {"g": {"values": ["a", "b", "c"]}, "x": {"bounds": [0, 10], "grid": 1}}
ODD = ("undeclared", "too long", "null", "missing", "types", "none", "torn", "empty", "no text", "any field")
TIMES = ("before the stream", "next century", "after all")


@pytest.fixture
def trial_of(tmp_path: Path) -> Iterator[Callable[..., PipelineTrial]]:
    with create_private_folder() as folder:
        yield lambda ticks=3, release=BOTH, **settings: PipelineTrial.from_file(
            Pipeline.from_tables(tables(release, columns=COLUMNS, **settings), tmp_path / "v.toml").file, ticks, folder
        )


def named(trial: PipelineTrial, words: str) -> Pair:
    return next(pair for pair in trial.list_pairs() if words in pair.name)


def counted(trial: PipelineTrial, pair: Pair) -> float:
    """Return the number of counted events of a unit, in all groups and ticks."""
    view = trial.build_view()
    return float(view.parts[0].numbers(trial.run_without_noise(view, [pair.one]))[..., 0, 0].sum())


def bound_by_group(monkeypatch: Any) -> None:
    """A broken engine: it bounds a user's events in each group separately."""
    who = f"{ORDER}::VARCHAR)"
    monkeypatch.setattr(
        finished_scan, "bound_users_sql", lambda *requested: bound_users_sql(*requested).replace(who, f"{who}, g")
    )


def test_ticks_of_several_runs_are_bounded_apart(trial_of: Any, monkeypatch: Any) -> None:
    """Twice as many events as a tick may have: two count in every run, or all four under a broken engine."""
    trial = trial_of(2, release=COUNTS, unit={"tick": 2})
    pair, view = named(trial, "twice as many"), trial.build_view()

    def count_each() -> list[float]:
        views = trial.run_without_noise(view, [pair.one, pair.one, pair.one])
        return [float(each) for each in view.parts[0].numbers(views)[..., 0, 0].reshape(3, -1).sum(axis=1)]

    assert count_each() == [2, 2, 2]
    let_ticks_pass(monkeypatch)
    assert count_each() == [4, 4, 4]


def let_ticks_pass(monkeypatch: Any) -> None:
    """A broken engine: it counts 100 events of a tick, whatever the unit says."""
    monkeypatch.setattr(
        finished_scan, "bound_users_sql", lambda rows, _, first: bound_users_sql(rows, Tick(max_events=100), first)
    )


@pytest.mark.parametrize("is_broken", [pytest.param(False, marks=pytest.mark.slow), True])
def test_ticks_of_too_many_events_are_condemned(
    trial_of: Any, monkeypatch: Any, tmp_path: Path, is_broken: bool
) -> None:
    if is_broken:
        let_ticks_pass(monkeypatch)
    trial = trial_of(1, COUNTS, unit={"tick": 2})
    judge = PipelineAuditor(trial, compute_charge(trial.file, tmp_path), 400, 0.99, ignore, InsecureNoise(61))
    (verdict,) = judge.audit_releases([named(trial, "twice as many")])
    assert verdict.is_condemned == is_broken
    assert (verdict.measurement.amount > 1) == is_broken


@pytest.mark.parametrize(
    ("words", "honest", "broken"),
    [("all that is allowed of each g", 4, 12), ("another g in each tick", 4, 6), ("whose events differ", 4, 4)],
)
def test_a_user_in_many_groups_is_bounded_as_one(
    trial_of: Any, monkeypatch: Any, words: str, honest: int, broken: int
) -> None:
    trial = trial_of(unit=USER)
    pair = named(trial, words)
    assert len({line.columns for line in pair.one}) > 1
    assert counted(trial, pair) == honest
    bound_by_group(monkeypatch)
    assert counted(trial, pair) == broken


def test_bounds_by_user_and_group_are_measured_above_the_claim(trial_of: Any, monkeypatch: Any, tmp_path: Path) -> None:
    def measured() -> Any:
        trial = trial_of(1, COUNTS, unit={**USER, "max_ticks": 1})
        judge = PipelineAuditor(trial, compute_charge(trial.file, tmp_path), 3000, 0.999, ignore, InsecureNoise(61))
        (verdict,) = judge.audit_releases([named(trial, "all that is allowed of each g")])
        return verdict

    assert not measured().is_condemned
    bound_by_group(monkeypatch)
    broken = measured()
    assert broken.is_condemned
    assert broken.measurement.amount > 1.5


def test_window_unit_can_span_groups_and_event_unit_cannot(trial_of: Any) -> None:
    pair = named(trial_of(unit={"w_event": 2}), "whose events differ")
    assert [line.tick for line in pair.one] == [1, 2]
    assert pair.one[0].columns != pair.one[1].columns
    assert not [pair.name for pair in trial_of().list_pairs() if "differ" in pair.name]


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    "settings", [{"unit": USER}, {"source": "v.csv", "live": True}, {"source": "v.parquet"}], ids=str
)
def test_hostile_records_change_nothing_but_numbers(trial_of: Any, settings: Any) -> None:
    trial = trial_of(ticks=2, **settings)
    pairs = trial.list_pairs()
    names = " ".join(pair.name for pair in pairs)
    tried = TIMES if "parquet" in str(settings) else (*ODD, *TIMES)
    assert not [words for words in tried if words not in names]
    assert ("without a user" in names) == ("unit" in settings)
    found = TrialComparison.from_trial(trial, pairs, with_interruptions=False)
    assert not found.suspects
    assert not any(each.has_error for each in found.comparisons)


def prints() -> None:
    print("a label that was not declared")


def raises() -> None:
    raise ValueError("g must be declared, got another")


@pytest.mark.parametrize("leak", [prints, raises])
def test_engine_that_reports_an_undeclared_label_is_condemned(
    trial_of: Any, failing_source: Any, tmp_path: Path, leak: Callable[[], None]
) -> None:
    failing_source(b"an undeclared label", lambda path: leak())
    trial = trial_of(1, COUNTS)
    comparison = TrialComparison.from_trial(trial, [named(trial, "undeclared")], with_interruptions=False)
    written = RunByRunSubject.from_comparison(comparison, compute_charge(trial.file, tmp_path), InsecureNoise(62))
    for side in (True, False):
        written.views((0, side), 20)
    (reason,) = written.list_reasons(1e-3)
    assert "a record of an undeclared label, before others" in reason


def test_pairs_that_move_the_same_are_attacked_once() -> None:
    silent = np.array([[[1, 0], [0, 0]], [[3, 2], [2, 2]], [[5, 4], [4, 4]], [[1, 1], [0, np.nan]]], np.float64)
    assert find_distinct_pairs(silent) == [0, 1, 3]
