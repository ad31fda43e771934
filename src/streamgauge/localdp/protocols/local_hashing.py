"""Optimised local hashing: a column of a hash of the item, true or not; any items.

    device      row j at random; column h_j(item) with chance `kept`, else another of the g columns
    estimate    by `Support`: a report supports the items of its column in its row

    code = j g + column, below hashes g

The default width is e^epsilon + 1, rounded, and at most 4,096.

Privacy
    Local, pure epsilon. Proof: j is drawn before the item is read, and a column has chance kept or
    (1 - kept)/(g - 1). Their ratio is at most e^epsilon (`noise.bernoulli.keep_probability`).

Error
    Unbiased over hashes and coins. A report of another item supports an item with chance 1/g: own = kept (1 -
    kept)/(kept - 1/g)^2, other = (1/g)(1 - 1/g)/(kept - 1/g)^2, shared = 1/(hashes (g - 1)) in the formula
    of `oracle`; exact, since hashes are 3-wise independent. At the default width that is 4 e^epsilon /
    (e^epsilon - 1)^2 for a rare item, and collisions, which are many if g is small: use many hashes.
    The sum of squares of all counts is estimated from the table itself, unbiased, by the number of pairs of
    reports of a row with the same column.

Reference
    Wang, Blocki, Li, Jha: Locally differentially private protocols for frequency estimation, USENIX Security
    2017. There every report has its own hash, and an estimate takes time for every report. Here the
    number of hashes is fixed and public, and a table is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp

import numpy as np

from streamgauge.localdp.coded_reports import (
    CodedMechanism,
    Support,
    SupportMechanism,
    build_response_support,
    choose_response,
)
from streamgauge.localdp.mechanism import LocalMechanism, resolve_noise
from streamgauge.localdp.oracle import Item, Table
from streamgauge.localdp.protocols.count_mean_sketch import SketchMechanism, bound_part_reports
from streamgauge.localdp.report_bytes import Reports, pack_codes
from streamgauge.noise import RandomSource
from streamgauge.noise.bernoulli import keep_probability
from streamgauge.noise.coerce import Floats

MAX_DEFAULT_WIDTH = 4096


@dataclass(frozen=True)
class LocalHashing(SketchMechanism, CodedMechanism, SupportMechanism):
    """Counts from one hashed column a device; see the module's claim."""

    width: int = None  # type: ignore[assignment]  # known once the loss is

    def __post_init__(self) -> None:
        LocalMechanism.__post_init__(self)
        if self.width is None:
            object.__setattr__(self, "width", best_width(self.loss.epsilon))
        super().__post_init__()

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"kept": keep_probability(self.loss.epsilon, self.width)}

    @property
    def codes(self) -> int:
        return self.hashes * self.width

    @property
    def support(self) -> Support:
        return Support(self.chances["kept"], Fraction(1, self.width))

    def encode(self, item: Item, row: int, truthful: int, other: int) -> bytes:
        """Return the report of an item, given the draws.

        They are a row, whether the true column is sent, and which of the other columns is sent if not.
        """
        column = choose_response(self.family.column(row, item), int(truthful), other)
        return int(row * self.width + column).to_bytes(self.report_size, "little")

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, words = resolve_noise(noise), self.family.words(items)
        row = chance.uniform(self.hashes, len(words))
        is_true = chance.coins(self.chances["kept"], len(words)).astype(np.int64)
        other = chance.uniform(self.width - 1, len(words))
        column = choose_response(self.family.columns(row, words), is_true, other)
        return pack_codes(row * self.width + column, self.report_size)

    def count_support(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return self.family.sums(items, lambda first, last: table[first:last])

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """Estimate the squares from pairs of reports of a row with the same column.

        Their chance is q (2 kept + (g - 2) q), and (kept - q)^2 more if their items collide.
        """
        column = build_response_support(self.chances["kept"], self.width)
        apart = float(column.other * (2 * column.own + (self.width - 2) * column.other))
        most, same, pairs = bound_part_reports(reports, self.hashes, copies), 0.0, 0.0
        for part in np.array_split(table, self.parts):
            sent = np.minimum(part, most)
            same += float(np.vdot(sent, sent))
            pairs += float(sent.sum(1) @ (sent.sum(1) - copies))
        collided = (same - copies * reports - apart * pairs) / float(column.gap) ** 2
        return self.estimate_squares(self.hashes * collided, copies * reports, self.hashes * pairs)


def best_width(epsilon: Fraction) -> int:
    """Return the width of least variance but for collisions.

    >>> best_width(Fraction(1)), best_width(Fraction(4)), best_width(Fraction(40))
    (4, 56, 4096)
    """
    return round(min(exp(min(float(epsilon), 22.0)), MAX_DEFAULT_WIDTH - 1)) + 1
