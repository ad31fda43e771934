"""Wide CSV: a line per tick and place, readable back, with one meaning for each column."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pytest

from streamgauge.releases.release import Group, ReleaseSchema, TickRelease
from streamgauge.sinks import WideCsv
from tests.support.examples import LABELS, ROLLED, WARDS, released

ENDINGS = {"": "value", "_stddev": "stddev", "_low": "low", "_high": "high"}


def read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True))


def parse_label(cell: str) -> Any:
    return json.loads(cell) if cell.startswith('"') else cell


def number(cell: str) -> float:
    return float(cell) if cell else float("nan")


def test_a_line_per_place_has_every_number_of_the_tick() -> None:
    form, item = WideCsv([WARDS]), released(WARDS, 3)
    data = form.header + form.format_lines(item)
    records = read(data)
    assert len(records) == len(WARDS.groups) == data.count(b"\n") - 1
    assert list(records[0]) == ["release", *WARDS.wide_columns]
    for place, record in enumerate(records):
        assert record["release"] == WARDS.release
        assert (record["tick"], record["start"]) == ("3", "1970-01-01T02:00:00Z")
        for row, measure in enumerate(WARDS.measures):
            for ending, part in ENDINGS.items():
                expected = getattr(item, part)[row, place]
                assert np.array_equal(number(record[measure + ending]), expected, equal_nan=True)
            assert record[f"{measure}_reliable"] == str(item.reliable[row, place]).lower()


def test_hostile_labels_are_read_back_and_differ() -> None:
    form = WideCsv([WARDS])
    cells = [record["ward"] for record in read(form.header + form.format_lines(released(WARDS, 1)))]
    texts = [parse_label(cell) for cell, label in zip(cells, LABELS, strict=True) if isinstance(label, str)]
    assert texts == [label for label in LABELS if isinstance(label, str)]
    assert cells[-3:] == ["7", "0.5", "true"]


def test_labels_that_look_like_json_have_distinct_cells() -> None:
    labels = ("a\nb", '"a\\nb"', "a\\nb", "", '""')
    shape = ReleaseSchema("fever", ("count",), tuple(Group(1, (("ward", each),)) for each in labels))
    form = WideCsv([shape])
    cells = [record["ward"] for record in read(form.header + form.format_lines(released(shape, 1)))]
    assert len(set(cells)) == len(labels)
    assert tuple(map(parse_label, cells)) == labels


def test_rollup_release_has_levels_and_empty_cells_for_missing_keys() -> None:
    form = WideCsv([ROLLED])
    records = read(form.header + form.format_lines(released(ROLLED, 1)))
    assert [(record["level"], record["ward"]) for record in records] == [("1", "a"), ("0", "")]


def test_a_group_column_may_be_called_level_without_a_rollup() -> None:
    shape = ReleaseSchema("floods", ("count",), tuple(Group(1, (("level", each),)) for each in ("low", "high")))
    records = read(WideCsv([shape]).header + WideCsv([shape]).format_lines(released(shape, 1)))
    assert [record["level"] for record in records] == ["low", "high"]


def test_empty_label_differs_from_missing_key_of_rollup() -> None:
    shape = ReleaseSchema("rolled", ("count",), (Group(1, (("ward", ""),)), Group(0, ())))
    lines = WideCsv([shape]).format_lines(released(shape, 1)).decode().splitlines()
    assert lines[0].split(",")[5] == '""'
    assert lines[1].split(",")[5] == ""


def test_part_of_rollup_release_has_columns_of_whole_release() -> None:
    form, item = WideCsv([ROLLED]), released(ROLLED, 1)
    top = replace(ROLLED, groups=ROLLED.groups[1:])
    arrays = {name: getattr(item, name)[:, 1:] for name in ("value", "stddev", "low", "high", "reliable")}
    some = TickRelease(top, item.tick, item.start, item.end, **arrays)
    assert form.format_lines(some) == b"".join(form.format_lines(item).splitlines(keepends=True)[1:])


def test_releases_share_header_and_leave_other_columns_empty() -> None:
    by_age = ReleaseSchema("ages", ("mean",), tuple(Group(1, (("age", age),)) for age in (7, 8)))
    form = WideCsv([ROLLED, by_age])
    records = read(form.header + form.format_lines(released(ROLLED, 1)) + form.format_lines(released(by_age, 1)))
    assert list(records[0])[:7] == ["release", "tick", "start", "end", "level", "ward", "age"]
    assert [record["age"] for record in records] == ["", "", "7", "8"]
    assert (records[2]["level"], records[2]["ward"], records[2]["count"]) == ("1", "", "")
    assert (records[0]["mean"], records[0]["mean_reliable"]) == ("", "")
    assert float(records[2]["mean_stddev"]) == 3.125


def test_discovered_groups_have_the_lines_of_their_tick() -> None:
    shape = ReleaseSchema("words", ("count",), (), "word")
    form = WideCsv([shape])
    assert form.header.startswith(b"release,tick,start,end,word,count,")
    assert form.format_lines(released(shape.with_groups(["=1+1", "b"]), 1)).count(b"\n") == 2
    records = read(form.header + form.format_lines(released(shape.with_groups(["c"]), 2)))
    assert [record["word"] for record in records] == ["c"]
    none = np.zeros((1, 0))
    assert form.format_lines(TickRelease(shape, 1, 0, 1, none, none, none, none, none)) == b""


def test_number_of_lines_depends_on_schema_only() -> None:
    form, item = WideCsv([WARDS], has_stamp=True), released(WARDS, 1)
    unknown = {name: np.full(item.value.shape, np.nan) for name in ("value", "stddev", "low", "high")}
    nothing = replace(item, **unknown, reliable=np.zeros(item.value.shape, bool))
    extreme = replace(item, low=np.full(item.value.shape, -np.inf), value=item.value * 1e300)
    counts = {form.format_lines(each, "1:a:b").count(b"\n") for each in (item, nothing, extreme)}
    assert counts == {len(WARDS.groups)}
    fields = {len(line) for line in csv.reader(io.StringIO(form.format_lines(nothing).decode(), newline=""))}
    assert fields == {len(form.columns)}


def test_infinite_bounds_and_unknown_values_have_distinct_cells() -> None:
    shape = ReleaseSchema("extremes", ("max",), (Group(0, ()),))
    one = np.ones((1, 1))
    item = TickRelease(shape, 1, 0, 1, one * np.nan, one * np.nan, one * -np.inf, one * np.inf, one > 1)
    (record,) = read(WideCsv([shape]).header + WideCsv([shape]).format_lines(item))
    assert [record[f"max{end}"] for end in (*ENDINGS, "_reliable")] == ["", "", "-inf", "inf", "false"]


@pytest.mark.parametrize(
    ("shapes", "name"),
    [
        ([("a", "count", "x"), ("b", "x", "y")], "'x' as group column x and as measure x"),
        ([("a", "n", "x"), ("b", "n_low", "x")], "'n_low' as measure n and as measure n_low"),
        ([("a", "n", "level"), ("rolled", "n", "ward")], "'level' as the level of a line and as group"),
    ],
)
def test_a_name_with_two_meanings_is_refused(shapes: list[tuple[str, str, str]], name: str) -> None:
    made = [
        ReleaseSchema(release, (measure,), (Group(1, ((group, "a"),)), *([Group(0, ())] * (release == "rolled"))))
        for release, measure, group in shapes
    ]
    with pytest.raises(ValueError, match=f"one meaning each, got {name}.*rename one with AS"):
        WideCsv(made)


@pytest.mark.parametrize("name", ["release", "tick", "trace", "count_low"])
def test_a_group_column_called_like_another_column_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"got '{name}' twice: rename one with AS"):
        ReleaseSchema("fever", ("count",), (Group(1, ((name, "a"),)),))


def test_release_with_column_missing_in_header_is_refused() -> None:
    with pytest.raises(ValueError, match="columns of fever, by ward must be in the header, got 'mean"):
        WideCsv([ROLLED]).format_lines(released(WARDS, 1))


def test_the_stamp_is_the_last_column_and_read_back() -> None:
    form = WideCsv([WARDS], has_stamp=True)
    lines = form.format_lines(released(WARDS, 1), f"17:{'ab' * 8}:{'cd' * 4}").splitlines()
    assert form.header.endswith(b",trace\n")
    assert {form.parse_stamp(line) for line in lines} == {(17, "ab" * 8, "cd" * 4)}
    assert form.parse_stamp(lines[0][:-7]) is None
    assert form.parse_stamp(b'"' + lines[0]) is None


def test_duckdb_reads_columns_and_labels_of_wide_csv(tmp_path: Any) -> None:
    form, path = WideCsv([WARDS]), tmp_path / "wide.csv"
    path.write_bytes(form.header + form.format_lines(released(WARDS, 1)))
    found = duckdb.connect().sql(f"SELECT * FROM read_csv('{path}')")
    assert tuple(found.columns) == form.columns
    cells = [cell for (cell,) in found.project("ward").fetchall()]
    assert [parse_label(cell or "") for cell in cells][:10] == list(LABELS[:10])
    assert cells[-3:] == ["7", "0.5", "true"]
