"""How many keys a user may touch, and how often each, over the whole stream.

Of each user the first `max_keys` keys count (the same key in two groups is two), each for the user's first
`max_per_key` events of it. Which events of a user survive is decided by that user's events alone: no one
displaces anybody else. In windows too the bounds are over the stream: who has used them up is not counted
again, in no later window. (Noise there may rest on less, see `discovery.Exposure.reach`.)

Remembering them is memory of users, exact and secret: users, and users with keys, are known by keyed hashes
of 128 bits, under a key that is drawn at the start and saved with the run.
"""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from streamgauge.noise import Ints
from streamgauge.noise.entropy import system_key
from streamgauge.statistics.columns import Column
from streamgauge.statistics.contributions import DIGEST, numbered
from streamgauge.statistics.keys import Octets, written
from streamgauge.statistics.ranking import Key

UNBOUNDED = 2**62


@dataclass(slots=True)
class SavedKeys:
    """The memory of users and their keys as arrays."""

    secret: Octets = field(repr=False)
    users: Octets = field(repr=False)  # exact: one row per user
    keys: Ints = field(repr=False)  # exact: how many keys each has touched
    pairs: Octets = field(repr=False)  # exact: one row per user and key
    uses: Ints = field(repr=False)  # exact: how often


class KeyContributions:
    """Who has touched which keys how often; `admitted` says which events survive."""

    def __init__(self, max_keys: int | None, max_per_key: int | None) -> None:
        self.bounded = max_keys is not None or max_per_key is not None
        self.max_keys = max_keys or UNBOUNDED
        self.max_per_key = max_per_key or UNBOUNDED
        self._secret = system_key()
        self._keys: dict[bytes, int] = {}
        self._uses: dict[bytes, int] = {}

    def admitted(self, users: Column, keys: Column, groups: Ints) -> Ints:
        """The places of the events that survive, in their order; remembers them."""
        codes, names = numbered(users)
        digests = [self._digest(name) for name in names]
        events = zip(codes.tolist(), keys.tolist(), groups.tolist(), strict=True)
        kept = (
            code >= 0 and key is not None and self._counts(digests[code], key, group)
            for code, key, group in events
        )
        return np.flatnonzero(np.fromiter(kept, np.bool_, len(codes)))

    def _counts(self, user: bytes, key: Key, group: int) -> bool:
        """Counts one event of this user's for this key, if one is left."""
        pair = self._digest(user + group.to_bytes(8, "little") + written(key))
        uses, touched = self._uses.get(pair, 0), self._keys.get(user, 0)
        if uses >= self.max_per_key or (not uses and touched >= self.max_keys):
            return False
        self._uses[pair] = uses + 1
        self._keys[user] = touched + (not uses)
        return True

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=DIGEST, key=self._secret).digest()

    def saved(self) -> SavedKeys:
        return SavedKeys(np.frombuffer(self._secret, np.uint8), *_arrays(self._keys), *_arrays(self._uses))

    def restore(self, saved: SavedKeys) -> "KeyContributions":
        """Goes on from what was saved."""
        self._secret = saved.secret.tobytes()
        self._keys, self._uses = _table(saved.users, saved.keys), _table(saved.pairs, saved.uses)
        return self


def _arrays(table: dict[bytes, int]) -> tuple[Octets, Ints]:
    rows = np.frombuffer(b"".join(table), np.uint8).reshape(-1, DIGEST)
    return rows, np.fromiter(table.values(), np.int64, len(table))


def _table(rows: Octets, numbers: Ints) -> dict[bytes, int]:
    return dict(zip((row.tobytes() for row in rows), numbers.tolist(), strict=True))
