"""Counts over all turns: a run that is opened again counts from nothing, what the curator sees goes on.

Private, as all that counts events.
"""

from collections import Counter
from dataclasses import replace

from streamgauge.pipeline.options import Progress


class Tally:
    """What all runs together have read and dropped."""

    def __init__(self) -> None:
        self._events, self._dropped = 0, Counter[str]()  # exact: of runs that are over
        self._told: Progress | None = None  # of the run at hand

    def opened(self) -> None:
        """A run begins; the one before it tells no more."""
        if self._told is not None:
            self._events += self._told.events
            self._dropped.update(self._told.dropped)
            self._told = None

    def with_earlier(self, progress: Progress) -> Progress:
        """What the run at hand tells, with all before it."""
        self._told = progress
        rules = dict.fromkeys([*self._dropped, *progress.dropped])
        dropped = {rule: self._dropped[rule] + progress.dropped.get(rule, 0) for rule in rules}
        return replace(progress, events=self._events + progress.events, dropped=dropped)
