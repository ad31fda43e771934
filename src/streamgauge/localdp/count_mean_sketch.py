"""Apple's count-mean sketch: a private vector of bits a report, for items of any kind, known or not.

    device      row j at random; v = -1 everywhere but +1 at h_j(item); each sign flipped with chance `flip`
    collector   O[j, i] = reports of row j with v[i] = +1;  c = 1/(1 - 2 flip)
    estimate    (m/(m - 1)) (c sum_j O[j, h_j(item)] - n (c - 1)/2 - n/m)       m columns, n reports

    report = j (as many bytes as hashes need), then m bits, 1 for +1

Privacy
    Local, pure epsilon. Proof: j is drawn before the item is looked at. The vectors of two items differ in
    at most two signs, each of which loses epsilon/2 (`noise.responses.flip` of half the loss).

Error
    Unbiased over hashes and coins. With v = (m/(m - 1))^2: own = v (c^2 - 1)/4, other = own + 1/(m - 1),
    shared = 1/(hashes (m - 1)) in the formula of `oracle`; exact, since hashes are 3-wise independent. The
    sum of squares of all counts is estimated from the sketch itself, unbiased, by how much the vectors of a
    row agree.

Reference
    Apple, Differential Privacy Team: Learning with privacy at scale, 2017. At large m the vector tells more
    than the bit of `HadamardCountMeanSketch`, for m times the bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.claim import source
from streamgauge.localdp.oracle import Item, Spread, Table
from streamgauge.localdp.reports import Reports, bits_for, bytes_for, packed, unpacked
from streamgauge.localdp.sketch import SketchClaim, likely_most
from streamgauge.noise import Chance
from streamgauge.noise.entropy import Bytes
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.noise.responses import flip

AT_ONCE = 1 << 20  # bits of reports that are unpacked together


@dataclass(frozen=True)
class CountMeanSketch(SketchClaim):
    """Counts from one vector of bits a device; see the module's claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip(self.loss.epsilon / 2)}

    @property
    def report_bits(self) -> int:
        return bits_for(self.hashes) + self.width

    @property
    def row_size(self) -> int:
        """Bytes of the number of a row."""
        return bytes_for(bits_for(self.hashes))

    @property
    def report_size(self) -> int:
        return self.row_size + bytes_for(self.width)

    @property
    def influence(self) -> float:
        most = max(abs((1 + side * self.scale) / 2 - 1 / self.width) for side in (-1, 1))
        return self.stretch * most

    @property
    def spread(self) -> Spread:
        own = self.stretch**2 * (self.scale**2 - 1) / 4
        return Spread(own, own + 1 / (self.width - 1), self.shared)

    @property
    def apart(self) -> float:
        return self.stretch * self.scale

    def encode(self, item: Item, row: int, flips: Sequence[int]) -> bytes:
        """The report of an item, given what was drawn: a row and, for each column, whether its sign is
        flipped."""
        bits = np.array(flips, np.uint8)
        bits[self.family.column(row, item)] ^= 1
        return self._joined(np.array([row]), bits[None, :]).tobytes()

    def privatise_many(self, items: Sequence[Item], noise: Chance | None = None) -> Reports:
        chance, words = source(noise), self.family.words(items)
        row = chance.uniform(self.hashes, len(words))
        column = self.family.columns(row, words)
        parts = [self._flipped(row[at], column[at], chance) for at in self._pieces(len(words))]
        return np.concatenate([np.empty((0, self.report_size), np.uint8), *parts])

    def _flipped(self, row: npt.NDArray[np.int64], column: npt.NDArray[np.int64], noise: Chance) -> Reports:
        bits = noise.coins(self.chances["flip"], len(row) * self.width).reshape(len(row), self.width)
        bits[np.arange(len(row)), column] ^= 1
        return self._joined(row, bits)

    def _joined(self, row: npt.NDArray[np.int64], bits: Bytes) -> Reports:
        return np.hstack([packed(row, self.row_size), np.packbits(bits, 1, bitorder="little")])

    def _pieces(self, count: int) -> list[slice]:
        step = max(AT_ONCE // self.width, 1)
        return [slice(at, at + step) for at in range(0, count, step)]

    def blank(self) -> Table:
        """A column more than the sketch has: how many reports each row has had."""
        return self.cells(self.width + 1)

    def well_formed(self, reports: Reports) -> Bools:
        good = unpacked(reports[:, : self.row_size]) < self.hashes
        if self.width % 8:
            good &= reports[:, -1] >> (self.width % 8) == 0
        return np.asarray(good)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        rows = unpacked(reports[:, : self.row_size]).astype(np.int64)
        order = np.argsort(rows, kind="stable")
        for at in self._pieces(len(rows)):
            chosen = order[at]
            bits = np.unpackbits(reports[chosen, self.row_size :], 1, self.width, "little")
            self._add(table, rows[chosen], bits, weight)

    def _add(self, table: Table, rows: npt.NDArray[np.int64], bits: Bytes, weight: int) -> None:
        """Rows in order: each is added up once."""
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.diff(starts, append=len(rows))
        table[rows[starts], : self.width] += weight * np.add.reduceat(bits, starts, 0, table.dtype)
        table[rows[starts], self.width] += (weight * counts).astype(table.dtype)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        ones = self.family.sums(items, lambda first, last: table[first:last, : self.width])
        return self.stretch * (self.scale * ones - reports * ((self.scale - 1) / 2 + 1 / self.width))

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """By how much sums of signs differ from their row's mean: of two reports of a row the signs about
        their means agree in 4/c^2 columns more if they collide, and in -4/(m c^2) if not."""
        most = likely_most(reports, self.hashes, copies)
        sent = np.minimum(table[:, self.width], most)
        pairs = float(sent @ (sent - copies))
        agreed = sum(self._agreed(part, most) for part in np.array_split(table, self.parts))
        itself = self.width - 1 - (self.width - 5 + 4 / self.width) / self.scale**2
        alone = itself * copies * float(sent.sum())
        collided = (self.scale**2 * (agreed - alone) + 4 / self.width * pairs) / 4
        return self.squares_from(self.hashes * collided, copies * reports, self.hashes * pairs)

    def _agreed(self, part: Table, most: float) -> float:
        """The sum of the squares of the sums of signs about their row's mean, of so many reports of a row
        at most."""
        signs = 2.0 * (part[:, : self.width] - part[:, : self.width].mean(1, keepdims=True))
        signs *= np.minimum(most / np.maximum(part[:, self.width :], 1), 1)
        return float(np.vdot(signs, signs))
