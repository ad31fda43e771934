"""Randomised response, of any number of sides: the item itself, or else another one of the list.

    device      place of the item, kept with chance `kept`, else one of the d - 1 other places at random
    estimate    by `support`: a report supports the item that it names       d items

    code = place, below d

Privacy
    Local, pure epsilon. Proof: a place has chance kept for its own item and (1 - kept)/(d - 1) for any
    other; their ratio is at most e^epsilon (`noise.responses.kept`). A device whose item is not on the list
    first draws one that is, each with the same chance, so that its law is a mixture of the others'.

Error
    Unbiased; exactly own = kept (1 - kept)/g^2 and other = q (1 - q)/g^2 with q = (1 - kept)/(d - 1) and g =
    kept - q in the formula of `oracle`: (e^epsilon + d - 2)/(e^epsilon - 1)^2 for a rare item. Best while d
    < 3 e^epsilon + 2. Estimates of the whole list add up to the reports, so that a device whose item is not
    on it adds 1/d to each.

Reference
    Warner: Randomized response, JASA 60, 1965, for two sides; Kairouz, Oh, Viswanath: Extremal mechanisms
    for local differential privacy, JMLR 17, 2016.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.localdp.claim import source
from streamgauge.localdp.coded import CodedClaim, kept_or_other, responded
from streamgauge.localdp.domain import OUTSIDE, DomainClaim
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.reports import Reports, packed
from streamgauge.localdp.support import Support
from streamgauge.noise import Chance
from streamgauge.noise.responses import kept


@dataclass(frozen=True)
class RandomisedResponse(DomainClaim, CodedClaim):
    """Counts from one item a device, often a false one; see the module's claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"kept": kept(self.loss.epsilon, self.codes)}

    @property
    def codes(self) -> int:
        return len(self.items)

    @property
    def support(self) -> Support:
        return kept_or_other(self.chances["kept"], self.codes)

    def encode(self, item: Item, kept: int, other: int, instead: int = 0) -> bytes:
        """The report of an item, given what was drawn: whether it is kept, which of the other places is sent
        if not, and the place of the item that stands in for one that is not on the list."""
        place = self.place(item)
        code = responded(instead if place == OUTSIDE else place, int(kept), other)
        return int(code).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports:
        chance, place = source(noise), self.places(items)
        kept = chance.coins(self.chances["kept"], len(place))
        other, instead = (chance.uniform(sides, len(place)) for sides in (self.codes - 1, self.codes))
        place = np.where(place == OUTSIDE, instead, place)
        return packed(responded(place, kept.astype(np.int64), other), self.report_size)
