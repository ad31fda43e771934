"""Budget absorption: a publication spends the budgets of skipped ticks.

Each tick has one part of w. A publication spends its own part and the unspent parts before it, k in all. Then
k - 1 ticks must be skipped, to return the parts that were spent early:

    tick     1  2  3  4  5  6  7  8        w = 4
    parts    1  .  .  3  x  x  .  2        x: nullified, for all data; . : data had not moved

It suits data that move at a steady pace: the longer a value lasted, the less noise has the next.

Privacy
    See `adaptive.w_event.republish`. The half of epsilon for publications has w parts. A publication of
    k <= w parts owns the k ticks up to its own and the k ticks from its own on: the former were free, the
    others stay free. Of the publications in a window, the first has its ticks from its own on inside the
    window, if there is another. All others have theirs up to their own. None shares a tick with another, so
    that they spend no more parts than the window has ticks. One that is alone spends at most w.

Error
    See `adaptive.w_event.republish`. A publication of k parts has noise of scale 2 w l1/(k epsilon).

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 (BA). Ours spends fewer parts than are free if those are
    more than 16 and no number of 4 binary digits, and then skips fewer ticks.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.w_event.republish import RepublishingMechanism
from streamgauge.noise import Ints


@dataclass(frozen=True)
class BudgetAbsorption(RepublishingMechanism):
    """A claim that publishes with the budgets of skipped ticks if data have moved.

    See the module's claim.
    """

    ERROR_DEPENDS_ON: ClassVar[str] = (
        "how long data rest before they move: a publication has the less noise the more ticks were skipped "
        "before it, and as many are skipped after it; in between, how far data are from the last "
        "publication, all groups together"
    )

    @property
    def total_parts(self) -> int:
        return self.w

    def max_parts(self, history: Ints, tick: int) -> int:
        """Return the number of free ticks since the last publication returned its parts.

        W at most.
        """
        places = np.flatnonzero(history)
        if not len(places):
            return min(tick + 1, self.w)
        ago, spent = len(history) - int(places[-1]), int(history[places[-1]])
        return min(max(0, ago - (spent - 1)), self.w)
