"""The law of neighbours for Parquet, whose values have types: hostile ones in a column of each kind.

The engine reads a batch file; a file in a live folder is read as lines. Both give the same rows.
"""

import json
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.neighbour_law import broken, moves_of, told_apart
from tests.support.neighbour_streams import FEW, USER, VALUED, VICTIM, record
from tests.support.neighbour_ways import LIVE, Arriving
from tests.support.watched_runs import house_in_memory, tables

PEOPLE = [record(number) for number in range(40)]
MIDDLE = len(PEOPLE) // 2
NAN, INFINITY = float("nan"), float("inf")
LAST = 2**63 - 1


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


def texts(values):
    """Build a column of texts that may be invalid UTF-8."""
    octets = pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())
    return pa.Array.from_buffers(pa.string(), len(octets), octets.buffers())


def objects(values):
    return pa.ExtensionArray.from_storage(pa.json_(), texts(values))


def of(kind):
    return lambda values: pa.array(values, kind)


def whole(unit, zone=None):
    return lambda values: pa.array(values, pa.int64()).cast(pa.timestamp(unit, tz=zone))


def decimals(values):
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(38, 10))


def seconds(value):
    return int(datetime.fromisoformat(value).timestamp())


COLUMNS = {  # by name: the column, its builder, the conversion of plain values, and the hostile values
    "objects": ("patient", objects, json.dumps, [b"\xff", b"{", None]),
    "texts": ("region", texts, str, [b"\xff\xfe", b"\xed\xa0\x80", b"a\x00b", b"x" * 3_000_000, None]),
    "users": ("patient", texts, str, [b"\xff", b"", None]),
    "octets": ("patient", of(pa.binary()), str.encode, [b"\xff", b"", None]),
    "doubles": ("amount", of(pa.float64()), float, [NAN, INFINITY, -INFINITY, 1e300, -0.0, None]),
    "floats": ("amount", of(pa.float32()), float, [NAN, 3e38, None]),
    "whole numbers": ("amount", of(pa.int64()), int, [LAST, -LAST - 1, None]),
    "large numbers": ("amount", of(pa.uint64()), lambda value: int(abs(value)), [2**64 - 1]),
    "decimals": ("amount", decimals, str, ["9" * 28, None]),
    "numbers as texts": ("amount", texts, str, [b"\xff", b"1e400", b"NaN", b"9" * 1000]),
    "truths": ("amount", of(pa.bool_()), bool, [None]),
    "times in UTC": ("ts", whole("us", "UTC"), lambda value: seconds(value) * 10**6, [LAST, -LAST, 0, None]),
    "local times": ("ts", whole("us"), lambda value: seconds(value) * 10**6, [LAST, -LAST - 1, 2**62, None]),
    "milliseconds": ("ts", whole("ms"), lambda value: seconds(value) * 1000, [LAST, -LAST, None]),
    "nanoseconds": ("ts", whole("ns", "UTC"), lambda value: seconds(value) * 10**9, [LAST, -LAST, None]),
    "times as texts": ("ts", texts, str, [b"\xff", b"infinity", b"2" * 10**6]),
}


LIVE_COLUMNS = {name: COLUMNS[name] for name in ("objects", "texts", "numbers as texts", "local times")}


def rows_of(records, column=None, hostile=None):
    """Return all records, with the given ones in the middle and the hostile value in one of their columns."""
    rows = [*PEOPLE[:MIDDLE], *records, *PEOPLE[MIDDLE:]]
    columns = {field: pa.array([row[field] for row in rows]) for field in VICTIM}
    if column is not None:
        field, made, form, _ = column
        values = [form(row[field]) for row in rows]
        values[MIDDLE : MIDDLE + len(records)] = [hostile] * len(records)
        columns[field] = made(values)
    return pa.table(columns)


def ran(house, table, releases=FEW, **settings):
    pq.write_table(table, house.folder / "v.parquet")
    return house.run(tables("v.parquet", releases=releases, **settings))


def ran_live(house, table):
    (house.folder / "in").mkdir(exist_ok=True)
    pq.write_table(table, house.folder / "in" / "v.parquet")
    settings = LIVE | {"format": "parquet", "allowed_earliness": "1d"}
    return house.run(tables("in", releases=FEW, **settings), clock=Arriving([], bytes))


def check(house, run, column):
    before = run(house, rows_of([], column))
    assert before.raised is None
    assert before.counted
    for hostile in column[-1]:
        after = run(house, rows_of([VICTIM], column, hostile))
        assert broken(before, after) == [], repr(hostile)[:50]


def test_plain_record_moves_every_vector_by_at_most_its_bound(house):
    before, after = (ran(house, rows_of(records), VALUED) for records in ([], [VICTIM]))
    assert before.raised is None
    assert broken(before, after) == []
    assert all(moved.any() for _, moved in moves_of(before, after))


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", COLUMNS)
def test_no_value_of_any_type_matters_beyond_its_bound(house, name):
    check(house, ran, COLUMNS[name])


def test_list_column_is_refused_for_any_content(house):
    column = ("amount", of(pa.list_(pa.float64())), lambda value: [value], [])
    rows = [rows_of([], column), *(rows_of([VICTIM], column, each) for each in ([], [NAN] * 1000, None))]
    before, *others = [ran(house, table) for table in rows]
    assert "without amount (its type DOUBLE[] is not read)" in str(before.raised)
    assert [told_apart(before, after) for after in others] == [[]] * 3


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", LIVE_COLUMNS)
def test_no_value_in_live_folder_matters_beyond_its_bound(house, name):
    check(house, ran_live, LIVE_COLUMNS[name])


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", ["doubles", "decimals", "nanoseconds"])
@pytest.mark.parametrize("run", [ran, ran_live])
def test_damaged_text_does_not_change_columns_of_other_types(house, run, name):
    """The damaged text makes another parser read the file."""
    field, _, form, _ = column = COLUMNS[name]
    table = rows_of([VICTIM], column, form(PEOPLE[0][field]))
    regions = table["region"].to_pylist()
    regions[MIDDLE] = b"\xff"
    place = table.schema.get_field_index("region")
    damaged = table.set_column(place, "region", texts(regions))
    assert broken(run(house, rows_of([], column)), run(house, damaged)) == []


def test_users_of_parquet_are_bounded_like_others(house):
    zeds = [record(number, patient="zed") for number in range(30)]
    before, after = (ran(house, rows_of(records), unit=USER) for records in ([], zeds))
    assert before.raised is None
    assert broken(before, after) == []
