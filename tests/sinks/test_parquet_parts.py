"""Laws of Parquet parts: each is whole or absent, all read as one table, and no crash changes them."""

import io
import json
import resource
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from streamgauge.config.settings import SinkSettings
from streamgauge.releases.release import TickRelease
from streamgauge.sinks import CsvLines, ParquetParts, SinkAccessError, SinkError, open_sink
from streamgauge.sinks import parquet as parquet_parts
from streamgauge.sinks.formats import LONG_COLUMNS
from tests.support.examples import HOSTILE, writes

CHAINS = [(t, f"{t:016x}") for t in range(5)]


def sink(folder: Path) -> ParquetParts:
    return ParquetParts("releases.parquet", folder / "releases.parquet")


def written(folder: Path, count: int) -> tuple[ParquetParts, list[bytes]]:
    """Return a closed sink after some writes, with its positions."""
    made = sink(folder)
    assert made.resume(None) is None
    positions = [made.write(*write) for write in writes(count)]
    made.close()
    return made, positions


def table(made: ParquetParts) -> Any:
    return ds.dataset(made.folder).to_table().to_pylist()


def names(made: ParquetParts) -> list[str]:
    return sorted(path.name for path in made.folder.iterdir())


def as_csv(count: int) -> list[list[str]]:
    """Return the rows that CSV has for the same writes."""
    items: list[tuple[TickRelease, str]] = [
        (item, f"{number}:{chain[:16]}") for releases, number, chain in writes(count) for item in releases
    ]
    form = CsvLines()
    text = form.header + b"".join(form.format_lines(item, stamp) for item, stamp in items)
    frame = pd.read_csv(io.BytesIO(text), keep_default_na=False, dtype=str)
    rows: list[list[str]] = frame.values.tolist()
    return rows


def test_parts_have_same_rows_as_csv(tmp_path: Path) -> None:
    made, _ = written(tmp_path, 2)
    rows = table(made)
    expected = as_csv(2)
    assert len(rows) == len(expected)
    assert tuple(rows[0]) == LONG_COLUMNS
    for row, texts in zip(rows, expected, strict=True):
        told = dict(zip(LONG_COLUMNS, texts, strict=True))
        for name in ("value", "stddev", "low", "high"):
            assert row[name] == (float(told[name]) if told[name] else None)
        for name in ("release", "group", "measure", "trace"):
            assert row[name] == told[name]
        assert [str(row[name]) for name in ("tick", "level")] == [told["tick"], told["level"]]
        assert row["start"].isoformat().replace("+00:00", "Z") == told["start"]
        assert str(row["reliable"]).lower() == told["reliable"]
    labels = [json.loads(row["group"]).get("ward") for row in rows]
    assert set(HOSTILE) <= set(labels)


def test_every_reader_sees_one_table(tmp_path: Path) -> None:
    made, _ = written(tmp_path, 3)
    count = len(as_csv(3))
    assert ds.dataset(made.folder).count_rows() == count
    assert len(pd.read_parquet(made.folder)) == count
    assert len(pl.read_parquet(made.folder / "*.parquet")) == count
    assert duckdb.connect().sql(f"SELECT count(*) FROM '{made.folder}/*.parquet'").fetchall() == [(count,)]
    schema = ds.dataset(made.folder).schema
    assert [schema.field(name).type for name in ("start", "end")] == [pa.timestamp("us", tz="UTC")] * 2
    assert schema.field("tick").type == pa.int64()


def crashed(made: ParquetParts, state: str) -> None:
    """Leave the folder as a crash during the third write does, or during the write after it."""
    torn = made.folder / ".part-00000003"
    if state == "unfinished":
        torn.write_bytes(b"PAR1 torn")
    if state in ("unfinished", "nothing yet"):
        (made.folder / "part-00000003.parquet").unlink()
    if state == "another unfinished":
        (made.folder / ".part-00000004").write_bytes(b"")


@pytest.mark.parametrize("state", ["nothing yet", "unfinished", "not committed", "another unfinished"])
def test_crash_during_write_is_repaired_by_next_write(tmp_path: Path, state: str) -> None:
    made, positions = written(tmp_path, 3)
    whole = table(made)
    crashed(made, state)
    again = sink(tmp_path)
    there = state in ("not committed", "another unfinished")
    assert again.resume(positions[1]) == CHAINS[3 if there else 2]
    assert again.write(*writes()[2]) == positions[2]
    again.close()
    assert table(made) == whole
    assert names(made) == [f"part-{n:08d}.parquet" for n in (1, 2, 3)]


def test_a_twin_that_removes_nothing_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third part is not committed, and the twin does not remove it."""
    made, positions = written(tmp_path, 3)
    monkeypatch.setattr(ParquetParts, "_undo", lambda self: None)
    assert made.resume(positions[0]) == CHAINS[3]
    made.write(*writes()[1])
    made.close()
    assert {row["tick"] for row in table(made)} == {1, 2, 3}


def test_next_write_removes_uncommitted_parts(tmp_path: Path) -> None:
    made, positions = written(tmp_path, 3)
    assert made.resume(positions[0]) == CHAINS[3]
    made.write(*writes()[1])
    made.close()
    assert names(made) == ["part-00000001.parquet", "part-00000002.parquet"]
    assert {row["tick"] for row in table(made)} == {1, 2}


def test_resume_without_write_leaves_all_parts(tmp_path: Path) -> None:
    made, positions = written(tmp_path, 3)
    for _ in range(2):
        assert made.resume(positions[0]) == CHAINS[3]
        assert made.resume(None) == CHAINS[3]
    made.close()
    assert len(names(made)) == 3


def test_part_is_synced_before_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, acts = sink(tmp_path), []
    sync, rename = parquet_parts.sync_path, Path.rename
    monkeypatch.setattr(parquet_parts, "sync_path", lambda path: (acts.append(path.name), sync(path))[1])
    monkeypatch.setattr(Path, "rename", lambda self, to: (acts.append("rename"), rename(self, to))[1])
    made.write(*writes()[0])
    made.close()
    assert acts[:3] == [".part-00000001", "rename", "releases.parquet"]


def test_full_disk_is_one_line_error_and_loses_nothing(tmp_path: Path) -> None:
    made, positions = written(tmp_path, 1)
    whole = table(made)
    assert made.resume(positions[0]) == CHAINS[1]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(SinkAccessError) as failure:
            made.write(*writes()[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(failure.value) == "sink releases.parquet could not be used: File too large"
    assert table(made) == whole
    made.write(*writes()[1])
    made.close()
    assert names(made) == ["part-00000001.parquet", "part-00000002.parquet"]


@pytest.mark.parametrize("name", ["notes.txt", "data.parquet", "part-1.parquet", "part-00000001.parquet"])
def test_foreign_folder_is_refused_and_unchanged(tmp_path: Path, name: str) -> None:
    made = sink(tmp_path)
    made.folder.mkdir()
    pl.DataFrame({"x": [1]}).write_parquet(made.folder / name)
    with pytest.raises(SinkError, match=r"sink must be a new folder or one of ours, got releases\.parquet"):
        made.resume(None)
    made.close()
    assert names(made) == [name]


def test_file_in_place_of_folder_is_refused(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.folder.write_bytes(b"PAR1")
    with pytest.raises(SinkError, match="sink must be a new folder"):
        made.resume(None)
    assert made.folder.read_bytes() == b"PAR1"


def test_a_folder_that_lost_a_committed_part_is_refused(tmp_path: Path) -> None:
    made, positions = written(tmp_path, 3)
    (made.folder / "part-00000002.parquet").unlink()
    assert made.resume(positions[2]) == CHAINS[3]
    assert "must have the 3 parts that were written to it, got 2: " in str(made.diverged(bool))
    with pytest.raises(SinkAccessError, match="must have the 3 parts that were written to it, got 2: "):
        made.write(*writes()[0])
    made.close()


def test_resume_refuses_foreign_file_among_parts_but_write_succeeds(tmp_path: Path) -> None:
    made, positions = written(tmp_path, 1)
    made.resume(positions[0])
    for name in (".DS_Store", "Thumbs.db"):
        (made.folder / name).write_text("")
    position = made.write(*writes()[1])
    with pytest.raises(SinkError, match=r"one of ours, got releases\.parquet with Thumbs\.db in it"):
        made.resume(position)
    (made.folder / "Thumbs.db").unlink()
    assert made.resume(position) == CHAINS[2]
    made.close()


class Killed(BaseException):
    """A simulated kill signal."""


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the process after it has removed `number` files."""
    left, unlink = iter(range(number)), Path.unlink

    def dying(self: Path) -> None:
        if next(left, None) is None:
            raise Killed
        unlink(self)

    monkeypatch.setattr(Path, "unlink", dying)


@pytest.mark.parametrize("number", range(4))
def test_crash_among_removals_leaves_newest_trace_and_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    made, positions = written(tmp_path, 4)
    made.resume(None)
    with monkeypatch.context() as patched:
        killed_at(number, patched)
        with pytest.raises(Killed):
            made.write(*writes()[0])
    left = [path.name for path in sorted(made.folder.glob("part*"))]
    assert left == [f"part-{n:08d}.parquet" for n in (1, 2, 3)[: 3 - number]]
    assert made.resume(None) == CHAINS[4]
    assert made.write(*writes()[0]) == positions[0]
    made.close()
    assert names(made) == ["part-00000001.parquet"]


def test_twin_that_removes_newest_part_first_loses_newest_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = written(tmp_path, 4)
    made.resume(None)
    with monkeypatch.context() as patched:
        killed_at(1, patched)
        patched.setattr(ParquetParts, "_hidden_path", lambda self, number: self.folder / f".gone-{number}")
        with pytest.raises(Killed):
            made.write(*writes()[0])
    assert made.resume(None) == CHAINS[2]
    made.close()


def test_path_with_glob_characters_and_quotes_is_literal(tmp_path: Path) -> None:
    folder = tmp_path / "it's [a] *{folder}? 100%"
    made = open_sink(SinkSettings("releases.parquet", "parquet"), folder)
    assert made.resume(None) is None
    position = made.write(*writes()[0])
    assert made.resume(position) == CHAINS[1]
    made.close()
    assert [path.name for path in (folder / "releases.parquet").iterdir()] == ["part-00000001.parquet"]


def test_empty_write_creates_no_part(tmp_path: Path) -> None:
    made, positions = written(tmp_path, 1)
    assert made.resume(positions[0])
    assert json.loads(made.write([], 9, "cd"))["length"] == 1
    made.close()
    assert names(made) == ["part-00000001.parquet"]
