"""What a curator should know of a mechanism that adapts to its data, before it runs: in words, for the plan.

Errors of such a mechanism are told as far as they hold whatever the data are. What is to be known beside that
follows from its settings. Nothing here reads data.
"""

from typing import Any

from streamgauge.statistics import Statistic

CENTRE = "95 % within is about the centre of the interval that is released, not about the value"
QUIET = 'where most ticks are near 0, mechanism = { name = "Pegasus", smoother = "quiet" } is nearer'
BEHIND = "it says 0 until what has come is clear of noise, and may be behind by as much ever after"
OWN = {"Pegasus": QUIET, "PegasusHierarchy": QUIET, "CascadingBuffers": BEHIND, "SparseCounter": BEHIND}


def hints_of(statistic: Statistic[Any]) -> tuple[str, ...]:
    """What is to be known; nothing of a mechanism whose value is the centre of its interval."""
    counter: Any = statistic.counter
    own = OWN.get(type(counter).__name__)
    known = own == QUIET and counter.smoother == "quiet"
    return () if own is None else (CENTRE,) if known else (CENTRE, own)
