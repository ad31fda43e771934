"""How the database file is opened: to be made, to be written by one, to be read by many.

The journal is a write-ahead log, flushed at every commit, so that readers never wait and never hold a writer
up. Files have the mode of the database file, which is made 0600 before SQLite sees it; nothing is spilled
into temporary files.
"""

import errno
import os
from pathlib import Path
from sqlite3 import Connection, OperationalError, connect
from urllib.parse import quote

from streamgauge.pipeline.durable import new_file

STORE = "store.db"
SLOTS = "store.keys"
PAGE = 8192
PATIENCE = 1.0  # seconds to wait for readers that are in the way
CHECKPOINT = 4096  # pages in the journal at which it is copied into the database: 32 MiB

WRITING = [
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cell_size_check = ON",
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT}",
]


def new_database(path: Path) -> Connection:
    """An empty file, with no journal beside it: it gets its name when it is whole."""
    path.unlink(missing_ok=True)
    new_file(path)
    sql = unlogged(path)
    sql.execute(f"PRAGMA page_size = {PAGE}")
    return sql


def unlogged(path: Path) -> Connection:
    """Writes a file that nobody reads yet."""
    sql = _connect(path, "rw")
    sql.execute("PRAGMA journal_mode = MEMORY")
    sql.execute("PRAGMA synchronous = FULL")
    return sql


def writer(path: Path) -> Connection:
    """Writes a store. SQLite would open a read-only file, too, and leave a read-only journal beside it."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, "a file that is read-only")
    sql = _connect(path, "rw")
    try:
        for pragma in WRITING:
            sql.execute(pragma)
    except BaseException:
        sql.close()
        raise
    return sql


def reader(path: Path) -> Connection:
    """Reads, also while a run writes, and also where nothing can be written."""
    sql = _connect(path, "ro")
    try:
        sql.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except OperationalError:
        sql.close()
        if os.access(path.parent, os.W_OK) or _journal(path):
            raise
        return unchanging(path)
    return sql


def unchanging(path: Path) -> Connection:
    """Reads a file that nobody writes, and leaves nothing beside it."""
    return _connect(path, "ro&immutable=1")


def _journal(path: Path) -> int:
    """How many bytes of the store are not in its main file."""
    journal = path.with_name(path.name + "-wal")
    return journal.stat().st_size if journal.exists() else 0


def _connect(path: Path, mode: str) -> Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=PATIENCE)
