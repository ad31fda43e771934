"""Number of announced intrusions so far, and of those that remain.

Public, since it is derived from the ledger and the tick. Counters survive any number of intrusions, each of which
costs accuracy. A table of users survives as many as its mechanism reserves from its first tick on. So among the
releases with later ticks, the one with most intrusions decides how many remain. Intrusions into histories that a
restored copy replaced count too. Their tables no longer exist, and were charged separately (`rollback`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streamgauge.config.settings import Stream
from streamgauge.plan.planner import ReleasePlan
from streamgauge.privacy import XAdjacent
from streamgauge.runtime.format import plural
from streamgauge.runtime.ledger.log import ChargedRelease, LedgerLog
from streamgauge.runtime.rollback import ROLLBACK_KIND
from streamgauge.statistics.user_table import UserTableStatistic
from streamgauge.store.store import LedgerEntry

INTRUSION_KIND = "intrusion"  # of the ledger entry
MAX_GROWTH_STEPS = 3  # intrusions whose cost a plan shows


@dataclass(frozen=True)
class IntrusionCount:
    """Intrusions so far; `remaining` is None if any number can follow."""

    total: int
    remaining: int | None

    @classmethod
    def from_ledger_log(cls, ledger_log: LedgerLog, stream: Stream, tick: int = 0) -> "IntrusionCount":
        """Count the intrusions after the last committed tick."""
        acts = [act for act in ledger_log.ledger_entries if act.kind == INTRUSION_KIND]
        made = len(acts) + len({one for act in ledger_log.ledger_entries for one in list_lost_intrusions(act)})
        if not isinstance(ledger_log.unit, XAdjacent):
            return cls(made, None)
        running = [name for name, entry in ledger_log.active_releases().items() if has_later_ticks(entry, tick)]
        most = max((sum(name in act.body["releases"] for act in acts) for name in running), default=0)
        return cls(made, stream.reserved_intrusions - most)

    def __str__(self) -> str:
        left = "any number can follow" if self.remaining is None else f"{self.remaining} left of those reserved"
        return f"{plural(self.total, 'announced intrusion')} so far, {left}"

    def to_json(self) -> dict[str, Any]:
        return {"total": self.total, "remaining": self.remaining}


def has_later_ticks(entry: ChargedRelease, tick: int) -> bool:
    """Return whether a release has ticks after the last committed one.

    If it has none, its state is removed.
    """
    return entry.final_tick is None or entry.final_tick > tick


def list_lost_intrusions(act: LedgerEntry) -> list[str]:
    """Return the intrusions into a lost history that a ledger entry records."""
    if act.kind == "lost_charge":
        return list(act.body.get("intrusions", ()))
    found = act.body.get("intrusions", {}) if act.kind == ROLLBACK_KIND else {}
    return [one for each in found.values() for one in each]


def growth_lines(plans: Sequence[ReleasePlan]) -> Iterator[str]:
    """Yield how much the errors of tables grow with the first reserved intrusions."""
    for plan in plans:
        statistics: list[Any] = [part.statistic for part in plan.parts]
        tables = [each for each in statistics if isinstance(each, UserTableStatistic)]
        for table in tables if plan.stream.reserved_intrusions else ():
            first = table.counter.rough_stddev(0)  # factors of standard errors, to first order
            steps = range(1, min(MAX_GROWTH_STEPS, table.intrusions) + 1)
            texts = [f"x {float(table.counter.rough_stddev(n) / first):,.4g} after {n}" for n in steps]
            yield f"errors of {plan.name} grow with announced intrusions: {', '.join(texts)}"
