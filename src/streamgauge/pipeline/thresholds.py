"""Thresholds of discovered groups: the noisy count that a group needs before it is published.

A threshold follows from the loss, the delta, the mechanism and the tick, so it is public. Releases are
planned as they were charged, each once.
"""

from dataclasses import dataclass
from math import floor
from typing import Any

from streamgauge.pipeline.as_charged import planned_as_charged
from streamgauge.pipeline.asked_releases import restored
from streamgauge.pipeline.book import Book, base_name
from streamgauge.query.settings import PipelineFile
from streamgauge.statistics import TopK

NO_GROUP = "no group has passed its threshold yet"
SPANS = {"running": "", "each": " in one tick"}  # of counts, by window


@dataclass(frozen=True)
class Threshold:
    """The least noisy count of a published group at one tick of a release."""

    tick: int
    events: int
    window: str

    @property
    def text(self) -> str:
        """The threshold in words.

        >>> Threshold(12, 1313, "running").text
        'a group appears once its noisy count reaches 1,313 events'
        """
        span = SPANS.get(self.window.split()[0], " in the window")
        return f"a group appears once its noisy count{span} reaches {self.events:,} events"

    def as_json(self) -> dict[str, Any]:
        return {"tick": self.tick, "events": self.events, "text": self.text}


class Thresholds:
    """Thresholds of the releases in one ledger."""

    def __init__(self, file: PipelineFile, book: Book | None = None) -> None:
        self._file, self._book = file, book
        self._found: dict[str, tuple[TopK, str] | None] = {}

    def find(self, name: str, tick: int, book: Book | None = None) -> Threshold | None:
        """Return the threshold of a release at a tick of the stream, None if its groups are declared."""
        known = book or self._book
        if known is None or name not in known.entries:
            return None
        if name not in self._found:
            self._found[name] = self._plan(name, known)
        found, first = self._found[name], known.entries[name].first
        if found is None:
            return None
        statistic, window = found
        events = floor(statistic.selection.threshold(max(1, tick - first + 1))) + 1
        return Threshold(max(first, tick), events, window)

    def _plan(self, name: str, book: Book) -> tuple[TopK, str] | None:
        entry = book.entries[name]
        if not entry.delta or book.latest().get(base_name(name)) is not entry:
            return None
        try:
            plan = planned_as_charged(self._file, restored(entry, book), book)
        except ValueError:  # its SQL is of a dialect that is no more
            return None
        found = [part.statistic for part in plan.parts if isinstance(part.statistic, TopK)]
        return (found[0], plan.release.window) if found else None
