"""Lines that straddle DuckDB's buffers and the pieces that its threads share are read whole, each once."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines.duckdb import connection as reader
from streamgauge.engines.duckdb.connection import open_memory_file
from streamgauge.engines.duckdb.readers import BUFFER_BYTES, MAX_LINE_BYTES, build_lines_sql
from streamgauge.records.blocks import MAX_RECORD_BYTES, Block, DroppedRecord
from tests.support.declared import ALL, TICKS, engine, json_line, stream, sums

BIG = 100_000_000


both = pytest.mark.parametrize("threads", [1, 2])


def build_request(threads: int, sql: str) -> list[tuple[Any, ...]]:
    config = {"threads": threads, "temp_directory": "", "enable_external_file_cache": False}
    with duckdb.connect(config=config) as database:
        return database.execute(sql).fetchall()


def read(threads: int, path: str, longest: int = MAX_LINE_BYTES, buffer: int = BUFFER_BYTES) -> Counter[str]:
    relation = build_lines_sql([path], header=False, longest=longest, buffer=buffer)
    return Counter(row[0] for row in build_request(threads, f"SELECT line FROM {relation} WHERE line IS NOT NULL"))


def lengths(threads: int, path: str) -> tuple[Any, ...]:
    """Return the number of lines, their bytes, and a hash of all lines."""
    seen = "count(line), sum(strlen(line)), CAST(sum(hash(line)) AS VARCHAR)"
    return build_request(threads, f"SELECT {seen} FROM {build_lines_sql([path], header=False)}")[0]


texts = st.text('ab"\\,{}\x00é€😀\u2028\ufeff ', min_size=1, max_size=8)


@both
@settings(max_examples=40)
@given(
    st.lists(st.tuples(texts, st.integers(1, 60)), max_size=120),
    st.sampled_from([256, 272, 512, 1024, 1040]),
    st.booleans(),
)
def test_many_small_buffers_lose_no_line(threads: int, drawn: list[tuple[str, int]], buffer: int, ended: bool) -> None:
    found = [(text * times).encode()[:32].decode(errors="ignore") for text, times in drawn]
    stored = [line for line in found if line]
    with open_memory_file("\n".join(stored).encode() + b"\n" * ended) as path:
        assert read(threads, path, longest=64, buffer=buffer) == Counter(stored)


@both
def test_a_buffer_with_a_remainder_is_caught(threads: int) -> None:
    """A broken twin: the remainder of 3 bytes at the end of each buffer swallows lines."""
    stored = [f"{i:030d}" for i in range(1000)]
    with open_memory_file("\n".join(stored).encode()) as path:
        assert read(threads, path, longest=64, buffer=1024) == Counter(stored)
        with pytest.raises(duckdb.Error):
            read(threads, path, longest=64, buffer=1024 + 3)


def test_engine_buffers_fit_every_line() -> None:
    assert BUFFER_BYTES % 16 == 0
    assert BUFFER_BYTES // 4 >= MAX_LINE_BYTES >= 2 * MAX_RECORD_BYTES


@pytest.mark.one_of_each
@both
@pytest.mark.parametrize("length", [40, MAX_RECORD_BYTES])
def test_a_file_of_a_hundred_megabytes_loses_no_line(threads: int, tmp_path: Path, length: int) -> None:
    count = BIG // (length + 1)
    shift = 12_345  # lines begin at odd places of the pieces
    path = tmp_path / "big"
    path.write_bytes(b"\n" * shift + (b"x" * length + b"\n") * count)
    lines, size, _ = lengths(threads, str(path))
    assert (lines, size) == (count, count * length)


@both
def test_last_line_at_the_end_of_a_piece_is_read(threads: int, tmp_path: Path) -> None:
    path = tmp_path / "end"
    for beyond in (-1, 0, 1, 2, 5):
        before = BUFFER_BYTES - MAX_RECORD_BYTES + beyond
        path.write_bytes((b"y" * 63 + b"\n") * (before // 64) + b"\n" * (before % 64) + b"x" * MAX_RECORD_BYTES)
        assert lengths(threads, str(path))[:2] == (before // 64 + 1, before // 64 * 63 + MAX_RECORD_BYTES)


@both
def test_blocks_in_memory_and_in_pipes_are_read_alike(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b"%d,\xef\xbb\xbf\n" % i for i in range(100_000))
    with open_memory_file(data) as path:
        found = lengths(threads, path)
    monkeypatch.delattr(reader.os, "memfd_create")
    with open_memory_file(data) as path:
        assert lengths(threads, path) == found
    assert found[0] == 100_000


def test_engine_reads_pipes_without_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(reader.os, "memfd_create")
    measures = [replace(ALL, where=f"{i} = {i}") for i in range(70)]
    data = b"".join(json_line({"hours": i % TICKS}).encode() + b"\n" for i in range(1000))
    with engine(stream(), measures) as running:
        found = [running.scan_block(Block(data, 0), 1, TICKS, False) for _ in range(2)]
        assert running.locate(Block(b"{}\n", 0)) == (DroppedRecord(0, 2, "no time"),)
    assert {sum(row[0] for row in sums([one], at).values()) for one in found for at in range(70)} == {1000}
