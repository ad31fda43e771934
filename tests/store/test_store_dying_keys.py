"""An intruder with all files and the curator's key can decrypt the newest state only."""

import sqlite3
import sys
from contextlib import suppress

import pytest

from streamgauge.store import encryption as sealed
from streamgauge.store import store as store_module
from streamgauge.store.encryption import MAGIC, DecryptionError, KeySlots, unpack_keys, unpack_slot, unseal, unwrap
from streamgauge.store.keys import create_key
from streamgauge.store.store import Head, LedgerEntry, Store

COMMITS = 12


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


@pytest.fixture
def keys(monkeypatch):
    """Every key that the store ever drew."""
    drawn = []

    def system_key(real=sealed.read_system_key):
        secret = real()
        drawn.append(bytes(bytearray(secret)))
        return secret

    for module in (sealed, store_module):
        monkeypatch.setattr(module, "read_system_key", system_key)
    return drawn


def plain(tick, name="run"):
    return b"exact memory of %s at tick %d;" % (name.encode(), tick) * 3


class Intruder:
    """Has every file, the curator's key, and every ciphertext that was ever in the database."""

    def __init__(self, folder, key):
        self.folder, self.key = folder, key
        self.heads, self.parts = {}, {}

    def watch(self, store):
        """Copy the ciphertexts that are on the disk now, without keys."""
        with sqlite3.connect(self.folder / "store.db") as sql:
            (*place, ciphertext) = sql.execute(
                "SELECT identity, generation, number, tick, chain, sealed FROM head"
            ).fetchone()
            self.heads[place[1]] = (Head(*place), ciphertext)
            for row in sql.execute("SELECT name, generation, sealed FROM parts"):
                self.parts[row[:2]] = row[2]
        sql.close()

    def disk(self):
        return b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))

    def data_keys(self):
        """Yield the data key of every whole slot anywhere on the disk."""
        disk, at = self.disk(), -1
        while (at := disk.find(MAGIC, at + 1)) >= 0:
            found = unpack_slot(disk[at : at + sealed.SLOT_STRUCT.size])
            if found is not None:
                with suppress(DecryptionError):
                    yield unwrap(self.key.secret, self.heads[1][0].identity, *found)

    def opened(self):
        """Return every part that decrypts: try each data key on each head, and each key in it on each part."""
        tables = [
            unpack_keys(table)
            for data_key in self.data_keys()
            for place, ciphertext in self.heads.values()
            for table in attempt(data_key, ciphertext, *place.associated_data)
        ]
        candidates = {key for table in tables for key in table.values()}
        identity = self.heads[1][0].identity
        return {
            part
            for key in candidates
            for (name, generation), ciphertext in self.parts.items()
            for part in attempt(key, ciphertext, identity, "part", name, generation)
        }


def attempt(key, ciphertext, *about):
    try:
        return [unseal(key, ciphertext, *about)]
    except DecryptionError:
        return []


def watched(folder, key, opening=Store.open_writer):
    """Return a store after many commits, and an intruder that watched the disk after each."""
    intruder = Intruder(folder, key)
    store = opening(folder, key, create=True)
    intruder.watch(store)
    store.commit(state={"stays": plain(0, "stays"), "goes": plain(0, "goes")})
    intruder.watch(store)
    for tick in range(1, COMMITS + 1):
        gone = {"goes": None} if tick == 5 else {}
        store.commit(tick=tick, released=[("a", tick, b"public")], state={"run": plain(tick), **gone})
        intruder.watch(store)
    return store, intruder


def newest():
    return {plain(0, "stays"), plain(COMMITS)}


def only_the_newest_opens(store, intruder):
    assert len(intruder.parts) == COMMITS + 2
    lingering = [c for c in intruder.parts.values() if c in intruder.disk()]
    assert len(lingering) == len(intruder.parts)  # SQLite's journal still has them all: only destroyed keys help
    assert set(store.state().values()) == newest()
    assert intruder.opened() == newest()


def test_files_and_curator_key_open_only_newest_state(tmp_path, key):
    store, intruder = watched(tmp_path / "s", key)
    only_the_newest_opens(store, intruder)
    store.close()
    assert intruder.opened() == newest()


def test_disk_has_no_drawn_key_and_no_state_in_clear(tmp_path, key, keys):
    store, intruder = watched(tmp_path / "s", key)
    assert len(keys) > 4 * COMMITS
    assert key.secret not in intruder.disk()
    assert key.secret.hex().encode() not in intruder.disk()
    salts = [k for k in keys if k in intruder.disk()]
    assert len(salts) == 1  # of the newest slot, public
    assert b"exact memory" not in intruder.disk()
    store.close()
    assert b"exact memory" not in intruder.disk()


def test_reopening_after_crash_destroys_keys_of_earlier_state(tmp_path, key):
    store, intruder = watched(tmp_path / "s", key)
    store.steps = lambda step: 1 // 0 if step == "transaction_committed" else None
    with pytest.raises(ZeroDivisionError):
        store.commit(state={"run": b"later"})
    intruder.watch(store)
    assert intruder.opened() == newest() | {b"later"}
    store.close()
    Store.open_writer(tmp_path / "s", key, create=False).close()
    assert intruder.opened() == newest() - {plain(COMMITS)} | {b"later"}


def test_old_key_opens_no_state_written_after_rotation(tmp_path, key):
    store, intruder = watched(tmp_path / "s", key)
    before = intruder.opened()
    new = create_key(tmp_path / "new.key")
    (data_key,) = intruder.data_keys()
    store.rotate(new, LedgerEntry("rotate_key"))
    intruder.watch(store)
    assert list(intruder.data_keys()) == []
    intruder.data_keys = lambda: [data_key]
    assert intruder.opened() == before
    (latest,) = {generation for _, generation in intruder.parts if generation > COMMITS + 2}
    intruder.parts = {part: c for part, c in intruder.parts.items() if part[1] == latest}
    assert len(intruder.parts) == 2
    assert intruder.opened() == set()


class InTheDatabase(KeySlots):
    """A twin that keeps its slots in the database, overwrites them there, and trusts in secure deletion."""

    def __init__(self, path):
        super().__init__(path)
        self.database = path.with_name("store.db")

    def write(self, generation, slot):
        super().write(generation, slot)
        if self.database.exists() and self.transaction is not None:
            sql = self.transaction
            sql.execute("CREATE TABLE IF NOT EXISTS slots (place INTEGER PRIMARY KEY, slot BLOB)")
            sql.execute("INSERT OR REPLACE INTO slots VALUES (?, ?)", (generation % 2, slot))

    transaction = None


def with_slots_in_the_database(folder, key, *, create):
    store = Store.open_writer(folder, key, create=create)
    store.backing.slots.transaction = store.backing.sql
    return store


def test_a_twin_with_its_slots_in_the_database_is_caught(tmp_path, key, monkeypatch):
    monkeypatch.setattr("streamgauge.store.sqlite.KeySlots", InTheDatabase)
    store, intruder = watched(tmp_path / "s", key, with_slots_in_the_database)
    assert intruder.opened() > newest()
    with pytest.raises(AssertionError):
        only_the_newest_opens(store, intruder)
    store.close()


def test_twin_that_reuses_one_part_key_is_caught(tmp_path, key, monkeypatch):
    def seal_part(identity, name, generation, content):
        kept = bytes(bytearray(b"k" * 32))  # a fresh copy, because the store overwrites it
        return kept, sealed.seal(kept, content, identity, "part", name, generation)

    monkeypatch.setattr("streamgauge.store.store.seal_part", seal_part)
    store, intruder = watched(tmp_path / "s", key)
    assert len(intruder.opened()) == COMMITS + 2
    with pytest.raises(AssertionError):
        only_the_newest_opens(store, intruder)
    store.close()


class BrokenError(Exception):
    """An injected failure of a commit."""


def drawn_by_a_broken_commit(folder, key, monkeypatch, place, *, shut):
    """Return the part keys that a failed commit drew, the store, and its part keys before the commit."""
    store, drawn = Store.open_writer(folder, key, create=True), []
    store.commit(tick=1, state={"run": plain(1), "other": plain(1, "other")})
    before = {name: bytes(bytearray(each)) for name, each in store._keys.items()}
    if shut:
        store.seal()

    def system_key(real=sealed.read_system_key):
        made = real()
        if sys._getframe(1).f_code.co_name == sealed.seal_part.__name__:  # the slot draws a key too
            drawn.append(made)
        return made

    def broken(*given, **more):
        raise BrokenError

    def step(name):
        if name == place:
            raise BrokenError

    monkeypatch.setattr(sealed, "read_system_key", system_key)
    store.steps = step
    if hasattr(store.backing, place):
        monkeypatch.setattr(store.backing, place, broken)
    if place == "half of the parts":
        monkeypatch.setattr(sealed, "seal", lambda *given, seal=sealed.seal: broken() if drawn[1:] else seal(*given))
    with pytest.raises(BrokenError):
        store.commit(tick=2, state={"run": plain(2), "more": plain(2, "more"), "other": None})
    return drawn, store, before


PLACES = ["write_marks", "write_head", "half of the parts", "rows_written", "slot_written", "transaction_committed"]


@pytest.mark.parametrize("shut", [False, True], ids=["open", "sealed"])
@pytest.mark.parametrize("place", PLACES)
def test_part_keys_of_a_commit_that_fails_are_overwritten(tmp_path, key, monkeypatch, place, shut):
    drawn, store, before = drawn_by_a_broken_commit(tmp_path / "s", key, monkeypatch, place, shut=shut)
    assert len(drawn) == 2
    assert all(each == bytes(32) for each in drawn)
    assert store._keys == ({} if shut else before)


def test_store_continues_with_previous_keys_after_failed_commit(tmp_path, key, monkeypatch):
    with monkeypatch.context() as patched:
        _, store, _ = drawn_by_a_broken_commit(tmp_path / "s", key, patched, "write_head", shut=False)
    store.commit(tick=2, state={"run": plain(2)})
    store.close()
    assert Store.open_writer(tmp_path / "s", key, create=False).state() == {"run": plain(2), "other": plain(1, "other")}


def test_half_a_state_in_a_sealed_store_is_refused(tmp_path, key):
    """A sealed store deletes all parts that a commit does not have, such as the key of user hashes."""
    store = Store.open_writer(tmp_path / "s", key, create=True)
    store.commit(tick=1, state={"run": plain(1), "secret": plain(1, "secret")})
    store.seal()
    with pytest.raises(ValueError, match="state must be given whole to a store that is sealed, got none of secret"):
        store.commit(tick=2, state={"run": plain(2)})
    store.commit(tick=2, state={"run": plain(2), "secret": None})
    store.commit(tick=3, state={"run": plain(3)})
    store.close()
