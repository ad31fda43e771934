"""The crash law on pan-private pipelines, killed between any two steps of a commit.

A killed run loses the events of its open tick and nothing else. No published value changes, is missing or appears
twice, and the ledger is that of an unbroken run. Without noise, every tick that was not open at a crash has the
counts of an unbroken run.
"""

import pytest

from tests.support.crash_readers import Watched, unbroken


def killed(run, *deaths):
    """Kill the run at given occurrences of steps, and finish it; return the ticks that may lose events."""
    lost = set()
    for step, time in deaths:
        end = run.child(at=[step, time, "kill"])
        assert end.killed, end.error
        lost |= {run.tick + 1, run.tick + 2}  # events sent with the end of a tick belong to the next
    run.finish()
    run.whole()
    return lost


def accepted(series):
    """Return the increments of the counts by group and tick."""
    counts = {(group, tick): said[0] for (name, tick, group, _), said in series.items() if name == "counts"}
    return {(group, tick): count - counts.get((group, tick - 1), 0) for (group, tick), count in counts.items()}


def counted_but_for(run, lost):
    before, after = accepted(unbroken(run.kind).series), accepted(run.seen)
    for (group, tick), count in before.items():
        got = after[group, tick]
        right = 0 <= got <= count if tick in lost else got == count
        assert right, f"tick {tick} must count {count} of {group}, got {got}"


def test_killed_counters_lose_only_events_of_open_ticks():
    with Watched("private") as run:
        lost = killed(run, ("noise_drawn", 2), ("store_committed", 2))
        assert 1 < len(lost) < 5
        counted_but_for(run, lost)
        with pytest.raises(AssertionError, match="must count"):  # events were lost, so this check can fail
            counted_but_for(run, set())


def test_killed_user_tables_publish_every_tick_once():
    with Watched("private users") as run:
        killed(run, ("guard_written", 3), ("noise_drawn", 1))


def test_killed_sketches_publish_every_tick_once():
    with Watched("private sketched") as run:
        killed(run, ("noise_drawn", 2), ("store_committed", 2))


def test_twin_that_publishes_before_commit_is_caught():
    with (
        Watched("private often", twin="publish_first") as run,
        pytest.raises(AssertionError, match="must have one value"),
    ):
        killed(run, ("releases_packed", 4))
