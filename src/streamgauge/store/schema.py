"""SQLite tables of the store, and connections to them.

    head       one row: position of the store, and the sealed table of part keys
    parts      the state: one sealed row for each named part, as last changed
    entries    the history: one row for each public commit
    releases   releases in order; one row for each release and tick, ever
    acts       ledger entries in order, as canonical JSON
    marks      small public notes, such as how far a sink was written

History is append-only: SQLite itself refuses to change or delete it, and refuses a second value for a tick.

The journal is a write-ahead log, flushed at every commit, so readers and the writer never wait for each other.
Files have the mode of the database file, which is created with 0600 before SQLite opens it. SQLite writes no
temporary files.
"""

import errno
import os
from pathlib import Path
from sqlite3 import Connection, OperationalError, connect
from urllib.parse import quote

from streamgauge.files import create_file
from streamgauge.store.errors import StoreError, build_damage_error

VERSION = 1
APPLICATION_ID = 0x53474753  # "SGGS"

TABLES = [
    """CREATE TABLE head (
        one INTEGER PRIMARY KEY CHECK (one = 1), identity TEXT NOT NULL, generation INTEGER NOT NULL,
        openings INTEGER NOT NULL, number INTEGER NOT NULL, tick INTEGER NOT NULL, chain TEXT NOT NULL,
        sealed BLOB NOT NULL) STRICT""",
    """CREATE TABLE parts (
        name TEXT PRIMARY KEY NOT NULL, generation INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT""",
    """CREATE TABLE entries (
        number INTEGER PRIMARY KEY, tick INTEGER NOT NULL, chain TEXT NOT NULL) STRICT""",
    """CREATE TABLE releases (
        place INTEGER PRIMARY KEY, number INTEGER NOT NULL, release TEXT NOT NULL, tick INTEGER NOT NULL,
        payload BLOB NOT NULL, UNIQUE (release, tick)) STRICT""",
    """CREATE TABLE acts (
        place INTEGER PRIMARY KEY, number INTEGER NOT NULL, act TEXT NOT NULL) STRICT""",
    """CREATE TABLE marks (
        name TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL, checksum BLOB NOT NULL) STRICT""",
    *(
        f"CREATE TRIGGER {table}_keep_on_{event.lower()} BEFORE {event} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'history is append-only'); END"
        for table in ("entries", "releases", "acts")
        for event in ("UPDATE", "DELETE")
    ),
]


def create_tables(sql: Connection) -> None:
    """Create the tables in an empty file, inside an open transaction."""
    for statement in TABLES:
        sql.execute(statement)
    sql.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    sql.execute(f"PRAGMA user_version = {VERSION}")


def check_version(sql: Connection, folder: Path) -> None:
    """Reject a file that is not a store, and a store of another format."""
    (application,) = sql.execute("PRAGMA application_id").fetchone()
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID or version < 1:
        raise build_damage_error(folder, "a file that is not a store")
    if version != VERSION:
        raise StoreError(
            f"store must be of format {VERSION}, got format {version} in {folder}: "
            "install the version of streamgauge that wrote it",
            "version",
        )


def check_pages(sql: Connection, folder: Path) -> None:
    """Reject a database with damaged pages or indexes."""
    if sql.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        raise build_damage_error(folder, "damaged pages")


STORE_FILE = "store.db"
SLOTS_FILE = "store.keys"
PAGE_BYTES = 8192
BUSY_TIMEOUT_SECONDS = 1.0  # to wait for readers
CHECKPOINT_PAGES = 4096  # pages in the journal at which it is copied into the database: 32 MiB

WRITER_PRAGMAS = [
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}",
]


def create_database(path: Path) -> Connection:
    """Create an empty file without a journal; the caller renames it when it is complete."""
    path.unlink(missing_ok=True)
    create_file(path)
    sql = open_unlogged(path)
    sql.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    return sql


def open_unlogged(path: Path) -> Connection:
    """Open a file that has no readers yet."""
    sql = _connect(path, "rw")
    sql.execute("PRAGMA journal_mode = MEMORY")
    sql.execute("PRAGMA synchronous = FULL")
    return sql


def open_writer(path: Path) -> Connection:
    """Open for writing; reject a read-only file, for which SQLite would leave a read-only journal."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "a file that is read-only")
    sql = _connect(path, "rw")
    try:
        for pragma in WRITER_PRAGMAS:
            sql.execute(pragma)
    except BaseException:
        sql.close()
        raise
    return sql


def open_reader(path: Path) -> Connection:
    """Open for reading, also while a run writes, and also in a read-only folder."""
    sql = _connect(path, "ro")
    try:
        sql.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except OperationalError:
        sql.close()
        if os.access(path.parent, os.W_OK) or _count_journal_bytes(path):
            raise
        return open_immutable(path)
    return sql


def open_immutable(path: Path) -> Connection:
    """Open a file that has no writer; this leaves no other file."""
    return _connect(path, "ro&immutable=1")


def _count_journal_bytes(path: Path) -> int:
    """Return the size of the journal."""
    journal = path.with_name(path.name + "-wal")
    return journal.stat().st_size if journal.exists() else 0


def _connect(path: Path, mode: str) -> Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_SECONDS)
