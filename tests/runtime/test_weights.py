"""`[stream] weight`: events that are taken back, from the file to the release."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.audit.pipeline.inputs import CandidateRecords
from streamgauge.config.canonical import build_blocks
from streamgauge.config.errors import InvalidReleaseError, PipelineFileError
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Sensitivity
from streamgauge.statistics import Distinct, Sum
from tests.support.pipelines import TICKS, Tables, as_they_happen, event, pipeline, published, run, tables, world, write

DOORS = ("d0", "d1", "d2", "d3")
COLUMNS = {
    "g": {"values": ["a", "b"]},
    "x": {"bounds": [0, 10], "grid": 1},
    "door": {"values": [*DOORS], "max_changes": 3},
    "change": {"values": [-1, 1]},
    "user": {"hash_cells": 50, "max_changes": 2},
}
DISTINCT = {"name": "there", "sql": "SELECT g, COUNT(DISTINCT door) FROM v GROUP BY g", "window": "running"}
NET = {"name": "net", "sql": "SELECT g, COUNT(*), SUM(x), COUNT(x) FROM v GROUP BY g", "window": "running"}
HASHED = {"name": "users", "sql": "SELECT COUNT(DISTINCT user) FROM v", "window": "running"}
WEIGHTS: list[Any] = [1, 1, -1, 1, 2, -1, None, 0.5, "x", 0]


def weighed(*releases: Tables, **stream: Any) -> Tables:
    given = {"weight": "change", "columns": COLUMNS, "budget": {"epsilon": 9}, **stream}
    return tables(*(releases or (DISTINCT, NET)), **given)


def events(seed: int = 1) -> list[Tables]:
    chance = np.random.default_rng(seed)
    found = []
    for second in range(100):
        number = int(chance.integers(0, 40))
        weight = WEIGHTS[int(chance.integers(0, len(WEIGHTS)))]
        x = None if number == 7 else number % 11
        found.append(event(second, "ab"[number % 2], x, door=f"d{number % 5}", change=weight, user=f"u{number % 3}"))
    return found


def truth(stream: list[Tables]) -> dict[str, list[list[list[float]]]]:
    """By release, measure and tick: the values of both groups, by a loop over events."""
    sums, shown, used = Counter[tuple[str, str]](), set[tuple[str, str]](), Counter[str]()
    net = {group: [0.0, 0.0, 0.0] for group in "ab"}
    found: dict[str, list[list[list[float]]]] = {"there": [[]], "net": [[], [], []]}
    for tick in range(TICKS):
        for each in stream[10 * tick : 10 * tick + 10]:
            weight = each["change"] if each["change"] in (1, -1) else 0
            sums[each["door"], each["g"]] += weight
            present = each["x"] is not None
            for place, value in enumerate((weight, weight * (each["x"] or 0), weight * present)):
                net[each["g"]][place] += value
        for door in DOORS:
            for group in "ab":
                if (sums[door, group] > 0) != ((door, group) in shown) and used[door] < 3:
                    shown ^= {(door, group)}
                    used[door] += 1
        found["there"][0].append([float(sum(group == at for _, at in shown)) for group in "ab"])
        for place in range(3):
            found["net"][place].append([net[group][place] for group in "ab"])
    return found


def check(made: Any, stream: list[Tables]) -> None:
    for release, measures in truth(stream).items():
        for place, values in enumerate(measures):
            assert published(made, release, place) == values, (release, place)


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_counts_with_the_weight_of_each_event(tmp_path: Path, seed: int) -> None:
    write(tmp_path, events(seed))
    made = pipeline(tmp_path, weighed())
    run(made)
    check(made, events(seed))


def test_followed_file_counts_the_same_in_order_of_arrival(tmp_path: Path) -> None:
    here = world(tmp_path, as_they_happen(events()))
    made = pipeline(tmp_path, weighed(live=True, end="2026-01-05T00:01:40Z"))
    run(made, clock=here)
    check(made, events())


def test_commits_of_single_ticks_count_the_same(tmp_path: Path) -> None:
    write(tmp_path, events())
    made = pipeline(tmp_path, weighed())
    run(made, max_batch_ticks=1)
    check(made, events())


def parts(folder: Path, release: Tables, **stream: Any) -> list[CounterPart]:
    file = pipeline(folder, weighed(release, **stream)).file
    return list(plan_release(file, file.releases[0]).parts)


def test_each_aggregate_has_a_claim_of_its_own(tmp_path: Path) -> None:
    (there,) = parts(tmp_path, DISTINCT)
    count, total, present = parts(tmp_path, NET)
    assert isinstance(there.statistic, Distinct)
    assert there.statistic.max_changes == 3
    assert there.statistic.tick_sensitivity == Sensitivity(6, 12, 6)
    assert all(isinstance(part.statistic, Sum) for part in (count, total, present))
    assert [part.statistic.tick_sensitivity.l1 for part in (count, total, present)] == [1, 10, 1]
    assert there.statistic.loss.epsilon == 3 * count.statistic.loss.epsilon
    assert all("change" in part.measure.columns for part in (there, count, total))


def test_user_of_one_value_pays_for_its_changes_alone(tmp_path: Path) -> None:
    unit = {"user": "user", "max_events_per_tick": 2, "max_ticks": 5}
    (hashed,) = parts(tmp_path, HASHED, unit=unit)
    assert hashed.statistic.tick_sensitivity == Sensitivity(4, 8, 4)  # two users may share a hash
    columns = COLUMNS | {"user": {"values": ["u0", "u1", "u2"], "max_changes": 2}}
    (known,) = parts(tmp_path, HASHED, unit=unit, columns=columns)
    assert known.statistic.tick_sensitivity == Sensitivity(2, 2, 2)
    shared = columns | {"user": {"values": ["u0"], "other": True, "max_changes": 2}}
    (others,) = parts(tmp_path, HASHED, unit=unit, columns=shared)
    assert others.statistic.tick_sensitivity == Sensitivity(4, 8, 4)


@pytest.mark.parametrize(("values", "texts"), [([1, 2], ("1", "1.0")), ([True, False], ("true", "TRUE"))])
def test_users_whose_texts_share_a_value_pay_for_both(
    tmp_path: Path, values: list[Any], texts: tuple[str, str]
) -> None:
    """Users differ by text, codes by value: a second text moves the one change of the code to another tick."""
    columns = COLUMNS | {"user": {"values": values, "max_changes": 1}}
    unit = {"user": "user", "max_events_per_tick": 2, "max_ticks": 5}
    (part,) = parts(tmp_path, HASHED, unit=unit, columns=columns)
    moved, records = [], [event(55, user=texts[0], change=1), event(5, user=texts[1], change=1)]
    for name, given in (("one", records[:1]), ("both", records)):
        made = pipeline(
            tmp_path, weighed(HASHED, sinks=[], unit=unit, columns=columns, source=f"{name}.jsonl"), f"{name}.toml"
        )
        write(tmp_path, given, f"{name}.jsonl")
        run(made)
        moved.append(np.diff([0, *(value for (value,) in published(made, "users"))]))
    assert np.abs(moved[1] - moved[0]).sum() == 2 <= part.statistic.tick_sensitivity.l1
    assert part.statistic.tick_sensitivity == Sensitivity(2, 4, 2)


def test_the_weight_and_the_changes_are_pinned(tmp_path: Path) -> None:
    file = pipeline(tmp_path, weighed()).file
    text = build_blocks(file.stream, file.lookups, file.releases)["stream"]
    assert '"weight":"change"' in text
    assert '"max_changes":3' in text


def test_the_audit_of_a_file_tries_events_of_both_weights(tmp_path: Path) -> None:
    file = pipeline(tmp_path, weighed()).file
    plans = [plan_release(file, release) for release in file.releases]
    records = CandidateRecords(file, plans, TICKS).list_records(40)
    assert {dict(record.columns)["change"] for record in records} == {-1, 1}


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("SELECT AVG(x) FROM v", "AVG must be used on a stream without a weight, got"),
        ("SELECT VAR_SAMP(x) FROM v", "VAR_SAMP must be used on a stream without a weight, got"),
        ("SELECT MEDIAN(x) FROM v", "must be used on a stream without a weight, got change"),
        ("SELECT MIN(x) FROM v", "MIN must be used on a stream without a weight, got change"),
        ("SELECT COUNT(DISTINCT g) FROM v", "must be of a column with max_changes where events have weights, got g"),
    ],
)
def test_what_has_no_meaning_with_weights_is_refused(tmp_path: Path, release: str, words: str) -> None:
    with pytest.raises(InvalidReleaseError) as refusal:
        parts(tmp_path, {"name": "r", "sql": release, "window": "running"})
    assert words in str(refusal.value)


def test_departures_have_one_window(tmp_path: Path) -> None:
    with pytest.raises(InvalidReleaseError, match='window must be "running" for COUNT'):
        parts(tmp_path, DISTINCT | {"window": "each"})


def test_discovered_groups_are_refused(tmp_path: Path) -> None:
    columns = COLUMNS | {"note": {"max_groups": 9}}
    release = {"name": "r", "sql": "SELECT note, COUNT(*) FROM v GROUP BY note", "delta": "1/1000000"}
    with pytest.raises(InvalidReleaseError, match="groups must be declared where events have weights, got some of not"):
        parts(tmp_path, release, columns=columns, budget={"epsilon": 9, "delta": "1/1000"})


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        ({"weight": "x"}, "stream.weight must be a column that is declared with values = [-1, 1], got x"),
        ({"weight": "other"}, "stream.weight must be a column that is declared with values = [-1, 1], got other"),
        (
            {"columns": COLUMNS | {"change": {"values": [-1, 0, 1]}}},
            "stream.weight must be a column that is declared with values = [-1, 1], got change",
        ),
        ({"weight": None}, "stream.columns.door.max_changes must be left out unless the stream has a weight, got one"),
        (
            {"columns": COLUMNS | {"x": {"bounds": [0, 1], "max_changes": 3}}},
            "stream.columns.x.max_changes must be left out unless there are values or hash_cells, got it without",
        ),
        (
            {"columns": COLUMNS | {"door": {"values": [*DOORS], "max_changes": 0}}},
            "stream.columns.door.max_changes must be",
        ),
        (
            {"pan_private": True, "source": "http", "mode": "streaming", "end": None},
            "stream.weight must be left out with pan_private = true (what is taken back is remembered exactly)",
        ),
    ],
)
def test_a_stream_that_cannot_have_weights_is_refused(tmp_path: Path, stream: Tables, words: str) -> None:
    with pytest.raises(PipelineFileError) as refusal:
        pipeline(tmp_path, weighed(**stream))
    assert words in str(refusal.value)
