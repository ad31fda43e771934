"""Hadamard response: a code a report that agrees with half of the list.

It agrees with the item more often than not:

    device      item x supports the codes y with H[x + 1, y] = 1, half of all K; one of them at random, or,
                with chance `flip`, one of the other half
    estimate    by `Support`: half of all codes that support an item support any other      H is K by K

    code = y, below K = the least power of 2 above the number of items

A code of the wanted half is drawn as any code. If it is in the other half, the lowest bit of x + 1 is flipped in it,
which is a bijection between the halves.

H[l, c] = (-1)^(number of ones in l & c), of a width that is a power of 2. H of width 2^(s+t) is the Kronecker product
of those of widths 2^s and 2^t. So a row, as a matrix R, is transformed into H R H: two products with small matrices.
Exact: all sums are of whole numbers below 2^53.

Privacy
    Local, pure epsilon. Proof: a code has chance 2 (1 - flip)/K or 2 flip/K for every item. Their ratio is at
    most e^epsilon (`noise.bernoulli.flip_probability`). A device whose item is not on the list sends any code:
    1/K.

Error
    Unbiased; exactly own = c^2 - 1 and other = c^2 with c = 1/(1 - 2 flip) in the formula of `oracle`: as
    `HadamardCountMeanSketch` without collisions. A device whose item is not on the list counts for none,
    since rows 1 to K - 1 of H have as many -1 as 1. A liar who sends code 0, which supports the whole list,
    moves all estimates at once, each by `influence`.

Reference
    Acharya, Sun, Zhang: Hadamard response, AISTATS 2019; the version for high privacy, in which a code
    supports half of the items for any epsilon. It wastes some of a large epsilon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.coded_reports import CodedMechanism, Support
from streamgauge.localdp.domain import DomainMechanism
from streamgauge.localdp.mechanism import resolve_noise
from streamgauge.localdp.oracle import Item, Table, allocate_table
from streamgauge.localdp.report_bytes import Reports, pack_codes
from streamgauge.noise import RandomSource
from streamgauge.noise.bernoulli import flip_probability
from streamgauge.noise.coerce import Floats


@lru_cache(maxsize=32)
def hadamard_matrix(width: int) -> Floats:
    """Return H, of 1 and -1.

    >>> hadamard_matrix(2)
    array([[ 1.,  1.],
           [ 1., -1.]])
    """
    numbers = np.arange(width)
    return np.asarray(1.0 - 2.0 * negative_signs(numbers[:, None], numbers), np.float64)


def negative_signs(lines: npt.NDArray[np.integer[Any]], columns: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint8]:
    """Return 1 where H is -1, else 0."""
    return np.asarray(np.bitwise_count(lines & columns) & 1, np.uint8)


def hadamard_transform(rows: npt.NDArray[Any]) -> Floats:
    """Return H times every row."""
    count, width = rows.shape
    low = 1 << (width.bit_length() - 1) // 2
    cells = rows.astype(np.float64).reshape(count * (width // low), low) @ hadamard_matrix(low)
    return np.asarray(hadamard_matrix(width // low) @ cells.reshape(count, width // low, low)).reshape(count, width)


@dataclass(frozen=True)
class HadamardResponse(DomainMechanism, CodedMechanism):
    """Counts from one code a device, which half of the list shares; see the module."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon)}

    @property
    def codes(self) -> int:
        return 1 << len(self.items).bit_length()

    @property
    def support(self) -> Support:
        return Support(1 - self.chances["flip"], Fraction(1, 2))

    def encode(self, item: Item, code: int, flipped: int) -> bytes:
        """Return the report of an item, given the draws: a code, and a switch of halves."""
        row = self.find_place(item) + 1
        wrong = ((code & row).bit_count() + flipped) % 2
        return (code ^ wrong * (row & -row)).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, row = resolve_noise(noise), self.find_places(items) + 1
        code = chance.uniform(self.codes, len(row))
        flipped = chance.coins(self.chances["flip"], len(row))
        return pack_codes(code ^ (negative_signs(code, row) ^ flipped) * (row & -row), self.report_size)

    def build_table(self) -> Table:
        return allocate_table(self.codes)

    def count_support(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return np.asarray((reports + hadamard_transform(table[None, :])[0, self.require_places(items) + 1]) / 2)
