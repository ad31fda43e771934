"""Public family of hashes, the same in every implementation.

It gives the column of an item in each row:

    h_j(x) = ((a_j x^2 + b_j x + c_j) mod p) mod width        p = 2^61 - 1

    x            an item's word: text as UTF-8 (a lone surrogate as U+FFFD), a whole number as its decimal
                 digits; BLAKE2b of 8 bytes, keyed by the seed, person "sg.localdp.item"; little-endian, its
                 lowest 61 bits, and 0 for p
    a_j b_j c_j  BLAKE2b of 24 bytes of j (8 bytes) and the number of the attempt (1 byte), keyed by the seed,
                 person "sg.localdp.hash"; three little-endian words, their lowest 61 bits each; if one of
                 them is p, the next attempt

The seed, below 2^53, is the key as 8 bytes, and persons are padded with zeros to 16. All numbers are little-endian.
tests/localdp/vectors.json has examples.

Polynomials of degree 2 over a field are 3-wise independent: the words of three items fall anywhere with the same
chance, for any items, and columns do up to width/p. That proves the variance of a sketch, in which an item collides
with two others. The seed must not be chosen in view of the items. Two items share a word with chance 2^-61.

An item is private, so it never raises. A whole float is that whole number, as in columns with gaps, and since
JavaScript cannot distinguish them; from 2^53 on it is not known to be whole. All else is the empty text: other
floats, truth values, missing values, whole numbers from 2^63 on, and objects that raise when they are read.

Arithmetic modulo p on arrays of words of 64 bits is exact, see `streamgauge.prime_field`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.oracle import Item
from streamgauge.noise.coerce import Floats
from streamgauge.prime_field import P, Words, reduce_sum, split_halves

Powers = tuple[Words, Words, Words, Words]  # halves of x^2 and of x


def compute_powers(words: Words) -> Powers:
    high, low = split_halves(words)
    total = low * low + (high + high) * high
    return *split_halves(reduce_sum(total, (high + high) * low)), high, low


def polynomial(row: Words, powers: Powers) -> Words:
    """Return a x^2 + b x + c of words below p; the row is (a, b, c).

    Nothing overflows. The low products of both terms sum to less than 2^63 - 2^33 + 3, the doubled high ones to less
    than 2^62 - 2^33 + 5, and c is below 2^61. The four middle ones sum to less than 2^63, of which less than 2^33 is
    carried and at most 2^61 - 2^31 stays.
    """
    a, b, c = row
    (a1, a0), (b1, b0), (y1, y0, x1, x0) = split_halves(a), split_halves(b), powers
    middle = a1 * y0
    middle += a0 * y1
    middle += b1 * x0
    middle += b0 * x1
    total = a0 * y0
    total += b0 * x0
    total += (a1 + a1) * y1
    total += (b1 + b1) * x1
    total += c
    return reduce_sum(total, middle)


ColumnArray = npt.NDArray[np.int64]

ITEM_PERSON, HASH_PERSON = b"sg.localdp.item\0", b"sg.localdp.hash\0"
MAX_HASHES, MAX_WIDTH, MAX_SEED = 2**20, 2**20, 2**53 - 1
INTEGER_LIMIT = 2**63
SAFE_INTEGER_LIMIT = 2**53  # whole numbers below it are the same in every client
BLOCK_HASHES = 1 << 13  # hashes evaluated at once: with these words in the cache a second thread would gain nothing
SPARSE_ROW_FACTOR = 16  # one row in so many is computed by itself


def encode_item(item: Any) -> bytes:
    """Return an item as bytes; read nothing but the item, and never raise."""
    try:
        if isinstance(item, str):
            try:
                return str.encode(item)
            except UnicodeEncodeError:
                return str.encode(item, "utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        if isinstance(item, int | np.integer) and not isinstance(item, bool) and abs(int(item)) < INTEGER_LIMIT:
            return str(int(item)).encode()
        if isinstance(item, float | np.floating) and abs(float(item)) < SAFE_INTEGER_LIMIT and float(item).is_integer():
            return str(int(item)).encode()
    except Exception:
        return b""
    return b""


def encode_items(items: Any) -> list[bytes]:
    """Return the bytes of each of a list of items.

    Reject other types without their text.
    """
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ValueError(f"items must be a list, one for each device, got {type(items).__name__}")
    return [encode_item(item) for item in items]


def _split_words(digest: bytes) -> list[int]:
    return [int.from_bytes(digest[at : at + 8], "little") & P for at in range(0, len(digest), 8)]


@lru_cache(maxsize=8)
def coefficients(hashes: int, seed: int) -> Words:
    """Return a, b and c of every row, (3, hashes)."""
    return np.array([compute_row_coefficients(row, seed) for row in range(hashes)], np.uint64).T.copy()


def compute_row_coefficients(row: int, seed: int) -> list[int]:
    """Return a, b and c of one row."""
    for attempt in range(256):
        data = row.to_bytes(8, "little") + bytes([attempt])
        drawn = _split_words(blake2b(data, digest_size=24, key=seed.to_bytes(8, "little"), person=HASH_PERSON).digest())
        if P not in drawn:
            break
    return drawn


@dataclass(frozen=True)
class HashFamily:
    """A number of hashes of the family of a seed."""

    hashes: int
    width: int
    seed: int

    def word(self, item: object) -> int:
        key = self.seed.to_bytes(8, "little")
        (word,) = _split_words(blake2b(encode_item(item), digest_size=8, key=key, person=ITEM_PERSON).digest())
        return word % P

    def words(self, items: Iterable[Item]) -> Words:
        """Return the words of every item; each distinct text is digested once."""
        texts = encode_items(items)
        known = {text: self.word(text.decode()) for text in set(texts)}
        return np.array([known[text] for text in texts], np.uint64)

    def column(self, row: int, item: object) -> int:
        """Return the column of one item in one row, by plain arithmetic."""
        a, b, c = compute_row_coefficients(row, self.seed)
        x = self.word(item)
        return (a * x * x + b * x + c) % P % self.width

    def columns(self, rows: ColumnArray, words: Words) -> ColumnArray:
        """Return the columns of words in rows, broadcast against each other."""
        return self._columns(self._rows(rows), compute_powers(words))

    def _rows(self, rows: ColumnArray) -> Words:
        """Return the coefficients of rows; a device with one row does not compute all."""
        if SPARSE_ROW_FACTOR * rows.size > self.hashes:
            return coefficients(self.hashes, self.seed)[:, rows]
        made = [compute_row_coefficients(row, self.seed) for row in rows.ravel().tolist()]
        return np.array(made, np.uint64).T.reshape(3, *rows.shape)

    def _columns(self, rows: Words, powers: Powers) -> ColumnArray:
        value = polynomial(rows, powers)
        if self.width & (self.width - 1) == 0:
            value &= np.uint64(self.width - 1)
        else:
            value -= value // np.uint64(self.width) * np.uint64(self.width)
        return value.view(np.int64)

    def sums(self, items: Sequence[Item], table: Callable[[int, int], npt.NDArray[Any]]) -> Floats:
        """Return for each item the sum of its cells over all rows.

        `table(first, last)` returns the cells of rows.
        """
        family, powers = coefficients(self.hashes, self.seed), compute_powers(self.words(items))
        step = max(BLOCK_HASHES // max(len(items), self.width), 1)
        total = np.zeros(len(items))
        for first in range(0, self.hashes, step):
            last = min(first + step, self.hashes)
            places = self._columns(family[:, first:last, None], powers)
            places += np.arange(0, (last - first) * self.width, self.width)[:, None]
            total += table(first, last).reshape(-1).take(places).sum(0)
        return total
