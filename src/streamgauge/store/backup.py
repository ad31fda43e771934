"""Backups of a store, also during a run, and changes of the curator's key.

A backup is a folder like the store's own. To restore it, replace the damaged folder with it. A restored store is
older than the rollback guard and the sinks, so it is refused until the curator says `--accept-rollback` and pays for
the ticks that will be drawn again. As long as a backup exists, the curator's key decrypts the state of that moment:
the backup retains a slot that the store itself has destroyed.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from streamgauge.clock import SystemClock
from streamgauge.files import PRIVATE_FOLDER_MODE, rename
from streamgauge.interfaces import StoreDriver, ignore
from streamgauge.store.errors import KeyRefusedError, StoreError, StoreNotFoundError, translate_store_errors
from streamgauge.store.keys import Key
from streamgauge.store.reader import SQLITE
from streamgauge.store.rollback_guard import (
    GUARD_MARK,
    GUARD_MARK_VALUE,
    RollbackGuard,
    build_missing_guard_error,
    collect_charges,
    find_guard_path,
    refuse_rollback,
)
from streamgauge.store.store import LedgerEntry, Store


def backup(folder: Path, to: Path, driver: StoreDriver = SQLITE) -> Path:
    """Copy a store to a new folder, complete and checked, or not at all. This needs no key.

    The copy is written under another name, which must not exist either: it is not ours to remove.
    """
    if not driver.exists(folder):
        raise StoreNotFoundError(folder)
    partial = to.with_name(to.name + ".partial")
    if to.exists():
        raise StoreError(f"backup must go to a new folder, got {to}, which exists", "backup_exists")
    if partial.exists():
        raise StoreError(
            f"backup must write to a new folder, got {partial}, which an interrupted backup leaves: look at it, "
            "then remove it",
            "backup_exists",
        )
    with translate_store_errors(to):
        to.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(PRIVATE_FOLDER_MODE)
        try:
            driver.copy(folder, partial)
            rename(partial, to)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return to


def rotate(
    folder: Path, old: Key, new: Key, steps: Callable[[str], None] = ignore, driver: StoreDriver = SQLITE
) -> None:
    """Seal a store under another key. After a crash it opens under one of the two, and can be rotated again.

    Earlier copies stay under the old key: destroy them, or keep that key secret. A store that is not the newest is
    refused, as by a run. Both rollback guards record the change, so that older copies stay refused.
    """
    try:
        store = Store.open_writer(folder, old, create=False, steps=steps, driver=driver)
    except KeyRefusedError as refusal:
        if refusal.code != "wrong_key":
            raise
        store = Store.open_writer(folder, new, create=False, steps=steps, driver=driver)
    with store:
        before, after = RollbackGuard.find(old, store), RollbackGuard(find_guard_path(new, store), store)
        refuse_rollback(store, [*before.traces(), *RollbackGuard.find(new, store).traces()])
        if before.is_missing(store) and after.is_missing(store):
            raise build_missing_guard_error(store, before.path)
        after.replace(before, store.trace, collect_charges(store.chained_entries()))
        store.rotate(new, LedgerEntry("rotate_key", {}, time=SystemClock().now()))
        after.write(store.trace)
        store.mark({GUARD_MARK: GUARD_MARK_VALUE})
