"""A public table has one row for each key, or is refused in one line that says where."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.config import lookup as lookups
from streamgauge.config.canonical import build_blocks, to_canonical_json
from streamgauge.config.lookup import parse_lookups
from streamgauge.config.pipeline_file import PipelineFileError, parse_pipeline
from streamgauge.config.settings import Column, Lookup
from streamgauge.config.toml_table import TomlTable
from tests.support.clinic_file import said

TABLES: dict[str, Any] = {
    "stream": {
        "name": "visits",
        "source": "visits.csv",
        "mode": "streaming",
        "time": "ts",
        "tick": "1m",
        "start": "2026-01-01",
        "unit": {"user": "patient", "max_events_per_tick": 1, "max_ticks": 9},
        "budget": {"epsilon": 1},
        "columns": {"level": {"type": "number"}, "tag": {"hash_cells": 9}, "region": {"values": ["a"]}},
    },
    "release": [{"name": "all", "sql": "SELECT COUNT(*) FROM visits", "epsilon": 1}],
}
STREAM = parse_pipeline(TABLES, Path("visits.toml")).stream


def read(folder: Path, data: str | bytes, on: str = "sensor") -> Lookup:
    (folder / "sites.csv").write_bytes(data if isinstance(data, bytes) else data.encode())
    top = TomlTable("", {"lookup": {"sites": {"file": "sites.csv", "on": on}}})
    return parse_lookups(top, folder, STREAM)["sites"]


def test_a_table_is_read_with_its_types(tmp_path: Path) -> None:
    lookup = read(tmp_path, 'sensor,room,floor,area\nb,"Kitchen, old",1,2.50\na,007,,-3\n')
    assert lookup.columns == ("room", "floor", "area")
    assert lookup.keys == ("a", "b")
    assert lookup.rows == (("007", None, -3), ("Kitchen, old", 1, 2.5))
    assert [type(cell) for cell in lookup.rows[1]] == [str, int, float]


def test_number_with_leading_zero_makes_its_column_text(tmp_path: Path) -> None:
    assert read(tmp_path, "sensor,zip\na,01234\nb,99999\n").rows == (("01234",), ("99999",))


@pytest.mark.parametrize("cell", ["1e5", "inf", "nan", "1_000", "+1", "12345678901234567890", " 1", "٣"])
def test_doubtful_number_is_text(tmp_path: Path, cell: str) -> None:
    assert read(tmp_path, f"sensor,x\na,{cell}\nb,1\n").rows == ((cell,), ("1",))


def test_the_order_of_rows_and_columns_means_nothing(tmp_path: Path) -> None:
    texts = ("sensor,x,y\na,1,u\nb,2,v\n", "y,sensor,x\r\nv,b,2.0\r\n\r\nu,a,1\r\n", "\ufeffsensor,x,y\nb,2,v\na,1,u")
    assert len({block(read(tmp_path, text)) for text in texts}) == 1
    others = (
        "sensor,x,y\na,1,u\nb,2,w\n",
        "sensor,x,z\na,1,u\nb,2,v\n",
        "sensor,x,y\na,1,u\n",
        "sensor,x,y\na,1,u\nb,,v\n",
    )
    assert len({block(read(tmp_path, text)) for text in (texts[0], *others)}) == 5


def block(lookup: Lookup) -> str:
    return build_blocks(STREAM, {lookup.name: lookup}, [])["lookup.sites"]


def test_twin_that_hashes_bytes_distinguishes_row_orders() -> None:
    assert to_canonical_json(["a", "b"]) != to_canonical_json(["b", "a"])  # the broken twin


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ("sensor,x\na,1\na,2\n", 'with one key in each row, got "a" again in line 3'),
        ("sensor,x\na,1\n,2\n", "with one key in each row, got an empty one in line 3"),
        ("sensor,x\na,1\nb\n", "of 2 columns, got 1 in line 3"),
        ("sensor,x\na,1,2\n", "of 2 columns, got 3 in line 2"),
        ("sensor,x,x\na,1,2\n", 'of different columns, got "x" twice'),
        ("sensor,x,X\na,1,2\n", "must be names that differ in more than case, got X and x"),
        ("sensor,\na,1\n", "whose first row has names of columns"),
        ('sensor,"a""b"\na,1\n', "whose first row has names of columns"),
        ("sensor,x\n", "of 1 to 1000000 rows, got none"),
        ('sensor,x\na,"1\n2"\n', "of cells of one line, got another in line 3"),
        ("sensor,x\na," + "y" * 1025, "of cells of one line, got another in line 2"),
        ('sensor,x\na,"1"2\n', "must be a CSV file in UTF-8"),
        ("sensor,x\na," + "y" * 200_000, "must be a CSV file in UTF-8"),
        (b"sensor,x\na,\xff\n", "must be a CSV file in UTF-8"),
        ("", 'lookup.sites.on must be a column of the lookup\'s file, got "sensor"'),
        ("censor,x\na,1\n", "(did you mean censor?)"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(tmp_path: Path, data: str | bytes, rule: str) -> None:
    with pytest.raises(PipelineFileError) as refused:
        read(tmp_path, data)
    assert rule in str(refused.value)
    assert str(refused.value).startswith("lookup.sites.")
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("on", ["level", "tag", "ts", "TS"])
def test_the_key_is_a_column_of_text(tmp_path: Path, on: str) -> None:
    with pytest.raises(
        PipelineFileError, match=r"^lookup\.sites\.on must be a column of text, not hashed and not the time"
    ):
        read(tmp_path, f"{on},x\na,1\n", on)


@pytest.mark.parametrize("on", ["Region", "Patient"])
def test_key_that_differs_in_case_only_is_refused(tmp_path: Path, on: str) -> None:
    with pytest.raises(PipelineFileError, match="must be names that differ in more than case"):
        read(tmp_path, f"{on},x\na,1\n", on)


def test_lookup_declares_its_key_without_changing_pinned_blocks(tmp_path: Path) -> None:
    (tmp_path / "sites.csv").write_text("sensor,x\na,1\n")
    before = parse_pipeline(TABLES, tmp_path / "visits.toml")
    after = parse_pipeline({**TABLES, "lookup": {"sites": {"file": "sites.csv", "on": "sensor"}}}, before.path)
    assert after.stream.columns["sensor"] == Column("sensor")
    assert before.blocks["stream"] == after.blocks["stream"]
    twin = build_blocks(after.stream, after.lookups, after.releases)  # the broken twin
    assert twin["stream"] != before.blocks["stream"]


@pytest.mark.parametrize("file", ["nothing.csv", ".", "/dev/zero", "a/" * 2000, "a" * 300])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, file: str) -> None:
    top = TomlTable("", {"lookup": {"sites": {"file": file, "on": "sensor"}}})
    with pytest.raises(PipelineFileError, match=r"^lookup\.sites\.file must be a (file|path)"):
        parse_lookups(top, tmp_path, STREAM)


def test_a_table_with_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_ROWS", 2)
    assert len(read(tmp_path, "sensor\na\nb\n").keys) == 2
    with pytest.raises(PipelineFileError, match="must be a table of 1 to 2 rows, got"):
        read(tmp_path, "sensor\na\nb\nc\nd\n")


def test_a_table_of_keys_alone_has_empty_rows(tmp_path: Path) -> None:
    assert read(tmp_path, "sensor\na\nb\n").rows == ((), ())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=60) | st.text('sensor,x\n\r"1a', max_size=60))
def test_any_bytes_are_a_table_or_refused(tmp_path: Path, data: bytes | str) -> None:
    head = b"sensor,x\n"
    data = head + (data if isinstance(data, bytes) else data.encode())
    text = said(lambda: read(tmp_path, data))
    assert len(text.splitlines()) <= 1
    if not text:
        lookup = read(tmp_path, data)
        assert len(lookup.keys) == len(set(lookup.keys)) == len(lookup.rows)
