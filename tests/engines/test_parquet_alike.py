"""Parquet on three reading paths: DuckDB itself, batches after one bad value, and live lines.

A row must be the same on all of them. Otherwise one record would change how the others are read.
"""

import decimal
import uuid
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgauge.config.settings import Column, Stream
from streamgauge.plan.measure import GridValue, Measure
from streamgauge.privacy import User
from streamgauge.records.parquet import convert_column
from streamgauge.sources.parquet import ParquetFile
from tests.support.declared import HOUR, START, TICKS, engine, part, stream, sums

KINDS = {
    "text": pa.array(["12.5", "é\U0001f600", "a\0b", "", None]),
    "large text": pa.array(["12.5", "é", None], pa.large_string()),
    "view of text": pa.array(["12.5", "é", None], pa.string_view()),
    "dictionary": pa.array(["12.5", "é", None]).dictionary_encode(),
    "bytes": pa.array([b"12.5", b"\xff", None]),
    "bytes of one length": pa.array([b"12", b"\xff\xff", None], pa.binary(2)),
    "uuid": pa.array([uuid.UUID(int=7).bytes, None], pa.uuid()),
    "json": pa.array(['{"a": 1}', "12.5", None], pa.json_()),
    "whole": pa.array([2**63 - 1, -(2**63), 7, None]),
    "unsigned": pa.array([2**64 - 1, 7, None], pa.uint64()),
    "small": pa.array([-128, 127, None], pa.int8()),
    "float": pa.array([0.1, float("nan"), float("inf"), -0.0, None]),
    "float32": pa.array([0.1, float("nan"), 3e38, None], pa.float32()),
    "float16": pa.array([0.5, float("nan"), None], pa.float16()),
    "decimal": pa.array([decimal.Decimal("0.10"), decimal.Decimal("99.99"), None]),
    "long decimal": pa.array([decimal.Decimal(10) ** 35, None], pa.decimal128(38, 2)),
    "longest decimal": pa.array([decimal.Decimal("1.5"), None], pa.decimal256(70, 2)),
    "truth": pa.array([True, False, None]),
    "date": pa.array([2**31 - 1, -(2**31), 0, 20_000, None], pa.date32()),
    "time of day": pa.array([2**60, -1, 1, None], pa.time64("us")),
    "time of day, ns": pa.array([2**62, 1, None], pa.time64("ns")),
    "time of day, ms": pa.array([2**30, 1, None], pa.time32("ms")),
    "ms": pa.array([1, 10**12, None], pa.timestamp("ms")),
    "us": pa.array([2**63 - 1, -(2**63), 1, None], pa.timestamp("us")),
    "us, UTC": pa.array([2**63 - 1, -(2**63), 1, None], pa.timestamp("us", "UTC")),
    "ns": pa.array([2**63 - 1, -(2**63), 1, None], pa.timestamp("ns")),
    "ns, UTC": pa.array([2**63 - 1, -(2**63), 1, None], pa.timestamp("ns", "UTC")),
    "duration": pa.array([2**63 - 1, 5, None], pa.duration("us")),
    "nothing": pa.array([None, None]),
    "list": pa.array([[1.0], [2.0, None], None]),
    "struct": pa.array([{"a": "é"}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
}


def unchecked(parts: list[bytes]) -> pa.Array:
    """Return texts without a check of their encoding."""
    return pa.Array.from_buffers(pa.string(), len(parts), pa.array(parts, pa.binary()).buffers())


NESTED = {
    "struct of texts": pa.StructArray.from_arrays([unchecked([b"\xff", b"a"])], ["s"]),
    "list of texts": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), unchecked([b"\xff", b"a"])),
    "struct of times": pa.StructArray.from_arrays([pa.array([2**60, 1], pa.time64("us"))], ["s"]),
    "struct of timestamps": pa.StructArray.from_arrays([pa.array([2**60, 1], pa.timestamp("ms"))], ["s"]),
}
ALL_KINDS = KINDS | NESTED
COLUMNS = {
    name: column
    for kind in ALL_KINDS
    for name, column in {
        f"{kind} as number": Column(f"{kind} as number", "number", bounds=(Fraction(-(10**6)), Fraction(10**6))),
        f"{kind} as text": Column(f"{kind} as text"),
    }.items()
} | {"mark": Column("mark")}
FINE = Fraction(1, 10**6)


def measured(kind: str) -> Measure:
    """Return a measure of the values of a kind at each hour, as numbers and as texts."""
    hashed = f'CAST(hash("{kind} as text") % 1000003 AS DOUBLE)'
    return Measure(
        None,
        (),
        (
            GridValue(f'"{kind} as number"', -(10**12), 10**12, FINE, 1),
            GridValue(f'CASE WHEN "{kind} as text" IS NOT NULL THEN {hashed} END', 0, 1000003, Fraction(1), 1),
        ),
        columns=frozenset({f"{kind} as number", f"{kind} as text", "mark"}),
    )


LENGTH = 5


def written(path: Path, *, bad: bool) -> Path:
    """Values of all kinds, each as number and as text; the mark of the first row may be bad."""
    moments = pa.array([START + i * HOUR for i in range(LENGTH)], pa.timestamp("us", "UTC"))
    columns = {"ts": moments, "mark": unchecked([b"\xff" if bad else b"m", *[b"m"] * (LENGTH - 1)])}
    for kind, values in ALL_KINDS.items():
        padded = pa.concat_arrays([values, pa.nulls(LENGTH - len(values), values.type)])
        columns |= {f"{kind} as number": padded, f"{kind} as text": padded}
    pq.write_table(pa.table(columns), path)
    return path


Sums = dict[tuple[int, int, int], tuple[int, ...]]


def finished(path: Path, of: Stream, measures: Sequence[Measure]) -> list[Sums]:
    with engine(of, measures) as running:
        passes = list(running.scan_ranges([part(path)], 1, TICKS))
    return [sums(passes, place) for place in range(len(measures))]


def live(path: Path, of: Stream, measures: Sequence[Measure]) -> list[Sums]:
    with engine(of, measures) as running:
        passes = [running.scan_block(block, 1, TICKS, False) for block in ParquetFile(path, of).blocks()]
    return [sums(passes, place) for place in range(len(measures))]


def no_batches(*_: Any) -> Any:
    raise AssertionError("a good file must be read by DuckDB itself")


@pytest.mark.one_of_each
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_row_is_equal_on_every_reading_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timezone: str) -> None:
    of = stream("parquet", user=None, columns=COLUMNS, timezone=timezone)
    measures = [measured(kind) for kind in ALL_KINDS]
    good, bad = written(tmp_path / "good.parquet", bad=False), written(tmp_path / "bad.parquet", bad=True)
    in_batches, in_lines = finished(bad, of, measures), live(bad, of, measures)
    monkeypatch.setattr("streamgauge.engines.duckdb.readers.read_tables", no_batches)
    monkeypatch.setattr("streamgauge.sources.parquet.read_parquet_batches", no_batches)
    texts = dict(zip(ALL_KINDS, finished(good, of, measures), strict=True))
    assert all(len(found) == LENGTH for found in texts.values())
    assert dict(zip(ALL_KINDS, in_batches, strict=True)) == texts
    assert dict(zip(ALL_KINDS, in_lines, strict=True)) == texts
    assert dict(zip(ALL_KINDS, live(good, of, measures), strict=True)) == texts
    assert {kind for kind, found in texts.items() if not any(row[3] for row in found.values())} == {
        *("nothing", "time of day", "time of day, ns", "time of day, ms", "list", "struct", "map", *NESTED)
    }


@pytest.mark.parametrize("kind", [*NESTED, "time of day"])
def test_duckdb_alone_fails_on_unsupported_values(tmp_path: Path, kind: str) -> None:
    """A broken twin."""
    pq.write_table(pa.table({"x": ALL_KINDS[kind]}), tmp_path / "a.parquet")
    with duckdb.connect() as alone, pytest.raises(duckdb.Error):
        alone.execute(f"SELECT x FROM '{tmp_path / 'a.parquet'}'").fetchall()


MOMENTS = [START, START + 5 * HOUR - 1, START + 23 * HOUR + 1]
TIMES = {
    "ms": pa.array([moment // 1000 for moment in MOMENTS], pa.timestamp("ms")),
    "us": pa.array(MOMENTS, pa.timestamp("us")),
    "us, UTC": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    "ns": pa.array([moment * 1000 for moment in MOMENTS], pa.timestamp("ns")),
    "date": pa.array([moment // (24 * HOUR) for moment in MOMENTS], pa.date32()),
    "beyond": pa.array([2**63 - 1, -(2**63), MOMENTS[0]], pa.timestamp("us")),
    "beyond, ms": pa.array([2**62, -(2**62), MOMENTS[0] // 1000], pa.timestamp("ms")),
    "double": pa.array([moment / 10**6 for moment in MOMENTS]),
    "whole": pa.array([moment // 10**6 for moment in MOMENTS]),
    "text": pa.array(["2026-01-05T03:00:00Z", "1767571201.1", "soon"]),
}


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("time_format", "timezone"),
    [
        ("iso", "UTC"),
        ("iso", "Asia/Tokyo"),
        ("epoch s", "Asia/Tokyo"),
        ("epoch ms", "UTC"),
        ("epoch us", "Asia/Tokyo"),
        ("epoch ns", "UTC"),
    ],
)
def test_times_are_equal_in_live_and_batch_reads(tmp_path: Path, time_format: str, timezone: str) -> None:
    second = GridValue("CAST(date_part('us', \"ts\") AS DOUBLE)", 0, 60_000_000, Fraction(1), 1)
    of = stream("parquet", user=None, columns={}, time_format=time_format, timezone=timezone)
    measures = [Measure(None, (), (second,), columns=frozenset({"ts"}))]
    for kind, times in TIMES.items():
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({"ts": times}), path)
        (texts,) = finished(path, of, measures)
        assert live(path, of, measures) == [texts], kind
        if timezone == "UTC" and kind in ("ms", "us", "us, UTC", "ns", "date"):
            assert sum(row[0] for row in texts.values()) == 3


def test_one_bad_text_loses_no_other_row(tmp_path: Path) -> None:
    """DuckDB gives up after some rows, and the others are read in batches: none is lost, none comes twice."""
    count = 25_000
    texts = unchecked([b"%d" % i for i in range(count - 1)] + [b"\xff"])
    path = tmp_path / "a.parquet"
    numbers, notes = pa.array([i % 1000 for i in range(count)]), texts
    table = pa.table({"ts": [START] * count, "text as number": numbers, "text as text": notes})
    pq.write_table(table, path, row_group_size=6_000)
    of = stream("parquet", user=None, columns=COLUMNS, time_format="epoch us")
    (reported,) = finished(path, of, [measured("text")])
    assert reported[1, 0, 0][:4] == (count, count, 25 * sum(range(1000)) * 10**6, count - 1)
    assert live(path, of, [measured("text")]) == [reported]


def test_the_least_timestamp_harms_no_user(tmp_path: Path) -> None:
    """The order of a user's events is that of all their values as text."""
    path = tmp_path / "a.parquet"
    moments = pa.array([-(2**63), START, 2**63 - 1], pa.timestamp("us"))
    pq.write_table(pa.table({"ts": moments, "who": ["a", "a", "b"]}), path)
    (texts,) = finished(path, stream("parquet", unit=User(1, 2), columns={}), [Measure(None, ())])
    assert texts == {(1, 0, 0): (1,)}


def test_twin_with_raw_pyarrow_columns_reads_other_values() -> None:
    """A broken twin: without `convert_column`, DuckDB reads other types or refuses the column."""
    with duckdb.connect() as alone:
        alone.register("plain", pa.table({"x": convert_column(KINDS["duration"])}))
        assert alone.execute("SELECT x FROM plain LIMIT 1").fetchall() == [(2**63 - 1,)]
        alone.register("raw", pa.table({"x": KINDS["duration"]}))
        assert alone.execute("SELECT typeof(x) FROM raw LIMIT 1").fetchall() == [("INTERVAL",)]
        with pytest.raises(duckdb.Error):
            alone.register("half", pa.table({"x": KINDS["float16"]}))
