"""Optimised local hashing: a column of a hash of the item, kept or not; for items of any kind, known or not.

    device      row j at random; column h_j(item), kept with chance `kept`, else another of the g columns
    estimate    by `support`: a report supports the items of its column in its row

    code = j g + column, below hashes g

The width is e^epsilon + 1, rounded, unless told otherwise, and then at most 4,096.

Privacy
    Local, pure epsilon. Proof: j is drawn before the item is looked at, and a column has chance kept or (1 -
    kept)/(g - 1); their ratio is at most e^epsilon (`noise.responses.kept`).

Error
    Unbiased over hashes and coins. A report of another item supports an item with chance 1/g: own = kept (1 -
    kept)/(kept - 1/g)^2, other = (1/g)(1 - 1/g)/(kept - 1/g)^2, shared = 1/(hashes (g - 1)) in the formula
    of `oracle`; exact, since hashes are 3-wise independent. At the default width that is 4 e^epsilon /
    (e^epsilon - 1)^2 for a rare item, and collisions, which are many where g is small: take many hashes.
    The sum of squares of all counts is estimated from the table itself, unbiased, by how many pairs of
    reports of a row have the same column.

Reference
    Wang, Blocki, Li, Jha: Locally differentially private protocols for frequency estimation, USENIX Security
    2017. There every report has a hash of its own, and an estimate takes time for every report; here hashes
    are so many and public, and a table is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp

import numpy as np

from streamgauge.localdp.claim import LocalClaim, source
from streamgauge.localdp.coded import CodedClaim, kept_or_other, responded
from streamgauge.localdp.oracle import Item, Table
from streamgauge.localdp.reports import Reports, packed
from streamgauge.localdp.sketch import SketchClaim, likely_most
from streamgauge.localdp.support import Support, SupportClaim
from streamgauge.noise import Chance
from streamgauge.noise.numbers import Floats
from streamgauge.noise.responses import kept

WIDEST = 4096  # columns, where none are asked for


@dataclass(frozen=True)
class LocalHashing(SketchClaim, CodedClaim, SupportClaim):
    """Counts from one hashed column a device; see the module's claim."""

    width: int = None  # type: ignore[assignment]  # known once the loss is

    def __post_init__(self) -> None:
        LocalClaim.__post_init__(self)
        if self.width is None:
            object.__setattr__(self, "width", best_width(self.loss.epsilon))
        super().__post_init__()

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"kept": kept(self.loss.epsilon, self.width)}

    @property
    def codes(self) -> int:
        return self.hashes * self.width

    @property
    def support(self) -> Support:
        return Support(self.chances["kept"], Fraction(1, self.width))

    def encode(self, item: Item, row: int, kept: int, other: int) -> bytes:
        """The report of an item, given what was drawn: a row, whether the column is kept, and which of the
        other columns is sent if not."""
        column = responded(self.family.column(row, item), int(kept), other)
        return int(row * self.width + column).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports:
        chance, words = source(noise), self.family.words(items)
        row = chance.uniform(self.hashes, len(words))
        kept = chance.coins(self.chances["kept"], len(words)).astype(np.int64)
        other = chance.uniform(self.width - 1, len(words))
        column = responded(self.family.columns(row, words), kept, other)
        return packed(row * self.width + column, self.report_size)

    def blank(self) -> Table:
        return self.cells(self.width)

    def supported(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return self.family.sums(items, lambda first, last: table[first:last])

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """Two reports of a row have the same column with chance q (2 kept + (g - 2) q), and (kept - q)^2 more
        if their items collide."""
        column = kept_or_other(self.chances["kept"], self.width)
        apart = float(column.other * (2 * column.own + (self.width - 2) * column.other))
        most, same, pairs = likely_most(reports, self.hashes, copies), 0.0, 0.0
        for part in np.array_split(table, self.parts):
            sent = np.minimum(part, most)
            same += float(np.vdot(sent, sent))
            pairs += float(sent.sum(1) @ (sent.sum(1) - copies))
        collided = (same - copies * reports - apart * pairs) / float(column.gap) ** 2
        return self.squares_from(self.hashes * collided, copies * reports, self.hashes * pairs)


def best_width(epsilon: Fraction) -> int:
    """Of least variance but for collisions.

    >>> best_width(Fraction(1)), best_width(Fraction(4)), best_width(Fraction(40))
    (4, 56, 4096)
    """
    return round(min(exp(min(float(epsilon), 22.0)), WIDEST - 1)) + 1
