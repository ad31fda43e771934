"""Two pipelines and one sink: the second is refused before a charge, and harms nothing."""

from pathlib import Path

import pytest

from streamgauge.config.errors import PipelineFileError
from streamgauge.sinks import SinkError
from tests.support.codes import has_code
from tests.support.pipelines import TABLES, Tables, one_a_second, pipeline, run, tables, write

SINKS = ["out.jsonl", "out.csv", "out.parquet"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, one_a_second())
    return tmp_path


def content(folder: Path, sink: str) -> list[bytes]:
    path = folder / sink
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file.read_bytes() for file in files]


def made(sink: str) -> Tables:
    return tables(sinks=[{"to": sink}])


@pytest.mark.parametrize("sink", SINKS)
def test_sink_of_another_pipeline_is_refused_before_charge(folder: Path, sink: str) -> None:
    run(pipeline(folder, made(sink), "first.toml"))
    before = content(folder, sink)
    second = pipeline(folder, made(sink), "second.toml")
    for settings in ({}, {"accept_rollback": True}):
        with pytest.raises(SinkError, match=f"sink {sink} must be this pipeline's own, got one that another"):
            run(second, **settings)
    assert second.ledger().ledger_entries == []
    assert content(folder, sink) == before
    assert str(run(pipeline(folder, made(sink), "first.toml"))) == "nothing was left to publish"


@pytest.mark.parametrize("sink", SINKS)
def test_concurrent_runs_cannot_share_sink_even_new_one(folder: Path, sink: str) -> None:
    first, second = (pipeline(folder, made(sink), f"{name}.toml") for name in ("first", "second"))
    running = iter(first)
    next(running)
    with pytest.raises(SinkError, match=f"sink {sink} must be written by one run at a time"):
        run(second)
    assert second.ledger().ledger_entries == []
    assert len(list(running)) == 9
    with pytest.raises(SinkError, check=has_code("foreign")):
        run(second)


def test_no_two_files_share_a_store(tmp_path: Path) -> None:
    """The folder has the name before .toml, so every pipeline file must end with .toml."""
    for name in ("c.backup", "c", "c.TOML", ".toml", "c.toml.old"):
        with pytest.raises(PipelineFileError, match=r"the file's name must end with \.toml"):
            pipeline(tmp_path, TABLES, name)
    names = ("c.toml", "c.backup.toml", "d.toml")
    assert len({pipeline(tmp_path, TABLES, name).file.folder for name in names}) == 3
