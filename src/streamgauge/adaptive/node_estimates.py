"""From what all nodes of a hierarchy have shown to what is published of them: estimates that add up.

Three steps, all of them on releases: least squares over the tree, each node by how many readings its estimate
is from, a guess having next to no say; then no node that was read throughout is left farther than NEAR
standard errors from the sum of its readings, unless a node above needs that, and none below `lowest`, with
children that still add up (`within`). So smoothing may take from the noise of a window, and add to it no
more than that.

Privacy
    None is spent: a function of releases.

Error
    Depends on data. Of a node that was read throughout: |value - truth| <= |centre - truth| + NEAR standard
    errors of the centre: always of a root, else unless bounds of nodes above and beside contradict its own.
    A bound is a convex set: where it holds the truth, an estimate that is brought into it by itself is no
    worse than before.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from streamgauge.adaptive.pruning import Seen
from streamgauge.adaptive.within import within
from streamgauge.noise import DiscreteLaplace
from streamgauge.noise.numbers import Floats
from streamgauge.postprocess import AddUp, Hierarchy
from streamgauge.postprocess.hierarchy import Places

FAINT = 60  # bits by which a guess says less than a reading, or than the guess above
FAINTEST = 800  # the same, of all levels together
NEAR = 1.95  # standard errors: sums of Laplace draws have more on each side at 95 %, unless mostly 0


@dataclass(frozen=True, eq=False)
class NodeEstimates:
    """Estimates of all nodes, by the laws of their levels' readings."""

    hierarchy: Hierarchy
    laws: tuple[DiscreteLaplace, ...]
    depths: Places  # the level of each node
    lowest: float  # what no truth is below

    def of(self, shown: Seen, ticks: int, *, consistent: bool) -> Floats:
        """What is published of a window of so many ticks; if not `consistent`, of each node by itself."""
        low, high = self.bounds(shown, ticks)
        if not consistent:
            return np.clip(shown.value, low, high)
        return within(self.hierarchy, self.added_up(shown, ticks), low, high, self.lowest)

    def added_up(self, shown: Seen, ticks: int) -> Floats:
        """By least squares; weighed by how many readings each is from, up to a common factor."""
        widest = max(law.scale for law in self.laws)
        spread = np.array([float(law.scale / widest) ** 2 for law in self.laws])
        readings = np.maximum(ticks - shown.unread, shown.length)
        measured = spread[self.depths] / np.maximum(readings, 1)
        faint = np.ldexp(1.0, min(FAINT, FAINTEST // len(self.laws)) * self.depths)
        return AddUp(self.hierarchy, np.where(readings > 0, measured, faint)).step(shown.value)

    def bounds(self, shown: Seen, ticks: int) -> tuple[Floats, Floats]:
        """Near the sum of readings; without a reading, at a tick or at all of them, only from below."""
        reach = NEAR * np.sqrt([ticks * law.variance for law in self.laws])[self.depths]
        known = (shown.unread == 0) | (self.lowest > -inf)
        low = np.where(known, shown.centre - reach, -inf)
        high = np.where(shown.unread == 0, shown.centre + reach, inf)
        return np.maximum(low, self.lowest), np.maximum(high, self.lowest)
