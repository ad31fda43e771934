"""Budget absorption: a publication takes the budgets of the ticks that were skipped before it.

Each tick has one part of w. A publication takes its own part and those that nobody took before it, k in all;
then k - 1 ticks must be skipped, to give back what was taken early:

    tick     1  2  3  4  5  6  7  8        w = 4
    takes    1  .  .  3  x  x  .  2        x: nullified, whatever the data; . : data had not moved

Good where data move at a steady pace: the longer a value lasted, the less noise has the next.

Privacy
    See `streamgauge.adaptive.republishing`. The half of epsilon for publications has w parts. A publication
    of k <= w parts has the k ticks up to its own and the k ticks from its own on to itself: the former were
    free, the others are kept so. Of the publications in a window, the first has its ticks from its own on
    inside the window, if there is another; all others have theirs up to their own. None shares a tick with
    another, so that they take no more parts than the window has ticks; one that is alone takes at most w.

Error
    See `streamgauge.adaptive.republishing`. A publication of k parts has noise of scale 2 w l1/(k epsilon).

Reference
    Kellaris, Papadopoulos, Xiao, Papadias: VLDB 2014 (BA). Ours takes fewer parts than are free
    where those are more than 16 and no number of 4 binary digits, and then skips fewer ticks.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.republishing import Republishing
from streamgauge.noise import Ints


@dataclass(frozen=True)
class BudgetAbsorption(Republishing):
    """Publishes with the budgets of skipped ticks, where data have moved; see the module's claim."""

    DEPENDS: ClassVar[str] = (
        "how long data rest before they move: a publication has the less noise the more ticks were skipped "
        "before it, and as many are skipped after it; in between, how far data are from the last "
        "publication, all groups together"
    )

    @property
    def parts(self) -> int:
        return self.w

    def offered(self, history: Ints, tick: int) -> int:
        """The ticks that nobody took since the last publication gave back what it took; w at most."""
        places = np.flatnonzero(history)
        if not len(places):
            return min(tick + 1, self.w)
        ago, taken = len(history) - int(places[-1]), int(history[places[-1]])
        return min(max(0, ago - (taken - 1)), self.w)
