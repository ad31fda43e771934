"""Users out of anything: which entries of a table a batch of items is for, piece by piece.

Every item is judged by itself, so that no user's presence changes how another is read: in a universe, a whole
number from 0 to universe - 1 in whatever type (3, 3.0 and NumPy's 3 are one user) is a user, and with
`hashed` every whole number, modulo 2^64, and every text; in slots all of these but -1, which is an empty one,
and with it 2^64 - 1. All else is dropped in silence. What was read is overwritten when the piece is done; the
batch itself is the caller's. A generator is no batch and is refused, whatever it would have given.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Wiped
from streamgauge.noise.numbers import as_array, as_number
from streamgauge.panprivate.hashing import Hash, Sample, Words
from streamgauge.panprivate.table_settings import Hashed

PIECE = 1 << 14  # items read at once: their arrays stay in the cache
LARGE = 1 << 16  # the same, where little is done with each
NOBODY = 2**64 - 1  # the word of -1
EVERY_WORD = 2.0**63

Items = npt.NDArray[Any]


@dataclass(frozen=True)
class Universe:
    """Users 0..universe-1, of whom those sent below `entries` have an entry."""

    universe: int
    entries: int
    seed: int

    def places(self, piece: Items, secret: Wiped) -> Ints:
        """The entries of the users among the items, in order; arrays that tell are handed to `secret`."""
        words = _below(_words(piece, self._word, secret), self.universe, secret)
        if self.entries < self.universe:
            Sample(self.universe, self.seed).send(words)
            words = _below(words, self.entries, secret)
        return words.view(np.int64)

    def _word(self, item: Any) -> int:
        number = as_number(item)
        return int(number) if 0 <= number < self.universe and number == int(number) else NOBODY


@dataclass(frozen=True)
class Cells:
    """Users of any kind, hashed to cells, of which the first `entries` have an entry."""

    hash: Hash
    entries: int
    slots: bool = False  # in slots -1 is nobody, as it is in a universe

    def places(self, piece: Items, secret: Wiped) -> Ints:
        """The entries of the users among the items, in order."""
        words = named(piece, secret)
        if self.slots:
            words = _below(words, NOBODY, secret)
        self.hash.send(words)
        if self.entries < self.hash.cells:
            words = _below(words, self.entries, secret)
        return words.view(np.int64)


class Placed(Protocol):
    """The settings that say who has which entry."""

    @property
    def universe(self) -> int: ...

    @property
    def entries(self) -> int: ...

    @property
    def hashed(self) -> Hashed: ...

    @property
    def seed(self) -> int: ...


def entry_of(claim: Placed, *, slots: bool = False) -> Universe | Cells:
    """Who has which entry under a claim; users that were hashed before are numbers of cells."""
    if claim.hashed is True:
        return Cells(Hash(claim.universe, claim.seed), claim.entries, slots)
    return Universe(claim.universe, claim.entries, claim.seed)


def check_batch(users: Any) -> None:
    """Refuses what gives its items one by one: the type of a batch is public."""
    if issubclass(type(users), Iterator):
        raise TypeError(f"users must be a batch such as an array or a list, got {type(users).__name__}")


def pieces(users: Any, size: int = PIECE) -> Iterator[Items]:
    """A batch as short arrays."""
    items = as_array(users).reshape(-1)
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _words(piece: Items, word: Callable[[Any], int], secret: Wiped) -> Words:
    """Whole numbers as 64-bit words, modulo 2^64; whatever is none as a word that no user has."""
    if piece.dtype.kind not in "iubfO":
        return secret(np.zeros(0, np.uint64))
    if isinstance(piece, np.ma.MaskedArray):
        kept = secret(~np.ma.getmaskarray(piece))
        piece = secret(np.asarray(piece)[kept])
    if piece.dtype.kind in "iub":
        words = piece.astype(np.int64, copy=False)
        return (words if np.may_share_memory(words, piece) else secret(words)).view(np.uint64)
    return secret(np.fromiter(map(word, piece.tolist()), np.uint64, len(piece)))


def _below(words: Words, limit: int, secret: Wiped) -> Words:
    kept = secret(words < np.uint64(limit))
    return secret(words[kept])


def named(piece: Items, secret: Wiped) -> Words:
    """A word for each item that is a whole number or a text, in an array of its own."""
    if piece.dtype.kind not in "iubfOUS":
        return secret(np.zeros(0, np.uint64))
    if isinstance(piece, np.ma.MaskedArray):
        piece = secret(np.asarray(piece)[secret(~np.ma.getmaskarray(piece))])
    if piece.dtype.kind in "iub":
        return secret(piece.astype(np.int64).view(np.uint64))
    names = [name for name in map(_name, piece.tolist()) if name is not None]
    return secret(np.array(names, np.uint64))


def _name(item: Any) -> int | None:
    """64 bits for a whole number or a text; nothing for all else, whatever it raises."""
    try:
        if isinstance(item, str | bytes):
            text = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
            return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
        number = as_number(item)
        whole = abs(number) < 2 * EVERY_WORD and number == int(number) and item == int(item)
        return int(item) % 2**64 if whole else None
    except Exception:
        return None
