"""The crash law on standard output, which cannot be truncated: whole lines, at least once, one value.

After a crash between printing and saving the position, the lines of one commit are printed again, unchanged.
"""

from collections import Counter

from tests.support.crash_readers import Watched


def test_lines_printed_before_crash_are_printed_again_unchanged():
    with Watched("printed", noisy=True) as run:
        for step in ("store_committed", "sink_written", "sink_position_saved"):
            assert run.child(at=[step, 2, "kill"]).killed
        run.finish()
        run.whole()
        printed = Counter((run.folder / "-").read_bytes().splitlines())
        assert set(printed.values()) == {1, 2}
        twice = {key[1] for key, times in Counter(key for key, _ in run.published("-")).items() if times > 1}
        assert len(twice) == 1  # the tick that was printed when it died
