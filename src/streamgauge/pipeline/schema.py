"""The tables of the store, their version, and how a store of an earlier version is brought up to date.

    head       one row: where the store is, and the sealed table of part keys
    parts      the state: one sealed row for each named part, as last changed
    entries    the history: one row for each commit that released or did something public
    releases   what was released, in order; one row for each release and tick, ever
    acts       what was done, in order, as canonical JSON
    marks      small public notes, such as how far a sink was written

History is append-only: SQLite itself refuses to change or delete it, or to take a second value for a tick.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from sqlite3 import Connection

from streamgauge.pipeline.store_errors import DamagedStore, NewerStore, OlderStore

VERSION = 1
APPLICATION = 0x53474753  # "SGGS"

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

MIGRATIONS: Mapping[
    int, Callable[[Connection], None]
] = {}  # from a version to the next, by single statements


def create(sql: Connection) -> None:
    """The tables, in an empty file and an open transaction."""
    for statement in TABLES:
        sql.execute(statement)
    sql.execute(f"PRAGMA application_id = {APPLICATION}")
    sql.execute(f"PRAGMA user_version = {VERSION}")


def check_version(sql: Connection, folder: Path) -> None:
    """Refuses what a reader cannot read."""
    version = _version(sql, folder)
    if version < VERSION:
        raise OlderStore(folder, version, VERSION)


def migrate(sql: Connection, folder: Path) -> None:
    """Brings a store up to date, each version in a transaction of its own."""
    for version in range(_version(sql, folder), VERSION):
        sql.execute("BEGIN IMMEDIATE")
        try:
            MIGRATIONS[version](sql)
            sql.execute(f"PRAGMA user_version = {version + 1}")
            sql.execute("COMMIT")
        finally:
            if sql.in_transaction:
                sql.execute("ROLLBACK")


def _version(sql: Connection, folder: Path) -> int:
    (application,) = sql.execute("PRAGMA application_id").fetchone()
    (version,) = sql.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION or version < 1:
        raise DamagedStore(folder, "a file that is not a store")
    if version > VERSION:
        raise NewerStore(folder, version, VERSION)
    return int(version)
