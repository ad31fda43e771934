"""The durable store: state, ledger, source position and releases of a tick in one transaction.

`Store` has the rules of a commit: the order of its steps, keys that die, head, hash chain. Rows and key slots are
behind `StoreBacking` (SQLite in a folder by default).

**Promise.** A commit is complete or absent, after any kill. After it returned, it is on stable storage, and no
earlier state can be decrypted any more from the files and the curator's key. A release and tick has one value
for ever. A store that is not as it was committed is refused when it is opened (`integrity`).
Proof: the backing's transaction covers every row. `encryption` shows that the key of the committed state is there,
and no other.

If `commit` raises before its transaction is committed, nothing has changed and the store can be used. If
committing itself fails, the outcome is unknown: a disk may fail after it wrote. The store then refuses further
commits, and its state is not read, since its keys may be of the state before. Open it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from streamgauge.interfaces import (
    MAX_ENTRY,
    EntryRow,
    HeadRow,
    MarkRow,
    PartRow,
    StepHook,
    StoreBacking,
    StoreDriver,
    ignore,
)
from streamgauge.memory import wipe
from streamgauge.noise.entropy import read_system_key
from streamgauge.store.encryption import (
    DecryptionError,
    PartKeys,
    SealingKey,
    overwrite_keys,
    pack_keys,
    parse_slot,
    seal,
    seal_part,
    unpack_keys,
    unseal,
    unwrap,
)
from streamgauge.store.errors import KeyRefusedError, build_access_error, build_damage_error
from streamgauge.store.hash_chain import Row, genesis, link
from streamgauge.store.integrity import check_history, decrypt_parts
from streamgauge.store.keys import Key
from streamgauge.store.reader import SQLITE, VISIBLE_MARK, LedgerEntry, StoreReader, Trace, mark_checksum, parse_entries


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


__all__ = ["COMMIT_STEPS", "LedgerEntry", "Row", "Store", "StoreReader", "Trace"]

CREATE_STEPS = ("creation_begun", "first_slot_written", "store_created")
COMMIT_STEPS = ("commit_begun", "rows_written", "slot_written", "transaction_committed", "slot_destroyed")
EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})


class Store(StoreReader):
    """A store that is open for commits, for one thread at a time and not across a fork."""

    def __init__(self, folder: Path, backing: StoreBacking, key: Key, steps: StepHook) -> None:
        super().__init__(folder, backing)
        self.backing = backing
        self._key: Key | SealingKey = key
        self.steps = steps
        self._head, self._keys = open_head(backing, key)
        self._uncertain = False
        self._sealed_names = frozenset[str]()  # names of the parts of a sealed state
        self._entries: list[tuple[str, LedgerEntry]] = []  # of the ledger, as far as they were read

    @classmethod
    def open_writer(
        cls, folder: Path, key: Key, *, create: bool, steps: StepHook = ignore, driver: StoreDriver = SQLITE
    ) -> "Store":
        """Open and check a store; if there is none and `create` is true, create it."""
        with ExitStack() as undone:
            backing = driver.open_writer(folder, create=create)
            undone.callback(backing.close)
            if not backing.exists:
                create_store(backing, key, steps)
            backing.check()
            check_history(backing)
            store = cls(folder, backing, key, steps)
            store._settle()
            undone.pop_all()
        return store

    @property
    def is_sealed(self) -> bool:
        """True if this object can write the state and cannot read it."""
        return isinstance(self._key, SealingKey)

    def seal(self) -> None:
        """Wipe all keys, the curator's too, so that process and disk together cannot decrypt the state.

        After this, a commit with any state must have all of it.
        """
        if isinstance(self._key, Key):
            overwrite_keys(self._keys)
            secret = self._key.secret
            self._sealed_names = frozenset(self._keys)
            self._key, self._keys = SealingKey.from_secret(self._key.source, secret), {}
            wipe(secret)

    def state(self) -> dict[str, bytes]:
        """Return all parts of the state, decrypted. The caller may wipe them (`encryption.overwrite`)."""
        if self.is_sealed:
            raise ValueError("store must be opened again for its state to be read, got one that is sealed")
        self._refuse_uncertain()
        return dict(decrypt_parts(self.backing, self._head.identity, self._keys))

    def commit(
        self,
        *,
        tick: int | None = None,
        released: Sequence[Row] = (),
        acts: Sequence[LedgerEntry] = (),
        state: Mapping[str, bytes | None] = EMPTY_MAPPING,
        marks: Mapping[str, bytes] = EMPTY_MAPPING,
        entered: bool = False,
    ) -> str:
        """Commit all of it or nothing, and return the new chain.

        Args:
            tick: The last closed tick; the one before if None.
            state: The parts that changed; None removes a part.
            entered: Adds an entry to the history even if nothing is public.
        """
        if self.is_sealed and not state:
            if tick or released or acts:  # a new head would need all state
                raise ValueError("state must be given whole to a store that is sealed, got none")
            self.mark(marks)
            return self._head.chain
        if self.is_sealed and (missing := sorted(self._sealed_names - state.keys())):
            raise ValueError(f"state must be given whole to a store that is sealed, got none of {', '.join(missing)}")
        texts = [act.text() for act in acts]
        after = self._head.advance(tick, released, texts, entered=entered)
        self._commit(self._key, after, released, texts, state=state, marks=marks)
        return after.chain

    def chained_entries(self) -> list[tuple[str, LedgerEntry]]:
        """Return all ledger entries, each with the chain after its commit. The writer parses each once."""
        self._entries += parse_entries(self._rows.ledger(skip=len(self._entries)))
        return list(self._entries)

    @property
    def last_visible_entry(self) -> int:
        """No limit: the writer sees everything."""
        return MAX_ENTRY

    def show(self) -> None:
        """Let readers see all commits. Call it only after the rollback guard knows them."""
        self.mark({VISIBLE_MARK: b"%d" % self._head.number})

    def mark(self, marks: Mapping[str, bytes]) -> None:
        """Write marks in a separate transaction."""
        with self._transaction():
            self._write_marks(marks)
            self._uncertain = True
        self._uncertain = False

    def rotate(self, key: Key, act: LedgerEntry) -> None:
        """Seal every part again, under another curator's key.

        The change is an entry of the history, so that copies under the old key are known to be old.
        """
        texts = [act.text()]
        self._commit(key, self._head.advance(None, (), texts), (), texts, state=self.state())
        self._key = key
        self.empty_journal()

    def empty_journal(self) -> bool:
        """Remove earlier commits from the journal. False if a reader prevents it."""
        return self.backing.empty_journal()

    def close(self) -> None:
        self.backing.close()
        self._keys = {}

    def _settle(self) -> None:
        """Decrypt the whole state once, then destroy the slot of the generation that was not committed.

        A failed commit may have left its pages in the journal. One more commit above them ensures that no crash
        can restore them without their key.
        """
        self.marks()
        for _, plain in decrypt_parts(self.backing, self._head.identity, self._keys):
            wipe(plain)
        self.empty_journal()
        with self._transaction():
            self.backing.touch_head()
        self.steps("store_settled")
        self.backing.destroy_slot(self._head.generation + 1)

    def _commit(
        self,
        key: Key | SealingKey,
        after: Head,
        released: Sequence[Row],
        acts: Sequence[str],
        *,
        state: Mapping[str, bytes | None],
        marks: Mapping[str, bytes] = EMPTY_MAPPING,
    ) -> None:
        """Write one commit, then replace the head and the keys of all parts."""
        keys = dict(self._keys)
        self.steps("commit_begun")
        try:
            with self._transaction():
                if after.number != self._head.number:
                    self.backing.add_entry(EntryRow(after.number, after.tick, after.chain), released, acts)
                self._write_state(after, state, keys)
                self._write_marks(marks)
                sealed, slot = seal_head(key, after, keys)
                self.backing.write_head(after, sealed)
                if self.is_sealed:
                    overwrite_keys(keys)
                self.steps("rows_written")
                self.backing.write_slot(after.generation, slot)
                self.steps("slot_written")
                self._uncertain = True
            self.steps("transaction_committed")
            self.backing.destroy_slot(after.generation - 1)
            self.steps("slot_destroyed")
        except BaseException:
            overwrite_keys(_find_other_keys(keys, self._keys))  # of parts that were not committed
            raise
        overwrite_keys(_find_other_keys(self._keys, keys))
        self._head, self._keys = after, {} if self.is_sealed else keys
        self._sealed_names = frozenset(keys if self.is_sealed else ())
        self._uncertain = False

    def _refuse_uncertain(self) -> None:
        if self._uncertain:
            raise build_access_error(self.backing.address, "a commit that may or may not have failed")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._refuse_uncertain()
        with self.backing.transaction():
            yield

    def _write_state(self, after: Head, state: Mapping[str, bytes | None], keys: dict[str, bytes]) -> None:
        """Seal the parts that changed, and replace their keys."""
        if self.is_sealed:
            self.backing.delete_parts()
        for name, plain in state.items():
            if plain is None:
                keys.pop(name, None)
                self.backing.delete_part(name)
            else:
                keys[name], sealed = seal_part(self._head.identity, name, after.generation, plain)
                self.backing.write_part(PartRow(name, after.generation, sealed))

    def _write_marks(self, marks: Mapping[str, bytes]) -> None:
        self.backing.write_marks(MarkRow(name, value, mark_checksum(name, value)) for name, value in marks.items())


def create_store(backing: StoreBacking, key: Key, steps: StepHook) -> None:
    """Create a store with no history and no state. The slot is there before the head that needs it."""
    head = Head.create()
    sealed, slot = seal_head(key, head, {})
    steps("creation_begun")
    backing.write_slot(head.generation, slot)
    steps("first_slot_written")
    backing.create(head, sealed)
    steps("store_created")


def _find_other_keys(keys: Mapping[str, bytes], than: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the keys that are not among others."""
    return {name: key for name, key in keys.items() if than.get(name) is not key}
