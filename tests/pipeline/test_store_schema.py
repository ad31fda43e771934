"""Stores of other versions: earlier ones are brought up to date, later ones refused."""

import signal

import pytest
from forked import forked, killed_at

from streamgauge.pipeline import schema
from streamgauge.pipeline.backup import backup
from streamgauge.pipeline.keys import create_key
from streamgauge.pipeline.store import Store
from streamgauge.pipeline.store_errors import NewerStore, OlderStore


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


@pytest.fixture
def folder(tmp_path, key):
    with Store.open(tmp_path / "s", key, create=True) as store:
        store.commit(tick=1, released=[("a", 1, b"1")], state={"run": b"1"})
    return tmp_path / "s"


def add_titles(sql):
    sql.execute("CREATE TABLE titles (release TEXT PRIMARY KEY, title TEXT) STRICT")
    sql.execute("INSERT INTO titles SELECT DISTINCT release, 'title of ' || release FROM releases")


@pytest.fixture
def second_version(folder, monkeypatch):
    """As if a later version of the package had come."""
    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: add_titles})


@pytest.mark.usefixtures("second_version")
def test_an_earlier_store_is_brought_up_to_date_and_keeps_everything(folder, key):
    with pytest.raises(OlderStore, match="run the pipeline once"):
        Store.reader(folder)
    for _ in range(2):
        with Store.open(folder, key, create=False) as store:
            assert store._sql.execute("SELECT * FROM titles").fetchall() == [("a", "title of a")]
            assert (store.tick, store.state()) == (1, {"run": b"1"})
    with Store.reader(folder) as reading:
        assert list(reading.releases("a")) == [(1, b"1")]


@pytest.mark.usefixtures("second_version")
@pytest.mark.parametrize("end", ["raised", "killed"])
def test_a_migration_that_dies_on_the_way_has_not_happened(folder, key, monkeypatch, end):
    def dying(sql):
        add_titles(sql)
        if end == "killed":
            killed_at("here")("here")
        raise ZeroDivisionError

    monkeypatch.setattr(schema, "MIGRATIONS", {1: dying})

    def act():
        with pytest.raises(ZeroDivisionError):
            Store.open(folder, key, create=False)

    assert forked(act) == (-signal.SIGKILL if end == "killed" else 0)
    monkeypatch.setattr(schema, "VERSION", 1)
    with Store.open(folder, key, create=False) as store:
        assert (store.tick, store.state()) == (1, {"run": b"1"})
        assert not store._sql.execute("SELECT * FROM sqlite_schema WHERE name = 'titles'").fetchall()


def test_a_later_store_is_refused_with_what_to_do_and_stays_as_it_is(folder, key, tmp_path, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(schema, "VERSION", 2)
        later.setattr(schema, "MIGRATIONS", {1: add_titles})
        Store.open(folder, key, create=False).close()
    before = (folder / "store.db").read_bytes()
    for act in (
        lambda: Store.open(folder, key, create=False),
        lambda: Store.reader(folder),
        lambda: backup(folder, tmp_path / "b"),
    ):
        with pytest.raises(NewerStore, match=r"version 1 or earlier, got 2 in .*: install the version"):
            act()
    assert (folder / "store.db").read_bytes() == before
    assert not (tmp_path / "b").exists()
