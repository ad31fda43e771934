"""How many announced intrusions there were, and how many more can be survived: public, by acts and the tick.

Counters take any number, each of which costs accuracy; a table of users takes as many as its claim reserves,
from its first tick on. So of the releases that have a tick to come, the one that has seen most decides how
many are left. Those of histories that a copy has taken the place of were made too; their tables are no more,
and were charged apart (`rollback`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streamgauge.pipeline.book import Book, Entry
from streamgauge.pipeline.rollback import PAID
from streamgauge.pipeline.store import Act
from streamgauge.pipeline.words import counted
from streamgauge.privacy import XAdjacent
from streamgauge.query.planner import Planned
from streamgauge.query.settings import Stream
from streamgauge.statistics.user_table import UserTable

INTRUSION = "intrusion"  # the act
TOLD = 3  # intrusions of which it is told how much they cost


@dataclass(frozen=True)
class Intrusions:
    """`left` is None where any number can be survived."""

    made: int
    left: int | None

    @classmethod
    def of(cls, book: Book, stream: Stream, tick: int = 0) -> "Intrusions":
        """After the last tick that was committed."""
        acts = [act for act in book.acts if act.kind == INTRUSION]
        made = len(acts) + len({one for act in book.acts for one in elsewhere(act)})
        if not isinstance(book.unit, XAdjacent):
            return cls(made, None)
        going = [name for name, entry in book.at_work().items() if goes_on(entry, tick)]
        most = max((seen(acts, name) for name in going), default=0)
        return cls(made, stream.intrusions - most)

    def __str__(self) -> str:
        left = "any number can follow" if self.left is None else f"{self.left} left of those reserved"
        return f"{counted(self.made, 'announced intrusion')} so far, {left}"

    def as_json(self) -> dict[str, Any]:
        return {"made": self.made, "left": self.left}


def goes_on(entry: Entry, tick: int) -> bool:
    """Whether a release has a tick to come after the last one that was committed; else it is forgotten."""
    return entry.until is None or entry.until > tick


def seen(acts: Sequence[Act], release: str) -> int:
    """How many intrusions a release was there for."""
    return sum(release in act.body["releases"] for act in acts)


def elsewhere(act: Act) -> list[str]:
    """The intrusions into a history that is no more, by an act that enters them."""
    if act.kind == "lost":
        return list(act.body.get("intrusions", ()))
    found = act.body.get("intrusions", {}) if act.kind == PAID else {}
    return [one for each in found.values() for one in each]


def growth_lines(plans: Sequence[Planned]) -> Iterator[str]:
    """How much larger the errors of tables will be after the first of the intrusions that are reserved."""
    for plan in plans:
        statistics: list[Any] = [part.statistic for part in plan.parts]
        tables = [each for each in statistics if isinstance(each, UserTable)]
        for table in tables if plan.stream.intrusions else ():
            told = [f"x {factor:,.4g} after {n}" for n, factor in enumerate(growth(table), start=1)]
            yield f"errors of {plan.name} grow with announced intrusions: {', '.join(told)}"


def growth(table: UserTable) -> list[float]:
    """By which factors a standard error grows, to first order: also of what tells nothing before."""
    found = range(1, min(TOLD, table.intrusions) + 1)
    return [float(table.counter.rough(n) / table.counter.rough(0)) for n in found]
