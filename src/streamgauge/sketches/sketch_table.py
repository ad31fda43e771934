"""CountSketch without noise: exact cells, and the places of items in them.

    cell (i, h_i(x)) += s_i(x) weight        in each row i
    estimate of x = median over i of s_i(x) cell(i, h_i(x))

All h_i(x) and s_i(x) of an item are disjoint bits of `ItemHash.bits`: log2(columns) + 1 bits a row. A `SketchTable` is
exact memory. It has the sums of machines that trust each other, before noise: tables of one key add up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from streamgauge.memory import WipedArrays
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.prime_field import Words
from streamgauge.sketches.item_hash import ItemHash, Items, iterate_chunks, parse_weights

MAX_ROWS, MAX_COLUMNS = 63, 2**24
WORD_BITS, BLOCK_WORDS = 64, 2
SMALL_SHARE = 8  # below one item for so many cells of a row, cells are added to one at a time
EXACT_FLOAT = 2**53


def check_shape(rows: int, columns: int) -> None:
    """Reject numbers of rows and columns that no table has."""
    if type(rows) is not int or not 1 <= rows <= MAX_ROWS or rows % 2 == 0:
        raise ValueError(f"rows must be an odd number between 1 and {MAX_ROWS}, got {rows!r}")
    if type(columns) is not int or not 2 <= columns <= MAX_COLUMNS or columns & (columns - 1):
        raise ValueError(f"columns must be a power of 2 between 2 and 2**24, got {columns!r}")


@dataclass(frozen=True)
class CellHash:
    """Places and signs of items: rows of so many columns."""

    items: ItemHash = field(repr=False)
    rows: int
    columns: int

    def __post_init__(self) -> None:
        check_shape(self.rows, self.columns)

    @property
    def row_bits(self) -> int:
        return self.columns.bit_length()  # of the column, and one of the sign

    def slots(self, names: Words) -> Iterator[Ints]:
        """Yield for each row the slot of every name: its column, plus `columns` if its sign is -1."""
        per_word = WORD_BITS // self.row_bits
        words = self.items.bits(names, -(-self.rows // (per_word * BLOCK_WORDS)))
        mask = np.uint64(2 * self.columns - 1)
        for row in range(self.rows):
            word, place = divmod(row, per_word)
            yield ((words[:, word] >> np.uint64(place * self.row_bits)) & mask).view(np.int64)

    def add(self, cells: Ints, names: Words, weights: Ints | None, bound: int) -> None:
        """Add items to cells, (rows, columns); weights are at most `bound` each."""
        for part, heavy in iterate_chunks(names, weights):
            for row, slots in enumerate(self.slots(part)):
                with WipedArrays() as secret:
                    cells[row] += secret(self.sum_slots(secret(slots), heavy, bound))

    def sum_slots(self, slots: Ints, weights: Ints | None, bound: int) -> Ints:
        """Return what items add to the cells of a row. Sums are exact, also those in floats."""
        if SMALL_SHARE * len(slots) >= self.columns and len(slots) * bound < EXACT_FLOAT:
            with WipedArrays() as secret:
                sums = secret(np.bincount(slots, weights, 2 * self.columns))
                return secret(sums[: self.columns] - sums[self.columns :]).astype(np.int64)
        signed = 1 - 2 * (slots >= self.columns).astype(np.int64)
        found = np.zeros(self.columns, np.int64)
        np.add.at(found, slots & (self.columns - 1), signed if weights is None else signed * weights)
        return found

    def read(self, cells: npt.NDArray[np.int64] | Floats, names: Words) -> Floats:
        """Return the signed cells of names: a row for each row, before the median."""
        found = np.empty((self.rows, len(names)))
        for row, slots in enumerate(self.slots(names)):
            cell = cells[row, slots & (self.columns - 1)]
            found[row] = np.where(slots < self.columns, cell, -cell)
        return found


@dataclass
class SketchTable:
    """Exact CountSketch of items with weights, for deletions too. Not private.

    >>> table = SketchTable(CellHash(ItemHash(bytes(32)), rows=5, columns=64))
    >>> table.update(["tea", "tea", "salt"]); table.update(["tea"], [-1])
    >>> table.estimate(["tea", "salt", "rice"])
    array([1., 1., 0.])
    """

    hash: CellHash
    bound: int = 2**31  # largest weight of an item
    cells: Ints = field(init=False, repr=False)  # exact: signed sums of weights

    def __post_init__(self) -> None:
        self.cells = np.zeros((self.hash.rows, self.hash.columns), np.int64)

    def update(self, items: Items, weights: npt.ArrayLike | None = None) -> None:
        """Add items, each with a weight (default 1)."""
        names = self.hash.items.names(items)
        self.hash.add(self.cells, names, parse_weights(weights, self.bound, len(names)), self.bound)

    def merge(self, other: "SketchTable") -> None:
        """Take over the sums of another table of the same key and shape. Any order of merges gives the same sums.

        The other table is empty afterwards: if its items stayed, the next merge would count them again.
        """
        if self is other:
            raise ValueError("other must be another table, got the table itself, whose items would count twice")
        same = self.hash.items.key == other.hash.items.key
        if not same or self.cells.shape != other.cells.shape or self.bound != other.bound:
            raise ValueError("other must be a table of the same key, shape and bound, got another")
        self.cells += other.cells
        other.cells.fill(0)

    def estimate(self, items: Items) -> Floats:
        """Return the estimated total weight of each item."""
        return np.asarray(np.median(self.hash.read(self.cells, self.hash.items.names(items)), axis=0))

    def second_moment(self) -> float:
        """Return the estimated sum of squared totals: the median of the squared norms of rows."""
        return float(np.median((self.cells.astype(np.float64) ** 2).sum(axis=1)))
