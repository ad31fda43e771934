"""A live folder: each file once, in the order of the names, the last one as it grows."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

from streamgauge.config.settings import Column
from streamgauge.sources import SourceError, open_streaming_source
from streamgauge.sources.compression import TRUNCATION_RULE
from streamgauge.sources.folder import LiveFolder
from streamgauge.sources.parquet import READABLE_RULE
from tests.support.declared_streams import drained, rules, stream, text


def watch(folder, **settings):
    return open_streaming_source(stream(".", mode="streaming", **settings), folder)


def watch_in_small_blocks(folder):
    return LiveFolder(folder, stream(".", mode="streaming"), block_bytes=8)


def restarted(live, folder, watch=watch, **settings):
    position = live.position()
    live.close()
    again = watch(folder, **settings)
    again.resume(position)
    return again


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_files_are_read_once_in_the_order_of_their_names(tmp_path):
    live = watch(tmp_path)
    assert live.read() is None
    assert live.at_end
    append(tmp_path / "b.jsonl", b"b\n")
    append(tmp_path / "a.jsonl", b"a")
    append(tmp_path / "c.jsonl", b"c\nc")
    (tmp_path / "bb.jsonl").touch()
    append(tmp_path / ".d.jsonl", b"hidden\n")
    append(tmp_path / "d.jsonl.part", b"not yet\n")
    assert text(drained(live)) == b"a\nb\nc\n"
    assert drained(live) == []
    append(tmp_path / "c.jsonl", b"c\n")
    assert text(drained(live)) == b"cc\n"
    (tmp_path / "d.jsonl.part").rename(tmp_path / "d.jsonl")
    assert text(drained(live)) == b"not yet\n"
    live.close()


def test_file_out_of_order_is_read_when_it_arrives(tmp_path):
    live = watch(tmp_path)
    append(tmp_path / "c.jsonl", b"1\n2")
    assert text(drained(live)) == b"1\n"
    append(tmp_path / "a.jsonl", b"late")
    assert text(drained(live)) == b"late\n"
    append(tmp_path / "c.jsonl", b"3\n")
    assert text(drained(live)) == b"23\n"
    live.close()


def test_folder_is_at_end_only_when_no_file_waits(tmp_path):
    append(tmp_path / "a.jsonl", b"a\n")
    append(tmp_path / "b.jsonl", b"b\n")
    live = watch(tmp_path)
    assert not live.at_end
    assert (live.read().data, live.at_end) == (b"a\n", False)
    assert (live.read().data, live.at_end) == (b"b\n", True)
    append(tmp_path / "b.jsonl", b"c\n")
    assert (live.read().data, live.at_end) == (b"c\n", True)
    live.close()


def test_incomplete_last_line_is_read_when_next_file_appears(tmp_path):
    append(tmp_path / "b.jsonl", b"b\n")
    live = watch(tmp_path)
    drained(live)
    append(tmp_path / "a.jsonl", b"a\nend")
    (tmp_path / "b.jsonl").rename(tmp_path / "b")
    assert text(drained(live)) == b"a\n"  # it is the last now
    append(tmp_path / "b.jsonl", b"")
    assert live.read().data == b"end\n"
    live.close()


@pytest.mark.parametrize("reads", range(9))
def test_a_restart_anywhere_reads_the_rest(tmp_path, reads):
    lines = [b"%07d\n" % number for number in range(9)]
    append(tmp_path / "a.jsonl", b"".join(lines[:2]))
    append(tmp_path / "b.jsonl.gz", gzip.compress(b"".join(lines[2:5])))
    append(tmp_path / "c.jsonl.zst", zstandard.ZstdCompressor().compress(b"".join(lines[5:6])))
    append(tmp_path / "d.jsonl", b"".join(lines[6:9]) + b"begun")
    live = watch_in_small_blocks(tmp_path)
    blocks = [live.read() for _ in range(reads)]
    live = restarted(live, tmp_path, watch_in_small_blocks)
    blocks += drained(live)
    live = restarted(live, tmp_path, watch_in_small_blocks)
    append(tmp_path / "d.jsonl", b"\n")
    assert text(block for block in [*blocks, *drained(live)] if block) == b"".join(lines) + b"begun\n"
    live.close()


def test_files_that_were_read_may_be_removed_and_are_forgotten(tmp_path):
    live = watch(tmp_path)
    for name in ("a", "b", "c"):
        append(tmp_path / f"{name}.jsonl", name.encode() + b"\n")
    drained(live)
    assert json.loads(live.position())["done"] == ["a.jsonl", "b.jsonl"]
    (tmp_path / "a.jsonl").unlink()
    drained(live)
    assert json.loads(live.position())["done"] == ["b.jsonl"]
    (tmp_path / "b.jsonl").unlink()
    (tmp_path / "c.jsonl").unlink()
    assert drained(live) == drained(live) == []
    assert json.loads(live.position()) == {"source": "folder", "done": [], "at": {}}


def test_partly_read_file_must_stay_and_only_grow(tmp_path):
    path = tmp_path / "a.jsonl"
    append(path, b"secret\n" * 3)
    live = watch(tmp_path)
    drained(live)
    position = live.position()
    assert b"secret" not in position
    live.close()
    path.write_bytes(b"other\n" * 5)
    again = watch(tmp_path)
    again.resume(position)
    with pytest.raises(SourceError, match=r"must only ever grow .*a\.jsonl"):
        again.read()
    path.unlink()
    with pytest.raises(SourceError, match="a file of a live folder must stay until it was read, got no"):
        watch(tmp_path).resume(position)


def test_compressed_file_that_changes_during_reading_is_refused(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    append(path, gzip.compress(b"1234567\n" * 5))
    live = watch_in_small_blocks(tmp_path)
    live.read()
    position = live.position()
    path.write_bytes(gzip.compress(b"7654321\n" * 6))
    again = watch_in_small_blocks(tmp_path)
    again.resume(position)
    with pytest.raises(SourceError, match="a file must stay as it is until it was read to its end"):
        again.read()


def test_damaged_compressed_file_is_followed_by_the_next(tmp_path):
    append(tmp_path / "a.jsonl.gz", gzip.compress(b"a\nb\n")[:-9])
    append(tmp_path / "b.jsonl", b"c\n")
    blocks = drained(watch(tmp_path))
    assert text(blocks).endswith(b"c\n")
    assert rules(blocks) == [TRUNCATION_RULE]


def test_each_csv_file_has_its_own_header(tmp_path):
    append(tmp_path / "a.csv", b"a,b\n1,2\n")
    append(tmp_path / "b.csv.gz", gzip.compress(b"b,a\n2,1\n"))
    append(tmp_path / "c.csv", b"a\n3\n")
    live = watch(tmp_path, format="csv")
    told = [(live.read().data, live.header) for _ in range(3)]
    assert told == [(b"1,2\n", ("a", "b")), (b"2,1\n", ("b", "a")), (b"3\n", ("a",))]
    live.close()


def test_parquet_comes_as_json_lines_of_the_declared_columns(tmp_path):
    table = pa.table({"ts": [1, 2], "a": ["x\ny", None], "secret": [7, 8], 'q"': [1, 2]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_bytes(b"no such thing")
    live = watch(tmp_path, format="parquet", time_format="epoch us")
    blocks = drained(live)
    lines = [json.loads(line) for line in text(blocks).splitlines()]
    assert lines == [{"a": "x\ny", "ts": "1"}, {"a": None, "ts": "2"}, {}]
    assert rules(blocks) == [READABLE_RULE]
    assert live.header is None
    assert drained(restarted(live, tmp_path, format="parquet")) == []


def test_columns_of_any_name_are_quoted(tmp_path):
    name = """it's a "column" {1}"""
    pa.parquet.write_table(pa.table({name: [1]}), tmp_path / "a.parquet")
    live = watch(tmp_path, format="parquet", columns={name: Column(name)})
    assert json.loads(text(drained(live))) == {name: "1"}


def test_parquet_file_with_glob_characters_is_refused(tmp_path):
    pa.parquet.write_table(pa.table({"a": [1]}), tmp_path / "a[1].parquet")
    with pytest.raises(SourceError, match="the path of a Parquet file must be without"):
        watch(tmp_path, format="parquet").read()


def test_removed_folder_is_refused_in_one_line(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    live = watch(folder)
    folder.rmdir()
    with pytest.raises(SourceError, match=r"source must be readable, got .*: No such file"):
        live.read()
