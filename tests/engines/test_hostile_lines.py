"""One record never changes how another is read: a file is read as the union of its lines, each read alone."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.engines.duckdb.connection import DuckConnection, open_descriptors
from streamgauge.engines.duckdb.readers import RecordReader, build_lines_sql
from streamgauge.engines.duckdb.rows import RowSource
from streamgauge.plan.measure import Measure
from tests.support.declared import HEADER, SECRET, at, stream

READ = Measure(None, (), columns=frozenset({"region", "temperature", "note", "any", "flag", "code", "kind"}))
GOOD = f'"ts":"{at(3)}"'
JSON = [
    f'{{{GOOD},"region":"north","temperature":36.6,"note":"fine"}}',
    f'{{{GOOD},"region":"nowhere","temperature":1e400,"any":-1e400}}',
    f'{{{GOOD},"region":["north"],"temperature":"36.6","note":{{"a":[1,2]}},"flag":true}}',
    f'{{{GOOD},"note":"\\ud800"}}',
    f'{{{GOOD},"note":"\\u0000x"}}',
    f'{{{GOOD},"note":"\\q"}}',
    f'{{{GOOD},"note":"\x00"}}',
    f'{{{GOOD},"note":"\x01"}}',
    f'{{{GOOD},"note":"\\"","any":NaN}}',
    f'{{{GOOD},"note":null,"any":null,"code":null}}',
    f"{{{GOOD}}}{{{GOOD}}}",
    f"{{{GOOD}}} trailing",
    f'{{"ts":"{at(1)}",{GOOD}}}',
    f"[{{{GOOD}}}]",
    f"\ufeff{{{GOOD}}}",
    f"{{{GOOD}",
    "[" * 2**20,
    f'{{{GOOD},"note":' + "[" * 300_000 + "]" * 300_000 + "}",
    f'{{{GOOD},"note":"' + "x" * (2**20 - 60) + '"}',
    '{"ts":' + "9" * 1000 + "}",
    '{"ts":"infinity"}',
    '{"ts":"-infinity"}',
    '{"ts":"epoch"}',
    '{"ts":"294276-12-31T23:59:59Z"}',
    '{"ts":"290309-12-22 (BC) 00:00:00"}',
    '{"ts":"2099-01-01T00:00:00Z"}',
    '{"ts":NaN}',
    '{"ts":{}}',
    "null",
    '"',
    "{}",
    " ",
    "\\",
    "#",
]
CSV = [
    f"{at(3)},north,36.6,fine,me",
    f"{at(3)},nowhere,1e400,,",
    f'{at(3)},"north",36.6,"a ""b"", c",me',
    f'{at(3)},"north,36.6,open quote',
    f'{at(3)},no"rth,36.6',
    f'{at(3)},"north"x,36.6',
    f'"{at(3)}","","","",""',
    f"{at(3)}",
    f"{at(3)},north,36.6,fine,me,more,and,more",
    f"{at(3)},north,nan,\x00,\x01,x",
    f"{at(3)},north,-inf,\\,'",
    f"\ufeff{at(3)},north",
    "," * 2**20,
    '"' * 2**20,
    f'{at(3)},north,36.6,"' + 'x""' * 300_000 + '"',
    "infinity,north",
    "294276-12-31T23:59:59Z,north",
    ",,,,",
    '"',
    '""',
    "'",
    " ",
    "\\n",
    "#",
]
HOSTILE = {"jsonl": JSON, "csv": CSV}


@cache
def reading(file_format: str, threads: int) -> tuple[RowSource, RecordReader]:
    declared = stream(file_format)
    source = RowSource(declared, {}, [READ], SECRET)
    connection = DuckConnection("UTC", "600MB", threads, source.build_declarations())
    return source, RecordReader(declared, source.fields, connection)


@pytest.fixture(scope="module", autouse=True)
def closed() -> Iterator[None]:
    yield
    for file_format in HOSTILE:
        for threads in (1, 2):
            reading(file_format, threads)[1].connection.close()


def rows(file_format: str, lines: list[str], threads: int, path: Path | None) -> list[tuple[Any, ...]]:
    """All rows, from a file that DuckDB opens by itself or from a block in memory."""
    source, read = reading(file_format, threads)
    data = "".join(line + "\n" for line in lines).encode()
    if path is None:
        with read.open_block(data, HEADER) as relation:
            return sorted(read.connection.fetch_texts(f"SELECT * FROM {source.sql(relation, str)}"), key=repr)
    has_header = file_format == "csv"
    path.write_bytes((",".join(HEADER) + "\n").encode() * has_header + data)
    read.connection.allow([path])
    with open_descriptors([path]) as paths:
        relation = read.read_lines(build_lines_sql(paths, header=has_header), HEADER)
        return sorted(read.connection.fetch_texts(f"SELECT * FROM {source.sql(relation, str)}"), key=repr)


@cache
def alone(file_format: str, line: str) -> list[tuple[Any, ...]]:
    return rows(file_format, [line], 1, None)


def union(file_format: str, lines: list[str]) -> list[tuple[Any, ...]]:
    return sorted((row for line in lines for row in alone(file_format, line)), key=repr)


@pytest.fixture(params=["direct", "block"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "lines" if request.param == "direct" else None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
def test_hostile_lines_together_are_read_as_each_is_read_alone(
    file_format: str, threads: int, way: Path | None
) -> None:
    lines = HOSTILE[file_format]
    together = [line for line in lines[1:] for line in (lines[0], line)]
    if way is not None:
        together = [lines[0], *together]  # a byte order mark at the very beginning makes no file clean
    assert rows(file_format, together, threads, way) == union(file_format, together)


pieces = st.sampled_from(
    ['"', ",", "\\", "{", "}", ":", "\x00", "\x01", "é", "€", "😀", "\u2028", "ts", "1", " ", at(2)]
)
noise = st.lists(pieces, max_size=12).map("".join).filter(lambda line: not line.startswith("\ufeff"))


@pytest.mark.one_of_each
@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
@settings(max_examples=15)
@given(data=st.data())
def test_random_lines_together_are_read_as_each_is_read_alone(
    file_format: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = data.draw(st.lists(st.one_of(st.sampled_from(HOSTILE[file_format][:12]), noise), max_size=30))
    lines = [line for line in lines if not line.startswith("\ufeff")]
    path = tmp_path_factory.getbasetemp() / "random lines"
    for threads, way in ((1, None), (2, None), (2, path)):
        assert rows(file_format, lines, threads, way) == union(file_format, lines)


def test_a_line_that_is_no_object_has_no_fields() -> None:
    rules = [alone("jsonl", line)[0][0] for line in ("[1]", "null", '{"a":1', "{}", '{"ts":"x"}')]
    assert rules == [-2, -2, -2, -1, -1]


def test_unmatched_quotes_have_no_fields_and_empty_lines_no_record() -> None:
    assert [alone("csv", line)[0][0] for line in ('"a', 'a"b', "a,b", "")[:3]] == [-2, -2, -1]
    assert alone("csv", "") == []


def test_twin_with_csv_quotes_loses_other_records(tmp_path: Path) -> None:
    """A broken twin: DuckDB's own CSV reader lets one stray quote take other records with it."""
    path = tmp_path / "stray.csv"
    path.write_text(f'{at(1)},"open\n' + f"{at(2)},north\n" * 9)
    _, read = reading("csv", 1)
    read.connection.allow([path])
    with open_descriptors([path]) as paths:
        found = read.connection.fetch_texts(
            f"SELECT a FROM read_csv(['{paths[0]}'], auto_detect = false, delim = ',', quote = '\"', "
            "header = false, columns = {'a': 'VARCHAR', 'b': 'VARCHAR'}, ignore_errors = true)"
        )
    assert len(found) < 9
