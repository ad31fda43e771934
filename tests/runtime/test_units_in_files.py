"""Units in files: users whose contributions renew, whole ticks, and events that are replaced."""

from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Event, Pure, Tick, User, Zcdp
from streamgauge.config.errors import InvalidReleaseError, PipelineFileError
from streamgauge.plan.planner import plan_release
from streamgauge.privacy import IntegerZcdp
from tests.support.pipelines import (
    COUNTS,
    Tables,
    as_they_happen,
    event,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
    write,
)

USERS = {"user": "u", "max_events_per_tick": 1, "max_ticks": 2}
RENEWED = USERS | {"per": "50s"}
ALL = {"name": "all", "sql": "SELECT COUNT(*) FROM v"}


def counts(folder: Path, events: list[Tables], unit: Any, release: Tables = ALL, **stream: Any) -> list[list[float]]:
    write(folder, events)
    made = pipeline(folder, tables(release, unit=unit, **stream))
    run(made)
    return published(made, "all")


def test_series_of_regular_users_does_not_fade(tmp_path: Path) -> None:
    found = [row[0] for row in counts(tmp_path, one_a_second(), RENEWED)]
    assert found == [3, 3, 0, 0, 0] * 2


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (USERS, [3, 3, 0, 0, 0, 0, 0, 0, 0, 0]),
        (RENEWED | {"max_ticks": 4, "per": "40s", "renewal": "10s"}, [3] * 10),
        ({"user": "u", "max_events_per_tick": 2, "per": "20s"}, [6] * 10),
        ({"tick": 4}, [4] * 10),
    ],
)
def test_counted_events_follow_from_the_unit(tmp_path: Path, unit: Any, expected: list[float]) -> None:
    assert [row[0] for row in counts(tmp_path, one_a_second(), unit)] == expected


def test_live_run_that_stops_in_every_block_counts_as_one(tmp_path: Path) -> None:
    """A user may have two of five ticks, and runs end in a block and at its end."""
    happens = as_they_happen([event(10 * tick + 2, u="ann") for tick in range(11)])
    made = pipeline(tmp_path, tables(ALL, live=True, unit=RENEWED))
    at = 0.0
    for second in (18, 57, 63, 106, 130):
        clock, stop = world(tmp_path, {when: each for when, each in happens.items() if when > at}, at=at), Flag()
        clock.acts[second] = stop.set
        run(made, clock=clock, stop=stop)
        at = clock.second
    assert [row[0] for row in published(made, "all")][:11] == [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1]


def test_plan_states_window_charged_ticks_and_longer_times(tmp_path: Path) -> None:
    plan = pipeline(tmp_path, tables(unit=RENEWED | {"max_ticks": 4, "per": "80s"})).plan()
    said = (
        'a u over any 1m20s, charged as 16 ticks (renewal = "20s" would be charged as 7); '
        "n times 1m20s lose n times the epsilon, or n^2 times the rho"
    )
    assert f"\n  renews    {said}\n" in str(plan)
    assert plan.to_json()["unit"]["renewal"] == said
    assert "one user, in any 8 ticks in a row: at most 1 event a tick, in at most 4 ticks of each 8 ticks" in str(plan)


def test_release_that_ends_frees_later_windows_of_users(tmp_path: Path) -> None:
    unit = pipeline(tmp_path, tables(unit=RENEWED)).file.stream.unit
    assert unit == User(1, 2, per=5)
    assert unit.frees_unused_ticks


@pytest.mark.parametrize(
    ("sql", "expected"), [("SELECT SUM(x), AVG(x), COUNT(*) FROM v", 20), ("SELECT MEDIAN(x), VAR_SAMP(x) FROM v", 4)]
)
def test_tick_unit_answers_several_numbers_an_event(tmp_path: Path, sql: str, expected: float) -> None:
    events = [event(10 * tick + second, x=4) for tick in range(10) for second in range(9)]
    found = counts(tmp_path, events, {"tick": 5}, ALL | {"sql": sql})
    assert [row[0] for row in found] == pytest.approx([expected] * 10, abs=0.1)


def test_tick_unit_discovers_groups(tmp_path: Path) -> None:
    release = ALL | {"sql": "SELECT u, COUNT(*) FROM v GROUP BY u", "delta": "1/1000"}
    budget = {"epsilon": 1, "delta": "1/100"}
    write(tmp_path, one_a_second())
    made = pipeline(
        tmp_path, tables(release, unit={"tick": 4}, budget=budget, columns={"u": {"max_groups": 9}}, sinks=[])
    )
    run(made)
    assert ticks_of(made, "all") == list(range(1, 11))


@pytest.mark.parametrize(("cost", "each"), [({"epsilon": "1/2"}, Pure("1/4")), ({"rho": "1/2"}, Zcdp("1/8"))])
def test_replaced_event_is_one_removed_and_one_added(tmp_path: Path, cost: Tables, each: Any) -> None:
    budget = {"epsilon": 1} if "epsilon" in cost else {"rho": 1}
    release = {"name": "all", "sql": COUNTS, "window": "each", **cost}
    made = tables(budget=budget, adjacency="replace")
    made["release"] = [release]
    plan = pipeline(tmp_path, made).plan()
    assert "one event, or another in its place at any time" in str(plan)
    file = pipeline(tmp_path, made).file
    (part,) = plan_release(file, file.releases[0]).parts
    assert (part.statistic.loss, part.statistic.unit) == (each, Event())
    assert each.group(2) == type(each)("1/2")


def test_replaced_events_and_discovered_groups_are_refused_together(tmp_path: Path) -> None:
    release = ALL | {"sql": "SELECT u, COUNT(*) FROM v GROUP BY u", "delta": "1/1000"}
    budget = {"epsilon": 1, "delta": "1/100"}
    made = tables(release, adjacency="replace", budget=budget, columns={"u": {"max_groups": 9}})
    file = pipeline(tmp_path, made).file
    with pytest.raises(InvalidReleaseError, match='delta must be left out where adjacency = "replace"'):
        plan_release(file, file.releases[0])


def test_replaced_events_are_never_charged_at_integer_orders(tmp_path: Path) -> None:
    made = tables(live=True, pan_private=True, source="http", allowed_lateness="0s", allowed_earliness="0s")
    made["stream"]["budget"] = {"epsilon": 1, "delta": "1/1000000"}
    made["release"] = [ALL | {"rho": "1/200"}]
    for adjacency, charged in (("add_remove", IntegerZcdp("1/200")), ("replace", Zcdp("1/200"))):
        made["stream"]["adjacency"] = adjacency
        file = pipeline(tmp_path, made).file
        plan = plan_release(file, file.releases[0])
        assert plan.charged_loss == charged
        assert charged.group(plan.stream.unit.ticks)  # what the halves of a replacement rest on


@pytest.mark.parametrize("unit", [{"tick": 3}, {"w_event": 4}, USERS])
def test_only_single_events_are_replaced(tmp_path: Path, unit: Any) -> None:
    with pytest.raises(PipelineFileError, match='adjacency must be left out unless unit = "event"'):
        pipeline(tmp_path, tables(unit=unit, adjacency="replace"))


@pytest.mark.parametrize("unit", [{"tick": 3}, RENEWED])
def test_late_events_are_not_carried_out_of_their_unit(tmp_path: Path, unit: Any) -> None:
    with pytest.raises(PipelineFileError, match="late events of one unit would count in any number of later ticks"):
        pipeline(tmp_path, tables(live=True, late="next_tick", unit=unit))


def test_late_events_of_a_whole_tick_are_dropped(tmp_path: Path) -> None:
    """Events of the first tick that arrive one a tick, long after it, move no later tick."""
    happens = {10.0 * tick + 7: [event(3 + tick / 10)] for tick in range(9)}
    stop = Flag()
    clock = world(tmp_path, happens)
    clock.acts[100] = stop.set
    made = pipeline(tmp_path, tables(ALL, live=True, unit={"tick": 5}))
    run(made, clock=clock, stop=stop)
    assert [row[0] for row in published(made, "all")] == [1, *[0] * 8]


@pytest.mark.parametrize(
    ("unit", "refusal"),
    [
        ({"tick": 3}, "events of an open tick would be counted exactly"),
        (RENEWED, "bounds take an exact memory of users"),
        ({"user": "u", "per": "1m"}, "stream.unit.per must be left out with pan_private = true"),
    ],
)
def test_pan_private_stream_refuses_units_with_memory(tmp_path: Path, unit: Any, refusal: str) -> None:
    with pytest.raises(PipelineFileError, match=refusal):
        pipeline(tmp_path, tables(live=True, pan_private=True, source="http", format="jsonl", unit=unit))


def test_units_of_files_are_pinned_and_read_back(tmp_path: Path) -> None:
    for name, declared, unit in (
        ("renewed", {"unit": RENEWED}, User(1, 2, per=5)),
        ("tick", {"unit": {"tick": 4}}, Tick(4)),
        ("replace", {"adjacency": "replace"}, Event(replace=True, moves=True)),
    ):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, one_a_second())
        made = pipeline(folder, tables(**declared))
        run(made)
        assert made.ledger().unit == unit
        assert made.ledger().require_ledger().spent_loss() == Pure("1/2")
