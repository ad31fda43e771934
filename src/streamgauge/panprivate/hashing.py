"""Public hashing and sampling: which entry of a table a user has, if any. No secret and no data take part.

Both are fixed by `seed` before the stream begins. The error that they make is counted over seeds, so the seed
must not be chosen in view of users, nor users in view of the seed.

    Hash      any 64 bits to one of `cells`, as if at random; two users may share a cell
    Sample    a permutation of 0..universe-1, as if at random; the users sent below `entries` are the sample

The permutation is a Feistel network on a grid of A x B >= universe places, A and B about its square root;
what falls outside of the universe is sent through it again.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import isqrt
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.noise.entropy import Wiped

Words = npt.NDArray[np.uint64]
Short = npt.NDArray[np.uint32]
W = TypeVar("W", Words, Short)

ROUNDS = 6  # half rounds: each side of the grid is moved by the other three times
HALF = np.uint64(32)
SHORT_STEPS = (np.uint32(16), np.uint32(0x7FEB352D)), (np.uint32(15), np.uint32(0x846CA68B))
MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of the mixer called SplitMix64
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def key(purpose: str, seed: int, number: int = 0) -> np.uint64:
    """64 public bits."""
    return np.uint64(int.from_bytes(sha256(f"{purpose} {seed} {number}".encode()).digest()[:8], "little"))


def mix(words: Words, salt: np.uint64, room: Words) -> None:
    """Replaces 64-bit words by a permutation of theirs in which every bit depends on every bit."""
    np.bitwise_xor(words, salt, out=words)
    for shift, factor in zip(SHIFTS, (*MULTIPLIERS, None), strict=True):
        np.right_shift(words, shift, out=room)
        np.bitwise_xor(words, room, out=words)
        if factor is not None:
            np.multiply(words, factor, out=words)


def mix_short(words: Short, room: Short) -> None:
    """The same for 32 bits."""
    for shift, factor in SHORT_STEPS:
        np.multiply(words, factor, out=words)
        np.right_shift(words, shift, out=room)
        np.bitwise_xor(words, room, out=words)


def reduce(words: W, modulus: int, room: W) -> None:
    """Replaces words by their remainders."""
    divisor = words.dtype.type(modulus)
    np.floor_divide(words, divisor, out=room)
    np.multiply(room, divisor, out=room)
    np.subtract(words, room, out=words)


@dataclass(frozen=True)
class Hash:
    """Sends words to 0..cells-1; `number` tells one hash of a seed from another."""

    cells: int
    seed: int
    number: int = 0

    @cached_property
    def _salt(self) -> np.uint64:
        return key("streamgauge cells", self.seed, self.number)

    def send(self, words: Words) -> None:
        """In place."""
        with Wiped() as secret:
            room = secret(np.empty_like(words))
            mix(words, self._salt, room)
            reduce(words, self.cells, room)


@dataclass(frozen=True)
class Sample:
    """Sends 0..universe-1 to itself, one to one."""

    universe: int
    seed: int

    @cached_property
    def _grid(self) -> tuple[int, int]:
        wide = isqrt(self.universe - 1) + 1 if self.universe > 1 else 1
        return -(-self.universe // wide), wide

    @cached_property
    def _salts(self) -> list[np.uint32]:
        return [np.uint32(key("streamgauge sample", self.seed, number) >> HALF) for number in range(ROUNDS)]

    def send(self, words: Words) -> None:
        """In place."""
        self._once(words)
        with Wiped() as secret:
            while True:
                outside = secret(np.flatnonzero(words >= np.uint64(self.universe)))
                if not len(outside):
                    return
                again = secret(words[outside])
                self._once(again)
                words[outside] = again

    def _once(self, words: Words) -> None:
        tall, wide = self._grid
        with Wiped() as secret:
            rows = secret(words // np.uint64(wide))
            high = secret(rows.astype(np.uint32))
            np.multiply(rows, np.uint64(wide), out=rows)
            low = secret(np.subtract(words, rows, out=rows).astype(np.uint32))
            mixed, room = (secret(np.empty_like(high)) for _ in range(2))
            for number, salt in enumerate(self._salts):
                moved, by, modulus = (low, high, wide) if number % 2 else (high, low, tall)
                np.bitwise_xor(by, salt, out=mixed)
                mix_short(mixed, room)
                reduce(mixed, modulus, room)
                np.add(moved, mixed, out=moved)
                reduce(moved, modulus, room)
            np.copyto(words, high)
            np.multiply(words, np.uint64(wide), out=words)
            np.add(words, low, out=words)
