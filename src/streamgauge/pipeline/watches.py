"""The alerts of a release at work: made of what it releases, after noise, and of nothing else.

Promise
    What is remembered are released numbers, the last of each group, committed with the very ticks that they
    were released at. So a run that was killed goes on with the alerts that it would have had.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamgauge.query.alerts import Watched


class Watches:
    """The watches over the measures of one release, whose alerts are its last measures."""

    def __init__(self, release: str, watched: Sequence[Watched], measures: int, places: int) -> None:
        self.release, self.watched = release, watched
        self.first = measures - len(watched)  # the place of the first alert among the measures
        self.seen = 0
        self.watches = [each.alert.monitor.start(places) for each in watched]

    def load(self, state: Mapping[str, bytes], seen: int) -> None:
        """Goes on after so many ticks."""
        self.seen = seen
        for name, watch in zip(self._names, self.watches, strict=True):
            watch.tail = np.frombuffer(state[name], "<f8").reshape(-1, watch.width).astype(np.float64)

    def saved(self) -> dict[str, bytes]:
        """What it remembers: released numbers alone."""
        tails = [watch.tail.astype("<f8").tobytes() for watch in self.watches]
        return dict(zip(self._names, tails, strict=True))

    def look(self, fields: Mapping[str, Any]) -> None:
        """Fills in the alerts of so many ticks: arrays of (ticks, measures, places)."""
        values, enough = fields["value"], fields["enough"]
        ticks = self.seen + 1 + np.arange(len(values))
        for place, (each, watch) in enumerate(zip(self.watched, self.watches, strict=True), self.first):
            values[:, place] = watch.feed(values[:, each.place])
            enough[:, place] = (ticks >= each.alert.window)[:, None]
        self.seen += len(values)

    @property
    def _names(self) -> list[str]:
        return [f"run/{self.release}/alert {i}" for i in range(len(self.watched))]
