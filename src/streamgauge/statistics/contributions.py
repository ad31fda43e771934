"""Contributions of users, bounded before anything else looks at their events.

A `User` unit promises to hide all that one person did, if that person has at most so many events in a tick
and appears in at most so many ticks. Here that is enforced, across groups and before any filter: of each
user the first events of a tick survive, in the first ticks in which the user appears at all. Which events of
a user survive is decided by that user's events alone, so that no one displaces anybody else. Users are text,
whole numbers, bytes or UUIDs; events whose user is anything else are dropped.

Remembering who appeared in how many ticks is memory of users, exact and secret: users are known by a keyed
hash of 128 bits, under a key that is drawn at the start and saved with the run.
"""

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.entropy import system_key
from streamgauge.privacy import Unit, User
from streamgauge.statistics.columns import Column, objects, plain

DIGEST = 16
Octets = npt.NDArray[np.uint8]


@dataclass(slots=True)
class SavedUsers:
    """The memory of users as arrays."""

    key: Octets = field(repr=False)  # secret
    digests: Octets = field(repr=False)  # exact: one row per user
    ticks: Ints = field(repr=False)  # exact: in how many ticks each appeared


class Contributions:
    """Who has appeared in how many ticks; `admitted` says which events of a tick survive."""

    def __init__(self, unit: User) -> None:
        self.unit = unit
        self._key = system_key()
        self._ticks: dict[bytes, int] = {}

    @classmethod
    def of(cls, unit: Unit) -> "Contributions":
        if not isinstance(unit, User):
            raise ValueError(f"unit must be a User, got {unit!r}")
        return cls(unit)

    def admitted(self, users: Column) -> Ints:
        """The places of the events that survive, in their order; remembers the users' ticks."""
        codes, known = numbered(users)
        if not known:
            return np.zeros(0, np.int64)
        allowed = np.array([self._appears(user) for user in known], np.bool_)
        kept = (rank(codes) < self.unit.max_events_per_tick) & (codes >= 0) & allowed[codes]
        return np.flatnonzero(kept)

    def _appears(self, user: bytes) -> bool:
        """Counts a tick of this user's, if one is left."""
        digest = blake2b(user, digest_size=DIGEST, key=self._key).digest()
        before = self._ticks.get(digest, 0)
        if before >= self.unit.max_ticks:
            return False
        self._ticks[digest] = before + 1
        return True

    def saved(self) -> SavedUsers:
        digests = np.frombuffer(b"".join(self._ticks), np.uint8).reshape(-1, DIGEST)
        ticks = np.fromiter(self._ticks.values(), np.int64, len(self._ticks))
        return SavedUsers(np.frombuffer(self._key, np.uint8), digests, ticks)

    @classmethod
    def restored(cls, unit: Unit, saved: SavedUsers) -> "Contributions":
        made = cls.of(unit)
        made._key = saved.key.tobytes()
        digests = (row.tobytes() for row in saved.digests)
        made._ticks = dict(zip(digests, saved.ticks.tolist(), strict=True))
        return made


def numbered(users: Column) -> tuple[Ints, list[bytes]]:
    """A code for each event's user (-1 for none), and the users in the order of their codes."""
    if users.dtype.kind in "iuU":
        distinct, codes = np.unique(users, return_inverse=True)
        return codes.astype(np.int64), [named(user) for user in distinct.tolist()]
    table: dict[bytes, int] = {}
    codes = np.fromiter((_code(table, user) for user in objects(users)), np.int64, len(users))
    return codes, list(table)


def _code(table: dict[bytes, int], user: Any) -> int:
    name = named(user)
    return table.setdefault(name, len(table)) if name else -1


def named(user: Any) -> bytes:
    """A user as bytes, the same for equal users in columns of every type; nothing for what names no one."""
    known = plain(user)
    if type(known) is str:
        return b"s" + known.encode("utf-8", "surrogatepass")
    if type(known) is int:
        return b"i" + known.to_bytes(known.bit_length() // 8 + 1, "big", signed=True)
    return b"b" + known if type(known) is bytes else _unique(user)


def _unique(user: Any) -> bytes:
    """A UUID as bytes; nothing for any other object, whatever it does when it is looked at."""
    try:
        kind = type(user)
        return b"u" + bytes(user.bytes) if (kind.__module__, kind.__name__) == ("uuid", "UUID") else b""
    except Exception:
        return b""


def rank(codes: Ints) -> Ints:
    """How many earlier items have the same code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else order
    lengths = np.diff(np.r_[begins, len(codes)])
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(begins, lengths)
    return ranks
