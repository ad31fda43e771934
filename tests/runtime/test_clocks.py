"""Clocks: ticks close by a wall clock that a steady clock checks, and never by event times."""

from pathlib import Path
from threading import Event as Flag

import pytest

from streamgauge.clock import CheckedClock, ClockJumpError, SystemClock
from streamgauge.testing.noise import ManualClock
from tests.support.pipelines import (
    SECOND,
    START,
    as_they_happen,
    event,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
)

TICK = 10 * SECOND


def test_a_clock_may_drift_by_a_tick_and_no_further() -> None:
    clock = ManualClock(START)
    watched = CheckedClock(clock, TICK)
    for drift in (TICK, -TICK, 0):
        clock.drift = drift
        assert watched.now() == START + drift
    for drift in (TICK + 1, -TICK - 1):
        clock.drift = drift
        with pytest.raises(ClockJumpError, match=r"within a tick, got [+-]10\.0 s.*run --accept-clock"):
            watched.now()


def test_time_that_passes_on_both_clocks_is_no_jump() -> None:
    clock = ManualClock(START)
    watched = CheckedClock(clock, TICK)
    clock.sleep(1000 * TICK)
    assert watched.now() == START + 1000 * TICK


def test_accepted_clock_is_checked_from_then_on() -> None:
    clock = ManualClock(START)
    watched = CheckedClock(clock, TICK, accepts_jumps=True)
    clock.drift = 5 * TICK
    assert watched.now() == START + 5 * TICK
    watched.accepts_jumps = False
    assert watched.now() == START + 5 * TICK
    clock.drift = 0
    with pytest.raises(ClockJumpError):
        watched.now()


def test_the_machines_clock_has_whole_microseconds_and_sleeps() -> None:
    clock = SystemClock()
    before = clock.now(), clock.steady()
    clock.sleep(1000)
    assert isinstance(clock.now(), int)
    assert clock.steady() > before[1]
    assert clock.now() > 1_600_000_000 * SECOND


def test_run_after_clock_jump_closes_nothing_until_accepted(tmp_path: Path) -> None:
    """At second 32 the wall clock is set forward by 40 s: ticks 3 to 6 would close without their events."""
    made = pipeline(tmp_path, tables(live=True, end="2026-01-05T00:02:00Z"))
    clock = world(tmp_path, as_they_happen(one_a_second(60)))
    clock.acts[32] = lambda: setattr(clock, "drift", 40 * SECOND)
    with pytest.raises(ClockJumpError):
        run(made, clock=clock)
    assert ticks_of(made) == [1, 2]
    stop = Flag()
    clock.acts[34] = stop.set
    run(made, clock=clock, stop=stop, accept_clock=True)  # by the new clock it is second 74
    assert ticks_of(made) == [1, 2, 3, 4, 5, 6]


def test_a_clock_that_is_set_back_closes_no_tick_twice(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(live=True, end="2026-01-05T00:01:00Z"))
    clock = world(tmp_path, as_they_happen(one_a_second(200)))
    clock.acts[42] = lambda: setattr(clock, "drift", -30 * SECOND)
    run(made, clock=clock, accept_clock=True)
    assert ticks_of(made) == [1, 2, 3, 4, 5, 6]
    assert clock.second >= 65 + 30


def test_a_record_from_2099_moves_nothing(tmp_path: Path) -> None:
    """With and without it, all other records are in the same ticks, which close at the same times."""
    texts = []
    for later in ([], [event(73 * 365 * 86400)]):
        folder = tmp_path / str(len(later))
        folder.mkdir()
        made = pipeline(folder, tables(live=True, end="2026-01-05T00:01:00Z"))
        clock = world(folder, as_they_happen(one_a_second(60)) | {7: later})
        closed = [(clock.second, [each.tick for each in ticks]) for ticks in made.ticks(clock=clock)]
        texts.append((closed, ticks_of(made)))
    assert texts[0] == texts[1]
    assert [ticks for _, ticks in texts[0][0]] == [[1], [2], [3], [4], [5], [6]]


def test_a_record_from_2099_is_counted_nowhere(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(live=True, end="2026-01-05T00:01:00Z"))
    later = [event(73 * 365 * 86400), event(10**12), event(-(10**9))]
    run(made, clock=world(tmp_path, as_they_happen(one_a_second(60)) | {7: later}))
    assert published(made) == [[5.0, 5.0]] * 6
