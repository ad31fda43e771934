"""Density: which part of a universe of users has come at least once. One byte for each user.

    start       b_x ~ absent                     a bit for each user x of the sample
    x appears   b_x ~ present                    drawn anew at every appearance, the first or not
    release     ones = sum b_x + noise           whole numbers
    estimate    (ones/m - absent)/(present - absent)

Privacy
    Neighbours: all appearances of one user. Promise: pure, (intrusions + 1) state_loss + releases
    output_loss.
    Proof: that of `table_claim`. However often a user came, b_x has one of two laws, which are within
    e^entry_epsilon (`randomised_response`); a bit moves the sum by 1, if it moves, under noise that makes use
    of that (`own_chance`). Which draw stays, if a user is twice in a batch, is a matter of their order alone.
    Announced: b_x goes through the channel 0 -> absent, 1 -> present before the hand-over and after it.
    From then on `present` is what has become of it: users who come later are drawn from that law, which
    lies between the two, so that the entries of all who came have one law.

Error
    Unbiased, unless hashed. Given that the part f came, the variance is exactly
    [f v(present) + (1 - f) v(absent) + 2-sided noise/m]/(m gap^2) + f (1 - f) (u - m)/((u - 1) m), v(p) = p
    (1 - p), for a sample of m of u. Announced intrusions multiply the gap by the channel's, twice each.

Hashed
    Users share cells. With D users in u cells a cell is taken with probability g = 1 - (1 - 1/u)^D, so the
    estimate of g is turned into D/u = log(1 - g)/(u log(1 - 1/u)), with the variance of the number of taken
    cells in the error (delta method; cut at 0, and where half a cell is left). Value is D/u: it can be
    above 1. With "before" users were hashed by whoever hands them in, and are numbers of cells.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010; Dwork: Differential privacy in new settings, SODA 2010,
    Figure 1. There noise of scale 1/(epsilon m) is added after the fraction of ones is multiplied by
    4/epsilon: a user who comes after the intrusion then loses more than 3 instead of epsilon. Here it is
    added to the ones.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, sqrt
from typing import Any

from streamgauge.noise import Chance, Ints
from streamgauge.noise.entropy import Wiped
from streamgauge.panprivate.bit_claim import BitClaim
from streamgauge.panprivate.bits import Count, noisy_ones, redraw
from streamgauge.panprivate.deviations import Around, drawn, largest, sampled
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.occupancy import Occupied
from streamgauge.panprivate.splits import best_split
from streamgauge.panprivate.table import Table
from streamgauge.panprivate.table_settings import check_asked
from streamgauge.panprivate.users import LARGE, Cells, Universe, entry_of, pieces


@dataclass(frozen=True)
class Density(BitClaim):
    """The part of the universe that has come; see the module's claim."""

    @cached_property
    def users(self) -> Universe | Cells:
        return entry_of(self)

    def best_split(self) -> Fraction:
        return best_split(lambda share: replace(self, split=share).stddev(intrusions=self.intrusions))

    def take(self, state: Table, users: Any, intrusions: int, noise: Chance) -> None:
        present = self.laws(intrusions).present
        for piece in pieces(users, LARGE):
            with Wiped() as secret:
                redraw(state.entries, self.users.places(piece, secret), present, noise)

    def release(self, state: Table, noise: Chance) -> Ints:
        return noisy_ones([state.entries], self.noise, noise)

    def count(self, intrusions: int) -> Count:
        return Count(self.entries, self.laws(intrusions), self.noise)

    def estimated(self, released: Ints, intrusions: int) -> Estimated:
        count = self.count(intrusions)
        value = count.part(int(released[0]))
        if self.hashed:
            return self._in_cells(value, count, intrusions)
        parts = [*count.deviations(), *drawn(1.0, self.entries, self.universe)]
        stddev = self.stddev(min(max(value, 0.0), 1.0), intrusions)
        return Estimated(value, stddev, self.universe, Around(value, parts))

    def _in_cells(self, taken: float, count: Count, intrusions: int) -> Estimated:
        occupied = Occupied(self.universe, self.entries)
        value = float(occupied.load(taken))
        within = count.in_cells(taken, occupied)
        return Estimated(value, self.stddev(value, intrusions), self.universe, within, highest=inf)

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """The standard error where `value` is the truth; without one, where it is largest (hashed: at load
        1)."""
        check_asked(self, value, intrusions)
        count = self.count(intrusions)
        if self.hashed:
            load = 1.0 if value is None else value
            return float(Occupied(self.universe, self.entries).stddev(load, count.variance))
        ends = count.variance(0.0), count.variance(1.0)
        bent = sampled(self.entries, self.universe)
        at = largest(*ends, bent) if value is None else value
        return sqrt(count.variance(at) + bent * at * (1 - at))
