"""`window = ["sliding 1h", "sliding 24h"]`: several windows of one release, by one charge."""

from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError, PipelineFileError
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Pure
from streamgauge.runtime.adhoc.releases import AdHocRelease, add_adhoc_releases, parse_adhoc_release
from streamgauge.runtime.plan.limits import cpu_ms, state_bytes
from tests.support.pipelines import (
    TICKS,
    Tables,
    World,
    as_they_happen,
    event,
    lines,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
    write,
)

SQL = "SELECT g, COUNT(*), SUM(x) AS sum FROM v GROUP BY ROLLUP (g)"
ARRAY: Tables = {"name": "both", "sql": SQL, "window": ["sliding 60s", "sliding 20s"]}
ALONE: list[Tables] = [{**ARRAY, "name": name, "window": f"sliding {name}"} for name in ("20s", "60s")]
STEEP = {"kind": "threshold", "size": 12, "measure": "count_20s"}
MEASURES = ["count_20s", "count_1m", "sum_20s", "sum_1m"]
GOT = r'got \["sliding 20s", "sliding 1m"\]$'


def run_until(made: Any, clock: World, second: float, **settings: Any) -> None:
    """Run a live pipeline until a second."""
    stop = Flag()
    clock.acts[second] = stop.set
    run(made, clock=clock, stop=stop, **settings)


def check_equal_to_single_windows(made: Any) -> None:
    for measure in (0, 1):
        for place, alone in enumerate(("20s", "60s")):
            assert published(made, "both", 2 * measure + place) == published(made, alone, measure)


def test_each_window_equals_a_release_of_it(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables(ARRAY, *ALONE, budget={"epsilon": 2}))
    run(made)
    check_equal_to_single_windows(made)
    assert ticks_of(made, "both") == [*range(1, TICKS + 1)]
    assert list(made.releases("both")[0].shape.measures) == MEASURES


def test_live_windows_equal_releases_of_each(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(ARRAY, *ALONE, live=True, budget={"epsilon": 2}))
    run_until(made, world(tmp_path, as_they_happen(one_a_second())), 100)
    check_equal_to_single_windows(made)
    assert len(ticks_of(made, "both")) > 6


def test_windows_follow_events_that_are_taken_back(tmp_path: Path) -> None:
    write(tmp_path, [event(second, "ab"[second % 2], 3, w=1 if second % 3 else -1) for second in range(100)])
    columns = {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}, "w": {"values": [-1, 1]}}
    made = pipeline(tmp_path, tables(ARRAY, *ALONE, weight="w", columns=columns, budget={"epsilon": 2}))
    run(made)
    check_equal_to_single_windows(made)


def test_one_charge_pays_for_all_windows(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables(ARRAY, budget={"epsilon": "1/2"}))
    assert made.plan().to_json()["ledger"]["after"]["spent"] == {"epsilon": "1/2"}
    run(made)
    charges = [act.body["loss"] for act in made.ledger().ledger_entries if act.kind == "charge"]
    assert charges == [{"epsilon": "1/2"}]
    assert made.ledger().ledger.remaining_loss() == Pure.zero()


def test_plan_states_windows_errors_and_their_one_cost(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables({**ARRAY, "expected_events": 5}))
    text = str(made.plan())
    assert "both: sliding 20s, sliding 1m, epsilon 0.5 for all windows together" in text
    assert "count_20s, count_1m: WindowBridge(window=6), epsilon 0.125, at each of 2 levels" in text
    (release,) = made.plan().to_json()["releases"]
    assert release["window"] == ["sliding 2", "sliding 6"]
    part = plan_release(made.file, made.file.releases[0]).parts[0]
    for error in release["errors"][:6]:
        window = "sliding 2" if error["measure"] == "count_20s" else "sliding 6"
        assert error["stddev"] == part.statistic.predict_stddev(window, error["tick"])
        assert error["level"] == 5 * min(error["tick"], int(window[-1]))
    assert {error["measure"] for error in release["errors"]} == set(MEASURES)


def test_stated_errors_are_those_of_the_plan(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables(ARRAY))
    run(made)
    planned = {(e["measure"], e["tick"]): e for e in made.plan().to_json()["releases"][0]["errors"]}
    for each in made.releases("both"):
        for place, name in enumerate(MEASURES):
            if error := planned.get((name, each.tick)):
                assert each.stddev[place] == pytest.approx([error["stddev"]] * 3)
                assert (each.high - each.low)[place] / 2 == pytest.approx([error["half_width"]] * 3)
    assert made.releases("both")[0].reliable[:4].all()


def test_memory_and_work_count_every_window(tmp_path: Path) -> None:
    long = {**ARRAY, "sql": "SELECT COUNT(*) FROM v", "window": ["sliding 1h", "sliding 24h"]}
    both, alone = (
        plan_release(made.file, made.file.releases[0])
        for made in (
            pipeline(tmp_path, tables({**long, "window": window})) for window in (long["window"], "sliding 24h")
        )
    )
    assert state_bytes(both) > 2 * 8 * 8640
    assert cpu_ms(both) > cpu_ms(alone)


def test_alerts_and_sinks_have_windows_by_name(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    sinks = [{"to": "wide.csv"}, {"to": "long.csv", "shape": "long"}, {"to": "out.jsonl"}, {"to": "out.parquet"}]
    made = pipeline(tmp_path, tables({**ARRAY, "alerts": STEEP}, sinks=sinks))
    run(made)
    head = (tmp_path / "wide.csv").read_text().splitlines()[0].split(",")
    assert [name for name in head if name in MEASURES] == MEASURES
    assert [f"{name}_high" in head for name in MEASURES] == [True] * 4
    shown = {
        row.split('",')[-1].split(",")[0] for row in (tmp_path / "long.csv").read_text().splitlines() if '"a"' in row
    }
    assert shown == {*MEASURES, "count_20s_threshold"}
    rows = lines(tmp_path / "out.jsonl")
    assert rows[0]["count_1m"]["value"] == 5
    assert [row["count_20s_threshold"]["value"] for row in rows if row["group"] == {}] == [0] + [1] * 9
    assert list(made.releases("both").to_pandas()["sum_1m"])[-1] == published(made, "both", 3)[-1][-1]


def test_an_alert_must_name_its_window(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables({**ARRAY, "alerts": {"kind": "jump", "size": 3}}))
    with pytest.raises(InvalidReleaseError, match=r"one of count_20s, count_1m, sum_20s, sum_1m, got none"):
        plan_release(made.file, made.file.releases[0])


@pytest.mark.parametrize(
    "window", [["sliding 20s", "sliding 50s"], "sliding 60s", ["sliding 20s", "sliding 30s", "sliding 60s"]]
)
def test_an_edited_array_needs_a_new_release(tmp_path: Path, window: Any) -> None:
    write(tmp_path, one_a_second())
    run(pipeline(tmp_path, tables(ARRAY)))
    (refusal,) = pipeline(tmp_path, tables({**ARRAY, "window": window})).plan().refusals
    assert refusal == "release both must stay as it was charged, got another window: give it a new name"


def test_the_order_and_spelling_of_windows_are_free(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    run(pipeline(tmp_path, tables(ARRAY)))
    plan = pipeline(tmp_path, tables({**ARRAY, "window": ["sliding 20s", "sliding 1m"]})).plan()
    assert (plan.refusals, plan.edits.continued_releases) == ((), ("both",))


def test_a_requested_array_continues_after_a_restart(tmp_path: Path) -> None:
    clock = world(tmp_path, as_they_happen(one_a_second()))
    file = tables(*ALONE, live=True, budget={"epsilon": 2})
    made = pipeline(tmp_path, file)
    asked = parse_adhoc_release({**ARRAY, "epsilon": 0.5}, made.file.stream)
    assert (asked.window, asked.shorter_windows) == ("sliding 6", (2,))
    run_until(made, clock, 80, adhoc_releases=[AdHocRelease(asked, "ann")])
    done = ticks_of(made, "both")
    again = pipeline(tmp_path, file)
    (restored,) = add_adhoc_releases(again.file, again.ledger()).releases[2:]
    assert restored == replace(asked, requested_by="ann", sql=restored.sql)
    run_until(again, clock, 110)
    begin = ticks_of(again, "both")[0]
    assert begin < done[-1] < ticks_of(again, "both")[-1]
    assert published(again, "both", 0)[2:] == published(again, "20s", 0)[begin + 1 :]


@pytest.mark.parametrize(
    "window",
    [
        [],
        ["sliding 60s"],
        ["sliding 60s", "sliding 1m"],
        ["each", "sliding 60s"],
        ["sliding 60s", "running"],
        ["sliding 25s", "sliding 60s"],
        ["sliding 60s", "decayed half-life 20s"],
        ["sliding 60s", ["sliding 20s"]],
        [f"sliding {10 * number}s" for number in range(1, 10)],
    ],
    ids=str,
)
def test_an_array_of_other_windows_is_refused(tmp_path: Path, window: Any) -> None:
    rule = r'release\.both\.window must be an array of 2 to 8 different "sliding \.\.\." windows, of a whole number'
    with pytest.raises(PipelineFileError, match=rf"{rule} of ticks of 10s, got \["):
        pipeline(tmp_path, tables({**ARRAY, "window": window}))


ZCDP: Tables = {"budget": {"rho": 1}}
APPROX: Tables = {"budget": {"epsilon": 1, "delta": 1e-6}}
KEYS: Tables = {**APPROX, "columns": {"g": {"max_groups": 10}}}
ONE = "window must be one window, not an array, "
FEW = r"\(only a COUNT or SUM has several\), "


@pytest.mark.parametrize(
    ("release", "stream", "message"),
    [
        ({"sql": "SELECT AVG(x) FROM v"}, {}, f"{ONE}for avg_x {FEW}{GOT}"),
        ({"sql": "SELECT COUNT(*), STDDEV(x) AS s FROM v"}, {}, f"{ONE}for s {FEW}{GOT}"),
        ({"sql": "SELECT COUNT(DISTINCT g) FROM v"}, {}, f"{ONE}for count_distinct_g {FEW}{GOT}"),
        ({"sql": "SELECT MEDIAN(x) FROM v"}, {}, f"{ONE}for median_x {FEW}{GOT}"),
        ({"sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "delta": 1e-7}, KEYS, f"{ONE}for groups that are discovered"),
        ({"epsilon": None, "rho": 0.5}, ZCDP, "cost must be given as epsilon where window is an array, got rho$"),
        ({"epsilon": None, "share": 0.5}, APPROX, "cost must be given as epsilon .* got a share of a budget that is"),
        ({"mechanism": "WindowSum"}, {}, 'mechanism must be "auto" or "WindowBridge" where .* got "WindowSum"$'),
        ({"mechanism": "Pegasus"}, {}, 'mechanism must be "auto" or "WindowBridge" where .* got "Pegasus"$'),
    ],
)
def test_releases_that_need_one_window_refuse_an_array(
    tmp_path: Path, release: Tables, stream: Tables, message: str
) -> None:
    file = tables({**ARRAY, **release}, **stream)
    file["release"] = [{key: value for key, value in file["release"][0].items() if value is not None}]
    made = pipeline(tmp_path, file)
    with pytest.raises(InvalidReleaseError, match=rf"release both: {message}"):
        plan_release(made.file, made.file.releases[0])


def test_pan_private_streams_refuse_an_array(tmp_path: Path) -> None:
    stream = {"source": "http", "pan_private": True, "allowed_lateness": None, "allowed_earliness": None}
    made = pipeline(tmp_path, tables(ARRAY, live=True, **stream))
    with pytest.raises(InvalidReleaseError, match=f"{ONE}with pan_private = true, {GOT}"):
        plan_release(made.file, made.file.releases[0])


def test_an_epsilon_beside_a_delta_has_no_gaussian_hint(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(ARRAY, **APPROX))
    assert [part["hints"] for part in made.plan().to_json()["releases"][0]["parts"]] == [[]] * 4


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) AS n, SUM(x) AS n_20s FROM v"
    made = pipeline(
        tmp_path, tables({**ARRAY, "sql": sql, "alerts": {**STEEP, "measure": "n_1m", "name": "n_20s_20s"}})
    )
    with pytest.raises(InvalidReleaseError, match="must have different names, got 'n_20s_20s' twice"):
        plan_release(made.file, made.file.releases[0])
