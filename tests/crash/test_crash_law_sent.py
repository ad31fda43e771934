"""The crash law on events sent to the server: acknowledged events are counted, and repeated ones only once.

After each crash the sender sends its unacknowledged batches again, and some acknowledged ones. Each crash is
between two steps of a commit, or between a commit and its acknowledgement.
"""

import pytest

from tests.support.crash_readers import Watched, unbroken

CAUGHT = [
    ("acknowledge_what_was_read", "block_read"),  # acknowledged, and never counted
    ("forget_the_keys", "store_committed"),  # counted, not acknowledged, and counted again
    ("forget_too_soon", "store_committed"),  # sent again after it was acknowledged, and counted again
]


def deaths(run: Watched, steps: tuple[str, ...], time: int = 2) -> None:
    for step in steps:
        end = run.child(at=[step, time, "kill"])
        assert end.killed, end.error
    run.finish()
    run.whole()
    run.silent()


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", ["sent", "sent users"])
def test_sent_batches_are_counted_once_despite_crashes_at_every_step(kind):
    with Watched(kind) as run:
        for step in unbroken(kind).first:
            assert run.child(at=[step, 1, "kill"]).killed
        deaths(run, unbroken(kind).often)


@pytest.mark.parametrize(("twin", "step"), CAUGHT)
def test_twin_that_acknowledges_or_forgets_too_soon_is_caught(twin, step):
    with Watched("sent", twin=twin) as run, pytest.raises(AssertionError, match="series must be that of"):
        deaths(run, (step,) * 4, time=4)


def test_correct_server_passes_same_crashes():
    with Watched("sent") as run:
        deaths(run, ("block_read", "store_committed") * 2, time=4)
