"""What the claims over tables of bits share: a bit for each user, of the absent law or of the present one.

Announced intrusions send every bit through the channel 0 -> absent, 1 -> present, before the hand-over and
after it; from then on users who come are drawn from what has become of `present`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streamgauge.noise import Chance, DiscreteLaplace
from streamgauge.panprivate.bits import send
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.own_chance import sums_epsilon, surest
from streamgauge.panprivate.randomised_response import Response, response
from streamgauge.panprivate.table import Table, blank
from streamgauge.panprivate.table_claim import TableClaim


@dataclass(frozen=True)
class BitClaim(TableClaim[Table, Estimated]):
    """An estimate from how many bits are 1."""

    @cached_property
    def response(self) -> Response:
        """The laws of an entry, which are the channel of announced intrusions too."""
        return response(self.law, self.entry_epsilon)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Of a number of ones: `output_loss` is for what chance of bits leaves of it (`own_chance`)."""
        left = self.releases * self.output_loss.epsilon / self.moved
        return DiscreteLaplace(self.releases / sums_epsilon(left, surest(self.response, self.intrusions)))

    def laws(self, intrusions: int) -> Response:
        """The laws of an entry after so many announced intrusions."""
        return self.response.through(self.response, 2 * intrusions)

    def check_law(self) -> None:
        _ = self.response, self.noise

    def blank(self, width: int) -> Table:
        return blank(width, np.uint8)

    def initial(self, noise: Chance) -> Table:
        return Table(noise.coins(self.response.absent, self.entries))

    def copied(self, state: Table) -> Table:
        return state.copy()

    def rerandomise(self, state: Table, before: int, noise: Chance) -> None:
        send(state, self.response, noise)
