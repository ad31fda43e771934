"""Budget distribution: a publication takes half of what its window has left.

    epsilon/2:  [ 1/2    | 1/4  | 1/8 | ...    ]   three publications in a window, each of half of the rest;
                                                   a window later, what the first one took is free again

Good where data move seldom: few publications come, each with a large budget. Many in a window starve the last
of them, whose noise doubles with each.

Privacy
    See `streamgauge.adaptive.republishing`. The half of epsilon for publications has PARTS = 2^24 parts.
    With s parts taken in the w - 1 ticks before, a publication takes at most (PARTS - s) / 2 of them, rounded
    down, so that its window has taken at most PARTS. Every window ends with some tick.

Error
    See `streamgauge.adaptive.republishing`. A publication that is alone in its window has noise of scale
    4 l1/epsilon. One that is offered no whole part is left out.

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 (BD). Theirs halves real numbers without an end.
"""

from dataclasses import dataclass
from typing import ClassVar

from streamgauge.adaptive.republishing import Republishing
from streamgauge.noise import Ints

PARTS = 2**24


@dataclass(frozen=True)
class BudgetDistribution(Republishing):
    """Publishes with half of what the window has left, where data have moved; see the module's claim."""

    DEPENDS: ClassVar[str] = (
        "how often data move: the second publication in a window has twice the noise of the first, the third "
        "four times; in between, how far data are from the last publication, all groups together"
    )

    @property
    def parts(self) -> int:
        return PARTS

    def offered(self, history: Ints, tick: int) -> int:
        return (PARTS - int(history[self.w + 1 :].sum())) // 2
