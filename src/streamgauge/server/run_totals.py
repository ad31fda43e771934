"""Counters over all command batches: a reopened run counts from 0, the curator's totals continue.

The counts are private, since they count events.
"""

from collections import Counter
from dataclasses import replace

from streamgauge.runtime.options import Progress


class RunTotals:
    """Records read and dropped by all runs."""

    def __init__(self) -> None:
        self._events, self._dropped = 0, Counter[str]()  # exact: of runs that are over
        self._last_progress: Progress | None = None  # of the run at hand

    def start_run(self) -> None:
        """Add the counts of the last run to the totals."""
        if self._last_progress is not None:
            self._events += self._last_progress.events
            self._dropped.update(self._last_progress.dropped)
            self._last_progress = None

    def add_earlier(self, progress: Progress) -> Progress:
        """Return progress that includes the earlier runs."""
        self._last_progress = progress
        rules = dict.fromkeys([*self._dropped, *progress.dropped])
        dropped = {rule: self._dropped[rule] + progress.dropped.get(rule, 0) for rule in rules}
        return replace(progress, events=self._events + progress.events, dropped=dropped)
