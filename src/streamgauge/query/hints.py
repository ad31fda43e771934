"""What a curator should know of a mechanism that adapts to its data, or of a table of users, before it runs.

Errors are told as far as they hold whatever the data are. What is to be known beside that
follows from its settings, and from which events its query can lose. Nothing here reads data.
"""

from typing import Any

from streamgauge.query.query import Query
from streamgauge.query.rollups import TOGETHER
from streamgauge.statistics import Statistic

CENTRE = "95 % within is about the centre of the interval that is released, not about the value"
QUIET = 'where most ticks are near 0, mechanism = { name = "Pegasus", smoother = "quiet" } is nearer'
BEHIND = "it says 0 until what has come is clear of noise, and may be behind by as much ever after"
SHARED = "{} estimates, one a tick, share the loss: with longer ticks, or an earlier end, each has less noise"
OWN = {"Pegasus": QUIET, TOGETHER: "", "CascadingBuffers": BEHIND, "SparseCounter": BEHIND}
READ = "how long nodes stay near one level"  # all that it is where every node is read


def hints_of(statistic: Statistic[Any], *, certain: bool = True) -> tuple[str, ...]:
    """What is to be known; nothing of a mechanism whose value is the centre of its interval. Where nothing is
    `certain`, the plan has no interval to speak of."""
    counter: Any = statistic.counter
    if told := getattr(statistic, "hints", ()):
        return tuple(told)
    if getattr(counter, "releases", 1) > 1:
        return (SHARED.format(f"{counter.releases:,}"),)
    own = OWN.get(type(counter).__name__)
    if own is None:
        return ()
    known = own == QUIET and counter.smoother == "quiet"
    return tuple(hint for hint in (CENTRE if certain else "", "" if known else own) if hint)


def lost_of(statistic: Statistic[Any], query: Query) -> tuple[str, ...]:
    """Which events count nowhere, where one run answers for all levels of a ROLLUP."""
    if type(statistic.counter).__name__ != TOGETHER:
        return ()
    names = [group.name for group in query.groups[min(query.levels) :] if group.nullable]
    if not names:
        return ()
    lost = f"an event without a declared {' or '.join(names)} counts on no level, though SQL counts it above"
    return (f"{lost}: declare other = true, or leave mechanism out, to count it",)


def depends_of(statistic: Statistic[Any]) -> str:
    """What its error depends on, as it is set."""
    counter: Any = statistic.counter
    return READ if type(counter).__name__ == TOGETHER and not counter.prune else statistic.depends
