"""Alerts of releases: declared in the file, and published with the numbers that they are computed from."""

import csv
import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.release import Alert
from streamgauge.plan.alerts import AlertColumn
from streamgauge.postprocess import EventMonitor
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.release_run import AlertMonitors, ReleaseRun
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import COUNTS, Tables, event, lines, pipeline, run, tables, write

DROP: Tables = {"kind": "drop", "size": 20, "window": "30s"}
JUMP: Tables = {"kind": "jump", "size": 20, "window": "30s"}
LOW: Tables = {"kind": "low", "size": 5, "window": "20s", "name": "quiet"}
SINKS: list[Tables] = [{"to": "out.jsonl"}, {"to": "out.csv"}, {"to": "out.parquet"}]
BOTH = "SELECT COUNT(*) AS n, SUM(x) AS s FROM v"
MANY = (1, 2, 40, 41, 42, 3, 3, 3, 30, 2)  # events of each tick


def made(folder: Path, alerts: Any, sql: str = COUNTS, **release: Any) -> Pipeline:
    folder.mkdir(exist_ok=True)
    write(folder, [event(10 * tick, "a") for tick, count in enumerate(MANY) for _ in range(count)])
    return declared(folder, alerts, sql, **release)


def declared(folder: Path, alerts: Any, sql: str = COUNTS, w_event: int | None = None, **release: Any) -> Pipeline:
    """Return the pipeline of a file, without events."""
    requested = {"name": "counts", "sql": sql, **release} | ({} if alerts is None else {"alerts": alerts})
    unit: Any = {"w_event": w_event} if w_event else "event"
    return pipeline(folder, tables(requested, sinks=SINKS, unit=unit))


def expected(values: Any, **monitor: Any) -> list[list[float]]:
    found = EventMonitor(**monitor).start(values.shape[1]).feed(values)
    return np.asarray(found, float).tolist()  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """An unbroken run without noise."""
    found = made(tmp_path_factory.mktemp("whole"), [DROP, JUMP])
    run(found)
    return found


def test_alerts_follow_from_published_values(tmp_path: Path) -> None:
    noisy = made(tmp_path, [JUMP, LOW], mechanism="Pegasus")
    noisy.run(max_batch_ticks=3, noise=InsecureNoise(4))
    found = noisy.releases("counts")
    assert found.shape.measures == ("count", "count_jump", "quiet")
    values = found.values("count")
    assert found.values("count_jump").tolist() == expected(values, kind="jump", size=20, window=3)
    assert found.values("quiet").tolist() == expected(values, kind="low", size=5, window=2)
    assert 0 < found.values("count_jump").sum() < 20
    for each in found:
        assert each.reliable[1:].tolist() == [[each.tick >= 3] * 2, [each.tick >= 2] * 2]
        assert np.isnan(each.stddev[1:]).all()


def test_alerts_are_in_every_sink_as_measures(whole: Pipeline) -> None:
    folder = whole.file.path.parent
    texts = [row["count_jump"] for row in lines(folder / "out.jsonl") if row["group"] == {"g": "a"}]
    assert [each["value"] for each in texts] == [0, 0, 1, 1, 0, 0, 0, 0, 1, 0]
    assert texts[2] == {"value": 1.0, "stddev": None, "low": None, "high": None, "reliable": True}
    with (folder / "out.csv").open(newline="") as file:
        wide = [row["count_jump"] for row in csv.DictReader(file) if row["g"] == "a"]
    assert wide == ["0.0", "0.0", "1.0", "1.0", "0.0", "0.0", "0.0", "0.0", "1.0", "0.0"]
    assert whole.releases("counts").to_arrow()["count_jump"].to_pylist()[4] == 1


def reliable_of(values: Sequence[bool], kept: Callable[[AlertMonitors, int], AlertMonitors]) -> list[bool]:
    """Return the reliability of a three-tick alert at each tick; call `kept` on its monitors after each tick."""
    watches, found = watching(), list[bool]()
    for observed, value in enumerate(values, 1):
        fields = {"value": np.zeros((1, 2, 1)), "reliable": np.array([[[value], [False]]])}
        watches.fill_alerts(fields)
        found.append(bool(fields["reliable"][0, 1, 0]))
        watches = kept(watches, observed)
    return found


def watching() -> AlertMonitors:
    return AlertMonitors("r", [AlertColumn(Alert("jump", Fraction(1), 3), 0)], 2, 1)


def restarted(watches: AlertMonitors, observed: int) -> AlertMonitors:
    again = watching()
    again.load(watches.save_state(), observed)
    return again


SOME = [True, True, True, True, False, True, True, True, True, True]


def test_alert_is_reliable_if_all_values_of_window_are(tmp_path: Path) -> None:
    expected = [False, False, True, True, False, False, False, True, True, True]
    assert reliable_of(SOME, lambda watches, _: watches) == expected
    assert reliable_of(SOME, restarted) == expected
    whole, block = watching(), {"value": np.zeros((10, 2, 1)), "reliable": np.zeros((10, 2, 1), bool)}
    block["reliable"][:, 0, 0] = SOME
    whole.fill_alerts(block)
    assert block["reliable"][:, 1, 0].tolist() == expected
    rare = made(tmp_path, JUMP | {"window": "20s"}, mechanism="WEventSample", w_event=3)
    rare.run(noise=InsecureNoise(4))
    first, alert = (np.stack([each.reliable[n] for each in rare.releases("counts")]) for n in (0, 1))
    assert not first.all()
    assert alert[1:].tolist() == (first[1:] & first[:-1]).tolist()


@pytest.mark.parametrize(("plain", "told"), [(True, False), (False, True)])
def test_explicit_default_is_no_change_of_charged_alert(tmp_path: Path, plain: bool, told: bool) -> None:
    spelt = JUMP | {"measure": "count", "name": "count_jump"}
    run(made(tmp_path, JUMP if plain else spelt))
    plan = declared(tmp_path, spelt if told else JUMP).plan()
    assert (plan.refusals, plan.edits.continued_releases) == ((), ("counts",))


def test_change_of_charged_alert_is_refused_with_remedy(tmp_path: Path) -> None:
    run(made(tmp_path, JUMP))
    for other in (JUMP | {"size": 21}, [JUMP, LOW], None):
        (refused,) = declared(tmp_path, other).plan().refusals
        assert "got another alerts: alerts are columns that readers have" in refused
        assert "make others of what is published, for nothing, or give it a new name" in refused


def test_a_size_may_be_a_fraction_in_text(tmp_path: Path) -> None:
    (alert,) = made(tmp_path, JUMP | {"size": "1/2"}).file.releases[0].alerts
    assert alert.size == Fraction(1, 2)


@pytest.mark.parametrize(("window", "minded"), [("each", False), ("running", True), ("sliding 20s", True)])
def test_plan_warns_of_low_alert_with_overlapping_windows(tmp_path: Path, window: str, minded: bool) -> None:
    (said,) = made(tmp_path, LOW, window=window).plan().releases[0].alerts
    assert ("overlap and are added up as they are" in said) == minded
    (said,) = declared(tmp_path, LOW | {"window": "10s"}, window=window).plan().releases[0].alerts
    assert "overlap" not in said


class Died(Exception):  # noqa: N818 - named for what happened
    """An injected failure of a run."""


def test_failed_run_continues_with_same_alerts(
    tmp_path: Path, whole: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A twin that forgets the state of its alerts is caught."""
    broken, observed = made(tmp_path / "broken", [DROP, JUMP]), list[str]()

    def dies(step: str) -> None:
        observed.append(step)
        if observed.count("noise_drawn") == 2:
            raise Died

    with pytest.raises(Died):
        run(broken, max_batch_ticks=4, step=dies)
    twin = copytree(tmp_path / "broken", tmp_path / "twin")
    run(broken, max_batch_ticks=4)
    assert packed(broken) == packed(whole)
    forgetful = declared(twin, [DROP, JUMP])
    run(forgetful, max_batch_ticks=4, components={ReleaseRun: ForgetfulRun})
    assert packed(forgetful) != packed(whole)


class ForgetfulRun(ReleaseRun):
    """A broken twin: it continues without the state of its alerts."""

    @classmethod
    def load(cls, plan: Any, name: str, first: int, state: Any, noise: Any) -> ReleaseRun:
        run = super().load(plan, name, first, state, noise)
        run.alert_monitors = cls.start(plan, name, first, noise).alert_monitors
        return run


def packed(of: Pipeline) -> list[bytes]:
    return [each.pack() for each in of.releases("counts")]


def test_alerts_cost_nothing_and_change_no_other_setting(tmp_path: Path) -> None:
    with_alert, without = made(tmp_path / "a", JUMP), made(tmp_path / "b", None)
    plans = [each.plan().to_json() for each in (with_alert, without)]
    assert plans[0]["ledger"] == plans[1]["ledger"]
    said = "count_jump: 1 where count has risen by 20 or more within 30s, else 0; costs nothing"
    assert plans[0]["releases"][0]["alerts"] == [said]
    assert said in str(with_alert.plan())
    blocks = [json.loads(each.file.blocks["release.counts"]) for each in (with_alert, without)]
    assert blocks[0].pop("alerts") == [{"kind": "jump", "size": "20", "window": 3}]
    assert blocks[0] == blocks[1]


def test_alerts_of_ad_hoc_release_are_restored(tmp_path: Path) -> None:
    of = made(tmp_path, None)
    requested = {"name": "more", "sql": BOTH, "window": "each", "epsilon": "1/4", "alerts": {**JUMP, "measure": "s"}}
    release = parse_adhoc_release(requested, of.file.stream)
    run(of, adhoc_releases=[AdHocRelease(release, "ana")])
    again = Pipeline.from_tables(tables({"name": "counts", "sql": COUNTS}, sinks=SINKS), of.file.path)
    run(again)
    found = again.releases("more")
    assert found.shape.measures == ("n", "s", "s_jump")
    assert found.values("s_jump").tolist() == expected(found.values("s"), kind="jump", size=20, window=3)


@pytest.mark.parametrize(
    ("alerts", "sql", "words"),
    [
        (3, COUNTS, "release.counts.alerts must be a table, got 3"),
        ({"kind": "jmp", "size": 1}, COUNTS, 'alerts.kind must be "jump" or "drop" or "low" or'),
        ({"kind": "jump"}, COUNTS, 'alerts.size must be a number such as 20 or "1/2", got nothing'),
        ({"kind": "jump", "size": -1}, COUNTS, "alerts.size must be above 0 for a jump, got -1"),
        (JUMP | {"window": "10s"}, COUNTS, 'window must be at least "20s", two ticks, for a jump, got "10s"'),
        ({"kind": "threshold", "size": 1, "window": "2m"}, COUNTS, 'left out for a threshold, got "2m"'),
        (LOW | {"window": "15s"}, COUNTS, 'such as "2m" of a whole number of ticks of 10s'),
        (LOW | {"window": "1w"}, COUNTS, 'alerts.window must be at most "2h50m40s", 1024 ticks of 10s'),
        (JUMP | {"name": ""}, COUNTS, "alerts.name must be a name of letters, digits"),
        (JUMP | {"name": "a b"}, COUNTS, "alerts.name must be a name of letters, digits"),
        ({"kind": "jump", "size": 1, "sise": 1}, COUNTS, "unknown key release.counts.alerts.sise"),
        ([JUMP] * 17, COUNTS, "must be at most 16 alerts, got 17"),
        ([JUMP, {"kind": "jump"}], COUNTS, '"release.counts.alerts 2".size|alerts 2.size must be a number'),
        (JUMP, BOTH, "alerts.measure must be given where there are several measures, one of n, s, got none"),
        ({**JUMP, "measure": "m"}, BOTH, 'alerts.measure must be a measure, one of n, s, got "m"'),
        ({**JUMP, "measure": "coumt"}, COUNTS, 'got "coumt" (did you mean count?)'),
        ([JUMP, JUMP], COUNTS, "got 'count_jump' twice: give the alert a name of its own"),
        (JUMP | {"name": "tick"}, COUNTS, "got 'tick' twice: give the alert a name of its own"),
        (JUMP | {"name": "g"}, COUNTS, "got 'g' twice: give the alert a name of its own"),
        (JUMP | {"name": "count_high"}, COUNTS, "got 'count_high' twice: give the alert a name of its own"),
        (JUMP, "SELECT COUNT(*) AS tick FROM v", "got 'tick' twice: rename one with AS"),
    ],
)
def test_invalid_alert_is_refused_with_its_rule(tmp_path: Path, alerts: Any, sql: str, words: str) -> None:
    try:
        refused = " ".join(made(tmp_path, alerts, sql).plan().refusals)
    except PipelineFileError as bad:
        refused = str(bad)
    assert any(word in refused for word in words.split("|"))
