"""The head of a store: its position, and the sealed table of part keys that belongs to it.

The table is sealed with chain, tick, number of entries and generation. So a state opens only as the end of the
history that it was committed with.
"""

from collections.abc import Sequence

from streamgauge.interfaces import HeadRow, StoreBacking
from streamgauge.memory import wipe
from streamgauge.noise.entropy import read_system_key
from streamgauge.store.encryption import (
    DecryptionError,
    PartKeys,
    SealingKey,
    pack_keys,
    parse_slot,
    seal,
    unpack_keys,
    unseal,
    unwrap,
)
from streamgauge.store.errors import KeyRefusedError, build_damage_error
from streamgauge.store.hash_chain import Row, genesis, link
from streamgauge.store.keys import Key


class Head(HeadRow):
    """The head of a store, and the one that follows it."""

    __slots__ = ()

    @classmethod
    def create(cls) -> "Head":
        """Return the head of a new store."""
        identity = read_system_key()[:16].hex()
        return cls(identity, 1, 0, 0, genesis(identity))

    def advance(
        self, tick: int | None, released: Sequence[Row], acts: Sequence[str], *, entered: bool = False
    ) -> "Head":
        """Return the next head.

        A commit without anything public adds no entry and leaves the chain, unless `entered` is true.
        """
        now = self.tick if tick is None else tick
        if now < self.tick:
            raise ValueError(f"tick must be at least {self.tick}, the last one committed, got {now}")
        latest = max((at for _, at, _ in released), default=now)
        if latest > now:
            raise ValueError(f"released ticks must be at most {now}, the tick committed, got {latest}")
        following = self._replace(generation=self.generation + 1)
        if now == self.tick and not released and not acts and not entered:
            return following
        chain = link(self.chain, now, released, acts)
        return following._replace(number=self.number + 1, tick=now, chain=chain)

    @property
    def associated_data(self) -> tuple[str | int, ...]:
        """Data that the table of part keys is authenticated with."""
        return self.identity, "head", self.generation, self.number, self.tick, self.chain


def seal_head(key: Key | SealingKey, head: Head, keys: PartKeys) -> tuple[bytes, bytes]:
    """Return the table of part keys under a fresh data key, and the slot with that key."""
    data_key, table = read_system_key(), pack_keys(keys)
    try:
        sealed = seal(data_key, table, *head.associated_data)
        return sealed, key.wrap(head.identity, head.generation, data_key)
    finally:
        wipe(data_key)
        wipe(table)


def open_head(backing: StoreBacking, key: Key) -> tuple[Head, dict[str, bytes]]:
    """Return the head and the keys of all parts; reject another key, and damage."""
    head, folder = Head(*backing.head()), backing.address
    slot = parse_slot(backing.find_slot(head.generation), head.generation)
    if slot is None:
        raise build_damage_error(folder, "a database and keys of different moments")
    try:
        data_key = unwrap(key.secret, head.identity, head.generation, slot)
        table = unseal(data_key, backing.sealed_keys(), *head.associated_data)
        wipe(data_key)
    except DecryptionError as error:
        if error.code == "other_key":
            raise KeyRefusedError(
                f"key must be the one that the store in {folder} was written under, got another from {key.source}",
                "wrong_key",
            ) from None
        raise build_damage_error(folder, "a state that does not belong to this history") from None
    keys = unpack_keys(table)
    wipe(table)
    return head, keys
