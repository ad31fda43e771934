"""Thresholds of discovered groups: the noisy count that a group needs.

A group is published once its noisy count reaches the threshold. A threshold follows from the loss, the delta, the
mechanism and the tick, so it is public. Releases are planned as they were charged, each once.
"""

from dataclasses import dataclass
from math import floor
from typing import Any

from streamgauge.config.settings import PipelineFile
from streamgauge.plan.planner import ReleasePlan
from streamgauge.releases.schema import base_name
from streamgauge.runtime.adhoc.releases import restore_release
from streamgauge.runtime.edits import plan_as_charged
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.statistics import TopK

NO_GROUP_TEXT = "no group has passed its threshold yet"
WINDOW_TEXTS = {"running": "", "each": " in one tick", "tumbling": " in one period"}  # of counts, by window


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
        span = WINDOW_TEXTS.get(self.window.split()[0], " in the window")
        return f"a group appears once its noisy count{span} reaches {self.events:,} events"

    def to_json(self) -> dict[str, Any]:
        return {"tick": self.tick, "events": self.events, "text": self.text}


class Thresholds:
    """Thresholds of the releases in one ledger."""

    def __init__(self, file: PipelineFile, ledger_log: LedgerLog | None = None) -> None:
        self._file, self._ledger_log = file, ledger_log
        self._statistics: dict[str, tuple[TopK, ReleasePlan] | None] = {}

    def find(self, name: str, tick: int, ledger_log: LedgerLog | None = None) -> Threshold | None:
        """Return the threshold of a release at a tick of the stream.

        None if its groups are declared.
        """
        known = ledger_log or self._ledger_log
        if known is None or name not in known.releases:
            return None
        if name not in self._statistics:
            self._statistics[name] = self._plan(name, known)
        found, first = self._statistics[name], known.releases[name].first
        if found is None:
            return None
        statistic, plan = found
        periods, window = plan.periods, plan.release.window
        if periods is not None:
            first = max(first, periods.find_first_tick(max(first, tick)) if plan.release.partial else tick)
        events = floor(statistic.selection.threshold(max(1, tick - first + 1))) + 1
        return Threshold(max(first, tick), events, window)

    def _plan(self, name: str, ledger_log: LedgerLog) -> tuple[TopK, ReleasePlan] | None:
        entry = ledger_log.releases[name]
        if not entry.delta or ledger_log.latest_releases().get(base_name(name)) is not entry:
            return None
        try:
            plan = plan_as_charged(self._file, restore_release(entry, ledger_log), ledger_log)
        except ValueError:  # its SQL is of a dialect that no longer exists
            return None
        found = [part.statistic for part in plan.parts if isinstance(part.statistic, TopK)]
        return (found[0], plan) if found else None
