"""Apple's Hadamard count-mean sketch: one private bit a report, for any items.

    device      row j and line l at random; sends them, and H[l, h_j(item)] flipped with chance `flip`
    collector   S[j, l] = sum of signs;  M = S H;  c = 1/(1 - 2 flip)
    estimate    (m/(m - 1)) (c sum_j M[j, h_j(item)] - n/m)          m columns, n reports

    code = ((j m + l) << 1) | (the sign is +1), below 2 hashes m

Privacy
    Local, pure epsilon. Proof: j and l are drawn before the item is read, and the sign has chance 1 - flip or
    flip. Their ratio is at most e^epsilon (`noise.bernoulli.flip_probability`).

Error
    Unbiased over hashes and coins. With v = (m/(m - 1))^2: own = v (c^2 - 1), other = v (c^2 - 1/m^2),
    shared = 1/(hashes (m - 1)) in the formula of `oracle`; exact, since hashes are 3-wise independent.
    Given the hashes the items that collide with an item are always the same, so that its error does not
    average out over reports. The sum of squares of all counts is estimated from the sketch itself, unbiased: a
    pair of reports in one cell has equal signs more often if their items are one. A liar who sends + on line 0,
    which is 1 for every item, moves all estimates at once, by less than `influence` each. That line does not
    distinguish items. Without it estimates are unbiased too, with stretch c^2 - 1 for own and stretch c^2 for
    other, stretch = m/(m - 1): more for own if epsilon is above about 1.8.

Reference
    Apple, Differential Privacy Team: Learning with privacy at scale, 2017. Its flip is 1/(1 + e^epsilon).
    Surveys that flip with chance 1/(1 + e^(epsilon/2)), as the vector version does, waste half of the loss.
    Debiased with the constants of the other version the estimates are wrong as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.localdp.coded_reports import CodedMechanism
from streamgauge.localdp.mechanism import resolve_noise
from streamgauge.localdp.oracle import Item, Spread, Table
from streamgauge.localdp.protocols.count_mean_sketch import SketchMechanism, bound_part_reports
from streamgauge.localdp.protocols.hadamard_response import hadamard_transform, negative_signs
from streamgauge.localdp.report_bytes import Reports, pack_codes, unpack_codes
from streamgauge.noise import RandomSource
from streamgauge.noise.bernoulli import flip_probability
from streamgauge.noise.coerce import Floats


@dataclass(frozen=True)
class HadamardCountMeanSketch(SketchMechanism, CodedMechanism):
    """Counts from one bit a device; see the module's claim."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width & (self.width - 1):
            raise ValueError(f"width must be a power of 2, got {self.width}")

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon)}

    @property
    def codes(self) -> int:
        return 2 * self.hashes * self.width

    @property
    def influence(self) -> float:
        return self.stretch * (self.scale + 1 / self.width)

    @property
    def spread(self) -> Spread:
        square, wide = self.stretch**2, self.scale**2
        return Spread(square * (wide - 1), square * (wide - self.width**-2), self.shared)

    @property
    def value_spacing(self) -> float:
        return 2 * self.stretch * self.scale

    def encode(self, item: Item, row: int, line: int, flipped: int) -> bytes:
        """Return the report of an item, given the draws."""
        negative = (line & self.family.column(row, item)).bit_count() + flipped
        code = (row * self.width + line) * 2 + 1 - negative % 2
        return code.to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, words = resolve_noise(noise), self.family.words(items)
        row, line = (chance.uniform(sides, len(words)) for sides in (self.hashes, self.width))
        flipped = chance.coins(self.chances["flip"], len(words))
        negative = negative_signs(line, self.family.columns(row, words)) ^ flipped
        return pack_codes((row * self.width + line) * 2 + 1 - negative, self.report_size)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        codes = unpack_codes(reports)
        signs = (codes & 1).astype(table.dtype)
        signs *= 2 * weight
        signs -= weight
        np.add.at(table.reshape(-1), (codes >> 1).astype(np.int64), signs)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        sums = self.family.sums(items, lambda first, last: hadamard_transform(table[first:last]))
        return self.stretch * (self.scale * sums - reports / self.width)

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """Estimate the squares from the lines after the first.

        Their signs agree on average for reports of one item alone.
        """
        most, alone = bound_part_reports(reports, self.hashes * self.width, copies), copies * reports
        parts = (np.clip(part[:, 1:], -most, most) for part in np.array_split(table, self.parts))
        met = sum(float(np.vdot(part, part)) for part in parts) - alone / self.stretch
        return alone + self.hashes * self.width * self.stretch * self.scale**2 * met
