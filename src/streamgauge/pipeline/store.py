"""The durable store: state, ledger, source position and releases of a tick in one transaction.

    store.db     SQLite: public history in the clear, the state sealed (`schema`, `sealed`)
    store.keys   two slots for the key of the state, overwritten in place (`slots`)

**Promise.** A commit is whole or not there, whatever kills it; after it returned, it is on the disk, and no
earlier state can be opened any more from the files and the curator's key. A release and tick has one value
for ever. What is found at opening is what was committed, or the store is refused (`integrity`).
Proof: SQLite's transaction covers every row, and `slots` shows that the key of whichever state it left
committed is there, and no other.

`commit` may raise before its transaction is tried, and then nothing has changed and the store goes on; once
it was tried, its fate is unknown to the caller (a disk may fail after it wrote), so the store takes no more
commits, and its state is read no more, for its keys may be of the one before: open it again and look.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection, IntegrityError
from sqlite3 import Error as SqlError
from types import MappingProxyType
from typing import Any

from streamgauge.noise.entropy import wipe
from streamgauge.pipeline import database, schema
from streamgauge.pipeline.chain import Row
from streamgauge.pipeline.durable import private_folder
from streamgauge.pipeline.founding import found
from streamgauge.pipeline.head import Head, open_head, seal_head
from streamgauge.pipeline.integrity import check_history, check_pages, opened_parts
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.lock import holder
from streamgauge.pipeline.reader import SHOWN, Act, Reader, Trace, mark_checksum
from streamgauge.pipeline.sealed import overwrite_keys, seal_part
from streamgauge.pipeline.slots import Sealing, Slots
from streamgauge.pipeline.store_errors import (
    AlreadyReleased,
    AlreadyRunning,
    NoStore,
    StoreUnwritable,
    refusals,
)

__all__ = ["STEPS", "Act", "Reader", "Row", "Store", "Trace"]

STEPS = ("begun", "rows written", "slot written", "committed", "slot destroyed")
NOTHING: Mapping[str, Any] = MappingProxyType({})

Steps = Callable[[str], None]


def onwards(step: str) -> None:
    """Between two steps nothing happens, outside of tests."""


class Store(Reader):
    """A store that is open for commits. One thread at a time, one process, and not across a fork."""

    def __init__(self, folder: Path, sql: Connection, slots: Slots, key: Key, steps: Steps) -> None:
        super().__init__(folder, sql)
        self._slots = slots
        self._key: Key | Sealing = key
        self._steps = steps
        self._head, self._keys = open_head(sql, folder, slots, key)
        self._uncertain = False

    @classmethod
    def open(cls, folder: Path, key: Key, *, create: bool, steps: Steps = onwards) -> "Store":
        """Opens and checks a store, or makes one if there is none and `create` says so."""
        path = folder / database.STORE
        with ExitStack() as undone, refusals(folder):
            if not create and not path.exists():
                raise NoStore(folder)
            slots = _held(folder)
            undone.callback(slots.close)
            if not path.exists():
                found(folder, key, slots, steps)
            sql = database.writer(path)
            undone.callback(sql.close)
            _check(sql, folder)
            store = cls(folder, sql, slots, key, steps)
            store._settle()
            undone.pop_all()
        return store

    @staticmethod
    def reader(folder: Path) -> Reader:
        """Opens for reading only: no key, no lock."""
        return Reader.at(folder)

    @property
    def sealed(self) -> bool:
        """Whether what is written here can be read no more before the store is opened again."""
        return isinstance(self._key, Sealing)

    def seal(self) -> None:
        """Overwrites all keys, the curator's too: whoever has this process, and the disk, cannot open what it
        wrote.

        From now on a commit that has any state has all of it.
        """
        if isinstance(self._key, Key):
            overwrite_keys(self._keys)
            secret = self._key.secret
            self._key, self._keys = self._key.sealing(), {}
            wipe(secret)

    def state(self) -> dict[str, bytes]:
        """All parts of the state, decrypted: bytes that nobody else holds, for `sealed.overwrite`."""
        if self.sealed:
            raise ValueError("store must be opened again for its state to be read, got one that is sealed")
        self._refuse_uncertain()
        with refusals(self.folder):
            return dict(opened_parts(self._sql, self.folder, self._head.identity, self._keys))

    def commit(
        self,
        *,
        tick: int | None = None,
        released: Sequence[Row] = (),
        acts: Sequence[Act] = (),
        state: Mapping[str, bytes | None] = NOTHING,
        marks: Mapping[str, bytes] = NOTHING,
        entered: bool = False,
    ) -> str:
        """All of it or nothing; returns the new chain. `state` has what changed, None removes a part.

        Where it is `entered`, it is an entry of the history even if it has nothing public.
        """
        if self.sealed and not state:
            return self._marked(marks, tick, released, acts)
        texts = [act.text() for act in acts]
        after = self._head.after(tick, released, texts, entered=entered)
        self._commit(self._key, after, released, texts, state=state, marks=marks)
        return after.chain

    def _marked(self, marks: Mapping[str, bytes], *public: object) -> str:
        """A commit of marks alone: of one that is sealed, a new head would need all state."""
        if any(public):
            raise ValueError("state must be given whole to a store that is sealed, got none")
        self.mark(marks)
        return self._head.chain

    @property
    def shown(self) -> int:
        """Who writes a store sees all of it."""
        return 2**62

    def show(self) -> None:
        """Lets readers see what is committed."""
        self.mark({SHOWN: b"%d" % self._head.number})

    def mark(self, marks: Mapping[str, bytes]) -> None:
        """Notes that belong to no tick, in a small transaction of their own."""
        with self._transaction():
            self._write_marks(marks)
            self._uncertain = True
        self._uncertain = False

    def rotate(self, key: Key, act: Act) -> None:
        """From now on another curator's key opens the store; every part is sealed anew.

        It is an act of the history, so that copies under the old key are known to be old.
        """
        texts = [act.text()]
        self._commit(key, self._head.after(None, (), texts), (), texts, state=self.state())
        self._key = key
        self.empty_journal()

    def empty_journal(self) -> bool:
        """Copies the journal into the database and cuts it to nothing, unless a reader is in the way."""
        with refusals(self.folder):
            (busy, *_) = self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def close(self) -> None:
        """Empties the journal and lets the store go. What was committed is safe even if that fails."""
        with suppress(SqlError):
            self._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._sql.close()
        self._slots.close()
        self._keys = {}

    def _settle(self) -> None:
        """Reads the whole state once, makes sure of what was found, and destroys the key of what was not.

        A commit that failed may have left its pages in the journal. One more commit lies on top of them, so
        that no crash can bring them back without their key.
        """
        self.marks()
        for _, plain in opened_parts(self._sql, self.folder, self._head.identity, self._keys):
            wipe(plain)
        self.empty_journal()
        with self._transaction():
            self._sql.execute("UPDATE head SET openings = openings + 1")
        self._steps("settled")
        self._slots.destroy(self._head.generation + 1)

    def _commit(
        self,
        key: Key | Sealing,
        after: Head,
        released: Sequence[Row],
        acts: Sequence[str],
        *,
        state: Mapping[str, bytes | None],
        marks: Mapping[str, bytes] = NOTHING,
    ) -> None:
        keys = dict(self._keys)
        try:
            self._write(key, after, released, acts, state=state, marks=marks, keys=keys)
        except BaseException:
            overwrite_keys(_others(keys, self._keys))  # of parts that nobody will open
            raise
        overwrite_keys(_others(self._keys, keys))
        self._head, self._keys = after, {} if self.sealed else keys
        self._uncertain = False

    def _write(
        self,
        key: Key | Sealing,
        after: Head,
        released: Sequence[Row],
        acts: Sequence[str],
        *,
        state: Mapping[str, bytes | None],
        marks: Mapping[str, bytes],
        keys: dict[str, bytes],
    ) -> None:
        """One commit on disk; `keys` are then those of all parts there are."""
        self._steps("begun")
        with self._transaction():
            if after.number != self._head.number:
                self._write_history(after, released, acts)
            self._write_state(after, state, keys)
            self._write_marks(marks)
            slot = self._write_head(key, after, keys)
            if self.sealed:
                overwrite_keys(keys)
            self._steps("rows written")
            self._slots.write(after.generation, slot)
            self._steps("slot written")
            self._uncertain = True
        self._steps("committed")
        with refusals(self.folder):
            self._slots.destroy(after.generation - 1)
        self._steps("slot destroyed")

    def _refuse_uncertain(self) -> None:
        if self._uncertain:
            raise StoreUnwritable(self.folder, "a commit that may or may not have failed")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._refuse_uncertain()
        with refusals(self.folder):
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._sql.execute("COMMIT")
            finally:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")

    def _write_history(self, after: Head, released: Sequence[Row], acts: Sequence[str]) -> None:
        self._sql.execute("INSERT INTO entries VALUES (?, ?, ?)", (after.number, after.tick, after.chain))
        for release, tick, payload in released:
            row = (after.number, release, tick, payload)
            try:
                self._sql.execute("INSERT INTO releases VALUES (NULL, ?, ?, ?, ?)", row)
            except IntegrityError:
                raise AlreadyReleased(release, tick) from None
        self._sql.executemany("INSERT INTO acts VALUES (NULL, ?, ?)", ((after.number, act) for act in acts))

    def _write_state(self, after: Head, state: Mapping[str, bytes | None], keys: dict[str, bytes]) -> None:
        """Seals what changed, and puts the keys of that in the place of others."""
        if self.sealed:
            self._sql.execute("DELETE FROM parts")
        for name, plain in state.items():
            if plain is None:
                keys.pop(name, None)
                self._sql.execute("DELETE FROM parts WHERE name = ?", (name,))
            else:
                keys[name], sealed = seal_part(self._head.identity, name, after.generation, plain)
                row = (name, after.generation, sealed)
                self._sql.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", row)

    def _write_marks(self, marks: Mapping[str, bytes]) -> None:
        rows = ((name, value, mark_checksum(name, value)) for name, value in marks.items())
        self._sql.executemany("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", rows)

    def _write_head(self, key: Key | Sealing, after: Head, keys: Mapping[str, bytes]) -> bytes:
        """Returns the slot with which the head can be opened."""
        sealed, slot = seal_head(key, after, keys)
        self._sql.execute(
            "UPDATE head SET generation = ?, number = ?, tick = ?, chain = ?, sealed = ?",
            (after.generation, after.number, after.tick, after.chain, sealed),
        )
        return slot


def _others(keys: Mapping[str, bytes], than: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those keys that are not among others."""
    return {name: key for name, key in keys.items() if than.get(name) is not key}


def _held(folder: Path) -> Slots:
    private_folder(folder)
    try:
        return Slots(folder / database.SLOTS)
    except BlockingIOError:
        raise AlreadyRunning(folder, holder(folder)) from None


def _check(sql: Connection, folder: Path) -> None:
    """Everything that can be checked without the key; an earlier version is brought up to date on the way."""
    check_pages(sql, folder)
    schema.migrate(sql, folder)
    check_history(sql, folder)
