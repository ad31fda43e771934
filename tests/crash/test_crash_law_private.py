"""The crash law on pan-private pipelines, killed between any two steps of a commit.

What a run had taken in of the tick that is open is lost with it, and nothing else: no value that a reader saw
changes, none is missing and none is there twice, the ledger is that of an unbroken run; and without noise all
ticks but those that were open at a death count what they would have counted.
"""

import pytest

from tests.support.crash_readers import Watched, unbroken


def killed(run, *deaths):
    """Kills it at steps, each the so-manieth of its name; tells which ticks something may be lost of."""
    lost = set()
    for step, time in deaths:
        end = run.child(at=[step, time, "kill"])
        assert end.killed, end.error
        lost |= {run.tick + 1, run.tick + 2}  # what was sent together with the end of a tick is of the next
    run.finish()
    run.whole()
    return lost


def accepted(series):
    """What each tick added to the counts, by group and tick."""
    counts = {(group, tick): said[0] for (name, tick, group, _), said in series.items() if name == "counts"}
    return {(group, tick): count - counts.get((group, tick - 1), 0) for (group, tick), count in counts.items()}


def counted_but_for(run, lost):
    before, after = accepted(unbroken(run.kind).series), accepted(run.seen)
    for (group, tick), count in before.items():
        got = after[group, tick]
        right = 0 <= got <= count if tick in lost else got == count
        assert right, f"tick {tick} must count {count} of {group}, got {got}"


def test_counters_that_were_killed_lose_what_was_open_and_nothing_else():
    with Watched("private") as run:
        lost = killed(run, ("noise_drawn", 2), ("store_committed", 2))
        assert 1 < len(lost) < 5
        counted_but_for(run, lost)
        with pytest.raises(AssertionError, match="must count"):  # something was, so more would be seen
            counted_but_for(run, set())


def test_tables_of_users_that_were_killed_publish_every_tick_once_and_from_one_draw():
    with Watched("private users") as run:
        killed(run, ("guard_written", 3), ("noise_drawn", 1))


def test_releases_that_leave_before_their_commit_are_caught():
    with (
        Watched("private often", twin="publish_first") as run,
        pytest.raises(AssertionError, match="must have one value"),
    ):
        killed(run, ("releases_packed", 4))
