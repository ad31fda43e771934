"""The store contract holds for SQLite and for a backing of plain files, and catches broken ones."""

import pickle
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamgauge.interfaces import HeadRow
from streamgauge.store.keys import create_key
from streamgauge.store.sqlite import SqliteDriver
from streamgauge.testing.store_contract import (
    STORE_CHECKS,
    ContractError,
    StoreUnderTest,
    check_kills,
    check_one_draw,
    check_slots,
    check_store,
    check_torn_transactions,
    check_two_writers,
)
from tests.support.file_store import FileBacking, FileDriver


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("driver", [SqliteDriver, FileDriver])
def test_backing_keeps_the_store_contract(tmp_path: Path, driver, check) -> None:
    check(StoreUnderTest(driver(), tmp_path / "store", create_key(tmp_path / "store.key")))


class Torn(FileBacking):
    """Rows are there before the transaction ends."""

    def add_entry(self, entry, released, ledger):
        super().add_entry(entry, released, ledger)
        self.write(self.open_data)


class Lazy(FileBacking):
    """Commits reach the file when the store is closed."""

    pending = None

    @property
    def data(self):
        return self.open_data or self.pending or super().data

    @contextmanager
    def transaction(self):
        self.open_data = pickle.loads(pickle.dumps(self.data))
        try:
            yield
            self.pending = self.open_data
        finally:
            self.open_data = None

    def close(self):
        if self.pending:
            self.write(self.pending)
        super().close()


class Unlocked(FileBacking):
    """Any number of writers."""

    class NoLock:
        def release(self):
            pass

    def acquire(self):
        return self.NoLock()


class Unfenced(FileBacking):
    """A head overwrites any other."""

    def write_head(self, head, sealed_keys):
        self.data.update(head=HeadRow(*head), sealed_keys=sealed_keys)


class Rewriting(FileBacking):
    """A second value replaces the first."""

    def add_entry(self, entry, released, ledger):
        names = {(release, tick) for release, tick, _ in released}
        rows = self.data["releases"]
        rows[:] = [row for row in rows if (row.release, row.tick) not in names]
        super().add_entry(entry, released, ledger)


class Remembering(FileBacking):
    """Destroyed slots stay."""

    def destroy_slot(self, generation):
        pass


class OneSlot(FileBacking):
    """Both generations share a place."""

    def slot_path(self, generation):
        return self.folder / "slot"


TWINS = [
    (Torn, check_torn_transactions, "open transaction|must leave nothing"),
    (Lazy, check_kills, "must be at tick"),
    (Unlocked, check_two_writers, "second writer"),
    (Unfenced, check_two_writers, "another writer has replaced"),
    (Rewriting, check_one_draw, "second value"),
    (Remembering, check_slots, "newest generation alone"),
    (OneSlot, check_slots, "newest generation alone"),
]


@pytest.mark.parametrize(("twin", "check", "promise"), TWINS, ids=[twin.__name__ for twin, *_ in TWINS])
def test_a_broken_backing_is_caught(tmp_path: Path, twin, check, promise) -> None:
    with pytest.raises(ContractError, match=promise):
        check(StoreUnderTest(FileDriver(twin), tmp_path / "store", create_key(tmp_path / "store.key")))
    with pytest.raises(ContractError):
        check_store(lambda: FileDriver(twin), tmp_path)
