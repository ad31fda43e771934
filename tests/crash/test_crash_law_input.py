"""The crash law on standard input, which cannot be read again.

Batch: nothing is published before its end, and a restart reads the same bytes again.
Live: committed records stay, uncommitted records are lost, and none is counted twice.
"""

from collections import Counter

import pytest

from tests.support.crash_readers import Watched, unbroken
from tests.support.crash_streams import KINDS, PACE, START, TICK, group, moment

IN_HAND = ("block_read", "releases_packed", "commit_begun", "rows_written", "slot_written")  # read, and not committed


@pytest.mark.one_of_each
@pytest.mark.parametrize("how", ["kill", "fault"])
def test_batch_input_piped_again_after_every_crash_is_one_run(how):
    with Watched("input") as run:
        for step in unbroken("input").first:
            run.child(at=[step, 1, how])
        run.finish()
        run.whole()
        run.silent()


def test_live_input_loses_only_uncommitted_records():
    with Watched("live input") as run:
        lost = set()
        for step in unbroken("live input").often:
            assert run.child(at=[step, 1, "kill"]).killed
            if step in IN_HAND:
                lost |= set(range(came(run) - PACE, came(run)))
        run.finish()
        run.whole()
        assert counted(run) == expected(set(range(came(run))) - lost)


def came(run):
    return (run.folder / "v.jsonl").read_bytes().count(b"\n")


def counted(run):
    """Return the published event counts by tick and group, which have no noise."""
    return {
        (tick, where): said[0]
        for (name, tick, where, measure), said in run.published("out.jsonl")
        if (name, measure) == ("each", "count") and said[0]
    }


def expected(numbers):
    ticks = KINDS["live input"].ticks
    places = ((int(moment(number) - START) // TICK + 1, group(number)) for number in numbers)
    return Counter((tick, f'{{"g": "{where}"}}') for tick, where in places if tick <= ticks)
