"""Parquet: columns with types of their own, and single values that DuckDB would refuse a whole file for."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgauge.config.settings import Column
from streamgauge.engines import EngineError
from streamgauge.plan.measure import Measure
from streamgauge.privacy import User
from tests.support.declared import (
    ALL,
    BY_REGION,
    COLUMNS,
    HOUR,
    REGIONS,
    START,
    TICKS,
    at,
    engine,
    expected,
    part,
    stream,
    sums,
)

EVENTS = [
    {
        "hours": i * 7 % TICKS,
        "region": [*REGIONS, None, "elsewhere"][i % 6],
        "temperature": 34 + i % 90 / 10,
        "who": i % 5,
    }
    for i in range(300)
]
MOMENTS = [START + event["hours"] * HOUR for event in EVENTS]


def write(path: Path, columns: dict[str, Any], **settings: Any) -> Path:
    pq.write_table(pa.table(columns), path, **settings)
    return path


def tallies(paths: Sequence[Path], measures: Sequence[Measure] = (BY_REGION,), **changes: Any) -> dict[Any, Any]:
    with engine(stream("parquet", **changes), measures) as running:
        return sums(running.scan_ranges([part(path) for path in paths], 1, TICKS))


def columns(**changed: Any) -> dict[str, Any]:
    plain = {
        "ts": [at(event["hours"]) for event in EVENTS],
        "region": [event["region"] for event in EVENTS],
        "temperature": [event["temperature"] for event in EVENTS],
        "who": [event["who"] for event in EVENTS],
    }
    return plain | changed


TIMES = {
    "text": [at(event["hours"]) for event in EVENTS],
    "us, UTC": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    "ns, UTC": pa.array([moment * 1000 for moment in MOMENTS], pa.timestamp("ns", "UTC")),
    "ms": pa.array([moment // 1000 for moment in MOMENTS], pa.timestamp("ms")),
    "us": pa.array(MOMENTS, pa.timestamp("us")),
    "ns": pa.array([moment * 1000 for moment in MOMENTS], pa.timestamp("ns")),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_of_every_type_are_read(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "a.parquet", columns(ts=TIMES[kind]))
    assert tallies([path]) == expected(EVENTS)


@pytest.mark.parametrize("kind", ["us", "ms", "ns"])
def test_naive_times_are_in_the_time_zone_of_the_stream(tmp_path: Path, kind: str) -> None:
    moved = [moment - 5 * HOUR for moment in MOMENTS]
    per = {"us": Fraction(1), "ms": Fraction(1, 1000), "ns": Fraction(1000)}[kind]
    times = pa.array([int(moment * per) for moment in moved], pa.timestamp(kind))
    path = write(tmp_path / "a.parquet", columns(ts=times))
    assert tallies([path], timezone="America/New_York") == expected(EVENTS)


def test_whole_numbers_are_times_where_epochs_were_declared(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", columns(ts=[moment // 1000 for moment in MOMENTS]))
    assert tallies([path], time_format="epoch ms") == expected(EVENTS)


@pytest.mark.one_of_each
@pytest.mark.parametrize("extreme", [2**63 - 1, -(2**63), 2**62])
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(
    "kind", [("us", None), ("us", "UTC"), ("ns", None), ("ns", "UTC"), ("ms", None), ("ms", "UTC")]
)
def test_times_at_the_end_of_time_harm_no_one(
    tmp_path: Path, extreme: int, timezone: str, kind: tuple[str, str | None]
) -> None:
    good = {"us": START, "ns": START * 1000, "ms": START // 1000}[kind[0]] + 0
    path = write(
        tmp_path / "a.parquet", {"ts": pa.array([extreme, good, extreme], pa.int64()).cast(pa.timestamp(*kind))}
    )
    found = tallies([path], [ALL], timezone=timezone)
    assert sum(row[0] for row in found.values()) == (0 if timezone == "Asia/Kolkata" and kind[1] is None else 1)


def text_of(*parts: bytes) -> pa.Array:
    """Return texts without a check of their encoding."""
    ends = np.cumsum([0, *map(len, parts)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(parts), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(parts))]
    )


NAMES = [REGIONS[i % 4].encode() for i in range(len(EVENTS))]


def with_one_bad_text(path: Path, **settings: Any) -> Path:
    """All events, and the first of them once more with a region that is no text."""
    more = {name: [*column, column[0]] for name, column in columns().items()}
    return write(path, more | {"region": text_of(*NAMES, b"\xff\xfe")}, **settings)


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_text_that_is_not_utf8_harms_no_other(tmp_path: Path, dictionary: bool) -> None:
    good = write(tmp_path / "good.parquet", columns(region=text_of(*NAMES)))
    bad = with_one_bad_text(tmp_path / "bad.parquet", use_dictionary=dictionary)
    assert tallies([bad]) == tallies([good])


def test_a_text_that_is_not_utf8_harms_no_other_user(tmp_path: Path) -> None:
    """Another event of user 0 may survive instead."""
    others = Measure("who <> '0'", BY_REGION.groups, columns=frozenset({"region", "who"}))
    requested = {"unit": User(1, 2), "columns": COLUMNS | {"who": Column("who")}}
    good = write(tmp_path / "good.parquet", columns(region=text_of(*NAMES)))
    bad = with_one_bad_text(tmp_path / "bad.parquet")
    assert tallies([bad], [others], **requested) == tallies([good], [others], **requested)


def test_values_of_every_type_are_read_as_declared(tmp_path: Path) -> None:
    kinds = {
        "decimal": pa.array([Decimal("36.5"), None]),
        "text": ["36.5", "warm"],
        "float": pa.array([36.5, float("nan")]),
        "infinite": pa.array([36.5, None], pa.float32()),
        "list": [[36.5], [1, 2]],
        "struct": [{"a": 36.5}, None],
        "bytes": [b"36.5", b"\xff"],
        "unsigned": pa.array([36, None], pa.uint64()),
        "dictionary": pa.array(["36.5", None]).dictionary_encode(),
        "truth": [True, None],
    }
    counts = {}
    for kind, values in kinds.items():
        path = write(tmp_path / "a.parquet", {"ts": [at(0)] * 2, "temperature": values, "region": ["north"] * 2})
        counts[kind] = tallies([path])[1, 0, 0][:3]
    read = (2, 1, 365)
    assert counts == {
        "decimal": read,
        "text": read,
        "float": read,
        "infinite": read,
        "list": (2, 0, 0),
        "struct": (2, 0, 0),
        "bytes": read,
        "unsigned": (2, 1, 360),
        "dictionary": read,
        "truth": (2, 0, 0),
    }


def test_files_with_different_columns_are_one_source(tmp_path: Path) -> None:
    one = write(tmp_path / "a.parquet", columns())
    two = write(
        tmp_path / "b.parquet",
        columns(temperature=[str(event["temperature"]) for event in EVENTS], more=[1] * len(EVENTS)),
    )
    three = write(tmp_path / "region=x[0-9]*.parquet", {"ts": [at(1)] * 3, "REGION": ["north"] * 3})
    assert tallies([one, two, three]) == expected(EVENTS * 2)


def test_damaged_file_fails_without_quoting_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", columns(region=["secret-region"] * len(EVENTS)), compression="none")
    data = bytearray(path.read_bytes())
    for place in range(4, 200):
        data[place] ^= 0x5A
    path.write_bytes(bytes(data))
    with pytest.raises(EngineError) as failure:
        tallies([path])
    assert "secret" not in str(failure.value)
    assert failure.value.__cause__ is None


def test_twin_duckdb_alone_fails_on_a_bad_text(tmp_path: Path) -> None:
    """A broken twin: DuckDB by itself gives up on the file."""
    path = write(tmp_path / "bad.parquet", {"region": text_of(b"north", b"\xff")})
    with duckdb.connect() as alone, pytest.raises(duckdb.Error):
        alone.execute(f"SELECT region FROM '{path}'").fetchall()
