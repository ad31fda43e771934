"""A copy of a store, made while a run goes on, and a change of the curator's key.

A backup is a folder like the store's own: to restore it, put it in the place of the damaged one. It is a
moment of the past: the witness and the sinks know of later ticks, and the store is refused until the curator
says `--rolled-back` and pays for the ticks that will be drawn again. As long as a backup exists, the
curator's key opens the state of that moment: it keeps what the dying keys of the store itself would have
destroyed.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection

from streamgauge.pipeline import database, schema
from streamgauge.pipeline.clock import SystemClock
from streamgauge.pipeline.durable import PRIVATE_FOLDER, new_file, rename
from streamgauge.pipeline.head import Head
from streamgauge.pipeline.integrity import check_history, check_pages
from streamgauge.pipeline.keys import Key
from streamgauge.pipeline.slots import BLOCK, find
from streamgauge.pipeline.spent import spent_by
from streamgauge.pipeline.store import Act, Store, onwards
from streamgauge.pipeline.store_errors import DamagedStore, NoStore, StoreError, WrongKey, refusals
from streamgauge.pipeline.witness import KEPT, WITNESSED, Unwitnessed, Witness, place, refuse_rollback
from streamgauge.query.durable import sync_path

ATTEMPTS = 100  # a commit between two readings makes one more; each takes a moment


class BackupRefused(StoreError):  # noqa: N818 - refusals are named by what they say
    """A backup that would write over something."""


def backup(folder: Path, to: Path) -> Path:
    """Copies a store to a new folder, whole and checked, or not at all. Needs no key.

    It is made under another name, which must be free, too: what lies there is never ours to remove.
    """
    if not (folder / database.STORE).exists():
        raise NoStore(folder)
    partial = to.with_name(to.name + ".partial")
    if to.exists():
        raise BackupRefused(f"backup must go to a new folder, got {to}, which exists")
    if partial.exists():
        told = f"{partial}, which a backup that was broken off leaves"
        raise BackupRefused(f"backup must find its place free, got {told}: look at it, then remove it")
    with refusals(to):
        to.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(PRIVATE_FOLDER)
        try:
            _copy(folder, partial)
            _verify(partial)
            rename(partial, to)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return to


def rotate(folder: Path, old: Key, new: Key, steps: Callable[[str], None] = onwards) -> None:
    """Puts a store under another key; after a crash it opens under one of the two, and can be rotated again.

    Copies made before stay under the old key: destroy them, or keep it secret. A store that is not the newest
    is refused as it is by a run, and both witnesses tell of the change, so that older copies stay refused.
    """
    try:
        store = Store.open(folder, old, create=False, steps=steps)
    except WrongKey:
        store = Store.open(folder, new, create=False, steps=steps)
    with store:
        before, after = Witness.beside(old, store), Witness(place(new, store), store)
        refuse_rollback(store, [*before.traces(), *Witness.beside(new, store).traces()])
        if before.missing(store) and after.missing(store):
            raise Unwitnessed(store, before.path)
        after.replace(before, store.trace, spent_by(store.told_acts()))
        store.rotate(new, Act("rotate", {}, time=SystemClock().now()))
        after.write(store.trace)
        store.mark({WITNESSED: KEPT})


def _copy(folder: Path, to: Path) -> None:
    source = database.reader(folder / database.STORE)
    try:
        schema.check_version(source, folder)
        keys = _moment(source, folder)
        new_file(to / database.SLOTS, keys)
        new_file(to / database.STORE)
        target = database.unlogged(to / database.STORE)
        try:
            source.backup(target)
        finally:
            target.close()
    finally:
        source.close()
    sync_path(to / database.STORE)
    sync_path(to)


def _moment(source: Connection, folder: Path) -> bytes:
    """Begins to read, and finds the slots as they are at that moment: what is read later is of it too."""
    for _ in range(ATTEMPTS):
        source.execute("BEGIN")
        generation = Head.read(source, folder).generation
        keys = (folder / database.SLOTS).read_bytes()
        if find(keys, generation) is not None:
            return _only(keys, generation)
        source.execute("ROLLBACK")
    raise DamagedStore(folder, "a database and keys of different moments")


def _only(keys: bytes, generation: int) -> bytes:
    """The slots without the one of another generation."""
    at = generation % 2 * BLOCK
    return bytes(at) + keys[at : at + BLOCK].ljust(2 * BLOCK - at, b"\0")


def _verify(folder: Path) -> None:
    sql = database.unchanging(folder / database.STORE)
    try:
        check_pages(sql, folder)
        check_history(sql, folder)
        keys = (folder / database.SLOTS).read_bytes()
        if find(keys, Head.read(sql, folder).generation) is None:
            raise DamagedStore(folder, "a copy without its key")
    finally:
        sql.close()
