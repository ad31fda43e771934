"""A damaged store is refused, and the error distinguishes damage from a wrong key."""

import random
import shutil
import sqlite3

import pytest

from streamgauge.store import hash_chain as chain
from streamgauge.store import integrity
from streamgauge.store.errors import KeyRefusedError, StoreError
from streamgauge.store.keys import create_key
from streamgauge.store.sqlite import SqliteReading
from streamgauge.store.store import LedgerEntry, Store, StoreReader

FLIPS = 250


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


@pytest.fixture
def folder(tmp_path, key):
    folder = tmp_path / "s"
    with Store.open_writer(folder, key, create=True) as store:
        store.commit(acts=[LedgerEntry("budget", {"epsilon": "1"}), LedgerEntry("charge", {"release": "a"})])
        for tick in range(1, 40):
            store.commit(
                tick=tick,
                released=[("a", tick, b"%d" % tick * 40), ("b", tick, b"")],
                acts=[LedgerEntry("note", {"tick": tick})] if tick % 7 == 0 else [],
                state={f"part {tick % 3}": b"%d" % tick * 200},
                marks={"sink": b"%d" % tick},
            )
    return folder


def content(folder, key):
    with Store.open_writer(folder, key, create=False) as store:
        rows = [list(store.releases(name)) for name in store.release_names()]
        return (store.identity, store.trace, store.number, rows, store.ledger_entries(), store.marks(), store.state())


@pytest.mark.parametrize("name", ["store.db", "store.keys"])
def test_a_flipped_bit_is_refused_or_changes_nothing(folder, key, name):
    expected = content(folder, key)
    whole = (folder / name).read_bytes()
    keys = (folder / "store.keys").read_bytes()
    chance = random.Random(11)
    refused = 0
    for _ in range(FLIPS):
        broken = bytearray(whole)
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        (folder / "store.keys").write_bytes(keys)
        (folder / name).write_bytes(broken)
        try:
            assert content(folder, key) == expected
        except StoreError:
            refused += 1
        for left in ("store.db-wal", "store.db-shm"):
            (folder / left).unlink(missing_ok=True)
    assert refused > 0


TAMPERING = {
    "a payload": "UPDATE releases SET payload = x'00' WHERE place = 9",
    "a payload moved to another tick": "UPDATE releases SET tick = 1000 WHERE place = 9",
    "a release that goes": "DELETE FROM releases WHERE place = 9",
    "the last release that goes": "DELETE FROM releases WHERE place = (SELECT max(place) FROM releases)",
    "a release that comes": "INSERT INTO releases SELECT NULL, number, 'c', tick, x'00' FROM entries LIMIT 1",
    "a release of no entry": "INSERT INTO releases VALUES (NULL, 10000, 'c', 1, x'00')",
    "an act": "UPDATE acts SET act = '{}' WHERE place = 2",
    "an act that goes": "DELETE FROM acts WHERE place = (SELECT max(place) FROM acts)",
    "an act of no entry": "INSERT INTO acts VALUES (NULL, 10000, '{}')",
    "the tick": "UPDATE head SET tick = 3",
    "the chain": "UPDATE head SET chain = (SELECT chain FROM entries WHERE number = 3)",
    "the last entry that goes": "DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)",
    "the identity": "UPDATE head SET identity = '00'",
    "a part that goes": "DELETE FROM parts WHERE name = 'part 1'",
    "a part of another name": "UPDATE parts SET name = 'part 7' WHERE name = 'part 1'",
    "a part of another time": "UPDATE parts SET generation = generation - 1 WHERE name = 'part 1'",
    "a mark": "UPDATE marks SET value = x'00'",
    "the generation": "UPDATE head SET generation = generation - 1",
    "the head": "DELETE FROM head",
    "the number": "UPDATE head SET number = number - 1",
    "what it is": "PRAGMA application_id = 0",
}


def tamper(folder, *statements):
    sql = sqlite3.connect(folder / "store.db", isolation_level=None)
    for (trigger,) in sql.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        sql.execute(f"DROP TRIGGER {trigger}")
    for statement in statements:
        sql.execute(*statement) if isinstance(statement, tuple) else sql.execute(statement)
    sql.close()


@pytest.mark.parametrize("what", TAMPERING)
def test_store_changed_by_hand_is_refused_with_remedy(folder, key, what):
    tamper(folder, TAMPERING[what])
    with pytest.raises(StoreError, match="restore a backup; without one the budget"):
        Store.open_writer(folder, key, create=False)


def rewritten(folder):
    """Return statements that change one payload and recompute every chain to match."""
    sql = sqlite3.connect(folder / "store.db")
    head = sql.execute("SELECT identity FROM head").fetchone()[0]
    changes = [("UPDATE releases SET payload = x'00' WHERE place = 9",)]
    last = chain.genesis(head)
    for number, tick in sql.execute("SELECT number, tick FROM entries WHERE number > 0 ORDER BY number").fetchall():
        query = "SELECT place, release, tick, payload FROM releases WHERE number = ? ORDER BY place"
        rows = [
            (name, at, b"\0" if place == 9 else payload) for place, name, at, payload in sql.execute(query, (number,))
        ]
        acts = [a for (a,) in sql.execute("SELECT act FROM acts WHERE number = ? ORDER BY place", (number,))]
        last = chain.link(last, tick, rows, acts)
        changes.append(("UPDATE entries SET chain = ? WHERE number = ?", (last, number)))
    sql.close()
    return [*changes, ("UPDATE head SET chain = ?", (last,))]


def test_state_refuses_history_rewritten_with_matching_chains(folder, key):
    tamper(folder, *rewritten(folder))
    with sqlite3.connect(folder / "store.db") as sql:
        integrity.check_history(SqliteReading(folder, sql))
    sql.close()
    with pytest.raises(StoreError, match="does not belong to this history"):
        Store.open_writer(folder, key, create=False)


def test_twin_with_payloads_missing_in_chain_accepts_changed_payload(folder, key, monkeypatch, tmp_path):
    def link(previous, tick, released, acts, real=chain.link):
        return real(previous, tick, [(name, at, b"") for name, at, _ in released], acts)

    for module in ("store", "integrity"):
        monkeypatch.setattr(f"streamgauge.store.{module}.link", link)
    twin = tmp_path / "twin"
    with Store.open_writer(twin, key, create=True) as store:
        store.commit(tick=9, released=[("a", t, b"%d" % t) for t in range(1, 10)])
    tamper(twin, TAMPERING["a payload"])
    assert content(twin, key)[3][0][8] == (9, b"\0")


def test_wrong_key_and_damage_have_different_errors(folder, key, tmp_path):
    other = create_key(tmp_path / "other.key")
    expected = content(folder, key)
    with pytest.raises(KeyRefusedError, match=r"must be the one that the store in .* was written under") as refusal:
        Store.open_writer(folder, other, create=False)
    assert other.secret.hex() not in str(refusal.value)
    assert content(folder, key) == expected
    (folder / "store.keys").write_bytes(bytes(8192))
    for each in (key, other):
        with pytest.raises(StoreError, match="different moments"):
            Store.open_writer(folder, each, create=False)


@pytest.mark.parametrize("lost", ["store.keys", "store.db"])
def test_store_with_one_file_of_earlier_moment_is_refused(folder, key, tmp_path, lost):
    earlier = tmp_path / "earlier"
    shutil.copytree(folder, earlier)
    with Store.open_writer(folder, key, create=False) as store:
        store.commit(tick=40)
        store.commit(tick=41)
    shutil.copy(earlier / lost, folder / lost)
    with pytest.raises(StoreError, match="different moments"):
        Store.open_writer(folder, key, create=False)


def test_file_that_is_no_database_is_refused(folder, key):
    (folder / "store.db").write_bytes(b"no database at all" * 1000)
    for look in (lambda: StoreReader.open(folder), lambda: Store.open_writer(folder, key, create=False)):
        with pytest.raises(StoreError, match="restore a backup"):
            look()


def test_key_slots_of_another_store_are_refused_as_damage(folder, key, tmp_path):
    other = tmp_path / "other"
    with Store.open_writer(other, key, create=True) as store:
        for tick in range(1, 40):
            store.commit(tick=tick)
        store.commit()
    shutil.copy(other / "store.keys", folder / "store.keys")
    with pytest.raises(StoreError, match="does not belong to this history"):
        Store.open_writer(folder, key, create=False)
