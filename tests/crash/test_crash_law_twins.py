"""Broken twins of the publisher, which the crash law must catch."""

import pytest

from tests.support.crash_readers import Watched

CAUGHT = [
    ("publish_first", "brief", "commit_begun", "must have one value, got another in out.jsonl"),
    ("draw_again", "brief", "store_committed", "must have one value, got another in out.jsonl"),
    ("draw_again", "brief", "sink_written", "must have one value, got another in out.jsonl"),
    (
        "forget_the_state",
        "brief",
        "store_committed",
        "must come to its end, got StoreError: tick must be released once",
    ),
    ("mark_first", "brief", "sink_position_saved", "out.jsonl must have 72 values, got 54"),
    ("forget_what_waits", "brief live", "commit_begun", "series must be that of an unbroken run"),
    ("forget_the_users", "brief live", "commit_begun", "series must be that of an unbroken run"),
]


def law(twin, kind, step, *, noisy):
    """Kill a run three times at a step, finish it, and check the crash law."""
    with Watched(kind, noisy=noisy, twin=twin) as run:
        for time in (3, 4, 5):
            run.child(at=[step, time, "kill"])
        run.finish()
        run.whole()
        if not noisy:
            run.silent()


@pytest.mark.parametrize(("twin", "kind", "step", "caught"), CAUGHT)
def test_twin_that_publishes_draws_or_forgets_wrongly_is_caught(twin, kind, step, caught):
    with pytest.raises(AssertionError, match=caught):
        law(twin, kind, step, noisy=kind == "brief")


@pytest.mark.parametrize(("kind", "noisy"), [("brief", True), ("brief live", False)])
def test_correct_publisher_passes_same_crashes(kind, noisy):
    law(None, kind, "commit_begun", noisy=noisy)
