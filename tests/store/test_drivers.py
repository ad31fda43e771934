"""Store drivers: the URL selects the store, and pipelines also run on other stores than SQLite."""

from pathlib import Path

import pytest

from streamgauge.config.errors import PipelineFileError
from streamgauge.registry import Registry
from streamgauge.store import drivers
from streamgauge.store.drivers import find_driver, has_store, open_reader
from streamgauge.store.errors import StoreError
from streamgauge.store.reader import SQLITE
from tests.support.packages import write_package
from tests.support.pipelines import TICKS, one_a_second, pipeline, run, tables, write


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in = {"files": "tests.support.file_store:build_driver"}
    monkeypatch.setattr(drivers, "STORES", Registry("store", "streamgauge.stores", built_in))


def test_pipeline_without_store_url_uses_sqlite(tmp_path: Path) -> None:
    file = pipeline(tmp_path, tables()).file
    assert find_driver(file) is SQLITE
    assert not has_store(file)


@pytest.mark.usefixtures("files")
def test_a_pipeline_runs_and_resumes_on_another_backing(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    released = {}
    for name in ("plain", "other"):
        made = pipeline(tmp_path, tables(sinks=[], store="files://here" if name == "other" else None), f"{name}.toml")
        running = made.ticks(max_batch_ticks=1)
        next(running)
        running.close()
        run(made)
        assert has_store(made.file)
        released[name] = [each.tick for each in made.releases()]
        with open_reader(made.file) as reader:
            assert reader.tick == TICKS
            assert [entry.kind for entry in reader.ledger_entries()].count("charge") == 1
    assert released["plain"] == released["other"] == list(range(1, TICKS + 1))
    assert not (tmp_path / "other.streamgauge" / "store.db").exists()


def test_store_of_disallowed_or_missing_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"streamgauge.stores": {"cloud": "cloud_store:build_driver"}}
    package = write_package(tmp_path / "p", "cloud-store", {"cloud_store": "raise SystemExit\n"}, entries)
    monkeypatch.syspath_prepend(str(package))
    file = pipeline(tmp_path, tables(store="cloud://here")).file
    with pytest.raises(StoreError, match=r"cloud-store, which is not allowed: add \[plugins\] allow"):
        find_driver(file)
    with pytest.raises(StoreError, match='got "nothing", which no installed package provides'):
        find_driver(pipeline(tmp_path, tables(store="nothing://here"), "w.toml").file)


@pytest.mark.usefixtures("files")
def test_pan_private_stream_refuses_store_that_retains_key_slots(tmp_path: Path) -> None:
    private = {"source": "-", "mode": "streaming", "format": "jsonl", "pan_private": True, "end": None}
    file = pipeline(tmp_path, tables(store="files://here", **private)).file
    with pytest.raises(StoreError, match="must erase destroyed keys where pan_private = true"):
        find_driver(file)


@pytest.mark.parametrize("url", ["", "store.db", "postgresql:", "p://user:word@host/db", 3, "p://a@b@c"])
def test_a_store_must_be_a_url_without_a_password(tmp_path: Path, url: object) -> None:
    with pytest.raises(PipelineFileError, match=r"stream\.store must be a URL without a password, got something else"):
        pipeline(tmp_path, tables(store=url))
