"""The SQLite backing: a folder with a database and a small file of key slots.

    store.db     SQLite: public history in the clear, state parts and head sealed
    store.keys   two key slots, overwritten in place

The slots are no part of the database: its journal would retain overwritten bytes.

A new store is written under another name and renamed when it is complete. The slots file is locked from before
that until the backing is closed, so two runs cannot create or write one store.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection, IntegrityError
from sqlite3 import Error as SqlError
from typing import Any

from streamgauge.files import create_file, make_private_folder, rename, sync_path
from streamgauge.interfaces import (
    MAX_ENTRY,
    EntryRow,
    HeadRow,
    LedgerRow,
    MarkRow,
    PartRow,
    ReleaseRow,
    StoreBacking,
    StoreReading,
)
from streamgauge.store import schema
from streamgauge.store.encryption import KeySlots, find_slot, select_slot
from streamgauge.store.errors import (
    AlreadyRunningError,
    StoreNotFoundError,
    build_damage_error,
    build_repeat_error,
    build_writer_error,
    translate_store_errors,
)
from streamgauge.store.integrity import check_history
from streamgauge.store.lock import read_holder_pid

MAX_COPY_ATTEMPTS = 100  # each fails only if a commit came between two short reads


class SqliteReading:
    """Rows of a store folder, read only."""

    def __init__(self, folder: Path, sql: Connection) -> None:
        self.folder = folder
        self.sql = sql

    @property
    def address(self) -> str:
        return str(self.folder)

    def head(self) -> HeadRow:
        rows = self._rows("SELECT identity, generation, number, tick, chain FROM head")
        if not rows:
            raise build_damage_error(self.address, "a store without its head")
        return HeadRow(*rows[0])

    def sealed_keys(self) -> bytes:
        return bytes(self._rows("SELECT sealed FROM head")[0][0])

    def entries(self, first: int = 0, limit: int = MAX_ENTRY) -> Iterator[EntryRow]:
        query = "SELECT number, tick, chain FROM entries WHERE number >= ? ORDER BY number LIMIT ?"
        with translate_store_errors(self.address):
            yield from map(EntryRow._make, self.sql.execute(query, (first, limit)))

    def entries_at(self, tick: int, until: int = MAX_ENTRY) -> list[EntryRow]:
        query = "SELECT number, tick, chain FROM entries WHERE tick = ? AND number <= ? ORDER BY number"
        return [EntryRow(*row) for row in self._rows(query, tick, until)]

    def ledger(self, until: int = MAX_ENTRY, skip: int = 0) -> list[LedgerRow]:
        query = (
            "SELECT acts.number, coalesce(chain, ''), act FROM acts LEFT JOIN entries ON entries.number = acts.number "
            "WHERE acts.number <= ? ORDER BY place LIMIT -1 OFFSET ?"
        )
        return [LedgerRow(*row) for row in self._rows(query, until, skip)]

    def count_ledger(self, until: int) -> int:
        return self._number("SELECT count(*) FROM acts WHERE number <= ?", until)

    def release_names(self, until: int) -> list[str]:
        query = "SELECT release FROM releases WHERE number <= ? GROUP BY release ORDER BY min(place)"
        return [name for (name,) in self._rows(query, until)]

    def releases(
        self,
        release: str,
        first: int,
        last: int,
        until: int,
        *,
        step: int = 1,
        limit: int,
        payload_bytes: int | None = None,
        newest_first: bool = False,
    ) -> list[ReleaseRow]:
        query = (
            f"{_select_releases(payload_bytes)} WHERE release = ? AND releases.tick BETWEEN ? AND ? "
            "AND releases.number <= ? AND (releases.tick - ?) % ? = 0 "
            f"ORDER BY releases.tick {'DESC' if newest_first else 'ASC'} LIMIT ?"
        )
        found = self._rows(query, release, first, last, until, first, step, limit)
        return [ReleaseRow(*row) for row in found]

    def count_ticks(self, release: str, first: int, last: int, step: int = 1) -> int:
        query = "SELECT count(*) FROM releases WHERE release = ? AND tick BETWEEN ? AND ? AND (tick - ?) % ? = 0"
        return self._number(query, release, first, last, first, step)

    def rows(self, after: int, until: int, limit: int, payload_bytes: int | None = None) -> list[ReleaseRow]:
        query = f"{_select_releases(payload_bytes)} WHERE place > ? AND releases.number <= ? ORDER BY place LIMIT ?"
        return [ReleaseRow(*row) for row in self._rows(query, after, until, limit)]

    def count_rows(self, until: int) -> int:
        """Search by bisection: the numbers grow with the places."""
        low, high = 0, self._number("SELECT coalesce(max(place), 0) FROM releases")
        while low < high:
            middle = (low + high + 1) // 2
            if self._number("SELECT number FROM releases WHERE place = ?", middle) <= until:
                low = middle
            else:
                high = middle - 1
        return low

    def marks(self) -> list[MarkRow]:
        return [MarkRow(*row) for row in self._rows("SELECT name, value, checksum FROM marks")]

    def last_write_time(self) -> int:
        files = (self.folder / (schema.STORE_FILE + end) for end in ("", "-wal"))
        return max((path.stat().st_mtime_ns for path in files if path.exists()), default=0) // 1000

    def parts(self) -> Iterator[PartRow]:
        with translate_store_errors(self.address):
            yield from map(PartRow._make, self.sql.execute("SELECT name, generation, sealed FROM parts"))

    def close(self) -> None:
        self.sql.close()

    def _number(self, query: str, *values: object) -> int:
        return int(self._rows(query, *values)[0][0])

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with translate_store_errors(self.address):
            return self.sql.execute(query, values).fetchall()


def _select_releases(payload_bytes: int | None) -> str:
    payload = "payload" if payload_bytes is None else f"substr(payload, 1, {payload_bytes:d})"
    return (
        f"SELECT place, releases.number, coalesce(chain, ''), release, releases.tick, {payload} "
        "FROM releases LEFT JOIN entries ON entries.number = releases.number"
    )


class SqliteBacking(SqliteReading):
    """A store folder, open for its one writer. One thread at a time, and not across a fork."""

    sql: Connection  # opened by the constructor or by `create`

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / schema.STORE_FILE
        with translate_store_errors(self.address):
            make_private_folder(folder)
            try:
                self.slots = KeySlots(folder / schema.SLOTS_FILE)
            except BlockingIOError:
                raise AlreadyRunningError(folder, read_holder_pid(folder)) from None
            try:
                if self.exists:
                    self.sql = schema.open_writer(self.path)
            except BaseException:
                self.slots.close()
                raise

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def create(self, head: HeadRow, sealed_keys: bytes) -> None:
        partial = self.path.with_name(schema.STORE_FILE + ".new")
        with translate_store_errors(self.address):
            with closing(schema.create_database(partial)) as sql:
                sql.execute("BEGIN")
                schema.create_tables(sql)
                sql.execute("INSERT INTO head VALUES (1, ?, ?, 0, ?, ?, ?, ?)", (*head, sealed_keys))
                sql.execute("INSERT INTO entries VALUES (?, ?, ?)", (head.number, head.tick, head.chain))
                sql.execute("COMMIT")
            sync_path(partial)
            rename(partial, self.path)
            self.sql = schema.open_writer(self.path)

    def check(self) -> None:
        with translate_store_errors(self.address):
            schema.check_version(self.sql, self.folder)
            schema.check_pages(self.sql, self.folder)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with translate_store_errors(self.address):
            self.sql.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.sql.execute("COMMIT")
            finally:
                if self.sql.in_transaction:
                    self.sql.execute("ROLLBACK")

    def write_head(self, head: HeadRow, sealed_keys: bytes) -> None:
        written = self.sql.execute(
            "UPDATE head SET generation = ?, number = ?, tick = ?, chain = ?, sealed = ? WHERE generation = ?",
            (*head[1:], sealed_keys, head.generation - 1),
        )
        if written.rowcount != 1:
            raise build_writer_error(self.address)

    def touch_head(self) -> None:
        self.sql.execute("UPDATE head SET openings = openings + 1")

    def add_entry(self, entry: EntryRow, released: Sequence[tuple[str, int, bytes]], ledger: Sequence[str]) -> None:
        self.sql.execute("INSERT INTO entries VALUES (?, ?, ?)", entry)
        for row in released:
            try:
                self.sql.execute("INSERT INTO releases VALUES (NULL, ?, ?, ?, ?)", (entry.number, *row))
            except IntegrityError:
                raise build_repeat_error(*row[:2]) from None
        self.sql.executemany("INSERT INTO acts VALUES (NULL, ?, ?)", ((entry.number, text) for text in ledger))

    def write_part(self, part: PartRow) -> None:
        self.sql.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?)", part)

    def delete_part(self, name: str) -> None:
        self.sql.execute("DELETE FROM parts WHERE name = ?", (name,))

    def delete_parts(self) -> None:
        self.sql.execute("DELETE FROM parts")

    def write_marks(self, marks: Iterable[MarkRow]) -> None:
        self.sql.executemany("INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", marks)

    def find_slot(self, generation: int) -> bytes | None:
        with translate_store_errors(self.address):
            return self.slots.read(generation)

    def write_slot(self, generation: int, slot: bytes) -> None:
        with translate_store_errors(self.address):
            self.slots.write(generation, slot)

    def destroy_slot(self, generation: int) -> None:
        with translate_store_errors(self.address):
            self.slots.destroy(generation)

    def empty_journal(self) -> bool:
        """Copy the journal into the database and cut it to nothing."""
        with translate_store_errors(self.address):
            (busy, *_) = self.sql.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def close(self) -> None:
        """Empty the journal and close. Committed rows are safe even if emptying fails."""
        if hasattr(self, "sql"):  # a creation that failed has none
            with suppress(SqlError):
                self.sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.sql.close()
        self.slots.close()


class SqliteDriver:
    """Access to the store in the pipeline's own folder: the default."""

    erases_slots = True

    def exists(self, folder: Path) -> bool:
        return (folder / schema.STORE_FILE).exists()

    def open_writer(self, folder: Path, *, create: bool) -> StoreBacking:
        if not create and not self.exists(folder):
            raise StoreNotFoundError(folder)
        return SqliteBacking(folder)

    def open_reader(self, folder: Path) -> StoreReading:
        if not self.exists(folder):
            raise StoreNotFoundError(folder)
        with translate_store_errors(folder / schema.STORE_FILE):
            sql = schema.open_reader(folder / schema.STORE_FILE)
            try:
                schema.check_version(sql, folder)
            except BaseException:
                sql.close()
                raise
        return SqliteReading(folder, sql)

    def copy(self, folder: Path, to: Path) -> None:
        with closing(schema.open_reader(folder / schema.STORE_FILE)) as source:
            schema.check_version(source, folder)
            create_file(to / schema.SLOTS_FILE, _begin_snapshot(source, folder))
            create_file(to / schema.STORE_FILE)
            with closing(schema.open_unlogged(to / schema.STORE_FILE)) as target:
                source.backup(target)
        sync_path(to / schema.STORE_FILE)
        sync_path(to)
        _verify(to)


def _begin_snapshot(source: Connection, folder: Path) -> bytes:
    """Begin a read transaction and return the slots file of that moment, with its one slot."""
    for _ in range(MAX_COPY_ATTEMPTS):
        source.execute("BEGIN")
        (generation,) = source.execute("SELECT generation FROM head").fetchone()
        slots = (folder / schema.SLOTS_FILE).read_bytes()
        if find_slot(slots, generation) is not None:
            return select_slot(slots, generation)
        source.execute("ROLLBACK")
    raise build_damage_error(folder, "a database and keys of different moments")


def _verify(folder: Path) -> None:
    """Check the copy, and that it has its key. It is read as immutable, so that no journal is left in it."""
    with closing(schema.open_immutable(folder / schema.STORE_FILE)) as sql:
        schema.check_pages(sql, folder)
        copy = SqliteReading(folder, sql)
        check_history(copy)
        if find_slot((folder / schema.SLOTS_FILE).read_bytes(), copy.head().generation) is None:
            raise build_damage_error(folder, "a copy without its key")
