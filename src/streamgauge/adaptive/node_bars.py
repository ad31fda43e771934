"""Error bars of the nodes of a hierarchy, of which some were not read at some ticks.

The centre of a node is the sum of its readings in the window, whose noise is as many draws of its level's
law. At ticks where it was not read, its truth is at least 0, if counts are declared to be, and at most that
of any ancestor: the reading of the nearest one that was read, and what noise may have taken from that.

    |truth - centre|  <=  width of the own noise  +  max(0, ceilings + unread ticks * width of one reading)

Error
    The bound holds with the confidence asked for, for each node and tick by itself, whatever the data. Proof:
    at which ticks a node is read depends on the noise of its ancestors alone, so that its own noise misses no
    more often than it would if that were fixed: let it do so with 1 - APART of the chance to miss. The
    readings of its ancestors are what decides whether they are used, so that nothing can be said but that
    none of them is too low by more than the width, all d ancestors at all N ticks of the window together:
    the union bound over N d draws has the rest, APART, and all of it for draws that are too low, since those
    that are too high do no harm. Roots are always read, and have nothing set apart.
    Without a declared lowest, nothing is certain where a tick was not read.
"""

from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np

from streamgauge.noise import Distribution, Ints, NoiseSum, Term
from streamgauge.noise.numbers import Floats
from streamgauge.postprocess.hierarchy import Places

APART = 0.125  # of the chance to miss: for ancestors' readings
BITS = 5  # numbers of draws are rounded up to so many leading bits: a wider sum, and few widths to work out


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
        apart = APART if depth and self.counting else 0.0
        draws, which = np.unique(np.minimum(rounded_up(self.ticks - unread), self.ticks), return_inverse=True)
        chance = 1 - (1 - confidence) * (1 - apart) if apart else confidence
        own = np.array([NoiseSum((Term(int(n), 1, law),)).half_width(chance) for n in draws])[which]
        if not unread.any():
            return own
        if not apart:
            return np.where(unread > 0, inf, own)
        most = np.maximum(ceilings + unread * self._too_low(depth, confidence), 0)
        return own + np.where(unread > 0, most, 0)

    def _too_low(self, depth: int, confidence: float) -> float:
        """By how much any reading of any ancestor in the window may be too low; too high is as likely."""
        readings = [NoiseSum((Term(1, 1, law),)) for law in self.laws[:depth]]
        chance = 1 - (1 - confidence) * 2 * APART
        return max(reading.simultaneous(chance, self.ticks * depth) for reading in readings)


def rounded_up(numbers: Ints) -> Ints:
    """To multiples of a power of two, BITS below the leading one."""
    _, exponents = np.frexp(numbers.astype(np.float64))
    grain = np.left_shift(1, np.maximum(exponents - BITS, 0).astype(np.int64))
    return np.asarray(-(-numbers // grain) * grain)
