"""Randomised response with any number of sides: the item, or another of the list.

    device      place of the item with chance `kept`, else one of the d - 1 other places at random
    estimate    by `Support`: a report supports the item that it names       d items

    code = place, below d

Privacy
    Local, pure epsilon. Proof: a place has chance kept for its own item and (1 - kept)/(d - 1) for any
    other. Their ratio is at most e^epsilon (`noise.bernoulli.keep_probability`). A device whose item is not on
    the list first draws one that is, each with the same chance, so that its law is a mixture of the others'.

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

from streamgauge.localdp.coded_reports import CodedMechanism, Support, build_response_support, choose_response
from streamgauge.localdp.domain import NOT_LISTED, DomainMechanism
from streamgauge.localdp.mechanism import resolve_noise
from streamgauge.localdp.oracle import Item
from streamgauge.localdp.report_bytes import Reports, pack_codes
from streamgauge.noise import RandomSource
from streamgauge.noise.bernoulli import keep_probability


@dataclass(frozen=True)
class RandomisedResponse(DomainMechanism, CodedMechanism):
    """Counts from one item a device, often a false one; see the module's claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"kept": keep_probability(self.loss.epsilon, self.codes)}

    @property
    def codes(self) -> int:
        return len(self.items)

    @property
    def support(self) -> Support:
        return build_response_support(self.chances["kept"], self.codes)

    def encode(self, item: Item, truthful: int, other: int, substitute: int = 0) -> bytes:
        """Return the report of an item, given the draws.

        They are whether the true place is sent, and which of the other places is sent if not. `substitute` is the place
        of the item that replaces one that is not on the list.
        """
        place = self.find_place(item)
        code = choose_response(substitute if place == NOT_LISTED else place, int(truthful), other)
        return int(code).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, place = resolve_noise(noise), self.find_places(items)
        is_true = chance.coins(self.chances["kept"], len(place))
        other, instead = (chance.uniform(sides, len(place)) for sides in (self.codes - 1, self.codes))
        place = np.where(place == NOT_LISTED, instead, place)
        return pack_codes(choose_response(place, is_true.astype(np.int64), other), self.report_size)
