"""The head of a store: where it is, and the sealed table of part keys that belongs there.

The head is sealed together with the chain, the tick, the number of entries and the generation, so that a
state opens only as the end of the history that it was committed with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection

from streamgauge.noise.entropy import system_key, wipe
from streamgauge.pipeline.chain import Row, genesis, link
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.sealed import PartKeys, Unopened, pack_keys, seal, unpack_keys, unseal
from streamgauge.pipeline.slots import OtherKey, Sealing, Slots, unwrap
from streamgauge.pipeline.store_errors import DamagedStore, WrongKey


@dataclass(frozen=True)
class Head:
    """Where a store is. The generation grows with every commit, the number with every entry of history."""

    identity: str
    generation: int
    number: int
    tick: int
    chain: str

    @classmethod
    def first(cls) -> "Head":
        """Of a new store."""
        identity = system_key()[:16].hex()
        return cls(identity, 1, 0, 0, genesis(identity))

    @classmethod
    def read(cls, sql: Connection, folder: Path) -> "Head":
        row = sql.execute("SELECT identity, generation, number, tick, chain FROM head").fetchone()
        if row is None:
            raise DamagedStore(folder, "a store without its head")
        return cls(*row)

    def after(
        self, tick: int | None, released: Sequence[Row], acts: Sequence[str], *, entered: bool = False
    ) -> "Head":
        """The next head. Without anything public there is no new entry, and the chain stays, unless it is
        `entered` all the same."""
        now = self.tick if tick is None else tick
        if now < self.tick:
            raise ValueError(f"tick must be at least {self.tick}, the last one committed, got {now}")
        latest = max((at for _, at, _ in released), default=now)
        if latest > now:
            raise ValueError(f"released ticks must be at most {now}, the tick committed, got {latest}")
        following = replace(self, generation=self.generation + 1)
        if now == self.tick and not released and not acts and not entered:
            return following
        chain = link(self.chain, now, released, acts)
        return replace(following, number=self.number + 1, tick=now, chain=chain)

    @property
    def about(self) -> tuple[str | int, ...]:
        """What the table of part keys is sealed with."""
        return self.identity, "head", self.generation, self.number, self.tick, self.chain


def seal_head(key: Key | Sealing, head: Head, keys: PartKeys) -> tuple[bytes, bytes]:
    """The table of part keys under a fresh data key, and the slot that holds that key."""
    data_key, table = system_key(), pack_keys(keys)
    try:
        sealed = seal(data_key, table, *head.about)
        return sealed, key.wrap(head.identity, head.generation, data_key)
    finally:
        wipe(data_key)
        wipe(table)


def open_head(sql: Connection, folder: Path, slots: Slots, key: Key) -> tuple[Head, dict[str, bytes]]:
    """The head and the keys of all parts, or why not: another's key, or damage."""
    head = Head.read(sql, folder)
    (sealed,) = sql.execute("SELECT sealed FROM head").fetchone()
    slot = slots.find(head.generation)
    if slot is None:
        raise DamagedStore(folder, "a database and keys of different moments")
    try:
        data_key = unwrap(key.secret, head.identity, head.generation, slot)
        table = unseal(data_key, sealed, *head.about)
        wipe(data_key)
    except OtherKey:
        raise WrongKey(folder, key.source) from None
    except Unopened:
        raise DamagedStore(folder, "a state that does not belong to this history") from None
    keys = unpack_keys(table)
    wipe(table)
    return head, keys
