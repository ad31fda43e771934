"""A public family of hashes, the same in every implementation: which column an item has in each row.

    h_j(x) = ((a_j x^2 + b_j x + c_j) mod p) mod width        p = 2^61 - 1

    x            an item's word: text as UTF-8 (a lone surrogate as U+FFFD), a whole number as its decimal
                 digits; BLAKE2b of 8 bytes, keyed by the seed, person "sg.localdp.item"; little-endian, its
                 lowest 61 bits, and 0 for p
    a_j b_j c_j  BLAKE2b of 24 bytes of j (8 bytes) and the number of the attempt (1 byte), keyed by the seed,
                 person "sg.localdp.hash"; three little-endian words, their lowest 61 bits each; if one of
                 them is p, the next attempt

The seed, below 2^53, is the key as 8 bytes, and persons are padded with zeros to 16; all numbers are
little-endian. tests/localdp/vectors.json has examples.

Polynomials of degree 2 over a field are 3-wise independent: the words of three items fall anywhere with the
same chance, whatever the items are, and columns do up to width/p. That is what the variance of a sketch is
proved from, in which an item collides with two others. The seed must not be chosen in view of the items;
two items share a word with chance 2^-61.

An item is private, so it never raises. A float that is whole is that whole number, as columns with gaps have
them, and as JavaScript cannot tell them apart; from 2^53 on it is not known to be. What is neither text nor a
whole number below 2^63 is the empty text: other floats, truth values, what is missing, and what raises when
it is looked at.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.mersenne import P, Powers, Words, polynomial, powers_of
from streamgauge.localdp.oracle import Item
from streamgauge.noise.numbers import Floats

Columns = npt.NDArray[np.int64]

ITEM, HASH = b"sg.localdp.item\0", b"sg.localdp.hash\0"
MOST_HASHES, MOST_WIDTH, MOST_SEED = 2**20, 2**20, 2**53 - 1
FARTHEST = 2**63
SAFE = 2**53  # whole numbers below it are the same in every client
BLOCK = 1 << 13  # hashes evaluated at once: with these words in the cache a second thread would gain nothing
FEW = 16  # one row in so many is made by itself


def text_of(item: Any) -> bytes:
    """An item as bytes; looks at nothing but the item."""
    try:
        return _text(item)
    except Exception:
        return b""


def _text(item: Any) -> bytes:
    if isinstance(item, str):
        return _utf8(item)
    if isinstance(item, int | np.integer) and not isinstance(item, bool) and abs(int(item)) < FARTHEST:
        return str(int(item)).encode()
    if isinstance(item, float | np.floating) and abs(float(item)) < SAFE and float(item).is_integer():
        return str(int(item)).encode()
    return b""


def texts_of(items: Any) -> list[bytes]:
    """Of a list of items, which may be anything; what is no list is refused, and not shown."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ValueError(f"items must be a list, one for each device, got {type(items).__name__}")
    return [text_of(item) for item in items]


def _utf8(text: str) -> bytes:
    try:
        return str.encode(text)
    except UnicodeEncodeError:
        return str.encode(text, "utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _words(digest: bytes) -> list[int]:
    return [int.from_bytes(digest[at : at + 8], "little") & P for at in range(0, len(digest), 8)]


@lru_cache(maxsize=8)
def coefficients(hashes: int, seed: int) -> Words:
    """(3, hashes): a, b and c of every row."""
    return np.array([coefficients_of(row, seed) for row in range(hashes)], np.uint64).T.copy()


def coefficients_of(row: int, seed: int) -> list[int]:
    """a, b and c of one row."""
    for attempt in range(256):
        data = row.to_bytes(8, "little") + bytes([attempt])
        drawn = _words(blake2b(data, digest_size=24, key=seed.to_bytes(8, "little"), person=HASH).digest())
        if P not in drawn:
            break
    return drawn


@dataclass(frozen=True)
class Hashes:
    """So many hashes of the family of a seed."""

    hashes: int
    width: int
    seed: int

    def word(self, item: object) -> int:
        key = self.seed.to_bytes(8, "little")
        (word,) = _words(blake2b(text_of(item), digest_size=8, key=key, person=ITEM).digest())
        return word % P

    def words(self, items: Iterable[Item]) -> Words:
        """Of every item; each distinct text is digested once."""
        texts = texts_of(items)
        known = {text: self.word(text.decode()) for text in set(texts)}
        return np.array([known[text] for text in texts], np.uint64)

    def column(self, row: int, item: object) -> int:
        """Of one item in one row, by plain arithmetic."""
        a, b, c = coefficients_of(row, self.seed)
        x = self.word(item)
        return (a * x * x + b * x + c) % P % self.width

    def columns(self, rows: Columns, words: Words) -> Columns:
        """Of words in rows, broadcast against each other."""
        return self._columns(self._rows(rows), powers_of(words))

    def _rows(self, rows: Columns) -> Words:
        """The coefficients of rows: a device that needs one row does not make all."""
        if FEW * rows.size > self.hashes:
            return coefficients(self.hashes, self.seed)[:, rows]
        made = [coefficients_of(row, self.seed) for row in rows.ravel().tolist()]
        return np.array(made, np.uint64).T.reshape(3, *rows.shape)

    def _columns(self, rows: Words, powers: Powers) -> Columns:
        value = polynomial(rows, powers)
        if self.width & (self.width - 1) == 0:
            value &= np.uint64(self.width - 1)
        else:
            value -= value // np.uint64(self.width) * np.uint64(self.width)
        return value.view(np.int64)

    def sums(self, items: Sequence[Item], table: Callable[[int, int], npt.NDArray[Any]]) -> Floats:
        """For each item the sum of its cells over all rows; `table(first, last)` gives the cells of rows."""
        family, powers = coefficients(self.hashes, self.seed), powers_of(self.words(items))
        step = max(BLOCK // max(len(items), self.width), 1)
        total = np.zeros(len(items))
        for first in range(0, self.hashes, step):
            last = min(first + step, self.hashes)
            places = self._columns(family[:, first:last, None], powers)
            places += np.arange(0, (last - first) * self.width, self.width)[:, None]
            total += table(first, last).reshape(-1).take(places).sum(0)
        return total
