"""The engine writes nothing, opens nothing but its source, and says nothing of what it read."""

import os
import traceback
from pathlib import Path
from typing import Any

import duckdb
import pytest

from streamgauge.config.settings import Column, Lookup
from streamgauge.engines import DuckEngine, EngineError, EngineMemoryError
from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.engines.duckdb.scan_files import FileScan
from streamgauge.plan.measure import Measure
from streamgauge.privacy import User
from streamgauge.records.blocks import Block
from tests.support.declared import ALL, BY_REGION, HEADER, SECRET, TICKS, at, engine, engine_with, part, stream, sums

MARK = "mark-of-a-private-record"


def files_under(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*")}


@pytest.mark.parametrize("unit", [None, User(1, 2)])
def test_nothing_is_written_even_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: User | None
) -> None:
    home, source = tmp_path / "home", tmp_path / "source"
    for folder in (home, source):
        folder.mkdir()
    for variable in ("HOME", "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(home))
    monkeypatch.chdir(home)
    path = source / "a.csv"
    path.write_text(",".join(HEADER) + "\n" + "".join(f"{at(i % 24)},north,37,{MARK}{i},u{i}\n" for i in range(60_000)))
    before = files_under(tmp_path)
    spread = Measure("\"note\" LIKE 'mark%'", BY_REGION.groups, columns=frozenset({"note", "region"}))
    with engine(stream("csv", unit), [spread], memory="40MB", threads=2) as running:
        for clean in (True, False):
            try:
                found = sums(running.scan_ranges([part(path, header=HEADER, clean=clean)], 1, TICKS))
                assert sum(row[0] for row in found.values()) == 60_000
            except EngineMemoryError:
                assert unit is not None
    assert files_under(tmp_path) == before


def test_query_that_would_spill_fails_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB alone would write a folder of temporary files here: a broken twin."""
    monkeypatch.chdir(tmp_path)
    spilling = f"SELECT '{MARK}' || i AS x FROM range(2000000) t(i) ORDER BY x"
    connection = DuckConnection("UTC", "20MB", 2, [])
    with pytest.raises(EngineMemoryError):
        connection.run(f"CREATE TABLE spilled AS {spilling}")
    connection.close()
    assert not files_under(tmp_path)
    with duckdb.connect(config={"memory_limit": "60MB", "temp_directory": str(tmp_path / "spill")}) as twin:
        twin.execute(f"SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY x) FROM ({spilling}))")
        assert (tmp_path / "spill").exists()


@pytest.mark.parametrize("unit", [None, User(1, 2)])
def test_tick_that_does_not_fit_fails_after_finite_attempts(tmp_path: Path, unit: User | None) -> None:
    tried = []

    class FullScan(FileScan):
        def _attempt(self, first: int, last: int) -> None:
            tried.append((first, last))
            assert len(tried) < 100
            raise EngineMemoryError("too much")

    kind = engine_with(FILE_SCAN=FullScan)
    (tmp_path / "a").write_text(f'{{"ts":"{at(0)}"}}\n')
    with engine(stream(unit=unit), [ALL], kind=kind) as running, pytest.raises(EngineMemoryError):
        list(running.scan_ranges([part(tmp_path / "a")], 1, TICKS))
    assert tried[-1] == (1, 1)


FORBIDDEN = [
    "SET memory_limit = '10GB'",
    "SET temp_directory = '/tmp'",
    "SET lock_configuration = false",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "LOAD httpfs",
    "ATTACH '{path}.db'",
    "COPY (SELECT 1) TO '{path}.csv'",
    "EXPORT DATABASE '{path}'",
    "SELECT * FROM read_text('{path}')",
    "SELECT * FROM read_csv('https://example.org/a.csv')",
    "SELECT * FROM glob('{path}*')",
]


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_the_database_is_locked(tmp_path: Path, sql: str) -> None:
    path = tmp_path / "other"
    path.write_text(MARK)
    connection = DuckConnection("UTC", "100MB", 1, [])
    with pytest.raises(EngineError):
        connection.run(sql.format(path=path))
    connection.close()
    assert files_under(tmp_path) == {path}


def test_a_database_may_read_its_source_and_no_other_file(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for path in (mine, other):
        path.write_text("line\n")
    connection = DuckConnection("UTC", "100MB", 1, [])
    connection.allow([mine])
    assert connection.fetch_texts(f"SELECT content FROM read_text('{mine}')") == [("line\n",)]
    with pytest.raises(EngineError):
        connection.fetch_texts(f"SELECT content FROM read_text('{other}')")
    connection.close()


@pytest.mark.parametrize(
    "sql", [f"SELECT CAST('{MARK}' AS INTEGER)", f"SELECT error('{MARK}')", f"SELECT * FROM {MARK}"]
)
def test_failures_have_no_text_no_cause_and_no_context(sql: str) -> None:
    connection = DuckConnection("UTC", "100MB", 1, [])
    for act in (connection.run, connection.fetch_arrays, connection.fetch_texts):
        with pytest.raises(EngineError) as failure:
            act(sql)
        texts = failure.value
        assert (texts.__cause__, texts.__context__) == (None, None)
        assert MARK not in "".join(traceback.format_exception_only(texts))
    connection.close()


def test_missing_file_raises_an_os_error(tmp_path: Path) -> None:
    with engine(stream(), [ALL]) as running, pytest.raises(OSError, match="No such file"):
        list(running.scan_ranges([part(tmp_path / "gone")], 1, TICKS))


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"ts":"{at(1)}"}}\n' * 200)
    before = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else []
    with engine(stream(), [ALL]) as running:
        for clean in (True, False):
            list(running.scan_ranges([part(path, clean=clean)], 1, TICKS))
        iterator = running.scan_ranges([part(path, clean=False)] * 3, 1, TICKS)
        next(iterator)
        del iterator
        running.scan_block(Block(b"{}\n", 0), 1, 2, False)
    assert len(os.listdir("/proc/self/fd")) <= len(before) if before else True


BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"secret": b"short"}, "secret must be 32 bytes, got 5"),
    ({"measures": []}, "measures must be at least one, got none"),
    ({"stream": stream(unit=User(1, 1), user=None)}, "user must name a column"),
    ({"stream": stream(columns={"a": Column("a"), "A": Column("A")})}, "columns must differ in more than case"),
]


@pytest.mark.parametrize(("changed", "words"), BAD_SETTINGS)
def test_bad_settings_are_refused(changed: dict[str, Any], words: str) -> None:
    given = {"stream": stream(), "lookups": {}, "measures": [ALL], "secret": SECRET} | changed
    with pytest.raises(ValueError, match=words):
        DuckEngine(**given)


def test_a_lookup_with_a_key_twice_is_refused() -> None:
    twice = Lookup("sites", "note", ("floor",), ("a", "a"), (("up",), ("down",)))
    with pytest.raises(ValueError, match="keys of the lookup sites must be unique"):
        engine(stream(), [Measure(None, (), lookups=frozenset({"sites"}))], [twice])


def test_names_and_labels_that_look_like_sql_are_literal() -> None:
    odd = '"; DROP TABLE x; --'
    columns = {odd: Column(odd, values=("'; --", "\\", "*")), "*": Column("*"), "a\\b": Column("a\\b")}
    wanted = Measure(
        f"\"{odd.replace(chr(34), chr(34) * 2)}\" = '''; --' AND \"*\" = '1' AND \"a\\b\" = '2'",
        (),
        columns=frozenset(columns),
    )
    line = f'{{"ts":"{at(0)}","\\"; DROP TABLE x; --":"\'; --","*":1,"a\\\\b":2}}\n'
    with engine(stream(columns=columns), [wanted]) as running:
        assert sums([running.scan_block(Block(line.encode(), 0), 1, TICKS, False)]) == {(1, 0, 0): (1,)}
