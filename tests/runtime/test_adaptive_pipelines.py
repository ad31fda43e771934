"""Pipelines with releases that adapt to their data: run, killed, continued, planned and pinned."""

import csv
import json
import math
import signal
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline, Pure
from streamgauge.audit.pipeline.audit import compute_worst_loss
from streamgauge.plan.planner import MechanismChoices, plan_release
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.testing.noise import InsecureNoise
from tests.support.forked import forked, killed_at
from tests.support.pipelines import COUNTS, Tables, event, lines, one_a_second, pipeline, run, tables, write

SINKS: list[Tables] = [{"to": "out.jsonl"}, {"to": "out.csv"}, {"to": "out.parquet"}]
ROLLED = "SELECT g, h, COUNT(*) FROM v GROUP BY ROLLUP(g, h)"
TOTAL = "SELECT g, SUM(x) FROM v GROUP BY g"
COLUMNS = {"g": {"values": ["a", "b"]}, "h": {"values": ["p", "q", "r"]}, "x": {"bounds": [0, 10], "grid": 1}}
OF_EVENTS: dict[str, Tables] = {
    "each": {"sql": COUNTS, "mechanism": {"name": "Pegasus", "smoother": "average", "theta": 40}},
    "sliding": {"sql": COUNTS, "mechanism": "Pegasus", "window": "sliding 30s"},
    "running": {"sql": COUNTS, "mechanism": "Pegasus", "window": "running"},
    "total": {"sql": TOTAL, "mechanism": "Pegasus"},
    "rolled": {"sql": ROLLED, "mechanism": "Pegasus"},
    "sparse": {"sql": COUNTS, "mechanism": "SparseCounter", "window": "running"},
    "cascading": {"sql": COUNTS, "mechanism": "CascadingBuffers", "window": "running"},
}
OF_WINDOWS: dict[str, Tables] = {
    name: {"sql": COUNTS, "mechanism": name}
    for name in ("WEventUniform", "WEventSample", "BudgetDistribution", "BudgetAbsorption")
}
UNITS: dict[str, Any] = {"event": "event", "w_event": {"w_event": 3}}
FILES = {"event": OF_EVENTS, "w_event": OF_WINDOWS}


def events() -> list[Tables]:
    """Few events, then many, of two groups."""
    return [each | {"h": "pqr"[n % 3]} for n, each in enumerate(one_a_second())] + [event(77, "b", 9, h="q")] * 30


def made(folder: Path, kind: str, **stream: Any) -> Pipeline:
    folder.mkdir(exist_ok=True)
    write(folder, events())
    requested = [{"name": name, "epsilon": 1, **each} for name, each in FILES[kind].items()]
    settings = {"unit": UNITS[kind], "budget": {"epsilon": 10}, "columns": COLUMNS, **stream}
    return pipeline(folder, tables(*requested, sinks=SINKS, **settings))


def packed(of: Pipeline, kind: str) -> dict[str, list[bytes]]:
    return {name: [each.pack() for each in of.releases(name)] for name in FILES[kind]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pipeline]:
    """Unbroken runs without noise."""
    folder = tmp_path_factory.mktemp("whole")
    found = {kind: made(folder / kind, kind) for kind in FILES}
    for each in found.values():
        run(each, max_batch_ticks=3)
    return found


@pytest.mark.parametrize(("kind", "step"), [("event", "noise_drawn"), ("w_event", "store_committed")])
def test_killed_run_continues_as_one_run(tmp_path: Path, whole: dict[str, Pipeline], kind: str, step: str) -> None:
    broken, observed = made(tmp_path, kind), list[str]()

    def second(name: str) -> None:
        observed.append(name)
        if observed.count(step) == 2:
            killed_at(step)(name)

    assert forked(lambda: run(broken, max_batch_ticks=3, step=second)) == -signal.SIGKILL
    run(broken, max_batch_ticks=3)
    assert packed(broken, kind) == packed(whole[kind], kind)
    assert [{key: value for key, value in row.items() if key != "trace"} for row in lines(tmp_path / "out.jsonl")] == [
        {key: value for key, value in row.items() if key != "trace"}
        for row in lines(whole[kind].file.path.parent / "out.jsonl")
    ]


def test_noisy_releases_stay_when_killed_run_continues(tmp_path: Path) -> None:
    broken, observed = made(tmp_path, "w_event"), list[str]()

    def second(name: str) -> None:
        observed.append(name)
        if observed.count("sink_position_saved") == 2 * len(SINKS):
            killed_at("sink_position_saved")(name)

    assert forked(lambda: broken.run(max_batch_ticks=3, step=second)) == -signal.SIGKILL
    before = packed(broken, "w_event")
    broken.run(max_batch_ticks=3)
    for name, after in packed(broken, "w_event").items():
        assert (len(before[name]), len(after)) == (6, 10)
        assert after[:6] == before[name]


def test_rollup_levels_come_from_one_run_and_add_up(tmp_path: Path) -> None:
    noisy = made(tmp_path, "event")
    noisy.run(noise=InsecureNoise(3))
    (part,) = plan_release(noisy.file, next(each for each in noisy.file.releases if each.name == "rolled")).parts
    assert part.statistic.loss == noisy.file.releases[4].loss
    for each in noisy.releases("rolled"):
        assert [place.level for place in each.shape.groups] == [2] * 6 + [1] * 2 + [0]
        (value,), (low,), (high,) = each.value, each.low, each.high
        np.testing.assert_allclose(value[:6].reshape(2, 3).sum(axis=1), value[6:8], atol=1e-6)
        np.testing.assert_allclose(value[6:8].sum(), value[8], atol=1e-6)
        assert (low <= high).all()
    truth = np.array([[5.0, 5.0]] * 10)
    truth[7, 1] += 30
    at = noisy.releases("rolled")
    inside = (at.lows("count")[:, 6:8] <= truth) & (truth <= at.highs("count")[:, 6:8])
    assert inside.mean() > 0.5


def test_unknown_errors_are_null_and_missing_bounds_infinite_in_sinks(whole: dict[str, Pipeline]) -> None:
    folder = whole["w_event"].file.path.parent
    rows = [row for row in lines(folder / "out.jsonl") if row["release"] == "WEventSample" and row["tick"] == 2]
    assert [row["count"] for row in rows] == [
        {"value": 5.0, "stddev": None, "low": None, "high": None, "reliable": False}
    ] * 2
    with (folder / "out.csv").open() as file:
        table = [row for row in csv.DictReader(file) if row["release"] == "WEventSample" and row["tick"] == "2"]
    texts = [tuple(row[f"count{ending}"] for ending in ("", "_stddev", "_low", "_high")) for row in table]
    assert texts == [("5.0", "", "-inf", "inf")] * 2
    second = whole["w_event"].releases("WEventSample")[1]
    assert np.isnan(second.stddev).all()
    assert (second.high == math.inf).all()
    arrow = whole["w_event"].releases("WEventSample").to_arrow()
    assert arrow["count_stddev"].null_count == 6 * 2
    assert "unknown" not in second._repr_html_()


def test_plan_separates_guarantees_from_data_dependent_errors(whole: dict[str, Pipeline]) -> None:
    plan = whole["w_event"].plan()
    text = str(plan)
    assert "its error depends on how far data move in the w - 1 ticks" in text
    assert "no bound before there are data" in text
    assert "whatever the data" in text
    texts = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    sample = texts["releases"][1]
    assert sample["parts"][0]["error_depends_on"].startswith("how far data move")
    assert [error["half_width"] is None for error in sample["errors"]] == [False, True, False]
    assert "no bound before there are data" in plan._repr_html_()


def test_rollup_plan_states_uncounted_events_and_only_finite_intervals(whole: dict[str, Pipeline]) -> None:
    plan = whole["event"].plan()
    texts = {each.name: each for each in plan.releases}
    lost = "an event without a declared g or h counts on no level, though SQL counts it above"
    assert lost in str(plan)
    assert [lost in " ".join(texts[name].choices[0].hints) for name in ("rolled", "each")] == [True, False]
    for each in texts.values():
        spoken = any("95 % within" in hint for hint in each.choices[0].hints)
        assert spoken == any(math.isfinite(error.half_width) for error in each.errors), each.name


def sparse(folder: Path, **asked: Any) -> Pipeline:
    write(folder, [event(5), event(3000)])
    release = {"name": "few", "sql": COUNTS, "window": "running", "epsilon": 1, **asked}
    return pipeline(folder, tables(release, end="2026-01-05T02:46:40Z"))


def test_sparse_counter_is_chosen_for_few_events_and_stays_pinned(tmp_path: Path) -> None:
    few = sparse(tmp_path, expected_events=0.001)
    assert "chosen because expected_events = 0.001: predicted to be off by" in str(few.plan())
    run(few)
    charged = few.plan().releases[0].choices
    assert charged[0].mechanism.startswith("SparseCounter")
    for edited in ({}, {"expected_events": 50}):
        later = sparse(tmp_path, **edited)
        (choice,) = later.plan().releases[0].choices
        assert choice.mechanism == charged[0].mechanism
        assert choice.reason == "chosen when it was charged"
        assert later.plan().edits.continued_releases == ("few",)


def test_sparse_counter_is_not_chosen_without_expected_events(tmp_path: Path) -> None:
    (choice,) = sparse(tmp_path).plan().releases[0].choices
    assert (choice.error_depends_on, choice.reason) == ("", "")
    assert choice.runners_up


def test_mechanism_requested_by_name_needs_no_reason(tmp_path: Path) -> None:
    (choice,) = sparse(tmp_path, mechanism="SparseCounter").plan().releases[0].choices
    assert choice.error_depends_on.startswith("the number of segments")
    assert choice.reason == ""


def test_ad_hoc_release_continues_with_its_mechanism_settings(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    base = pipeline(tmp_path, tables(budget={"epsilon": 3}))
    mechanism = {"name": "Pegasus", "smoother": "james_stein", "split": 0.75}
    body = {"name": "asked", "sql": COUNTS, "window": "each", "epsilon": 1, "mechanism": mechanism}
    wanted = AdHocRelease(parse_adhoc_release(body, base.file.stream), "ann")
    stop = Flag()
    run(base, adhoc_releases=(wanted,), max_batch_ticks=3, stop=stop, on_progress=lambda _: stop.set())
    assert len(base.releases("asked")) == 3
    run(base)
    assert len(base.releases("asked")) == 10
    (requested,) = [each for each in base.plan().releases if each.name == "asked"]
    assert "smoother=james_stein" in requested.choices[0].mechanism
    assert "split=3/4" in requested.choices[0].mechanism


def test_mechanism_choice_of_every_release_is_complete(whole: dict[str, Pipeline]) -> None:
    for kind, of in whole.items():
        for release in of.file.releases:
            chosen: MechanismChoices = plan_release(of.file, release).mechanisms
            assert all(choice is not None for choice in chosen), (kind, release.name)


def test_audit_computes_no_loss_of_adaptive_mechanisms(whole: dict[str, Pipeline]) -> None:
    """The audit measures instead; a computed loss needs matrices, and such mechanisms have none."""
    for of in whole.values():
        for release in of.file.releases:
            assert compute_worst_loss([plan_release(of.file, release)], 3, Pure(1)) is None
