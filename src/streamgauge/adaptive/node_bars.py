"""Error bars of the nodes of a hierarchy, of which some were not read at some ticks.

The centre of a node is the sum of its readings in the window, whose noise is as many draws of its level's
law. At ticks where it was not read, its truth is at least 0, if counts are declared to be, and at most that
of any ancestor: the reading of the nearest one that was read, and what noise may have taken from that.

    centre - own noise  <=  truth  <=  centre + own noise + max(0, ceilings + unread ticks * one reading's)

The same holds for each ancestor, and its truth in the window is no less than the node's: the least of those
upper bounds is one for the node. A root's, which is read at every tick, grows with sqrt(N) beyond its truth
and not with N. What is below the centre and what is above it are put into one half width, the wider.

Error
    The bound holds with the confidence asked for, for each node and tick by itself, whatever the data, be
    they chosen in view of past releases. The chance to miss is shared. Proof, for a window of N ticks:
    - All of them read: the own noise is that of N draws, for which 1 - 2 APART is left.
    - Some read, some not: which, may have been chosen in view of the own noise; who stops reading where it is
      large makes a sum of few draws miss too often. But add draws for all unread ticks but one: by symmetry,
      they take the sum back no more often than not, and what results is the noise of N - 1 draws.
      So the sum is beyond any width with twice the chance of N - 1 draws at most: APART is for that.
    - The readings of ancestors decide themselves whether they are used, so that nothing can be said but that
      none is too low by more than the width, all d ancestors at all N ticks together: half of APART is for
      the union of N d draws, and all of it for those that are too low, since too high does no harm.
    - The sums of ancestors' readings: for each of the d an even part of the other half, and of that, one half
      for the sum of N draws, if all were read, and one for the sum of some, as above; again for too low only.
    Roots are always read, and a window of one tick is read or not: what they do not need is not set apart.
    So at one tick all of APART is for the readings of ancestors, which are their sums.
    Without a declared lowest, nothing is certain where a tick was not read.
"""

from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np

from streamgauge.adaptive.bars import ManyDraws, few_digits
from streamgauge.noise import Distribution, Ints, NoiseSum, Term
from streamgauge.noise.numbers import Floats
from streamgauge.postprocess.hierarchy import Places

APART = 0.125  # of the chance to miss: for ancestors' readings, and again for windows that were read in part


@dataclass(frozen=True, eq=False)
class NodeBars:
    """The bars of all nodes at one tick."""

    laws: tuple[Distribution, ...]  # of each level's readings
    depths: Places  # of each node
    parents: Places  # of each node; -1 of a root
    ticks: int  # of the window
    centres: Ints  # the sums of each node's readings
    unread: Ints  # of the ticks, for each node
    ceilings: Ints  # the sums of ancestors' readings over them
    counting: bool  # whether nodes may go unread, and no truth is below 0

    @property
    def stddev(self) -> Floats:
        """Known where every tick was read."""
        known = np.array([sqrt(self.ticks * law.variance) for law in self.laws])
        return np.where(self.unread == 0, known[self.depths], nan)

    def half_width(self, confidence: float) -> Floats:
        widths = np.zeros(len(self.depths))
        for depth, law in enumerate(self.laws):
            here = self.depths == depth
            widths[here] = self._level(depth, law, np.flatnonzero(here), confidence)
        return widths

    def _level(self, depth: int, law: Distribution, here: Places, confidence: float) -> Floats:
        guessing, unread = bool(depth) and self.counting, self.unread[here]
        whole = self._of_draws(self.ticks, law, self._left(confidence, guessing))
        if not guessing or not unread.any():
            return np.where(unread > 0, inf, whole)
        partly = self._of_draws(self.ticks - 1, law, 1 - (1 - confidence) * APART / 2)
        own = np.where(unread < self.ticks, partly, 0.0)
        most = own + self._unseen(here, self._too_low(depth, confidence))
        if self.ticks > 1:
            most = np.minimum(most, self._ceiling(depth, here, confidence) - self.centres[here])
        return np.where(unread > 0, np.maximum(own, most), whole)

    def _unseen(self, here: Places, too_low: float) -> Floats:
        """The most that nodes can have had while they were not read."""
        return np.maximum(self.ceilings[here] + self.unread[here] * too_low, 0)

    def _ceiling(self, depth: int, here: Places, confidence: float) -> Floats:
        """The least upper bound of all ancestors of nodes of this depth."""
        bounds = np.full(len(self.depths) + 1, inf)  # the last is what is above the roots
        for above in range(depth):
            these = np.flatnonzero(self.depths == above)
            own = self._at_most(above, depth, these, confidence)
            bounds[these] = np.minimum(own, bounds[self.parents[these]])
        return bounds[self.parents[here]]

    def _at_most(self, above: int, depth: int, these: Places, confidence: float) -> Floats:
        """The upper bounds of nodes, as ancestors of nodes of some depth."""
        chance, law, unread = (1 - confidence) * APART / 2 / depth, self.laws[above], self.unread[these]
        whole = self._of_draws(self.ticks, law, 1 - chance)  # too low with half of that
        partly = self._of_draws(self.ticks - 1, law, 1 - chance / 2)  # a quarter, twice
        noise = np.where(unread > 0, np.where(unread < self.ticks, partly, 0.0), whole)
        return self.centres[these] + noise + self._unseen(these, self._too_low(depth, confidence))

    def _of_draws(self, draws: int, law: Distribution, confidence: float) -> float:
        return ManyDraws(NoiseSum((Term(draws, 1, law),))).half_width(confidence)

    def _left(self, confidence: float, guessing: bool) -> float:
        """The confidence of windows that were read throughout."""
        apart = APART * min(self.ticks, 2) if guessing else 0.0
        return 1 - (1 - confidence) * (1 - apart) if apart else confidence

    def _too_low(self, depth: int, confidence: float) -> float:
        """By how much any reading of any ancestor in the window may be too low; too high is as likely."""
        readings = [NoiseSum((Term(1, 1, law),)) for law in self.laws[:depth]]
        chance = 1 - (1 - confidence) * 2 * APART / min(self.ticks, 2)
        return max(reading.simultaneous(chance, few_digits(self.ticks) * depth) for reading in readings)
