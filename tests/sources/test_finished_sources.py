"""Batch sources: a file, or the files of a folder, each with its header and known by its fingerprint."""

import gzip
import os
import pickle
import tracemalloc

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from streamgauge.sources import SourceError, open_batch_source
from streamgauge.sources.line_reader import LENGTH_RULE
from tests.support.declared_streams import rules, stream, text
from tests.support.limits import no_free_descriptors


def opened(path, **settings):
    return open_batch_source(stream(path.name, **settings), path.parent)


@pytest.mark.parametrize(
    ("raw", "clean", "lines"),
    [
        (b'{"a": 1}\n{"a": 2}\n', True, b'{"a": 1}\n{"a": 2}\n'),
        (b'{"a": 1}\n{"a": 2}', True, b'{"a": 1}\n{"a": 2}\n'),
        (b'{"a": 1}\r\n{"a": 2}\r\n', False, b'{"a": 1}\n{"a": 2}\n'),
        (b"a\nb\xff\nc\rc\nd", False, b"a\nd\n"),
        (b"a\0b\n", True, b"a\0b\n"),
        (b"\n", True, b"\n"),
        (b"", False, b""),
    ],
)
def test_a_file_is_clean_or_is_read_block_by_block(tmp_path, raw, clean, lines):
    path = tmp_path / "visits.jsonl"
    path.write_bytes(raw)
    (part,) = opened(path).ranges
    assert (part.path, part.is_clean, part.header) == (path, clean, None)
    assert text(part.blocks()) == text(part.blocks()) == lines


@pytest.mark.parametrize(("raw", "clean"), [(b"a,b\n1,2\n3,4\n", True), (b"a,b\r\n1,2\r\n3,4", False)])
def test_the_blocks_of_a_csv_file_start_after_its_header(tmp_path, raw, clean):
    path = tmp_path / "visits.csv"
    path.write_bytes(raw)
    (part,) = opened(path, format="csv").ranges
    assert (part.is_clean, part.header) == (clean, ("a", "b"))
    assert text(part.blocks()) == b"1,2\n3,4\n"


@pytest.mark.parametrize("raw", [b"", b"a,b", b"a,b\n", b"\n"])
def test_a_csv_file_without_records_has_no_blocks(tmp_path, raw):
    path = tmp_path / "visits.csv"
    path.write_bytes(raw)
    (part,) = opened(path, format="csv").ranges
    assert part.header == (("a", "b") if raw.strip() else ())
    assert list(part.blocks()) == []


def test_bad_header_is_refused_with_the_name_of_its_file(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_bytes(b'"a,b\n1,2\n')
    with pytest.raises(SourceError, match=r"the header of .*visits\.csv must close each quote"):
        opened(path, format="csv").ranges  # noqa: B018 - access reads the file


def test_folder_is_its_files_sorted_by_name_in_any_compression(tmp_path):
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"b,a\n2,1\n"))
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n")
    (tmp_path / "c.csv.zst").write_bytes(zstandard.ZstdCompressor().compress(b"a\n3\n"))
    for other in (".hidden.csv", "a.jsonl", "a.csv.tmp", "a.csv.bz2", "csv"):
        (tmp_path / other).write_bytes(b"x,y\n7,8\n")
    (tmp_path / "folder.csv").mkdir()
    files = open_batch_source(stream(".", format="csv"), tmp_path).ranges
    assert [part.path.name for part in files] == ["a.csv", "b.csv.gz", "c.csv.zst"]
    assert [part.is_clean for part in files] == [True, False, False]
    assert [part.header for part in files] == [("a", "b"), ("b", "a"), ("a",)]
    assert [text(part.blocks()) for part in files] == [b"1,2\n", b"2,1\n", b"3\n"]


def test_compression_may_be_declared_if_name_has_no_suffix(tmp_path):
    path = tmp_path / "visits"
    path.write_bytes(gzip.compress(b"a\n"))
    (part,) = opened(path, compression="gzip").ranges
    assert text(part.blocks()) == b"a\n"


def test_parquet_is_left_to_the_engine(tmp_path):
    path = tmp_path / "visits.parquet"
    pa.parquet.write_table(pa.table({"a": [1]}), path)
    (part,) = opened(path, format="parquet").ranges
    assert (part.path, part.is_clean, part.header) == (path, True, None)
    with pytest.raises(SourceError, match="a Parquet file must be read by its path"):
        part.blocks()


@pytest.mark.parametrize("name", ["a*.jsonl", "a?.jsonl", "a[1].jsonl"])
def test_path_with_glob_characters_is_not_given_to_engine(tmp_path, name):
    (tmp_path / name).write_bytes(b"a\n")
    (part,) = opened(tmp_path / name).ranges
    assert not part.is_clean
    assert text(part.blocks()) == b"a\n"
    with pytest.raises(SourceError, match="the path of a Parquet file must be without"):
        opened(tmp_path / name, format="parquet").ranges  # noqa: B018 - access reads the file


def test_line_of_200_mb_in_a_file_takes_bounded_memory(tmp_path):
    path = tmp_path / "visits.jsonl"
    with path.open("wb") as file:
        file.write(b"a\n")
        file.seek(200_000_000)
        file.write(b"\nb\n")
    tracemalloc.start()
    try:
        (part,) = opened(path).ranges
        blocks = list(part.blocks())
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()
    assert not part.is_clean
    assert text(blocks) == b"a\nb\n"
    assert rules(blocks) == [LENGTH_RULE]


@pytest.mark.parametrize("change", ["append", "head", "tail", "touch", "rename", "new"])
def test_the_fingerprint_changes_with_any_file(tmp_path, change):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"x" * 300_000 + b"\n")
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    before = open_batch_source(stream("."), tmp_path).fingerprint()
    assert open_batch_source(stream("."), tmp_path).fingerprint() == before
    path = tmp_path / "b.jsonl"
    with path.open("r+b") as file:
        file.seek({"append": 300_001, "tail": 299_000}.get(change, 0))
        file.write(b"y" if change in ("append", "head", "tail") else b"x")
    os.utime(path, ns=(10**18, 10**18 + (change == "touch")))
    if change == "rename":
        path.rename(tmp_path / "c.jsonl")
    if change == "new":
        (tmp_path / "c.jsonl").write_bytes(b"")
    assert open_batch_source(stream("."), tmp_path).fingerprint() != before


def test_fingerprint_does_not_read_the_whole_file(tmp_path, monkeypatch):
    path = tmp_path / "visits.jsonl"
    path.write_bytes(b"a\n")
    monkeypatch.setattr("streamgauge.sources.file.is_clean", lambda path: pytest.fail("was read"))
    assert len(opened(path).fingerprint()) == 64


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda path: None, "source must be readable, got .*visits.jsonl: No such file or directory"),
        (lambda path: path.mkdir(), "source must be a folder with .jsonl or .ndjson or .json files in it, got"),
        (os.mkfifo, "source must be a file or a folder, got .*: neither; a pipe may be given as '-'"),
    ],
)
def test_invalid_source_is_refused_in_one_line(tmp_path, make, rule):
    path = tmp_path / "visits.jsonl"
    make(path)
    with pytest.raises(SourceError, match=rule) as refused:
        opened(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_unreadable_file_is_refused_in_one_line(tmp_path, format):
    path = tmp_path / "visits"
    path.write_bytes(b"a\n")
    source = opened(path, format=format)
    with (
        no_free_descriptors(),
        pytest.raises(SourceError, match=r"^source must be readable, got .*visits: Too many open files$"),
    ):
        source.ranges  # noqa: B018 - access reads the file
    with no_free_descriptors(), pytest.raises(SourceError, match="source must be readable"):
        source.fingerprint()


def test_standard_input_is_refused_as_batch_source(tmp_path):
    with pytest.raises(SourceError, match='must be one that is complete for mode = "batch", got -'):
        open_batch_source(stream("-"), tmp_path)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_ranges_can_be_sent_to_another_process(tmp_path, format):
    path = tmp_path / f"visits.{format}"
    if format == "csv":
        path.write_bytes(b"a,b\n1,2\n\xff\n3,4")
    else:
        pa.parquet.write_table(pa.table({"a": [1, 2]}), path)
    (part,) = opened(path, format=format).ranges
    copy = pickle.loads(pickle.dumps(part))
    assert copy == part
    if format == "csv":
        assert text(copy.blocks()) == text(part.blocks()) == b"1,2\n3,4\n"
    else:
        assert [table.to_pydict() for table in copy.tables(["a"])] == [{"a": [1, 2]}]
