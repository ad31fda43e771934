"""An intrusion into a live server leaves neither earlier registers nor exported copies in its memory.

As in `test_pan_private_leftovers`, noise is silent. So the registers before the intrusion, the exported copies
and the registers after it are the sums that were sent, and a search would find all of them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgauge.runtime.intrusion.export import ReleaseSnapshot, build_export_path
from streamgauge.runtime.intrusion.intrude import IntrusionError
from streamgauge.runtime.release_run import ReleaseRun
from tests.runtime import test_pan_private_leftovers as leftovers
from tests.runtime.test_pan_private_leftovers import LESS, MARKS, Apart, committed, runner_of, send
from tests.runtime.test_pan_private_memory import batch
from tests.support.memory_searched import in_octets, nothing_collected

apart = leftovers.apart  # a fixture


def after_a_look(folder: Path) -> set[Any]:
    """Return the marks in a server's memory after a refused and a successful intrusion between two batches."""
    runner = runner_of(folder)
    build_export_path(runner.file, "taken").mkdir(parents=True)
    with nothing_collected():
        runner.start()
        try:
            send(runner, batch())
            refused = runner.submit_intrusion(build_export_path(runner.file, "taken")).exception(20)
            assert isinstance(refused, IntrusionError)
            assert "which exists" in str(refused)
            assert runner.submit_intrusion(build_export_path(runner.file, "court")).result(20).number == 1
            send(runner, batch(LESS))
            return committed()
        finally:
            runner.stop()


def held_on_to(patch: pytest.MonkeyPatch) -> None:
    """The broken twin: the copies that were exported stay in memory."""
    capture, kept = ReleaseSnapshot.capture, list[ReleaseSnapshot]()

    def keep(run: ReleaseRun) -> ReleaseSnapshot:
        kept.append(capture(run))
        return kept[-1]

    patch.setattr(ReleaseSnapshot, "capture", keep)


@pytest.mark.slow
def test_exported_state_does_not_stay_in_server_memory(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_look, tmp_path) == set()
    observed = [np.load(path) for path in (tmp_path / "v.intrusions" / "court").glob("*.npy")]
    assert in_octets(observed, MARKS) == MARKS, "they were in what was handed over"


def test_an_intrusion_that_stays_in_memory_is_caught(tmp_path: Path, apart: Apart) -> None:
    assert apart(after_a_look, tmp_path, twin=held_on_to) == MARKS
