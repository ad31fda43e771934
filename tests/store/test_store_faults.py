"""Disks that are full, read-only or failing: a clear refusal, and nothing is lost."""

import errno
import os
import resource

import pytest

from streamgauge.store.errors import StoreUnwritableError
from streamgauge.store.keys import create_key
from streamgauge.store.store import Store
from tests.support.forked import forked


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


@pytest.fixture
def store(tmp_path, key):
    with Store.open_writer(tmp_path / "s", key, create=True) as opened:
        opened.commit(tick=1, released=[("a", 1, b"1")], state={"run": b"1"})
        yield opened


def is_at(store, tick):
    shows(store, tick)
    assert store.state() == {"run": b"%d" % tick}


def shows(store, tick):
    assert store.tick == tick
    assert list(store.releases("a"))[-1] == (tick, b"%d" % tick)


def after_reopening(store, key):
    store.close()
    return Store.open_writer(store.folder, key, create=False)


def test_full_database_refuses_commit_and_works_again_with_space(store, key):
    (pages,) = store.backing.sql.execute("PRAGMA page_count").fetchone()
    store.backing.sql.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreUnwritableError, match=r"a full disk.*nothing committed was lost"):
        store.commit(tick=2, released=[("a", 2, b"2" * 100_000)], state={"run": b"2"})
    is_at(store, 1)
    store.backing.sql.execute("PRAGMA max_page_count = 1000000")
    store.commit(tick=2, released=[("a", 2, b"2")], state={"run": b"2"})
    is_at(store, 2)
    with after_reopening(store, key) as again:
        is_at(again, 2)


@pytest.mark.parametrize("room", [0, 10_000, 100_000, 300_000])
def test_file_size_limit_refuses_commit_and_loses_nothing(tmp_path, key, room):
    """The operating system refuses to let the journal grow, at the beginning or in the middle of a commit."""
    folder = tmp_path / "s"

    def act():
        store = Store.open_writer(folder, key, create=True)
        store.commit(tick=1, released=[("a", 1, b"1")], state={"run": b"1"})
        size = (folder / "store.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, resource.RLIM_INFINITY))
        with pytest.raises(StoreUnwritableError, match="a disk that fails or is full"):
            store.commit(tick=2, released=[("a", 2, b"2")], state={"run": b"2", "big": b"2" * 400_000})
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        shows(store, 1)
        with after_reopening(store, key) as again:
            is_at(again, 1)
            again.commit(tick=2, released=[("a", 2, b"2")], state={"run": b"2"})
            is_at(again, 2)

    assert forked(act) == 0


def short(descriptor, data, at, real=os.pwrite):
    return real(descriptor, data[:50], at)


def full(descriptor, data, at):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("fault", [short, full])
def test_failed_slot_write_refuses_commit_and_later_commit_succeeds(store, monkeypatch, fault, key):
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", fault)
        with pytest.raises(StoreUnwritableError, match="no space left"):
            store.commit(tick=2, released=[("a", 2, b"2")], state={"run": b"2"})
    is_at(store, 1)
    store.commit(tick=2, released=[("a", 2, b"2")], state={"run": b"2"})
    with after_reopening(store, key) as again:
        is_at(again, 2)


@pytest.mark.parametrize(("calls", "tick"), [(0, 1), (1, 2)])
def test_failed_flush_leaves_state_before_or_after_commit(store, monkeypatch, calls, tick, key):
    """The first flush is of the new slot, the second of the one destroyed after the commit."""
    left = [calls]

    def failing(descriptor, real=os.fsync):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as broken:
        broken.setattr("streamgauge.store.encryption.sync", failing)
        with pytest.raises(StoreUnwritableError, match="input/output error"):
            store.commit(tick=2, released=[("a", 2, b"2")], state={"run": b"2"})
    if tick == 2:
        with pytest.raises(StoreUnwritableError, match="may or may not have failed"):
            store.commit(tick=3)
        with pytest.raises(StoreUnwritableError, match="may or may not have failed"):
            store.state()
    with after_reopening(store, key) as again:
        is_at(again, tick)


def test_store_that_cannot_be_created_is_refused(tmp_path, key):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritableError, match="not a directory"):
        Store.open_writer(tmp_path / "file" / "s", key, create=True)
