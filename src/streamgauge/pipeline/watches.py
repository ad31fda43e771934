"""The alerts of a release at work: made of what it releases, after noise, and of nothing else.

Promise
    What is remembered are released numbers, the last of each group, and at which tick there was last not
    `enough` of it, committed with the very ticks that they were released at. So a run that was killed goes on
    with the alerts that it would have had. Where that tick was not remembered, by an earlier version, it is
    the last one.
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
        self.short = [np.zeros(places, np.int64) for _ in watched]  # the last tick without enough, 0 for none

    def load(self, state: Mapping[str, bytes], seen: int) -> None:
        """Goes on after so many ticks."""
        self.seen = seen
        for name, watch, short in zip(self._names, self.watches, self.short, strict=True):
            numbers = min(seen, watch.monitor.window - 1) * watch.width
            tail, last = np.frombuffer(state[name], "<f8", numbers), state[name][8 * numbers :]
            watch.tail = tail.reshape(-1, watch.width).astype(np.float64)
            short[:] = np.frombuffer(last, "<i8") if last else seen

    def saved(self) -> dict[str, bytes]:
        """What it remembers: released numbers alone."""
        pairs = zip(self.watches, self.short, strict=True)
        kept = [watch.tail.astype("<f8").tobytes() + last.astype("<i8").tobytes() for watch, last in pairs]
        return dict(zip(self._names, kept, strict=True))

    def look(self, fields: Mapping[str, Any]) -> None:
        """Fills in the alerts of so many ticks: arrays of (ticks, measures, places)."""
        values, enough = fields["value"], fields["enough"]
        ticks = (self.seen + 1 + np.arange(len(values)))[:, None]
        alerts = zip(self.watched, self.watches, self.short, strict=True)
        for place, (each, watch, short) in enumerate(alerts, self.first):
            values[:, place] = watch.feed(values[:, each.place])
            missed = np.where(enough[:, each.place], short, ticks)
            last = np.maximum.accumulate(missed, axis=0)
            enough[:, place] = ticks - last >= each.alert.window
            short[:] = last[-1:]
        self.seen += len(values)

    @property
    def _names(self) -> list[str]:
        return [f"run/{self.release}/alert {i}" for i in range(len(self.watched))]
