"""Error bars of the nodes of a hierarchy, of which some were not read at some ticks.

The centre of a node is the sum of its readings in the window, whose noise is as many draws of its level's
law. At ticks where it was not read, its truth is at least 0, if counts are declared to be, and at most that
of any ancestor: the reading of the nearest one that was read, and what noise may have taken from that.

    |truth - centre|  <=  width of the own noise  +  max(0, ceilings + unread ticks * width of one reading)

Error
    The bound holds with the confidence asked for, for each node and tick by itself, whatever the data, be
    they chosen in view of past releases. The chance to miss is shared. Proof, for a window of N ticks:
    - All of them read: the own noise is that of N draws, for which 1 - 2 APART is left.
    - Some read, some not: which, may have been chosen in view of the own noise; who stops reading where it is
      large makes a sum of few draws miss too often. But add draws for all unread ticks but one: by symmetry,
      they take the sum back no more often than not, and what results is the noise of N - 1 draws.
      So the sum is beyond any width with twice the chance of N - 1 draws at most: APART is for that.
    - The readings of ancestors decide themselves whether they are used, so that nothing can be said but that
      none is too low by more than the width, all d ancestors at all N ticks together: APART is for the union
      of N d draws, and all of it for those that are too low, since those that are too high do no harm.
    Roots are always read, and a window of one tick is read or not: what they do not need is not set apart.
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
    ticks: int  # of the window
    unread: Ints  # of them, for each node
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
            widths[here] = self._level(depth, law, self.unread[here], self.ceilings[here], confidence)
        return widths

    def _level(
        self, depth: int, law: Distribution, unread: Ints, ceilings: Ints, confidence: float
    ) -> Floats:
        guessing = bool(depth) and self.counting
        whole = self._of_draws(self.ticks, law, self._left(confidence, guessing))
        if not guessing or not unread.any():
            return np.where(unread > 0, inf, whole)
        partly = self._of_draws(self.ticks - 1, law, 1 - (1 - confidence) * APART / 2)
        own = np.where(unread < self.ticks, partly, 0.0)
        most = np.maximum(ceilings + unread * self._too_low(depth, confidence), 0)
        return np.where(unread > 0, own + most, whole)

    def _of_draws(self, draws: int, law: Distribution, confidence: float) -> float:
        return ManyDraws(NoiseSum((Term(draws, 1, law),))).half_width(confidence)

    def _left(self, confidence: float, guessing: bool) -> float:
        """The confidence of windows that were read throughout."""
        apart = APART * min(self.ticks, 2) if guessing else 0.0
        return 1 - (1 - confidence) * (1 - apart) if apart else confidence

    def _too_low(self, depth: int, confidence: float) -> float:
        """By how much any reading of any ancestor in the window may be too low; too high is as likely."""
        readings = [NoiseSum((Term(1, 1, law),)) for law in self.laws[:depth]]
        chance = 1 - (1 - confidence) * 2 * APART
        return max(reading.simultaneous(chance, few_digits(self.ticks) * depth) for reading in readings)
