"""Apple's count-mean sketch: a private vector of bits a report, for any items.

    device      row j at random; v = -1 everywhere but +1 at h_j(item); each sign flipped with chance `flip`
    collector   O[j, i] = reports of row j with v[i] = +1;  c = 1/(1 - 2 flip)
    estimate    (m/(m - 1)) (c sum_j O[j, h_j(item)] - n (c - 1)/2 - n/m)       m columns, n reports

    report = j (as many bytes as hashes need), then m bits, 1 for +1

Both count-mean sketches share rows of hashed columns, and the arithmetic of collisions. An item collides with another
in a row with chance 1/m, so that of n reports (n - f)/m of other items fall on an item with f reports. Subtracting
n/m and multiplying by `stretch` = m/(m - 1) leaves f on average.

Privacy
    Local, pure epsilon. Proof: j is drawn before the item is read. The vectors of two items differ in at most
    two signs, each of which loses epsilon/2 (`noise.bernoulli.flip_probability` of half the loss).

Error
    Unbiased over hashes and coins. With v = (m/(m - 1))^2: own = v (c^2 - 1)/4, other = own + 1/(m - 1),
    shared = 1/(hashes (m - 1)) in the formula of `oracle`; exact, since hashes are 3-wise independent. The
    sum of squares of all counts is estimated from the sketch itself, unbiased, by the agreement of the vectors
    of a row. Rows of tables (or cells, if devices draw them) are cut to the reports that honest devices send
    there: liars who all send one report would dominate the estimate.

Reference
    Apple, Differential Privacy Team: Learning with privacy at scale, 2017. At large m the vector says more
    than the bit of `HadamardCountMeanSketch`, for m times the bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.hashing import MAX_HASHES, MAX_SEED, MAX_WIDTH, HashFamily
from streamgauge.localdp.mechanism import LocalMechanism, normalize_whole, resolve_noise
from streamgauge.localdp.oracle import Item, Spread, Table, allocate_table
from streamgauge.localdp.report_bytes import Reports, bits_for, bytes_for, pack_codes, slice_chunks, unpack_codes
from streamgauge.noise import RandomSource
from streamgauge.noise.bernoulli import flip_probability
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.noise.entropy import Bytes

MAX_SKETCH_CELLS = 2**30
PART_CELLS = 2**20  # cells whose squares are summed at once


@dataclass(frozen=True)
class SketchMechanism(LocalMechanism):
    """The settings of a sketch."""

    hashes: int = 1024
    width: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        normalize_whole(self, "hashes", 1, MAX_HASHES)
        normalize_whole(self, "width", 2, MAX_WIDTH)
        normalize_whole(self, "seed", 0, MAX_SEED)
        if self.hashes * self.width > MAX_SKETCH_CELLS:
            raise ValueError(f"width must be at most 2**30 / hashes, got {self.width}")
        self.chances  # noqa: B018 - rejects a loss that is too small

    @property
    def family(self) -> HashFamily:
        return HashFamily(self.hashes, self.width, self.seed)

    @property
    def stretch(self) -> float:
        return self.width / (self.width - 1)

    @property
    def scale(self) -> float:
        """c: the factor that makes a flipped sign right on average."""
        return float(1 / (1 - 2 * self.chances["flip"]))

    @property
    def shared(self) -> float:
        return 1 / (self.hashes * (self.width - 1))

    @property
    def parts(self) -> int:
        """The number of parts that a table is split into to save memory."""
        return min(self.hashes, -(-self.hashes * self.width // PART_CELLS))

    @property
    def hash_shape(self) -> tuple[int, int] | None:
        return self.hashes, self.width

    def build_table(self) -> Table:
        return allocate_table(self.hashes, self.width)

    def estimate_squares(self, collided_pairs: float, self_pairs: int, pairs: float) -> float:
        """Return the sum of squares of counts from unbiased numbers of pairs of reports.

        Pairs are ordered. `collided_pairs` share a column. `pairs` are all but the `self_pairs` of a report and
        itself or a copy. Pairs of one item always share a column, others with chance 1/m.
        """
        return self_pairs + self.stretch * (collided_pairs - pairs / self.width)


def bound_part_reports(reports: int, parts: int, copies: int = 1) -> float:
    """Return a bound of the reports in any random part of a table.

    It fails once in 1,000 tables.

    It is Bernstein's bound. Further reports were sent by liars, for any items.
    """
    mean, need = reports / copies / parts, log(1000 * parts)
    return copies * (mean + need / 3 + sqrt(need**2 / 9 + 2 * mean * need))


@dataclass(frozen=True)
class CountMeanSketch(SketchMechanism):
    """Counts from one vector of bits a device; see the module's claim."""

    @property
    def chances(self) -> dict[str, Fraction]:
        return {"flip": flip_probability(self.loss.epsilon / 2)}

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
        return self.stretch * max(abs((1 + side * self.scale) / 2 - 1 / self.width) for side in (-1, 1))

    @property
    def spread(self) -> Spread:
        own = self.stretch**2 * (self.scale**2 - 1) / 4
        return Spread(own, own + 1 / (self.width - 1), self.shared)

    @property
    def value_spacing(self) -> float:
        return self.stretch * self.scale

    def encode(self, item: Item, row: int, flips: Sequence[int]) -> bytes:
        """Return the report of an item, given a row and a flip for each column."""
        bits = np.array(flips, np.uint8)
        bits[self.family.column(row, item)] ^= 1
        return self._join_row(np.array([row]), bits[None, :]).tobytes()

    def privatise_many(self, items: Sequence[Item], noise: RandomSource | None = None) -> Reports:
        chance, words = resolve_noise(noise), self.family.words(items)
        row = chance.uniform(self.hashes, len(words))
        column = self.family.columns(row, words)
        parts = [np.empty((0, self.report_size), np.uint8)]
        for at in slice_chunks(len(words), self.width):
            size = len(row[at])
            bits = chance.coins(self.chances["flip"], size * self.width).reshape(size, self.width)
            bits[np.arange(size), column[at]] ^= 1
            parts.append(self._join_row(row[at], bits))
        return np.concatenate(parts)

    def _join_row(self, row: npt.NDArray[np.int64], bits: Bytes) -> Reports:
        return np.hstack([pack_codes(row, self.row_size), np.packbits(bits, 1, bitorder="little")])

    def build_table(self) -> Table:
        """Return the table, with one more column for the number of reports of each row."""
        return allocate_table(self.hashes, self.width + 1)

    def well_formed(self, reports: Reports) -> Bools:
        good = unpack_codes(reports[:, : self.row_size]) < self.hashes
        if self.width % 8:
            good &= reports[:, -1] >> (self.width % 8) == 0
        return np.asarray(good)

    def tally(self, table: Table, reports: Reports, weight: int) -> None:
        """Add reports in the order of their rows, so that each row is added up once."""
        rows = unpack_codes(reports[:, : self.row_size]).astype(np.int64)
        order = np.argsort(rows, kind="stable")
        for at in slice_chunks(len(rows), self.width):
            chosen, part = order[at], rows[order[at]]
            bits = np.unpackbits(reports[chosen, self.row_size :], 1, self.width, "little")
            starts = np.flatnonzero(np.diff(part, prepend=-1))
            counts = np.diff(starts, append=len(part))
            table[part[starts], : self.width] += weight * np.add.reduceat(bits, starts, 0, table.dtype)
            table[part[starts], self.width] += (weight * counts).astype(table.dtype)

    def counts(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        ones = self.family.sums(items, lambda first, last: table[first:last, : self.width])
        return self.stretch * (self.scale * ones - reports * ((self.scale - 1) / 2 + 1 / self.width))

    def squares(self, table: Table, reports: int, copies: int = 1) -> float:
        """Estimate the squares by how much sums of signs differ from their row's mean.

        The signs about their means of two reports of a row agree in 4/c^2 columns more if they collide, and in
        -4/(m c^2) if not.
        """
        most = bound_part_reports(reports, self.hashes, copies)
        sent = np.minimum(table[:, self.width], most)
        pairs = float(sent @ (sent - copies))
        agreed = sum(self._sum_agreement(part, most) for part in np.array_split(table, self.parts))
        itself = self.width - 1 - (self.width - 5 + 4 / self.width) / self.scale**2
        alone = itself * copies * float(sent.sum())
        collided = (self.scale**2 * (agreed - alone) + 4 / self.width * pairs) / 4
        return self.estimate_squares(self.hashes * collided, copies * reports, self.hashes * pairs)

    def _sum_agreement(self, part: Table, max_reports: float) -> float:
        """Return the sum of the squares of the sums of signs about their row's mean.

        Each row has at most so many reports.
        """
        signs = 2.0 * (part[:, : self.width] - part[:, : self.width].mean(1, keepdims=True))
        signs *= np.minimum(max_reports / np.maximum(part[:, self.width :], 1), 1)
        return float(np.vdot(signs, signs))
