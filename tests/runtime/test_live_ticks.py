"""Live ticks: their closing times and contents, checked by hand under silent noise."""

from contextlib import closing
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.runtime.live.run import LiveRun
from streamgauge.runtime.options import Progress
from streamgauge.sources.tail import FollowedFile
from streamgauge.testing.noise import SilentNoise
from tests.support.pipelines import (
    COUNTS,
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
)

MINUTE = {"live": True, "end": "2026-01-05T00:01:00Z"}


def counts(folder: Path, happens: dict[float, list[Tables]], **stream: Any) -> list[list[float]]:
    """Return the counts of six ticks of ten seconds, of groups a and b."""
    made = pipeline(folder, tables(**(MINUTE | stream)))
    run(made, clock=world(folder, happens))
    return published(made)


def stopped(made: Pipeline, clock: World, second: float, **settings: Any) -> Pipeline:
    """Run a pipeline up to a second."""
    stop = Flag()
    clock.acts[second] = stop.set
    run(made, clock=clock, stop=stop, **settings)
    return made


def test_a_tick_closes_when_its_end_and_lateness_have_passed(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(**MINUTE))
    clock = world(tmp_path, as_they_happen(one_a_second(60)))
    closed = [(each.tick, clock.second) for ticks in made.ticks(clock=clock, noise=SilentNoise()) for each in ticks]
    assert closed == [(tick, 10 * tick + 5) for tick in range(1, 7)]
    assert published(made) == [[5.0, 5.0]] * 6


def test_empty_ticks_are_released_like_any_other(tmp_path: Path) -> None:
    assert counts(tmp_path, {}) == [[0.0, 0.0]] * 6
    assert len(lines(tmp_path / "out.jsonl")) == 12


def test_late_event_before_deadline_counts_in_its_tick(tmp_path: Path) -> None:
    assert counts(tmp_path, {14: [event(3)], 35: [event(20)]}) == [[1, 0], [0, 0], [1, 0], *[[0, 0]] * 3]


def test_a_late_event_is_dropped(tmp_path: Path) -> None:
    assert counts(tmp_path, {17: [event(3)], 59: [event(3)]}) == [[0, 0]] * 6


def test_late_event_is_carried_into_oldest_open_tick(tmp_path: Path) -> None:
    """At 17 s tick 2 is the oldest open one, at 59 s tick 6; an event from before the start is in no tick."""
    happens = {17: [event(3)], 59: [event(3, "b"), event(-1)]}
    assert counts(tmp_path, happens, late="next_tick") == [[0, 0], [1, 0], [0, 0], [0, 0], [0, 0], [0, 1]]


def test_early_event_counts_up_to_declared_earliness(tmp_path: Path) -> None:
    """At 2 s, events of up to 20 s ahead may be in ticks up to that of 22 s, the third."""
    assert counts(tmp_path, {2: [event(29), event(30, "b")]}) == [[0, 0], [0, 0], [1, 0], *[[0, 0]] * 3]


def test_dropped_events_are_counted_for_curator(tmp_path: Path) -> None:
    observed: list[Progress] = []
    made = pipeline(tmp_path, tables(**MINUTE))
    happens = {2: [event(1), event(40), event(-5), {"g": "a"}], 30: [event(3)]}
    run(made, clock=world(tmp_path, happens), on_progress=observed.append)
    dropped = {rule: count for rule, count in observed[-1].dropped.items() if count}
    assert (observed[-1].events, dropped) == (5, {"late": 1, "early": 1, "outside": 1, "no time": 1})


def test_an_hours_downtime_loses_nothing(tmp_path: Path) -> None:
    """Stopped at 22 s and started an hour later: all ticks are due, but the backlog is read first."""
    made = pipeline(tmp_path, tables(**MINUTE))
    stopped(made, world(tmp_path, as_they_happen(one_a_second(20))), 22)
    assert ticks_of(made) == [1]
    backlog = {float(second): [each] for second, each in enumerate(one_a_second(60)) if second >= 20}
    run(made, clock=world(tmp_path, backlog, at=3600))
    assert published(made) == [[5.0, 5.0]] * 6


def test_a_first_run_long_after_the_start_loses_nothing(tmp_path: Path) -> None:
    assert counts(tmp_path, {}) == [[0.0, 0.0]] * 6
    late = tmp_path / "late"
    late.mkdir()
    made = pipeline(late, tables(**MINUTE))
    run(made, clock=world(late, {0: one_a_second(60)}, at=86400))
    assert published(made) == [[5.0, 5.0]] * 6


def test_twin_that_closes_ticks_before_backlog_loses_events(tmp_path: Path) -> None:
    class HurriedRun(LiveRun):
        def read_all(self) -> None:
            if self.find_due_tick() == self.closed_tick:
                super().read_all()

    made = pipeline(tmp_path, tables(**MINUTE))
    run(made, clock=world(tmp_path, {0: one_a_second(60)}, at=3600), components={LiveRun: HurriedRun})
    assert published(made) == [[0.0, 0.0]] * 6


def follow_in_small_blocks(folder: Path) -> FollowedFile:
    return FollowedFile(folder / "v.jsonl", has_header=False, block_bytes=512)


def test_backlog_of_many_blocks_is_read_before_tick_closes(tmp_path: Path) -> None:
    made, steps = pipeline(tmp_path, tables(**MINUTE)), []
    clock = world(tmp_path, {0: one_a_second(60)}, at=3600)
    with closing(follow_in_small_blocks(tmp_path)) as source:
        run(made, clock=clock, source=source, step=steps.append)
    assert steps.count("block_read") > 2
    assert published(made) == [[5.0, 5.0]] * 6


def test_stop_during_backlog_closes_no_tick_early(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(**MINUTE))
    clock, stop = world(tmp_path, {0: one_a_second(60)}, at=3600), Flag()
    read = []

    def step(name: str) -> None:
        if name == "block_read":
            read.append(name)
            stop.set()

    with closing(follow_in_small_blocks(tmp_path)) as source:
        run(made, clock=clock, stop=stop, step=step, source=source)
        assert not source.at_end
    assert (len(read), ticks_of(made)) == (1, [])
    run(made, clock=clock)
    assert published(made) == [[5.0, 5.0]] * 6


def test_a_closed_tick_never_opens_again(tmp_path: Path) -> None:
    """A restarted run drops late events, although an earlier run closed their tick."""
    made = pipeline(tmp_path, tables(**MINUTE))
    stopped(made, world(tmp_path, as_they_happen(one_a_second(20))), 22)
    before = published(made)
    stopped(made, world(tmp_path, {23: [event(2), event(3, "b")]}, at=22), 26)
    assert ticks_of(made) == [1, 2]
    assert published(made) == [*before, [5.0, 5.0]]


def test_the_end_of_the_stream_ends_the_run(tmp_path: Path) -> None:
    clock = world(tmp_path)
    run(pipeline(tmp_path, tables(**MINUTE)), clock=clock)
    assert clock.second == 65
    assert str(run(pipeline(tmp_path, tables(**MINUTE)), clock=clock)) == "nothing was left to publish"


def test_run_ends_when_all_its_releases_end(tmp_path: Path) -> None:
    """A live stream without an end, with releases that have horizons."""
    short, long = ({"name": name, "sql": COUNTS, "horizon": span} for name, span in (("s", "20s"), ("l", "40s")))
    made = pipeline(tmp_path, tables(short, long, live=True))
    clock = world(tmp_path, as_they_happen(one_a_second(60)))
    run(made, clock=clock)
    assert (ticks_of(made, "s"), ticks_of(made, "l"), clock.second) == ([1, 2], [1, 2, 3, 4], 45)


def test_a_new_release_starts_after_every_tick_that_was_open(tmp_path: Path) -> None:
    """It has no event of a tick that was partly read before the request."""
    happens = as_they_happen(one_a_second(100))
    made = pipeline(tmp_path, tables(live=True))
    stopped(made, world(tmp_path, happens), 47)
    both = tables({"name": "counts", "sql": COUNTS}, {"name": "new", "sql": COUNTS}, live=True)
    made = stopped(pipeline(tmp_path, both), world(tmp_path, {100: []}, at=47), 48)
    (first,) = [entry.first for name, entry in made.ledger().releases.items() if name == "new"]
    assert first == 8  # when tick 4 closed at 45 s, ticks up to that of 65 s, the 7th, were open
    rest = {second: events for second, events in happens.items() if second > 45}
    stopped(made, world(tmp_path, rest, at=48), 97)
    assert ticks_of(made, "new") == [8, 9]
    assert published(made, "new") == published(made)[7:] == [[5.0, 5.0]] * 2


SECONDS = list(range(60))
BY_TICK = [SECONDS[tick : tick + 10] for tick in range(0, 60, 10)]


def answers(folder: Path, release: Tables, events: list[Tables] | None = None, **stream: Any) -> Pipeline:
    """Return the pipeline after a run of one minute with one event a second."""
    made = pipeline(folder, tables({"name": "r", **release}, **(MINUTE | stream)))
    run(made, clock=world(folder, as_they_happen(events or one_a_second(60))))
    return made


def test_a_running_sum_is_the_sum_of_all_so_far(tmp_path: Path) -> None:
    made = answers(tmp_path, {"sql": "SELECT SUM(x), COUNT(*) FROM v", "window": "running"})
    sums = [sum(s % 11 for s in range(end)) for end in range(10, 61, 10)]
    assert [row[0] for row in published(made, "r")] == sums
    assert [row[0] for row in published(made, "r", 1)] == list(range(10, 61, 10))


def test_a_sliding_sum_is_that_of_the_last_ticks(tmp_path: Path) -> None:
    made = answers(tmp_path, {"sql": "SELECT SUM(x) FROM v", "window": "sliding 30s"})
    sums = [sum(s % 11 for s in range(max(0, end - 30), end)) for end in range(10, 61, 10)]
    assert [row[0] for row in published(made, "r")] == sums


def test_a_decayed_count_is_halved_with_every_half_life(tmp_path: Path) -> None:
    made = answers(tmp_path, {"sql": "SELECT COUNT(*) FROM v", "window": "decayed half-life 20s"})
    expected, level = [], 0.0
    for tick in BY_TICK:
        level = level * 0.5**0.5 + len(tick)
        expected.append(level)
    assert [row[0] for row in published(made, "r")] == pytest.approx(expected)


@pytest.mark.parametrize("mechanism", ["auto", "PolynomialDecay"])
def test_a_polynomial_decay_weighs_by_a_power_of_the_age(tmp_path: Path, mechanism: str) -> None:
    release = {"window": "decayed polynomial 1.5", "horizon": "60s", "mechanism": mechanism}
    made = answers(tmp_path, {"sql": "SELECT COUNT(*) FROM v", **release})
    expected = [
        sum(len(tick) * (1 + end - at) ** -1.5 for at, tick in enumerate(BY_TICK[: end + 1]))
        for end in range(len(BY_TICK))
    ]
    assert [row[0] for row in published(made, "r")] == pytest.approx(expected)


def test_rows_of_a_rollup_add_up_and_carry_their_level(tmp_path: Path) -> None:
    sql = "SELECT g, x > 5 AS big, COUNT(*) FROM v GROUP BY ROLLUP (g, big)"
    made = answers(tmp_path, {"sql": sql})
    places = made.releases("r").shape.groups
    assert [place.level for place in places] == [2, 2, 2, 2, 1, 1, 0]
    for tick, values in zip(BY_TICK, published(made, "r"), strict=True):
        exact = {
            place: sum(
                all({"g": "ab"[s % 2], "big": s % 11 > 5}[name] == label for name, label in place.labels) for s in tick
            )
            for place in places
        }
        assert values == list(exact.values())


def people(seconds: int, of: int) -> list[Tables]:
    return [event(s, u=f"u{s // of}") for s in range(seconds)]


@pytest.mark.parametrize(
    ("window", "exact"), [("each", [len({s // 7 for s in tick}) for tick in BY_TICK]), ("running", [2, 3, 5, 6, 8, 9])]
)
def test_distinct_users_are_counted_per_tick_or_at_first_appearance(
    tmp_path: Path, window: str, exact: list[int]
) -> None:
    columns = {**tables()["stream"]["columns"], "u": {"values": [f"u{i}" for i in range(9)]}}
    sql = "SELECT COUNT(DISTINCT u) FROM v"
    made = answers(tmp_path, {"sql": sql, "window": window}, people(60, 7), columns=columns)
    assert [row[0] for row in published(made, "r")] == exact


def test_distinct_users_are_remembered_after_restart(tmp_path: Path) -> None:
    columns = {**tables()["stream"]["columns"], "u": {"values": [f"u{i}" for i in range(9)]}}
    release = {"name": "r", "sql": "SELECT COUNT(DISTINCT u) FROM v", "window": "running"}
    made = pipeline(tmp_path, tables(release, columns=columns, **MINUTE))
    happens, at = as_they_happen(people(60, 7)), 0
    for second in (9, 18, 27, 41, 55, 90):
        part = {when: events for when, events in happens.items() if at <= when < second}
        stopped(made, world(tmp_path, part, at=at), second)
        at = second
    assert [row[0] for row in published(made, "r")] == [2, 3, 5, 6, 8, 9]


USERS = {"user": "u", "max_events_per_tick": 2, "max_ticks": 3}


@pytest.mark.parametrize("restarts", [(), (7, 13, 26, 27, 41)])
def test_users_are_bounded_per_tick_and_stream_despite_restarts(tmp_path: Path, restarts: tuple[int, ...]) -> None:
    """Three users have 3 or 4 events in every tick: two of each survive, in the first three ticks."""
    made = pipeline(tmp_path, tables({"name": "r", "sql": "SELECT COUNT(*) FROM v"}, unit=USERS, **MINUTE))
    happens, at = as_they_happen(one_a_second(60)), 0
    for second in (*restarts, 90):
        part = {when: events for when, events in happens.items() if at <= when < second}
        stopped(made, world(tmp_path, part, at=at), second)
        at = second
    assert [row[0] for row in published(made, "r")] == [6, 6, 6, 0, 0, 0]


def test_twin_that_forgets_users_at_restart_counts_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgauge.engines.duckdb.user_bounds.UserBounds.restore", lambda bounds, state: None)
    made = pipeline(tmp_path, tables({"name": "r", "sql": "SELECT COUNT(*) FROM v"}, unit=USERS, **MINUTE))
    happens = as_they_happen(one_a_second(60))
    stopped(made, world(tmp_path, {w: e for w, e in happens.items() if w < 36}), 36)
    stopped(made, world(tmp_path, {w: e for w, e in happens.items() if w >= 36}, at=36), 90)
    assert [row[0] for row in published(made, "r")] != [6, 6, 6, 0, 0, 0]
