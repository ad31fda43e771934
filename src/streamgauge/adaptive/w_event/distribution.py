"""Budget distribution: a publication spends half of its window's budget left.

    epsilon/2:  [ 1/2    | 1/4  | 1/8 | ...    ]   three publications in a window, each of half of the rest;
                                                   a window later, the part of the first one is free again

It suits data that move seldom: few publications come, each with a large budget. Many in a window starve the last
of them, whose noise doubles with each.

Privacy
    See `adaptive.w_event.republish`. The half of epsilon for publications has BUDGET_PARTS = 2^24 parts.
    With s parts spent in the w - 1 ticks before, a publication spends at most (BUDGET_PARTS - s) / 2 of them,
    rounded down. So its window has spent at most BUDGET_PARTS. Every window ends with some tick.

Error
    See `adaptive.w_event.republish`. A publication that is alone in its window has noise of scale
    4 l1/epsilon. One that is offered no whole part is left out.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 (BD). Theirs halves real numbers without an end.
"""

from dataclasses import dataclass
from typing import ClassVar

from streamgauge.adaptive.w_event.republish import RepublishingMechanism
from streamgauge.noise import Ints

BUDGET_PARTS = 2**24


@dataclass(frozen=True)
class BudgetDistribution(RepublishingMechanism):
    """A claim that publishes with half of the remaining budget if data have moved.

    See the module's claim.
    """

    ERROR_DEPENDS_ON: ClassVar[str] = (
        "how often data move: the second publication in a window has twice the noise of the first, the third "
        "four times; in between, how far data are from the last publication, all groups together"
    )

    @property
    def total_parts(self) -> int:
        return BUDGET_PARTS

    def max_parts(self, history: Ints, tick: int) -> int:
        return (BUDGET_PARTS - int(history[self.w + 1 :].sum())) // 2
