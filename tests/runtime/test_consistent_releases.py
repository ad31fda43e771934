"""`consistent = true`: published numbers that never fall, add up and stay within bounds, after noise, for nothing."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.planner import plan_release
from streamgauge.postprocess.adjustment import Adjustment
from streamgauge.runtime.adhoc.releases import AdHocRelease, add_adhoc_releases, parse_adhoc_release
from streamgauge.runtime.consistency import ReleaseAdjuster
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import Tables, as_they_happen, one_a_second, pipeline, published, run, tables, world, write

COLUMNS = {
    "g": {"values": ["a", "b"], "other": True},
    "h": {"values": ["p", "q"], "other": True},
    "u": {"values": [f"u{i}" for i in range(9)]},
    "x": {"bounds": [0, 10], "grid": 1},
    "w": {"values": [-1, 1]},
    "word": {"max_groups": 10},
}
ROLLED = "SELECT g, h, COUNT(*) AS n, COUNT(DISTINCT u) AS users, AVG(x) FROM v GROUP BY ROLLUP (g, h)"
RELEASE: Tables = {"name": "r", "sql": ROLLED, "window": "running", "consistent": True, "epsilon": "1/2"}
RULES = [
    "n is never negative, never falls and adds up over levels",
    "users is never negative, never falls and is at most 9",
]


def declared(release: Tables, **stream: Any) -> Tables:
    return tables(release, **{"columns": COLUMNS, "budget": {"epsilon": 1, "delta": 1e-6}, **stream})


def made_of(folder: Path, **release: Any) -> Any:
    folder.mkdir(exist_ok=True)
    write(folder, one_a_second())
    return pipeline(folder, declared({**RELEASE, **release}))


def read(made: Any, measure: int) -> np.ndarray:
    return np.array(published(made, "r", measure))


def check_levels(numbers: np.ndarray) -> None:
    """Nine pairs, three groups above, and the total."""
    assert (numbers[:, :9].reshape(-1, 3, 3).sum(axis=2) == numbers[:, 9:12]).all()
    assert (numbers[:, 9:12].sum(axis=1) == numbers[:, 12]).all()
    assert (numbers >= 0).all()


def test_running_counts_never_fall_and_add_up(tmp_path: Path) -> None:
    made = made_of(tmp_path)
    run(made, noise=InsecureNoise(1))
    counts, users = read(made, 0), read(made, 1)
    check_levels(counts)
    assert (np.diff(counts, axis=0) >= 0).all()
    assert (np.diff(users, axis=0) >= 0).all()
    assert users.min() >= 0
    assert users.max() <= 9
    for each in made.releases("r"):
        assert (each.low[:2] <= each.value[:2]).all()
        assert (each.value[:2] <= each.high[:2]).all()


def test_counts_of_single_ticks_add_up_and_may_fall(tmp_path: Path) -> None:
    made = made_of(tmp_path, window="each")
    run(made, noise=InsecureNoise(1))
    check_levels(read(made, 0))
    assert (np.diff(read(made, 0), axis=0) < 0).any()


def test_raw_numbers_break_every_rule(tmp_path: Path) -> None:
    """Power: without the key the same noise is negative, falls and does not add up."""
    made = made_of(tmp_path, consistent=False)
    run(made, noise=InsecureNoise(1))
    counts = read(made, 0)
    assert (counts < 0).any()
    assert (np.diff(counts, axis=0) < 0).any()
    assert (counts[:, 9:12].sum(axis=1) != counts[:, 12]).any()
    assert made.releases("r").shape.consistency == ""


def test_silent_noise_publishes_the_true_numbers(tmp_path: Path) -> None:
    made, plain = made_of(tmp_path / "a"), made_of(tmp_path / "b", consistent=False)
    for each in (made, plain):
        run(each)
    for measure in range(3):
        assert (read(made, measure) == read(plain, measure)).all()


def test_consistency_costs_nothing_and_is_shown(tmp_path: Path) -> None:
    made, plain = made_of(tmp_path / "a"), made_of(tmp_path / "b", consistent=False)
    own, other = (each.plan().to_json() for each in (made, plain))
    assert own["ledger"] == other["ledger"]
    assert own["releases"][0]["consistent"] == RULES
    assert other["releases"][0]["consistent"] == []
    assert f"adjusted after noise, for nothing: {RULES[0]}" in str(made.plan())
    run(made)
    shape = made.releases("r").shape
    assert shape.consistency == "; ".join(RULES)
    assert RULES[0] in made.releases("r")._repr_html_()


def test_a_stopped_run_continues_from_its_published_numbers(tmp_path: Path) -> None:
    made = pipeline(tmp_path, declared({**RELEASE, "epsilon": "1/50"}, live=True))
    happens = as_they_happen(one_a_second())
    for seed, until in ((1, 50), (2, 100)):
        stop = Flag()
        clock = world(tmp_path, happens, at=until - 50)
        clock.acts[until] = stop.set
        run(made, clock=clock, stop=stop, noise=InsecureNoise(seed))
    counts = read(made, 0)
    check_levels(counts)
    assert len(counts) > 6
    assert (np.diff(counts, axis=0) >= 0).all()


def test_loaded_numbers_are_those_that_were_saved() -> None:
    chance, rules = (
        np.random.default_rng(7),
        (Adjustment(never_falls=True), None, Adjustment(never_falls=True, upper=9)),
    )
    raw = {name: chance.normal(5, 9, (30, 3, 4)) for name in ("value", "stddev", "low", "high")}
    whole, parts = ({name: rows.copy() for name, rows in raw.items()} for _ in range(2))
    ReleaseAdjuster("r", rules, 4).adjust(whole)
    adjuster = ReleaseAdjuster("r", rules, 4)
    for tick in range(30):
        adjuster.adjust({name: rows[tick : tick + 1] for name, rows in parts.items()})
        loaded = ReleaseAdjuster("r", rules, 4)
        loaded.load(adjuster.save_state())
        adjuster = loaded
    assert all((parts[name] == whole[name]).all() for name in raw)
    lost = ReleaseAdjuster("r", rules, 4)
    fresh = {name: rows[15:].copy() for name, rows in raw.items()}
    lost.adjust(fresh)
    assert not (fresh["value"] == whole["value"][15:]).all(), "a state that is lost must be seen"


def test_alerts_read_the_published_numbers(tmp_path: Path) -> None:
    alert = {"kind": "drop", "size": 1, "window": "20s"}
    made = made_of(tmp_path, sql="SELECT COUNT(*) FROM v", alerts=alert)
    run(made, noise=InsecureNoise(1))
    assert not read(made, 1).any()


def test_a_changed_key_needs_a_new_release(tmp_path: Path) -> None:
    run(made_of(tmp_path))
    assert "consistent" in str(made_of(tmp_path, consistent=False).plan().refusals)


def test_requested_releases_are_consistent_after_a_restart(tmp_path: Path) -> None:
    made = pipeline(tmp_path, declared({**RELEASE, "name": "other"}, live=True))
    adhoc = AdHocRelease(parse_adhoc_release(RELEASE, made.file.stream), "ann")
    clock, stop = world(tmp_path, as_they_happen(one_a_second())), Flag()
    clock.acts[50] = stop.set
    run(made, [adhoc], clock=clock, stop=stop)
    again = pipeline(tmp_path, declared({**RELEASE, "name": "other"}, live=True))
    assert add_adhoc_releases(again.file, again.ledger()).releases[1].consistent
    assert again.releases("r").shape.consistency == "; ".join(RULES)


@pytest.mark.parametrize(
    ("release", "stream", "words"),
    [
        ({"sql": "SELECT AVG(x) FROM v"}, {}, "unless the query has a COUNT.*got avg_x"),
        ({"sql": "SELECT SUM(x) FROM v GROUP BY g"}, {}, "unless the query has a COUNT.*got sum_x"),
        ({"sql": "SELECT COUNT(*) FROM v"}, {"weight": "w"}, "events have weights, as w: true counts may fall"),
        (
            {"sql": "SELECT word, COUNT(*) FROM v GROUP BY word", "delta": 1e-7},
            {},
            "discovered, as those of word: a new group",
        ),
        (
            {"sql": "SELECT u, COUNT(*) FROM v GROUP BY ROLLUP (u)"},
            {},
            "ROLLUP of u: an event without one counts above only.*other = true.*NOT NULL",
        ),
    ],
    ids=["average", "sum", "weights", "discovered", "missing"],
)
def test_rules_that_truth_need_not_obey_are_refused(
    tmp_path: Path, release: Tables, stream: Tables, words: str
) -> None:
    made = pipeline(tmp_path, declared({**RELEASE, **release}, **stream))
    with pytest.raises(InvalidReleaseError, match=f"consistent must be .*{words}"):
        plan_release(made.file, made.file.releases[0])


@pytest.mark.parametrize(
    ("sql", "rules"),
    [
        ("SELECT u, COUNT(*) AS n FROM v WHERE u IS NOT NULL GROUP BY ROLLUP (u)", RULES[0]),
        ("SELECT g, SUM(x) AS s FROM v GROUP BY ROLLUP (g)", "s adds up over levels"),
        ("SELECT COUNT_IF(x > 3) AS n FROM v", "n is never negative and never falls"),
    ],
)
def test_rules_follow_from_the_query(tmp_path: Path, sql: str, rules: str) -> None:
    made = pipeline(tmp_path, declared({**RELEASE, "sql": sql}))
    assert plan_release(made.file, made.file.releases[0]).layout["consistent"] == [rules]


def test_sums_add_up_over_levels(tmp_path: Path) -> None:
    made = made_of(tmp_path, sql="SELECT g, SUM(x) FROM v GROUP BY ROLLUP (g)")
    run(made, noise=InsecureNoise(1))
    sums = read(made, 0)
    assert np.allclose(sums[:, :3].sum(axis=1), sums[:, 3])


def test_pan_private_numbers_never_fall_across_a_restart(tmp_path: Path) -> None:
    release = {**RELEASE, "sql": "SELECT g, COUNT(*) AS n FROM v GROUP BY g", "epsilon": 1, "horizon": "200s"}
    columns = {"g": {"values": ["a", "b"]}}
    made = pipeline(
        tmp_path, tables(release, source="http", mode="streaming", pan_private=True, end=None, columns=columns)
    )
    for seed, begin in ((3, 0), (4, 100)):
        clock, stop = world(tmp_path, at=begin), Flag()
        clock.acts[begin + 100] = stop.set
        run(made, clock=clock, source=EphemeralInbox(max_waiting_bytes=10**6), stop=stop, noise=InsecureNoise(seed))
    counts = read(made, 0)
    assert len(counts) > 16
    assert (np.diff(counts, axis=0) >= 0).all()
    assert (counts >= 0).all()
