"""Optimised unary encoding: a private vector of bits, one for each listed item.

    device      a bit for each item: 1 with chance 1/2 for its own, with chance `flip` for any other
    estimate    by `Support`: a report supports the items whose bit is 1      d items

    report = d bits

Privacy
    Local, pure epsilon. Proof: two items differ in the law of two bits, whose ratios are (1/2)/flip at most
    and (1 - flip)/(1/2) at most. Their product is at most e^epsilon (`noise.bernoulli.flip_probability`). A
    device whose item is not on the list has no bit for it: one of the two ratios alone.

Error
    Unbiased; exactly own = (1/4)/g^2 and other = flip (1 - flip)/g^2 with g = 1/2 - flip in the formula of
    `oracle`: 4 e^epsilon/(e^epsilon - 1)^2 for a rare item, for any d. A device whose item is not on the list
    counts for none. A liar who sets every bit moves all estimates at once, each by `influence`.

Reference
    Wang, Blocki, Li, Jha: Locally differentially private protocols for frequency estimation, USENIX Security
    2017. Erlingsson, Pihur, Korolova: RAPPOR, CCS 2014, has the same vector with epsilon/2 for each bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.localdp.coded_reports import Support
from streamgauge.localdp.domain import NOT_LISTED, DomainMechanism
from streamgauge.localdp.mechanism import resolve_noise
from streamgauge.localdp.oracle import Item, Table
from streamgauge.localdp.report_bytes import Reports, bytes_for, slice_chunks
from streamgauge.noise import Ints, RandomSource
from streamgauge.noise.bernoulli import flip_probability
from streamgauge.noise.coerce import Bools
from streamgauge.noise.entropy import Bytes


@dataclass(frozen=True)
class UnaryEncoding(DomainMechanism):
    """Counts from one bit for each item; see the module's claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"own": Fraction(1, 2), "flip": flip_probability(self.loss.epsilon)}

    @property
    def report_bits(self) -> int:
        return len(self.items)

    @property
    def report_size(self) -> int:
        return bytes_for(self.report_bits)

    @property
    def support(self) -> Support:
        return Support(self.chances["own"], self.chances["flip"])

    def encode(self, item: Item, own: int, flips: Sequence[int]) -> bytes:
        """Return the report of an item, given its own bit and one for every item.

        The own bit replaces the item's one among the latter.
        """
        bits = np.array([flips], np.uint8)
        return self._pack_bits(self.find_places([item]), np.array([own], np.uint8), bits).tobytes()

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, place = resolve_noise(noise), self.find_places(items)
        own = chance.coins(self.chances["own"], len(place))
        parts = [np.empty((0, self.report_size), np.uint8)]
        for at in slice_chunks(len(place), self.report_bits):
            flips = chance.coins(self.chances["flip"], len(place[at]) * self.report_bits)
            parts.append(self._pack_bits(place[at], own[at], flips.reshape(-1, self.report_bits)))
        return np.concatenate(parts)

    def _pack_bits(self, place: Ints, own: Bytes, bits: Bytes) -> Reports:
        inside = np.flatnonzero(place != NOT_LISTED)
        bits[inside, place[inside]] = own[inside]
        return np.packbits(bits, 1, bitorder="little")

    def well_formed(self, reports: Reports) -> Bools:
        rest = 8 * self.report_size - self.report_bits
        return np.asarray(reports[:, -1] < 1 << (8 - rest))

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        for at in slice_chunks(len(reports), self.report_bits):
            bits = np.unpackbits(reports[at], 1, self.report_bits, "little")
            table += weight * bits.sum(0, dtype=table.dtype)
