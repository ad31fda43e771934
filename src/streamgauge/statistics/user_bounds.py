"""Bounds on the contributions of users, applied before any other processing.

A `User` unit promises to hide everything that one person did, if that person has at most so many events in a tick
and appears in at most so many ticks. This module enforces that, across groups and before any filter: the first events
of each user in a tick survive, in the first ticks in which the user appears at all. A user's events alone decide
which of them survive, so no user displaces another. Users are text,
whole numbers, bytes or UUIDs. Events with any other user are dropped. If contributions renew, the ticks of each block
are bounded by themselves, and the memory of a block ends with it.

The memory of users and their ticks is exact and secret. A keyed hash of 128 bits represents a user. Its key is drawn
at the start and saved with the run.
"""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.entropy import read_system_key
from streamgauge.privacy import Unit, User
from streamgauge.statistics.events import Column, to_objects, to_plain

DIGEST_BYTES = 16
Octets = npt.NDArray[np.uint8]


@dataclass(slots=True)
class SavedUsers:
    """Memory of users as arrays."""

    key: Octets = field(repr=False)  # secret
    digests: Octets = field(repr=False)  # exact: one row per user
    ticks: Ints = field(repr=False)  # exact: number of ticks of each user


class UserContributions:
    """Ticks of each user so far. `admit_events` returns the events that survive."""

    def __init__(self, unit: User) -> None:
        self.unit = unit
        self._key = read_system_key()
        self._ticks: dict[bytes, int] = {}

    @classmethod
    def from_unit(cls, unit: Unit) -> "UserContributions":
        if not isinstance(unit, User):
            raise ValueError(f"unit must be a User, got {unit!r}")
        return cls(unit)

    def admit_events(self, users: Column, tick: int) -> Ints:
        """Return the indices of the events of a tick that survive, in order, and count the ticks.

        Every tick must come, empty ones too.
        """
        if self.unit.block_ticks is not None and (tick - 1) % self.unit.block_ticks == 0:
            self._ticks.clear()
        codes, known = encode_users(users)
        if not known:
            return np.zeros(0, np.int64)
        allowed = np.array([self._count_tick(user) for user in known], np.bool_)
        admitted = (rank_by_code(codes) < self.unit.max_events_per_tick) & (codes >= 0) & allowed[codes]
        return np.flatnonzero(admitted)

    def _count_tick(self, user: bytes) -> bool:
        """Count a tick of this user, if one is left."""
        digest = blake2b(user, digest_size=DIGEST_BYTES, key=self._key).digest()
        before = self._ticks.get(digest, 0)
        if before >= self.unit.ticks_per_block:
            return False
        self._ticks[digest] = before + 1
        return True

    def to_saved(self) -> SavedUsers:
        return SavedUsers(np.frombuffer(self._key, np.uint8), *counts_to_arrays(self._ticks))

    @classmethod
    def from_saved(cls, unit: Unit, saved: SavedUsers) -> "UserContributions":
        made = cls.from_unit(unit)
        made._key = saved.key.tobytes()
        made._ticks = counts_from_arrays(saved.digests, saved.ticks)
        return made


def counts_to_arrays(table: dict[bytes, int]) -> tuple[Octets, Ints]:
    """Return a table of counts by digest as rows of bytes, and the counts."""
    rows = np.frombuffer(b"".join(table), np.uint8).reshape(-1, DIGEST_BYTES)
    return rows, np.fromiter(table.values(), np.int64, len(table))


def counts_from_arrays(rows: Octets, numbers: Ints) -> dict[bytes, int]:
    return dict(zip((row.tobytes() for row in rows), numbers.tolist(), strict=True))


def encode_users(users: Column) -> tuple[Ints, list[bytes]]:
    """Return a code for each event's user (-1 for none), and the users by code."""
    if users.dtype.kind in "iuU":
        distinct, codes = np.unique(users, return_inverse=True)
        return codes.astype(np.int64), [user_to_bytes(user) for user in distinct.tolist()]
    table: dict[bytes, int] = {}
    codes = np.fromiter((_encode_user(table, user) for user in to_objects(users)), np.int64, len(users))
    return codes, list(table)


def _encode_user(table: dict[bytes, int], user: Any) -> int:
    name = user_to_bytes(user)
    return table.setdefault(name, len(table)) if name else -1


def user_to_bytes(user: Any) -> bytes:
    """Return a user as bytes, equal for equal users of every type, else None."""
    known = to_plain(user)
    if type(known) is str:
        return b"s" + known.encode("utf-8", "surrogatepass")
    if type(known) is int:
        return b"i" + known.to_bytes(known.bit_length() // 8 + 1, "big", signed=True)
    return b"b" + known if type(known) is bytes else _uuid_to_bytes(user)


def _uuid_to_bytes(user: Any) -> bytes:
    """Return a UUID as bytes; None for any other object, without raising."""
    try:
        kind = type(user)
        return b"u" + bytes(user.bytes) if (kind.__module__, kind.__name__) == ("uuid", "UUID") else b""
    except Exception:
        return b""


def rank_by_code(codes: Ints) -> Ints:
    """Return the number of earlier items with the same code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else order
    lengths = np.diff(np.r_[begins, len(codes)])
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(begins, lengths)
    return ranks
