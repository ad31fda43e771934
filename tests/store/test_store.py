"""Laws of the store: a commit is durable, whole and unique, and readers need no key."""

import sqlite3
import stat

import pytest

from streamgauge.store import reader
from streamgauge.store.errors import AlreadyRunningError, StoreError, StoreNotFoundError, StoreUnwritableError
from streamgauge.store.keys import create_key
from streamgauge.store.store import LedgerEntry, Store, StoreReader, Trace
from tests.support.forked import forked, unprivileged


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a.streamgauge"


@pytest.fixture
def store(folder, key):
    with Store.open_writer(folder, key, create=True) as opened:
        yield opened


def public(store):
    names = store.release_names()
    rows = {name: list(store.releases(name)) for name in names}
    return store.identity, store.trace, store.number, rows, store.ledger_entries(), store.marks()


def everything(store):
    return public(store), store.state()


CHARGE = LedgerEntry("charge", {"release": "fever", "loss": {"epsilon": "1/2"}, "last": None}, 1_700_000_000_000_000)


def fill(store):
    store.commit(acts=[CHARGE], state={"secret": b"s" * 32})
    store.commit(tick=3, released=[("fever", t, b"%d" % t) for t in (1, 2, 3)], state={"run": b"r3"})
    store.commit(tick=4, released=[("fever", 4, b"4"), ("cough", 4, b"")], marks={"sink": b"40"})
    store.show()


def test_reopened_store_has_all_committed_data(folder, key):
    with Store.open_writer(folder, key, create=True) as store:
        fill(store)
        before = everything(store)
    with Store.open_writer(folder, key, create=False) as store:
        assert everything(store) == before
        assert store.state() == {"secret": b"s" * 32, "run": b"r3"}
        assert store.ledger_entries() == (CHARGE,)
        assert list(store.releases("fever")) == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
        assert store.tick == 4
        assert store.marks() == {"sink": b"40", "published_commit": b"3"}


def test_state_parts_are_updated_and_deleted_one_by_one(folder, key):
    with Store.open_writer(folder, key, create=True) as store:
        store.commit(state={"a": b"1", "b": b"1", "c": b"1"})
        store.commit(state={"b": b"2", "c": None, "never there": None})
        assert store.state() == {"a": b"1", "b": b"2"}
    with Store.open_writer(folder, key, create=True) as store:
        assert store.state() == {"a": b"1", "b": b"2"}


def test_second_value_for_same_tick_is_refused_and_changes_nothing(store):
    fill(store)
    before = everything(store)
    with pytest.raises(StoreError, match="tick 2 of fever again") as refusal:
        store.commit(tick=5, released=[("fever", 5, b"5"), ("fever", 2, b"2")], acts=[CHARGE], state={"run": b"x"})
    assert refusal.value.code == "already_released"
    assert everything(store) == before
    store.commit(tick=5, released=[("fever", 5, b"5")], state={"run": b"r5"})
    assert store.state()["run"] == b"r5"


@pytest.mark.parametrize("table", ["releases", "acts", "entries"])
@pytest.mark.parametrize("act", ["DELETE FROM {}", "UPDATE {} SET number = 7"])
def test_database_refuses_updates_and_deletes_of_history(store, table, act):
    fill(store)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        store.backing.sql.execute(act.format(table))


def test_earlier_tick_or_future_release_is_refused(store):
    fill(store)
    with pytest.raises(ValueError, match="tick must be at least 4, the last one committed, got 3"):
        store.commit(tick=3)
    with pytest.raises(ValueError, match="released ticks must be at most 5, the tick committed, got 6"):
        store.commit(tick=5, released=[("fever", 6, b"")])
    store.commit(released=[("new over old ticks", 1, b"1")])


def test_chain_changes_with_every_public_change_and_no_other(store):
    fill(store)
    chains = [store.chain]
    store.commit(state={"run": b"private"}, marks={"sink": b"1"})
    store.mark({"sink": b"2"})
    assert store.chain == chains[0]
    for change in (
        {"tick": 5},
        {"acts": [LedgerEntry("note")]},
        {"acts": [LedgerEntry("note", time=1)]},
        {"released": [("fever", 5, b"")]},
        {"released": [("cough", 5, b"")]},
    ):
        assert store.commit(**change) == store.chain
        assert store.chain not in chains
        chains.append(store.chain)
    assert all(store.knows(Trace(tick, chain)) for tick, chain in zip([4, 5, 5, 5, 5, 5], chains, strict=True))
    assert not store.knows(Trace(4, chains[1]))
    assert store.chain_at(4) == chains[0]
    assert store.chain_at(5) == chains[-1]
    assert store.chain_at(6) is None


def test_stores_with_the_same_content_have_different_chains(tmp_path, key):
    chains = set()
    for name in ("a", "b"):
        with Store.open_writer(tmp_path / name, key, create=True) as store:
            fill(store)
            chains |= {store.chain, store.identity}
    assert len(chains) == 4


def test_reader_without_key_sees_visible_commits_of_open_store(store, folder):
    fill(store)
    with StoreReader.open(folder) as reading:
        assert public(reading) == public(store)
        store.commit(tick=9, released=[("fever", 9, b"9")])
        assert list(reading.releases("fever", 5)) == []
        store.show()
        assert public(reading) == public(store)
        assert list(reading.releases("fever", 3, 9)) == [(3, b"3"), (4, b"4"), (9, b"9")]
        assert not hasattr(reading, "state")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reading._rows.sql.execute("DELETE FROM parts")


def test_long_read_does_not_block_journal_or_commits(store, folder):
    rows = [("fever", t, b"%d" % t) for t in range(1, 3 * reader.MAX_BATCH_ROWS)]
    store.commit(tick=100, released=rows)
    store.show()
    with StoreReader.open(folder) as reading:
        some = reading.releases("fever")
        found = [next(some)]
        assert store.empty_journal()
        store.commit(tick=101, released=[("fever", 101, b"101")])
        store.show()
        assert [*found, *some] == [(t, payload) for _, t, payload in [*rows, ("fever", 101, b"101")]]


@pytest.mark.parametrize("after", range(7))
def test_releases_after_given_commit_come_in_order_with_chain(store, after):
    expected = []
    for number, size in enumerate([1, 0, 40, 3, 0, 1], 1):
        rows = [("a", 100 * number + i, b"%d" % i) for i in range(size)]
        chain = store.commit(tick=100 * number + 99, released=rows)
        assert store.number == number
        expected += [(number, chain, *row) for row in rows if number > after]
    assert list(store.read_committed(after)) == expected


def test_close_empties_journal_while_reader_is_open(folder, key):
    with Store.open_writer(folder, key, create=True) as store:
        fill(store)
        assert (folder / "store.db-wal").stat().st_size > 0
        with StoreReader.open(folder) as reading:
            store.close()
            assert (folder / "store.db-wal").stat().st_size == 0
            assert reading.tick == 4
    assert {path.name for path in folder.iterdir()} >= {"store.db", "store.keys"}


@pytest.mark.usefixtures("store")
def test_second_writer_is_refused_until_first_closes_even_after_fork(folder, key, store):
    with pytest.raises(AlreadyRunningError, match="one run at a time"):
        Store.open_writer(folder, key, create=True)

    def act():
        with pytest.raises(AlreadyRunningError):
            Store.open_writer(folder, key, create=True)
        with pytest.raises(StoreUnwritableError, match="before a fork"):
            store.commit(tick=1)

    assert forked(act) == 0
    store.close()
    Store.open_writer(folder, key, create=False).close()


def test_store_files_are_accessible_to_owner_only(store, folder, key):
    fill(store)
    folder.chmod(0o755)
    store.close()
    with Store.open_writer(folder, key, create=False) as again:
        fill_more = again.commit(tick=5)
        assert fill_more == again.chain
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert set(modes.values()) == {0o600}, modes
        assert modes.keys() >= {"store.db", "store.db-wal", "store.db-shm", "store.keys"}


def test_opening_missing_store_is_refused_and_creates_nothing(folder, key):
    for look in (lambda: StoreReader.open(folder), lambda: Store.open_writer(folder, key, create=False)):
        with pytest.raises(StoreNotFoundError, match="run the pipeline once"):
            look()
    assert not folder.exists()


@pytest.mark.parametrize("ended", ["closed", "killed"])
def test_store_in_read_only_folder_can_be_read_not_written(ended):
    def act(base):
        key = create_key(base / "a.key")
        folder = base / "a.streamgauge"

        def write():
            store = Store.open_writer(folder, key, create=True)
            fill(store)
            if ended == "closed":
                store.close()

        assert forked(write) == 0
        folder.chmod(0o500)
        for path in folder.iterdir():
            path.chmod(0o400)
        with StoreReader.open(folder) as reading:
            assert (reading.tick, list(reading.releases("cough"))) == (4, [(4, b"")])
        with pytest.raises(StoreUnwritableError, match="permission denied"):
            Store.open_writer(folder, key, create=False)
        folder.chmod(0o700)
        for path in folder.iterdir():
            path.chmod(0o600)
        with Store.open_writer(folder, key, create=False) as store:
            assert (store.tick, store.state()["run"]) == (4, b"r3")

    assert unprivileged(act) == 0


def test_ledger_entry_that_is_not_json_is_refused_before_write(store):
    before = everything(store)
    with pytest.raises(ValueError, match="JSON"):
        store.commit(acts=[LedgerEntry("note", {"x": float("nan")})])
    assert everything(store) == before
