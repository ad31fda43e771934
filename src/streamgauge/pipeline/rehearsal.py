"""What follows from declarations alone is worked out while the engine reads: tables of noise, error bars.

They are kept where they are made, for whoever asks next. A rehearsal asks for all that a run will ask for:
every part takes as many ticks of nothing, in one group, and what it released is forgotten.

Privacy
    A rehearsal sees no event, no noise and no state of the run: its own are drawn and forgotten. Whether
    there is one depends on how large the source is, and changes nothing but the time that the run takes.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread

import numpy as np

from streamgauge.noise.numbers import Floats
from streamgauge.pipeline.part_run import CONFIDENCE
from streamgauge.pipeline.release_run import ReleaseRun
from streamgauge.query.blocks import FilePart
from streamgauge.query.parts import Part

LEAD = 0.06  # seconds in which the engine gets to work: Python runs one thread at a time
LARGE = 2**26  # bytes: smaller sources are read before a rehearsal would be over


class Rehearsal:
    """A thread beside a scan."""

    def __init__(self, runs: Sequence[ReleaseRun], ticks: int) -> None:
        self._parts = [part for run in runs for part in run.planned.parts]
        self._ticks = ticks
        self._thread = Thread(target=self._rehearse, daemon=True)
        self._begun = False

    def begin(self, files: Sequence[FilePart]) -> None:
        """Begins, if the scan of these files will take long enough."""
        if sum(file.path.stat().st_size for file in files) >= LARGE:
            self._thread.start()
            self._begun = True

    def end(self) -> None:
        """Waits for it."""
        if self._begun:
            self._thread.join()

    def _rehearse(self) -> None:
        time.sleep(LEAD)
        for part in self._parts:
            with suppress(Exception):  # the run itself will meet it
                rehearsed(part, self._ticks)


def rehearsed(part: Part, ticks: int) -> list[Floats]:
    """The lower bounds of so many ticks of nothing, where ticks can be taken together."""
    statistic = part.statistic
    if statistic.REMEMBERS or part.measure.key is not None:
        return []
    release = statistic.start(1).take_all(np.zeros((ticks, statistic.channels, 1), np.int64))
    told = release.told(CONFIDENCE)
    return [told[output.column].low for output in part.outputs]
