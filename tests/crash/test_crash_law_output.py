"""The crash law on standard output, which cannot be taken back: whole lines, at least once, one value.

After a death between printing and marking, the lines of one commit come again, equal to the first.
"""

from collections import Counter

from tests.support.crash_readers import Watched


def test_what_was_printed_and_not_marked_is_printed_again_and_is_the_same():
    with Watched("printed", noisy=True) as run:
        for step in ("store_committed", "sink_written", "sink_position_saved"):
            assert run.child(at=[step, 2, "kill"]).killed
        run.finish()
        run.whole()
        printed = Counter((run.folder / "-").read_bytes().splitlines())
        assert set(printed.values()) == {1, 2}
        twice = {key[1] for key, times in Counter(key for key, _ in run.published("-")).items() if times > 1}
        assert len(twice) == 1  # the tick that was printed when it died
