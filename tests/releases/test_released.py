"""Laws of releases: packed bit for bit, identified by name, equal in every table."""

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.optional import MissingPackageError
from streamgauge.releases import codec as packed
from streamgauge.releases.release import Group, Releases, ReleaseSchema, TickRelease, format_utc_time
from streamgauge.releases.tables import format_estimate

DAY = 86_400 * 10**6
MARKUP = "<script>alert('x')</script>\"&"
REGIONS = ("north", "south", MARKUP)


def shape_of(labels: Any = REGIONS, measures: tuple[str, ...] = ("count", "mean")) -> ReleaseSchema:
    return ReleaseSchema("fever", measures, tuple(Group(1, (("region", label),)) for label in labels))


def released(shape: ReleaseSchema, tick: int = 1, fill: float = 0.0) -> TickRelease:
    size = (len(shape.measures), len(shape.groups))
    value = np.arange(size[0] * size[1], dtype=float).reshape(size) + tick + fill
    times = (DAY * (tick - 1), DAY * tick)
    return TickRelease(shape, tick, *times, value, value / 7, value - 2, value + 2, np.ones(size, bool))


def same(one: TickRelease, other: TickRelease) -> bool:
    numbers = zip(one.numbers, other.numbers, strict=True)
    bits = all((a.view(np.int64) == b.view(np.int64)).all() for a, b in numbers)
    times = (one.tick, one.start, one.end) == (other.tick, other.start, other.end)
    return bits and times and bool((one.reliable == other.reliable).all())


BITS = st.integers(-(2**63), 2**63 - 1)
WHOLE = st.integers(-(2**33), 2**33).map(lambda n: int(np.float64(n).view(np.int64)))
ODD = st.sampled_from([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, 2.0**31, -(2.0**31), 0.5])
ANY = st.one_of(BITS, WHOLE, ODD.map(lambda x: int(np.float64(x).view(np.int64))))


@st.composite
def releases_of_any_bits(draw: Any) -> TickRelease:
    measures, places = draw(st.integers(1, 3)), draw(st.integers(0, 9))
    shape = shape_of([str(i) for i in range(places)], tuple(f"m{i}" for i in range(measures)))
    size = measures * places

    def numbers() -> Any:
        kind = draw(st.sampled_from([ANY, WHOLE, ODD.map(lambda x: int(np.float64(x).view(np.int64)))]))
        bits = draw(st.one_of(st.lists(kind, min_size=size, max_size=size), kind.map(lambda b: [b] * size)))
        return np.array(bits, np.int64).view(np.float64).reshape(measures, places)

    reliable = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    tick = draw(st.integers(1, 2**48))
    flags = np.array(reliable, bool).reshape(measures, places)
    return TickRelease(shape, tick, -tick, tick, numbers(), numbers(), numbers(), numbers(), flags)


@given(releases_of_any_bits())
def test_packed_release_unpacks_bit_for_bit(item: TickRelease) -> None:
    assert same(TickRelease.unpack(item.shape, item.pack()), item)


def test_a_twin_that_compares_numbers_and_not_bits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """-0.0 equals 0 but has other bits."""

    def hasty(rows: Any) -> list[tuple[int, bytes]]:
        return [(packed.INT32_ROW, row.astype("<i4").tobytes()) for row in rows]

    item = released(shape_of())
    item.value[:] = -0.0
    assert same(TickRelease.unpack(item.shape, item.pack()), item)
    monkeypatch.setattr(packed, "_pack_rows", hasty)
    assert not same(TickRelease.unpack(item.shape, item.pack()), item)


def test_torn_or_altered_bytes_are_refused_at_any_position() -> None:
    item = released(shape_of())
    data = item.pack()
    torn = [data[:length] for length in range(len(data))]
    altered = [data[:i] + bytes([data[i] ^ 64]) + data[i + 1 :] for i in range(len(data))]
    for bad in [*torn, *altered, data + b"\0"]:
        with pytest.raises(InvalidSaveError, match="must be whole, got torn or altered bytes"):
            TickRelease.unpack(item.shape, bad)


@pytest.mark.parametrize(
    "other",
    [
        shape_of(("south", "north", MARKUP)),
        shape_of(REGIONS[:2]),
        shape_of(REGIONS, ("count", "avg")),
        replace(shape_of(), release="other"),
    ],
    ids=["order", "number", "measure", "release"],
)
def test_bytes_of_another_shape_are_refused(other: ReleaseSchema) -> None:
    with pytest.raises(InvalidSaveError, match="got another shape"):
        TickRelease.unpack(other, released(shape_of()).pack())


def test_bytes_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    item = released(shape_of())
    data = item.pack()
    monkeypatch.setattr(packed, "VERSION", 2)
    with pytest.raises(InvalidSaveError, match="must be of version 2, got 1"):
        TickRelease.unpack(item.shape, data)


def test_counts_with_one_standard_error_are_packed_small() -> None:
    shape = shape_of([str(i) for i in range(1000)], ("count",))
    item = released(shape)
    item.stddev[:] = 3.25
    assert len(item.pack()) < 3 * 4 * 1000 + 200
    assert same(TickRelease.unpack(shape, item.pack()), item)


def test_rows_are_json_with_unknown_values_as_null() -> None:
    item = released(shape_of())
    item.value[0, 1], item.high[1, 1] = np.nan, np.inf
    row = list(item.rows("7:abc"))[1]
    assert row["group"] == {"region": "south"}
    assert row["count"] == {"value": None, "stddev": 2 / 7, "low": 0.0, "high": 4.0, "reliable": True}
    assert row["mean"]["high"] is None
    assert (row["start"], row["end"]) == ("1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z")
    assert list(row) == ["release", "tick", "start", "end", "group", "count", "mean", "trace"]
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_level_is_in_rows_only_if_there_are_several() -> None:
    north = Group(1, (("region", "north"),))
    both = ReleaseSchema("fever", ("count",), (north, Group(0, ())))
    assert [row["level"] for row in released(both).rows()] == [1, 0]
    assert [row["group"] for row in released(both).rows()] == [{"region": "north"}, {}]
    assert "level" not in next(released(shape_of()).rows())


def test_times_are_exact_to_the_microsecond() -> None:
    assert format_utc_time(1_767_571_200_000_001) == "2026-01-05T00:00:00.000001Z"
    assert format_utc_time(-1) == "1969-12-31T23:59:59.999999Z"


@pytest.mark.parametrize("name", ["tick", "group", "trace", "region", "start", "count_low"])
def test_columns_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"must have different names, got '{name}' twice"):
        shape_of(measures=("count", name))


@pytest.mark.parametrize("name", ["", "a\nb", "a\rb", "\u2028"])
def test_names_with_line_breaks_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be printable"):
        shape_of(measures=(name,))


def test_arrays_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"value must be of shape \(2, 3\), got \(2, 2\)"):
        replace(released(shape_of()), value=np.zeros((2, 2)))


def series(ticks: int = 3) -> Releases:
    shape = shape_of()
    items = [released(shape, tick) for tick in range(1, ticks + 1)]
    items[-1].low[1, 2] = np.nan
    return Releases(shape, items)


def test_releases_are_a_sequence() -> None:
    found = series()
    assert len(found) == 3
    assert found[1].tick == 2
    assert [item.tick for item in found[1:]] == [2, 3] == found[1:].ticks.tolist()
    assert found.values("mean").shape == (3, 3)
    assert found.highs("mean")[1].tolist() == found[1].high[1].tolist()
    assert str(found.ends[0]) == "1970-01-02T00:00:00.000000"


def test_releases_of_others_are_refused() -> None:
    other = replace(shape_of(), release="other")
    with pytest.raises(ValueError, match="releases must be of 'fever', got one of 'other'"):
        Releases(shape_of(), [released(other)])
    with pytest.raises(ValueError, match="measure must be one of count, mean, got 'sum'"):
        series().values("sum")


def test_groups_discovered_later_are_unknown_before() -> None:
    early, late = shape_of(("south",)), shape_of(("north", "south"))
    found = Releases(late, [released(early, 1), released(late, 2)])
    values = found.values("count")
    assert np.isnan(values[0, 0])
    assert values[0, 1] == found[0].value[0, 0]
    assert found.to_pandas()["region"].tolist() == ["south", "north", "south"]
    with pytest.raises(ValueError, match="must have places of its newest shape"):
        Releases(early, [released(late)])


def told(table: Any) -> list[dict[str, Any]]:
    """Return a table's rows, with times as microseconds and NaN as None."""
    rows = []
    for row in table:
        plain = {name: None if str(value) == "nan" else value for name, value in row.items()}
        rows.append(plain | {"start": plain["start"].timestamp(), "end": plain["end"].timestamp()})
    return rows


def test_all_table_formats_have_the_same_rows() -> None:
    found = series()
    arrow, pandas, polars = found.to_arrow(), found.to_pandas(), found.to_polars()
    first = told(arrow.to_pylist())
    assert first == told(pandas.to_dict("records")) == told(polars.to_dicts())
    assert tuple(arrow.column_names) == tuple(pandas.columns) == tuple(polars.columns) == found.shape.wide_columns
    assert len(first) == 9
    assert first[-1]["region"] == MARKUP
    assert first[-1]["mean_low"] is None
    assert first[-1]["start"] == 2 * 86_400
    assert str(arrow.schema.field("start").type) == "timestamp[us, tz=UTC]"
    assert str(pandas["start"].dtype) == "datetime64[us, UTC]"
    assert str(polars["start"].dtype) == "Datetime(time_unit='us', time_zone='UTC')"


def test_tables_of_no_ticks_have_all_columns() -> None:
    found = Releases(shape_of())
    for table in (found.to_arrow(), found.to_pandas(), found.to_polars()):
        names = table.column_names if hasattr(table, "column_names") else list(table.columns)
        assert tuple(names) == found.shape.wide_columns


def test_mixed_labels_are_text_in_tables_but_unchanged_in_rows() -> None:
    shape = shape_of((1, "other"))
    found = Releases(shape, [released(shape)])
    assert found.to_arrow()["region"].to_pylist() == ["1", "other"]
    assert [row["group"]["region"] for row in found[0].rows()] == [1, "other"]


def test_columns_missing_from_a_level_are_null() -> None:
    both = ReleaseSchema("fever", ("count",), (Group(1, (("floor", 3),)), Group(0, ())))
    table = Releases(both, [released(both)]).to_arrow()
    assert table["floor"].to_pylist() == [3, None]
    assert table["level"].to_pylist() == [1, 0]


@pytest.mark.parametrize(
    ("module", "way", "install"), [("pyarrow", "to_arrow", "streamgauge\\[arrow\\]"), ("polars", "to_polars", "polars")]
)
def test_missing_package_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch, module: str, way: str, install: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=f"{module} must be installed for this: pip install '{install}'"):
        getattr(series(), way)()


def test_the_html_form_escapes_labels_and_has_no_script() -> None:
    for page in (series()._repr_html_(), series()[0]._repr_html_()):
        assert "<script" not in page
        assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&quot;&amp;" in page
        assert "± 2" in page


def test_html_form_shows_at_most_twenty_latest_rows() -> None:
    page = series(40)._repr_html_()
    assert page.count("<tr>") == 1 + 18
    assert "102 more rows" in page
    assert "<td>40</td>" in page
    wide = shape_of([str(i) for i in range(100)])
    assert released(wide)._repr_html_().count("<tr>") == 1 + 20
    assert "<table>" in Releases(wide)._repr_html_()


def test_numbers_are_shown_to_two_digits_of_their_error() -> None:
    assert format_estimate(37.01234, 36.5, 37.5) == "37.01 ± 0.50"
    assert format_estimate(12.0, 12.0, 12.0) == "12 ± 0"
    assert format_estimate(np.nan, 0.0, 1.0) == "unknown"
    assert format_estimate(3.25, -np.inf, 4.0) == "3.25"
