"""Table entries of a batch of items, by public hashing and sampling.

Every item is judged by itself, so that no user's presence changes the reading of another. In a universe, a whole
number from 0 to universe - 1 of any type (3, 3.0 and NumPy's 3 are one user) is a user. With `hashed` every whole
number, modulo 2^64, and every text is one. In slots all of these are users but -1, which is an empty one, and with
it 2^64 - 1. All else is dropped silently. Arrays are overwritten when the piece is done. The batch itself is the
caller's. A generator is no batch and is rejected, for any items.

The entry of a user, if any, is fixed by `seed` before the stream begins. No secret and no data take part. The error
of hashing and sampling is averaged over seeds. So the seed must not be chosen in view of users, nor users in view
of the seed.

    Hash                 any 64 bits to one of `cells`, as if at random; two users may share a cell
    SamplePermutation    a permutation of 0..universe-1, as if at random; users mapped below `entries` are the sample

The permutation is a Feistel network on a grid of A x B >= universe places, A and B about its square root. A place
outside of the universe is mapped again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, sha256
from math import isqrt
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.memory import WipedArrays
from streamgauge.noise import Ints
from streamgauge.noise.coerce import as_array, as_number
from streamgauge.panprivate.validation import Settings

Words = npt.NDArray[np.uint64]
ShortWords = npt.NDArray[np.uint32]
W = TypeVar("W", Words, ShortWords)

FEISTEL_HALF_ROUNDS = 6  # each side of the grid is moved by the other three times
HALF_WORD_BITS = np.uint64(32)
SHORT_MIX_STEPS = (np.uint32(16), np.uint32(0x7FEB352D)), (np.uint32(15), np.uint32(0x846CA68B))
MIX_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of the mixer called SplitMix64
MIX_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def derive_public_key(purpose: str, seed: int, number: int = 0) -> np.uint64:
    """Return 64 public bits."""
    return np.uint64(int.from_bytes(sha256(f"{purpose} {seed} {number}".encode()).digest()[:8], "little"))


def mix_words(words: Words, salt: np.uint64, buffer: Words) -> None:
    """Replace 64-bit words by a permutation in which every bit depends on every bit."""
    np.bitwise_xor(words, salt, out=words)
    for shift, factor in zip(MIX_SHIFTS, (*MIX_MULTIPLIERS, None), strict=True):
        np.right_shift(words, shift, out=buffer)
        np.bitwise_xor(words, buffer, out=words)
        if factor is not None:
            np.multiply(words, factor, out=words)


def mix_short_words(words: ShortWords, buffer: ShortWords) -> None:
    """Mix words of 32 bits in the same manner."""
    for shift, factor in SHORT_MIX_STEPS:
        np.multiply(words, factor, out=words)
        np.right_shift(words, shift, out=buffer)
        np.bitwise_xor(words, buffer, out=words)


def reduce_words(words: W, modulus: int, buffer: W) -> None:
    """Replace words by their remainders."""
    divisor = words.dtype.type(modulus)
    np.floor_divide(words, divisor, out=buffer)
    np.multiply(buffer, divisor, out=buffer)
    np.subtract(words, buffer, out=words)


@dataclass(frozen=True)
class Hash:
    """A map of words to 0..cells-1; `number` distinguishes hashes of one seed."""

    cells: int
    seed: int
    number: int = 0

    def map_words(self, words: Words) -> None:
        """Replace words by their cells, in place."""
        with WipedArrays() as secret:
            buffer = secret(np.empty_like(words))
            mix_words(words, derive_public_key("streamgauge cells", self.seed, self.number), buffer)
            reduce_words(words, self.cells, buffer)


@dataclass(frozen=True)
class SamplePermutation:
    """A permutation of 0..universe-1."""

    universe: int
    seed: int

    @cached_property
    def _grid(self) -> tuple[int, int]:
        wide = isqrt(self.universe - 1) + 1 if self.universe > 1 else 1
        return -(-self.universe // wide), wide

    @cached_property
    def _salts(self) -> list[np.uint32]:
        keys = (derive_public_key("streamgauge sample", self.seed, number) for number in range(FEISTEL_HALF_ROUNDS))
        return [np.uint32(key >> HALF_WORD_BITS) for key in keys]

    def map_words(self, words: Words) -> None:
        """Replace words by their images, in place."""
        self._permute_grid(words)
        with WipedArrays() as secret:
            while True:
                outside = secret(np.flatnonzero(words >= np.uint64(self.universe)))
                if not len(outside):
                    return
                again = secret(words[outside])
                self._permute_grid(again)
                words[outside] = again

    def _permute_grid(self, words: Words) -> None:
        tall, wide = self._grid
        with WipedArrays() as secret:
            rows = secret(words // np.uint64(wide))
            high = secret(rows.astype(np.uint32))
            np.multiply(rows, np.uint64(wide), out=rows)
            low = secret(np.subtract(words, rows, out=rows).astype(np.uint32))
            mixed, room = (secret(np.empty_like(high)) for _ in range(2))
            for number, salt in enumerate(self._salts):
                moved, by, modulus = (low, high, wide) if number % 2 else (high, low, tall)
                np.bitwise_xor(by, salt, out=mixed)
                mix_short_words(mixed, room)
                reduce_words(mixed, modulus, room)
                np.add(moved, mixed, out=moved)
                reduce_words(moved, modulus, room)
            np.copyto(words, high)
            np.multiply(words, np.uint64(wide), out=words)
            np.add(words, low, out=words)


PIECE_ITEMS = 1 << 14  # items read at once: their arrays stay in the cache
LARGE_PIECE_ITEMS = 1 << 16  # the same, for little work on each
NO_USER_WORD = 2**64 - 1  # the word of -1
HALF_WORD_RANGE = 2.0**63

Items = npt.NDArray[Any]


@dataclass(frozen=True)
class Universe:
    """Users 0..universe-1, of whom those mapped below `entries` have an entry."""

    universe: int
    entries: int
    seed: int

    def find_places(self, piece: Items, secret: WipedArrays) -> Ints:
        """Return the entries of the users among the items, in order.

        Arrays that depend on users are handed to `secret`.
        """
        words = _keep_below(_to_words(piece, self._word, secret), self.universe, secret)
        if self.entries < self.universe:
            SamplePermutation(self.universe, self.seed).map_words(words)
            words = _keep_below(words, self.entries, secret)
        return words.view(np.int64)

    def _word(self, item: Any) -> int:
        number = as_number(item)
        return int(number) if 0 <= number < self.universe and number == int(number) else NO_USER_WORD


@dataclass(frozen=True)
class HashedUniverse:
    """Users of any kind, hashed to cells, of which the first `entries` have an entry."""

    hash: Hash
    entries: int
    has_slots: bool = False  # in slots -1 is no user, as in a universe

    def find_places(self, piece: Items, secret: WipedArrays) -> Ints:
        """Return the entries of the users among the items, in order."""
        words = hash_names(piece, secret)
        if self.has_slots:
            words = _keep_below(words, NO_USER_WORD, secret)
        self.hash.map_words(words)
        if self.entries < self.hash.cells:
            words = _keep_below(words, self.entries, secret)
        return words.view(np.int64)


def build_universe(claim: Settings, *, slots: bool = False) -> Universe | HashedUniverse:
    """Return the map from users to entries of a claim.

    Users that were hashed before are numbers of cells.
    """
    if claim.hashed is True:
        return HashedUniverse(Hash(claim.universe, claim.seed), claim.entries, slots)
    return Universe(claim.universe, claim.entries, claim.seed)


def check_batch(users: Any) -> None:
    """Reject inputs that yield items one by one: the type of a batch is public."""
    if issubclass(type(users), Iterator):
        raise TypeError(f"users must be a batch such as an array or a list, got {type(users).__name__}")


def split_batch(users: Any, size: int = PIECE_ITEMS) -> Iterator[Items]:
    """Yield a batch as short arrays."""
    items = as_array(users).reshape(-1)
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _to_words(piece: Items, word: Callable[[Any], int], secret: WipedArrays) -> Words:
    """Return whole numbers as 64-bit words, modulo 2^64, others as a word of no user."""
    if piece.dtype.kind not in "iubfO":
        return secret(np.zeros(0, np.uint64))
    piece = _drop_masked(piece, secret)
    if piece.dtype.kind in "iub":
        words = piece.astype(np.int64, copy=False)
        return (words if np.may_share_memory(words, piece) else secret(words)).view(np.uint64)
    return secret(np.fromiter(map(word, piece.tolist()), np.uint64, len(piece)))


def _drop_masked(piece: Items, secret: WipedArrays) -> Items:
    if isinstance(piece, np.ma.MaskedArray):
        return secret(np.asarray(piece)[secret(~np.ma.getmaskarray(piece))])
    return piece


def _keep_below(words: Words, limit: int, secret: WipedArrays) -> Words:
    return secret(words[secret(words < np.uint64(limit))])


def hash_names(piece: Items, secret: WipedArrays) -> Words:
    """Return a word for each whole number or text, in a new array."""
    if piece.dtype.kind not in "iubfOUS":
        return secret(np.zeros(0, np.uint64))
    piece = _drop_masked(piece, secret)
    if piece.dtype.kind in "iub":
        return secret(piece.astype(np.int64).view(np.uint64))
    names = [name for name in map(_hash_name, piece.tolist()) if name is not None]
    return secret(np.array(names, np.uint64))


def _hash_name(item: Any) -> int | None:
    """Return 64 bits for a whole number or a text; None for all else."""
    try:
        if isinstance(item, str | bytes):
            text = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
            return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
        number = as_number(item)
        whole = abs(number) < 2 * HALF_WORD_RANGE and number == int(number) and item == int(item)
        return int(item) % 2**64 if whole else None
    except Exception:
        return None
