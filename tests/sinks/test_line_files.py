"""Laws of line files: after a crash at any byte the same writes give the same bytes."""

import csv
import io
import json
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streamgauge.config.settings import SinkSettings
from streamgauge.sinks import CsvLines, JsonLines, LineFile, SinkAccessError, SinkError, open_sink
from streamgauge.sinks.formats import LONG_COLUMNS
from tests.support.codes import has_code
from tests.support.examples import HOSTILE, ROLLED, TORN, WARDS, Wide, released, writes

FORMS = {"jsonl": JsonLines, "csv": CsvLines, "wide": Wide}
always = bool  # every trace is known
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def sink(folder: Path, form: Any) -> LineFile:
    return LineFile("releases", folder / "releases", form())


def written(folder: Path, form: Any, count: int = 2, **settings: Any) -> tuple[LineFile, list[bytes], list[bytes]]:
    """Return a closed sink after some writes, with the position and the content after each."""
    made = sink(folder, form)
    assert made.resume(None) is None
    positions, contents = [], []
    for write in writes(count, **settings):
        positions.append(made.write(*write))
        contents.append(made.path.read_bytes())
    made.close()
    return made, positions, contents


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limit the size of every file that this process writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_json_lines_are_the_rows_as_json() -> None:
    for shape in (WARDS, ROLLED):
        item = released(shape, 1)
        lines = JsonLines().format_lines(item, "7:ab").decode().split("\n")
        rows = list(item.rows("7:ab"))
        assert [json.loads(line) for line in lines[:-1]] == rows
        assert lines[-1] == ""
        assert list(json.loads(lines[0])) == list(rows[0])


def test_csv_has_one_line_per_measure_and_place() -> None:
    item = released(WARDS, 1)
    text = CsvLines.header + CsvLines().format_lines(item, "7:ab")
    records = list(csv.DictReader(io.StringIO(text.decode(), newline=""), strict=True))
    assert len(records) == 2 * len(WARDS.groups) == text.count(b"\n") - 1
    rows = list(item.rows("7:ab"))
    for i, record in enumerate(records):
        measure, row = record["measure"], rows[i % len(rows)]
        told = row[measure]
        assert measure == WARDS.measures[i // len(rows)]
        assert json.loads(record["group"]) == row["group"]
        assert {name: record[name] for name in ("release", "start", "end", "trace")} == {
            name: row[name] for name in ("release", "start", "end", "trace")
        }
        for name in ("value", "stddev", "low", "high"):
            assert (float(record[name]) if record[name] else None) == told[name]
        assert record["reliable"] == str(told["reliable"]).lower()


def test_duckdb_reads_columns_and_hostile_labels_of_csv(tmp_path: Path) -> None:
    made, _, _ = written(tmp_path, CsvLines, 1)
    found = duckdb.connect().sql(f"SELECT * FROM read_csv('{made.path}')")
    assert tuple(found.columns) == LONG_COLUMNS
    labels = [json.loads(group).get("ward") for (group,) in found.project('"group"').fetchall()]
    assert set(HOSTILE) <= set(labels)


@every_form
def test_file_torn_at_any_byte_is_repaired_by_next_write(tmp_path: Path, form: Any) -> None:
    made, positions, contents = written(tmp_path, form, shapes=(TORN,))
    for cut in range(len(contents[0]), len(contents[1]) + 1):
        made.path.write_bytes(contents[1][:cut])
        again = sink(tmp_path, form)
        newest = again.resume(positions[0])
        whole_line = contents[1][:cut].count(b"\n") > contents[0].count(b"\n")
        assert newest == ((2, f"{2:016x}") if whole_line else (1, f"{1:016x}"))
        assert again.write(*writes(shapes=(TORN,))[1]) == positions[1]
        again.close()
        assert made.path.read_bytes() == contents[1]


@every_form
def test_a_first_write_torn_at_any_byte_is_written_again(tmp_path: Path, form: Any) -> None:
    made, positions, contents = written(tmp_path, form, 1, shapes=(TORN,))
    lines_without_release = form().header.count(b"\n")
    for cut in range(len(contents[0]) + 1):
        made.path.write_bytes(contents[0][:cut])
        again = sink(tmp_path, form)
        whole_line = contents[0][:cut].count(b"\n") > lines_without_release
        assert again.resume(None) == ((1, f"{1:016x}") if whole_line else None)
        assert again.write(*writes(shapes=(TORN,))[0]) == positions[0]
        again.close()
        assert made.path.read_bytes() == contents[0]


def test_twin_that_does_not_truncate_file_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, positions, contents = written(tmp_path, JsonLines)
    made.path.write_bytes(contents[1] + contents[1][:9])
    monkeypatch.setattr(os, "ftruncate", lambda *_: None)
    assert made.resume(positions[0]) == (2, f"{2:016x}")
    made.write(*writes()[1])
    made.close()
    assert made.path.read_bytes() != contents[1]


@every_form
def test_resume_without_write_leaves_file_unchanged(tmp_path: Path, form: Any) -> None:
    """The store is rolled back to the first write; every resume reports the second write of the file."""
    made, positions, contents = written(tmp_path, form)
    for _ in range(2):
        assert made.resume(positions[0]) == (2, f"{2:016x}")
        assert made.resume(None) == (2, f"{2:016x}")
        made.close()
    assert made.path.read_bytes() == contents[1]


@every_form
def test_garbage_after_last_line_does_not_hide_newest_trace(tmp_path: Path, form: Any) -> None:
    made, positions, contents = written(tmp_path, form)
    deep = b"[" * 10**5 + b"\n"
    late = contents[1].splitlines()[-1].replace(b"2:00", b"9" * 30 + b":00") + b"\n"
    assert late + b"\n" not in contents[1]
    made.path.write_bytes(contents[1] + bytes(5000) + b"\n\xff\xfe\n{}\n" + deep + late)
    assert made.resume(positions[0]) == (2, f"{2:016x}")
    made.close()


@every_form
@pytest.mark.parametrize("content", [b"precious", b"a,b\n1,2\n", b'{"a": 1}\n', b'{"release":"x"}\n', b"\n", b"\0"])
def test_foreign_file_is_refused_and_unchanged(tmp_path: Path, form: Any, content: bytes) -> None:
    made = sink(tmp_path, form)
    made.path.write_bytes(content)
    with pytest.raises(SinkError, match="sink must be a new file or one of ours, got releases"):
        made.resume(None)
    assert made.path.read_bytes() == content


@every_form
def test_file_that_lost_committed_lines_is_refused(tmp_path: Path, form: Any) -> None:
    made, positions, contents = written(tmp_path, form)
    made.path.write_bytes(contents[0])
    assert made.resume(positions[1]) == (1, f"{1:016x}")  # the newest trace is reported in any case
    assert re.search(r"must have the \d+ bytes that were written to it, got \d+", str(made.diverged(always)))
    made.close()
    made.path.unlink()
    assert made.resume(positions[1]) is None
    assert str(made.diverged(always)).endswith("got 0: restore it, or name a new sink")
    made.close()
    made.path.write_bytes(contents[1].replace(b"\n", b" ") + b"\n")
    with pytest.raises(SinkError, check=has_code("foreign")):
        made.resume(positions[0])


@every_form
def test_write_to_file_truncated_during_run_is_refused(tmp_path: Path, form: Any) -> None:
    made, positions, contents = written(tmp_path, form)
    made.resume(positions[1])
    for left in (b"", contents[0]):
        made.path.write_bytes(left)
        with pytest.raises(SinkAccessError, match=rf"must have the {len(contents[1])} bytes .*, got {len(left)}: re"):
            made.write(*writes()[2])
        assert made.path.read_bytes() == left
    made.path.write_bytes(contents[1])
    made.write(*writes()[2])
    made.close()
    assert made.path.read_bytes() == written(tmp_path / "unbroken", form, 3)[2][2]


def test_folder_in_place_of_file_is_refused(tmp_path: Path) -> None:
    made = sink(tmp_path, JsonLines)
    made.path.mkdir()
    with pytest.raises(SinkError, match="sink must be a file, got releases"):
        made.resume(None)


@every_form
def test_full_disk_is_one_line_error_and_loses_nothing(tmp_path: Path, form: Any) -> None:
    made, positions, contents = written(tmp_path, form, 1)
    assert made.resume(positions[0]) == (1, f"{1:016x}")
    with full_disk(len(contents[0]) + 100), pytest.raises(SinkAccessError) as failure:
        made.write(*writes()[1])
    assert str(failure.value) == "sink releases could not be used: File too large"
    assert made.path.read_bytes()[: len(contents[0])] == contents[0]
    assert len(made.path.read_bytes()) == len(contents[0]) + 100
    made.write(*writes()[1])
    made.close()
    assert made.path.read_bytes() == written(tmp_path / "unbroken", form)[2][1]


def test_path_that_cannot_be_created_is_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = LineFile("file/releases.csv", tmp_path / "file" / "releases.csv", CsvLines())
    with pytest.raises(SinkAccessError, match=r"sink file/releases\.csv could not be used: "):
        made.write(*writes()[0])


def test_short_system_writes_are_continued_until_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = written(tmp_path / "all", JsonLines, 1)[2]
    plain = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: plain(fd, data[:7]))
    assert written(tmp_path / "few", JsonLines, 1)[2] == expected


def test_position_is_returned_after_lines_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    plain = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), plain(fd))[1])
    _, positions, _ = written(tmp_path, JsonLines, 1)
    assert synced[-1] == json.loads(positions[0])["length"]


def test_lines_of_one_write_are_sorted_by_tick(tmp_path: Path) -> None:
    made = sink(tmp_path, JsonLines)
    made.write([released(ROLLED, t) for t in (1, 2, 3)] + [released(WARDS, t) for t in (1, 2, 3)], 3, "ab")
    made.close()
    ticks = [json.loads(line)["tick"] for line in made.path.read_bytes().splitlines()]
    assert ticks == sorted(ticks)
    assert set(ticks) == {1, 2, 3}


def test_empty_write_returns_position_of_same_length(tmp_path: Path) -> None:
    made, positions, contents = written(tmp_path, JsonLines, 1)
    assert made.resume(positions[0])
    assert json.loads(made.write([], 9, "cd"))["length"] == len(contents[0])
    made.close()


def test_sinks_are_opened_as_declared(tmp_path: Path) -> None:
    for name, form in FORMS.items():
        settings = SinkSettings(f"out/releases.{name}", "jsonl" if name == "jsonl" else "csv")
        settings = replace(settings, shape="wide" if name == "wide" else "long")
        made = open_sink(settings, tmp_path, shapes=[WARDS, ROLLED])
        assert made.resume(None) is None
        made.write(*writes()[0])
        made.close()
        assert made.name == settings.to
        assert (tmp_path / settings.to).read_bytes().startswith(form.file_prefix)
    with pytest.raises(ValueError, match="format must be jsonl or csv for standard output, got parquet"):
        open_sink(SinkSettings("-", "parquet"), tmp_path)


@pytest.mark.parametrize("first", [b'"', b"x" * 200_000, b"x" * 100_000, b"\xff\0", b"other"])
def test_csv_with_another_header_is_refused_in_one_line(tmp_path: Path, first: bytes) -> None:
    made = sink(tmp_path, Wide)
    made.path.write_bytes(b"release,tick,start,end," + first + b",trace\n")
    before = made.path.read_bytes()
    with pytest.raises(ValueError, match=r"sink (releases )?must") as refused:
        made.resume(None)
    assert isinstance(refused.value, SinkError)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 1000
    assert made.path.read_bytes() == before
