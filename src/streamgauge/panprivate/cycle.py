"""A table of cycles: how often users have come, up to t times, in two bytes for each.

    start       c_x uniform in 0..t-1, b_x ~ absent
    x appears   c_x moves on by 1 modulo t; when it comes round to 0, b_x ~ present

After n appearances c_x is uniform still, and given c_x = j it has come round if and only if n > j: it began
at j - n modulo t. So the entries with c_x = j are randomised responses to "has x come more than j times?",
for j = 0..t-1 at once, each asked of a t-th of the users. With s_j the sum of 2 b_x - 1 over them,

    E s_j = (m/t) [2 absent - 1 + 2 gap P(n > j)]

and a release is a sum of weights w_j in {-1, 0, 1} times s_j, under noise: it estimates the mean over users
of T(n) = sum of w_j for j < min(n, t).

Privacy
    Neighbours: all appearances of one user. Promise: pure, (intrusions + 1) state_loss + releases
    output_loss.
    Proof: that of `table_claim`. (c_x, b_x) has the law uniform x absent or present, whatever n is: any two
    are within e^entry_epsilon. An entry adds -1, 0 or 1 to a release: it moves it by MOVE = 2 at most.
    Announced: an entry is kept with chance k and else drawn from uniform x present, the law that appearances
    leave as it is. Two rows of that channel, or two laws of what comes out of it and any appearances, are
    within 1 + k/((1 - k) r), where r = min(present, 1 - present)/t is the least chance in it: k is such
    that this is at most e^entry_epsilon. (c_x alone, seen twice, would tell how often x came in between.)

Error
    Unbiased. The variance of a release is m times the mean over users of |w|/t - M(n)^2, plus the noise,
    where |w| is the number of weights that are not 0 and M(n) = [(2 absent - 1) sum w + 2 gap T(n)]/t the
    mean of an entry's part. An announced intrusion leaves `present` as it is and multiplies the gap by k^2,
    about (tanh(e/2)/t)^2: dear, but unbiased. Two bytes an entry, t up to LONGEST.

Hashed
    Users share cells, whose counts are sums of theirs. All s_j are released, each under the same noise: an
    entry is in one of them, so that all together move by MOVE; `compound` tells from them how often users
    came, unbiased to first order. Long cycles of crowded cells tell nothing: their intervals have no end.

Reference
    The cycle and its bit are those of the t-cropped mean of Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010.
    They take the users who came k times or more from two such tables, at half the loss each and errors that
    grow with k^2; that c_x tells who has come round, so that one table does, and the channel, are of this
    library.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Chance, Ints
from streamgauge.noise.entropy import Wiped
from streamgauge.noise.responses import dyadic
from streamgauge.panprivate.randomised_response import Response, above_one
from streamgauge.panprivate.table import Table
from streamgauge.panprivate.users import PIECE

LONGEST = 2**14  # c_x and the appearances of one piece add up in 15 bits
TWO = np.uint16(2)
ONE = np.uint16(1)

Entries = npt.NDArray[np.uint16]  # 2 c_x + b_x
assert PIECE + LONGEST <= 2**15


@dataclass(frozen=True)
class Cycle:
    """Cycles of `length` steps, under the laws of `response`, for a loss of `epsilon` an entry."""

    length: int
    response: Response
    epsilon: Fraction = field(repr=False)

    @cached_property
    def kept(self) -> Fraction:
        """The chance of an entry to be kept by the channel of announced intrusions."""
        rarest = min(self.response.present, 1 - self.response.present) / self.length
        odds = above_one(self.epsilon) * rarest
        return dyadic(odds / (1 + odds))

    def laws(self, intrusions: int) -> Response:
        """The laws of a bit after so many announced intrusions: the channel forgets towards `present`."""
        present = self.response.present
        return Response(present - self.kept ** (2 * intrusions) * self.response.gap, present)

    def begun(self, entries: int, noise: Chance) -> Table:
        table = Table(np.empty(entries, np.uint16))
        for part in table.stretches():
            with Wiped() as secret:
                np.copyto(part, secret(self._fresh(self.response.absent, len(part), noise)))
        return table

    def _fresh(self, chance: Fraction, size: int, noise: Chance) -> Entries:
        """Uniform cycles with bits of this chance."""
        with Wiped() as secret:
            bits = secret(noise.coins(chance, size))
            turns = secret(noise.uniform(self.length, size)).astype(np.uint16)
            turns *= TWO
            turns += secret(bits.astype(np.uint16))
            return turns

    def advance(self, table: Table, places: Ints, noise: Chance) -> None:
        """Users appear, at most PIECE of them; as often as they are there, in whatever order."""
        with Wiped() as secret:
            bits = secret(
                noise.coins(self.response.present, len(places))
            )  # before entries move, should it fail
            np.add.at(table.entries, places, TWO)
            entries = secret(table.entries.take(places, mode="clip"))
            turns = secret(entries >> ONE)
            laps = secret(turns // np.uint16(self.length))
            bits ^= secret(entries.astype(np.uint8))
            bits &= secret(np.minimum(laps, ONE).astype(np.uint8))  # where it came round, what to change
            laps *= np.uint16(2 * self.length)
            entries -= laps
            entries ^= secret(bits.astype(np.uint16))
            table.entries[places] = entries

    def forget(self, table: Table, noise: Chance) -> None:
        """Sends every entry through the channel."""
        for part in table.stretches():
            with Wiped() as secret:
                fresh = secret(self._fresh(self.response.present, len(part), noise))
                lost = secret(noise.coins(1 - self.kept, len(part)))
                np.copyto(part, fresh, where=lost.view(np.bool_))

    def signed(self, table: Table, secret: Wiped) -> Ints:
        """s_j for every j."""
        counts = secret(table.counts(2 * self.length))
        return secret(counts[1::2] - counts[::2])
