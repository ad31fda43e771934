"""Hadamard response: a code a report that agrees with half of the list, the item more often than not.

    device      item x supports the codes y with H[x + 1, y] = 1, half of all K; one of them at random, or,
                with chance `flip`, one of the other half
    estimate    by `support`: half of all codes that support an item support any other      H is K by K

    code = y, below K = the least power of 2 above the number of items

A code of the wanted half is drawn as any code; if it is in the other half, the lowest bit of x + 1 is turned
in it, which is a bijection between the halves.

Privacy
    Local, pure epsilon. Proof: a code has chance 2 (1 - flip)/K or 2 flip/K for every item; their ratio is at
    most e^epsilon (`noise.responses.flip`). A device whose item is not on the list sends any code: 1/K.

Error
    Unbiased; exactly own = c^2 - 1 and other = c^2 with c = 1/(1 - 2 flip) in the formula of `oracle`: as
    `HadamardCountMeanSketch` without collisions. A device whose item is not on the list counts for none,
    since rows 1 to K - 1 of H have as many -1 as 1. A liar who sends code 0, which supports the whole list,
    moves all estimates at once, each by `influence`.

Reference
    Acharya, Sun, Zhang: Hadamard response, AISTATS 2019; the version for high privacy, in which a code
    supports half of the items whatever epsilon is. It wastes some of a large epsilon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.localdp.claim import source
from streamgauge.localdp.coded import CodedClaim
from streamgauge.localdp.domain import DomainClaim
from streamgauge.localdp.hadamard import minus, transformed
from streamgauge.localdp.oracle import Item, Table, blank_table
from streamgauge.localdp.reports import Reports, packed
from streamgauge.localdp.support import Support
from streamgauge.noise import Chance
from streamgauge.noise.numbers import Floats
from streamgauge.noise.responses import flip


@dataclass(frozen=True)
class HadamardResponse(DomainClaim, CodedClaim):
    """Counts from one code a device, which half of the list shares; see the module's claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip(self.loss.epsilon)}

    @property
    def codes(self) -> int:
        return 1 << len(self.items).bit_length()

    @property
    def support(self) -> Support:
        return Support(1 - self.chances["flip"], Fraction(1, 2))

    def encode(self, item: Item, code: int, flipped: int) -> bytes:
        """The report of an item, given what was drawn: a code, and whether it is to be of the other half."""
        row = self.place(item) + 1
        wrong = ((code & row).bit_count() + flipped) % 2
        return (code ^ wrong * (row & -row)).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports:
        chance, row = source(noise), self.places(items) + 1
        code = chance.uniform(self.codes, len(row))
        flipped = chance.coins(self.chances["flip"], len(row))
        return packed(code ^ (minus(code, row) ^ flipped) * (row & -row), self.report_size)

    def blank(self) -> Table:
        return blank_table(self.codes)

    def supported(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return np.asarray((reports + transformed(table[None, :])[0, self.asked(items) + 1]) / 2)
