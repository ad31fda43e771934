"""Family of k-wise independent hashes, public: polynomials of degree k - 1 over a prime field.

    h(x) = ((c_(k-1) x^(k-1) + ... + c_1 x + c_0) mod p) mod buckets        p = 2^61 - 1

With uniform coefficients the values of any k distinct words are independent and uniform on the field. Proof: a
polynomial of degree below k is determined by its values at k points, so coefficients and values are in bijection.
Buckets are uniform up to buckets/p. Signs are the lowest bit of the value: fair up to 1/p.

k = 2 bounds the variance of a count-min row, k = 3 that of a mean of collisions, k = 4 that of `SecondMoment`.

Coefficients are derived from a key by BLAKE2b. The key must be drawn before the stream and apart from it. Words of
items come from `ItemHash.words`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Self

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.prime_field import P, Words, multiply_add

COEFFICIENT_PERSON = b"sg.sketches.poly"
MAX_INDEPENDENCE, MAX_BUCKETS = 4, 2**32


@dataclass(frozen=True)
class PolynomialHash:
    """Rows of hashes of one family, from given coefficients.

    >>> rows = PolynomialHash.derive(bytes(32), independence=4, rows=3, buckets=8)
    >>> rows.columns(np.arange(5, dtype=np.uint64)).shape
    (3, 5)
    """

    coefficients: tuple[tuple[int, ...], ...]  # of each row, the highest power first
    buckets: int
    prime: int = P  # a small one only to enumerate all hashes

    def __post_init__(self) -> None:
        lengths = {len(row) for row in self.coefficients}
        if len(lengths) != 1 or not 2 <= min(lengths) <= MAX_INDEPENDENCE:
            raise ValueError(f"coefficients must be rows of 2 to {MAX_INDEPENDENCE} numbers, got {lengths}")
        if not 1 <= self.buckets <= min(self.prime, MAX_BUCKETS):
            raise ValueError(f"buckets must be between 1 and {min(self.prime, MAX_BUCKETS)}, got {self.buckets}")
        if not all(0 <= each < self.prime for row in self.coefficients for each in row):
            raise ValueError("coefficients must be at least 0 and below the prime, got others")

    @classmethod
    def derive(cls, key: bytes, *, independence: int, rows: int, buckets: int) -> Self:
        """Return hashes whose coefficients follow from a key."""
        if not 2 <= independence <= MAX_INDEPENDENCE:
            raise ValueError(f"independence must be between 2 and {MAX_INDEPENDENCE}, got {independence}")
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        made = tuple(tuple(derive_coefficient(key, row, place) for place in range(independence)) for row in range(rows))
        return cls(made, buckets)

    @property
    def independence(self) -> int:
        return len(self.coefficients[0])

    def values(self, words: npt.ArrayLike) -> Words:
        """Return the values in the field of words below the prime, one row for each hash."""
        x = np.asarray(words, np.uint64)[None, :]
        if self.prime != P:
            return self._small_values(x)
        value = np.broadcast_to(self._columns[0], (len(self.coefficients), x.shape[1]))
        for column in self._columns[1:]:
            value = multiply_add(value, x, column)
        return value

    def columns(self, words: npt.ArrayLike) -> Ints:
        """Return the buckets of words, one row for each hash."""
        return (self.values(words) % np.uint64(self.buckets)).astype(np.int64)

    def signs(self, words: npt.ArrayLike) -> Ints:
        """Return 1 or -1 for words, one row for each hash."""
        return 1 - 2 * (self.values(words) & np.uint64(1)).astype(np.int64)

    @cached_property
    def _columns(self) -> Sequence[Words]:
        """Coefficients by power, the highest first, as columns."""
        return [np.array(column, np.uint64)[:, None] for column in zip(*self.coefficients, strict=True)]

    def _small_values(self, x: Words) -> Words:
        value = np.zeros((len(self.coefficients), x.shape[1]), np.uint64)
        for column in self._columns:
            value = (value * x + column) % np.uint64(self.prime)
        return value


def derive_coefficient(key: bytes, row: int, place: int) -> int:
    """Return a uniform number below p; values of 61 bits that are p are rejected."""
    for attempt in range(256):
        data = row.to_bytes(8, "little") + bytes([place, attempt])
        drawn = blake2b(data, digest_size=8, key=key, person=COEFFICIENT_PERSON).digest()
        number = int.from_bytes(drawn, "little") & P
        if number < P:
            break
    return number
