"""Backups are whole, private and of one moment, even of an open store; restoring one is a rollback."""

import shutil
import stat
import threading

import pytest

from streamgauge.store import sqlite as sqlite_module
from streamgauge.store.backup import backup, rotate
from streamgauge.store.errors import RollbackError, StoreError, StoreNotFoundError, StoreUnwritableError
from streamgauge.store.keys import create_key
from streamgauge.store.rollback_guard import RollbackGuard, refuse_rollback
from streamgauge.store.store import Store


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


def commit(store, tick):
    store.commit(tick=tick, released=[("a", tick, b"%d" % tick)], state={"run": b"%d" % tick * 5000})


@pytest.fixture
def store(tmp_path, key):
    with Store.open_writer(tmp_path / "s", key, create=True) as opened:
        for tick in range(1, 11):
            commit(opened, tick)
        yield opened


def is_whole(folder, key):
    """Check a copy, so that the backup itself stays unchanged; return its tick."""
    copy = folder.with_name(folder.name + " copy")
    shutil.copytree(folder, copy)
    with Store.open_writer(copy, key, create=False) as store:
        tick = store.tick
        assert list(store.releases("a")) == [(t, b"%d" % t) for t in range(1, tick + 1)]
        assert store.state() == {"run": b"%d" % tick * 5000}
        commit(store, tick + 1)
    shutil.rmtree(copy)
    return tick


def test_a_backup_of_an_open_store_is_whole_and_private(store, key, tmp_path):
    to = backup(store.folder, tmp_path / "b")
    assert is_whole(to, key) == 10
    assert stat.S_IMODE(to.stat().st_mode) == 0o700
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in to.iterdir()} == {"store.db": 0o600, "store.keys": 0o600}


def test_backup_during_commits_is_of_one_moment(store, key, tmp_path):
    done = threading.Event()
    tick = 10

    def copy():
        try:
            for number in range(8):
                backup(store.folder, tmp_path / f"b{number}")
        finally:
            done.set()

    thread = threading.Thread(target=copy)
    thread.start()
    while not done.is_set():
        tick += 1
        commit(store, tick)
    thread.join()
    ticks = [is_whole(tmp_path / f"b{number}", key) for number in range(8)]
    assert ticks == sorted(ticks)
    assert 10 <= ticks[-1] <= tick


def test_twin_that_copies_later_keys_is_caught_by_backup_check(store, tmp_path, monkeypatch):
    def later(source, folder, real=sqlite_module._begin_snapshot):
        real(source, folder)
        commit(store, store.tick + 1)
        commit(store, store.tick + 1)
        return (folder / "store.keys").read_bytes()

    monkeypatch.setattr(sqlite_module, "_begin_snapshot", later)
    with pytest.raises(StoreError, match="a copy without its key"):
        backup(store.folder, tmp_path / "b")
    assert not list(tmp_path.glob("b*"))


def test_backup_to_existing_folder_or_of_missing_store_is_refused(store, tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(StoreError, match="must go to a new folder"):
        backup(store.folder, tmp_path / "b")
    with pytest.raises(StoreNotFoundError):
        backup(tmp_path / "nothing", tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_backup_refuses_existing_partial_folder_and_leaves_it_unchanged(store, tmp_path):
    (tmp_path / "b.partial").mkdir()
    (tmp_path / "b.partial" / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"got .*b\.partial, which an interrupted backup leaves"):
        backup(store.folder, tmp_path / "b")
    assert (tmp_path / "b.partial" / "thesis.tex").read_text() == "precious"
    assert not (tmp_path / "b").exists()


def test_backup_creates_parent_folders(store, key, tmp_path):
    assert is_whole(backup(store.folder, tmp_path / "far" / "away" / "b"), key) == 10


def test_a_backup_that_fails_leaves_nothing(store, tmp_path, monkeypatch):
    def broken(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sqlite_module, "create_file", broken)
    with pytest.raises(StoreUnwritableError, match="no space left"):
        backup(store.folder, tmp_path / "b")
    assert not list(tmp_path.glob("b*"))


def test_guard_refuses_restored_backup_if_store_committed_since(store, key, tmp_path):
    guard = RollbackGuard.find(key, store)
    guard.write(store.trace)
    backup(store.folder, tmp_path / "b")
    with Store.open_writer(tmp_path / "b", key, create=False) as restored:
        refuse_rollback(restored, guard.traces())
    commit(store, 11)
    guard.write(store.trace)
    with Store.open_writer(tmp_path / "b", key, create=False) as restored:
        with pytest.raises(RollbackError, match="--accept-rollback") as refusal:
            refuse_rollback(restored, guard.traces())
        assert (refusal.value.store_tick, refusal.value.tick) == (10, 11)


def test_key_rotation_preserves_store_and_guard(store, key, tmp_path):
    store.close()
    new = create_key(tmp_path / "new.key")
    rotate(store.folder, key, new)
    assert is_whole(store.folder, new) == 10
    with Store.open_writer(store.folder, new, create=False) as again:
        assert RollbackGuard.find(new, again).traces() == [again.trace]
