"""Stores of another format are refused, and stay as they are."""

import pytest

from streamgauge.store import schema
from streamgauge.store.backup import backup
from streamgauge.store.errors import StoreError
from streamgauge.store.keys import create_key
from streamgauge.store.store import Store, StoreReader


@pytest.mark.parametrize("version", [2, 4])
def test_store_of_another_format_is_refused_and_unchanged(tmp_path, monkeypatch, version):
    key, folder = create_key(tmp_path / "a.key"), tmp_path / "s"
    with monkeypatch.context() as other:
        other.setattr(schema, "VERSION", version)
        Store.open_writer(folder, key, create=True).close()
    monkeypatch.setattr(schema, "VERSION", 3)
    before = (folder / "store.db").read_bytes()
    for act in (
        lambda: Store.open_writer(folder, key, create=False),
        lambda: StoreReader.open(folder),
        lambda: backup(folder, tmp_path / "b"),
    ):
        with pytest.raises(StoreError, match=rf"format 3, got format {version} in .*: install the version"):
            act()
    assert (folder / "store.db").read_bytes() == before
    assert not (tmp_path / "b").exists()
