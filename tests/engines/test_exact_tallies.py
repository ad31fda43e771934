"""Tallies equal sums in plain Python, for every format, reading path and number of passes."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.config.settings import Lookup
from streamgauge.plan.measure import Cell, GridValue, Measure, count_tally_numbers
from streamgauge.sql.query import GroupColumn
from tests.support.declared import (
    ALL,
    BY_REGION,
    HEADER,
    HOUR,
    REGIONS,
    START,
    TICKS,
    CountingScan,
    at,
    counted,
    csv_line,
    engine,
    engine_with,
    expected,
    json_line,
    listed,
    part,
    stream,
    sums,
    write_parquet,
)

temperatures = st.one_of(
    st.none(),
    st.floats(30, 50).map(lambda x: round(x, 2)),
    st.sampled_from(["", "x", "nan", "inf", "-inf", "1e300", "-1e300", "1e400", " 36.6 ", "36,6", 36.6, 41]),
)
events = st.fixed_dictionaries(
    {
        "hours": st.one_of(st.floats(-3, TICKS + 3), st.sampled_from([-1, 0, 1, TICKS - 1 / 3600, TICKS])),
        "region": st.sampled_from([*REGIONS, None, "", "elsewhere", "a,b"]),
        "temperature": temperatures,
        "note": st.sampled_from(["fine", 'a "b", c', None]),
    }
)


def on_whole_seconds(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Round times to whole seconds, as files have them, and drop those before the start."""
    return [event | {"hours": int(max(0, event["hours"]) * 3600) / 3600} for event in drawn if event["hours"] >= 0]


@pytest.mark.one_of_each
@settings(max_examples=20)
@given(drawn=st.lists(events, max_size=120).map(on_whole_seconds), clean=st.booleans())
@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
def test_tallies_are_exact(
    file_format: str, tmp_path_factory: pytest.TempPathFactory, drawn: list[dict[str, Any]], clean: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / f"exact.{file_format}"
    text = csv_line if file_format == "csv" else json_line
    header = HEADER if file_format == "csv" else None
    lines = [",".join(HEADER)] * bool(header) + [text(event) for event in drawn]
    path.write_text("".join(line + "\n" for line in lines))
    with engine(stream(file_format)) as running:
        found = list(running.scan_ranges([part(path, clean=clean, header=header)], 1, TICKS))
    assert sums(found) == expected(drawn)
    assert counted(found)["records"] == len(drawn)


def lines_file(tmp_path: Path, lines: Sequence[str], name: str = "events.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(line + "\n" for line in lines))
    return path


def many(count: int = 600) -> list[dict[str, Any]]:
    return [
        {"hours": (i * 37 % (TICKS * 60)) / 60, "region": REGIONS[i % 4], "temperature": 35 + i % 70 / 10}
        for i in range(count)
    ]


def test_files_with_different_headers_are_one_source(tmp_path: Path) -> None:
    turned = tuple(reversed(HEADER))
    one = lines_file(tmp_path, [",".join(HEADER), *map(csv_line, many()[:300])], "one.csv")
    flipped = [",".join(reversed(csv_line(event).split(","))) for event in many()[300:] if '"' not in csv_line(event)]
    two = lines_file(tmp_path, [",".join(turned), *flipped], "two [1-9]*.csv")
    three = lines_file(tmp_path, [",".join(HEADER), *map(csv_line, many()[:50])], "three.csv")
    files = [part(one, header=HEADER), part(two, header=turned), part(three, header=HEADER)]
    stored = many()[:300] + [event for event in many()[300:] if '"' not in csv_line(event)] + many()[:50]
    with engine(stream("csv")) as running:
        assert sums(running.scan_ranges(files, 1, TICKS)) == expected(stored)


def test_a_clean_file_is_read_by_the_engine_itself(tmp_path: Path) -> None:
    def blocks() -> Any:
        raise AssertionError("the blocks of a clean file must not be located")

    path = lines_file(tmp_path, [json_line(event) for event in many()])
    with engine(stream()) as running:
        files = [replace(part(path), blocks=blocks)]
        assert sums(running.scan_ranges(files, 1, TICKS)) == expected(many())


def test_file_wrongly_marked_clean_is_read_by_blocks(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    good = b"".join(json_line(event).encode() + b"\n" for event in many())
    path.write_bytes(b"\xff\xfe\n" + good)
    clean = tmp_path / "clean.jsonl"
    clean.write_bytes(good)
    with engine(stream()) as running:
        files = [replace(part(path), blocks=part(clean).blocks), part(clean)]
        assert sums(running.scan_ranges(files, 1, TICKS)) == expected(many() * 2)


def test_passes_follow_from_settings_alone_and_cover_all_ticks(tmp_path: Path) -> None:
    full = lines_file(tmp_path, [json_line(event) for event in many()])
    empty = lines_file(tmp_path, [], "empty.jsonl")
    five_ticks = engine_with(MAX_PASS_NUMBERS=5 * count_tally_numbers(BY_REGION))
    with engine(stream(), kind=five_ticks) as running:
        one, none = (list(running.scan_ranges([part(path)], 1, TICKS)) for path in (full, empty))
    ranges = [(each.first, each.last) for each in one]
    assert ranges == [(each.first, each.last) for each in none] == [(1, 5), (6, 10), (11, 15), (16, 20), (21, 24)]
    assert sums(one) == expected(many())
    assert counted(one)["records"] == len(many())
    assert counted(none)["records"] == 0


def test_resumed_scan_has_the_remaining_ticks(tmp_path: Path) -> None:
    path = lines_file(tmp_path, [json_line(event) for event in many()])
    with engine(stream()) as running:
        found = sums(running.scan_ranges([part(path)], 10, 20))
    assert found == {key: row for key, row in expected(many()).items() if 10 <= key[0] <= 20}


def test_too_little_memory_changes_no_answer(tmp_path: Path) -> None:
    """A grid so fine that all ticks together do not fit, but some do."""
    before = CountingScan.reductions
    path = tmp_path / "wide.parquet"
    times = f"make_timestamp({START} + (i % {TICKS}) * {HOUR}) AS ts"
    values = f"'north' AS region, 35 + (i // {TICKS})::DOUBLE / 20000 AS temperature"
    write_parquet(path, f"SELECT {times}, {values} FROM range(1200000) t(i)")
    cell = Cell('"temperature"', 10**6, Fraction(35), Fraction(1, 100_000))
    fine = Measure(None, (), (), cell, columns=frozenset({"temperature"}))
    kind = engine_with(FILE_SCAN=CountingScan)
    with engine(stream("parquet"), [fine], kind=kind, memory="32MB", threads=2) as running:
        found = list(running.scan_ranges([part(path)], 1, TICKS))
    assert CountingScan.reductions > before
    assert sum(int(one.tallies[0].sums.sum()) for one in found) == 1_200_000
    assert sum(len(one.tallies[0].ticks) for one in found) == 1_200_000
    assert counted(found)["records"] == 1_200_000


def test_measures_that_differ_in_everything_are_answered_together(tmp_path: Path) -> None:
    events = many() + [{"hours": 2, "region": None, "temperature": 36.0}] * 3
    path = lines_file(tmp_path, [json_line(event) for event in events])
    warm = replace(BY_REGION, where='"temperature" > 38')
    high = replace(BY_REGION, values=(GridValue('"temperature" * 2', 0, 84, Fraction(1), 1),))
    cells = Measure(
        None, (), (), Cell('"temperature"', 7, Fraction(35), Fraction(1)), columns=frozenset({"temperature"})
    )
    many_measures = [BY_REGION, ALL, warm, high, cells, BY_REGION] * 8
    with engine(stream(), many_measures) as running:
        found = list(running.scan_ranges([part(path)], 1, TICKS))
    for begin in range(0, len(many_measures), 6):
        assert sums(found, begin) == sums(found, begin + 5) == expected(events)
        assert sum(row[0] for row in sums(found, begin + 1).values()) == len(events)
        assert sums(found, begin + 2) == expected([e for e in events if e["temperature"] > 38])
        assert {key: row[0] for key, row in sums(found, begin + 3).items()} == {
            key: row[0] for key, row in expected(events).items()
        }
        axis = sums(found, begin + 4)
        assert {key[2] for key in axis} == set(range(7))
        assert sum(row[0] for row in axis.values()) == len(events)


def test_the_last_group_column_runs_fastest(tmp_path: Path) -> None:
    halves = GroupColumn("half", ("low", "high"), 'CASE WHEN "temperature" < 38 THEN 0 ELSE 1 END')
    both = replace(BY_REGION, groups=(*BY_REGION.groups, halves), values=())
    path = lines_file(tmp_path, [json_line({"hours": 0, "region": "south", "temperature": 39})])
    with engine(stream(), [both]) as running:
        assert sums(running.scan_ranges([part(path)], 1, TICKS)) == {(1, 3, 0): (1,)}


def test_sums_wrap_around_and_never_fail(tmp_path: Path) -> None:
    large = 2**52 - 1
    value = GridValue("9e300::DOUBLE", -large, large, Fraction(1), 2)
    path = lines_file(tmp_path, [json_line({"hours": 0})] * 5000)
    with engine(stream(), [Measure(None, (), (value,))]) as running:
        (row,) = sums(running.scan_ranges([part(path)], 1, TICKS)).values()
    wrap = lambda x: (x + 2**63) % 2**64 - 2**63  # noqa: E731 - the formula
    assert row == (5000, 5000, wrap(5000 * large), wrap(5000 * large**2))


def test_non_finite_values_stay_on_their_grid(tmp_path: Path) -> None:
    values = ["'nan'::DOUBLE", "'inf'::DOUBLE", "'-inf'::DOUBLE", "NULL::DOUBLE", "1e308::DOUBLE"]
    pinned = tuple(GridValue(sql, -3, 7, Fraction(1, 10**6), 1) for sql in values)
    cells = [Measure(None, (), (), Cell(sql, 9, Fraction(0), Fraction(1))) for sql in values]
    codes = [Measure(None, (), (), Cell(sql, 9)) for sql in ("-1", "9", "8", "NULL::BIGINT")]
    path = lines_file(tmp_path, [json_line({"hours": 0})])
    with engine(stream(), [Measure(None, (), pinned), *cells, *codes]) as running:
        found = list(running.scan_ranges([part(path)], 1, TICKS))
    assert sums(found, 0) == {(1, 0, 0): (1, 0, 0, 1, 7, 1, -3, 0, 0, 1, 7)}
    assert [sums(found, at) for at in range(1, 6)] == [{}, {(1, 0, 8): (1,)}, {(1, 0, 0): (1,)}, {}, {(1, 0, 8): (1,)}]
    assert [sums(found, at) for at in range(6, 10)] == [{}, {}, {(1, 0, 8): (1,)}, {}]


def test_unmatched_events_are_dropped_only_for_lookup_measures(tmp_path: Path) -> None:
    beds = Lookup("sites", "note", ("floor", "beds"), ("a", "b", "it's"), (("up", 3), ("down", None), (None, 5)))
    floors = replace(
        ALL,
        groups=(listed(("up", "down"), "sites.floor"),),
        values=(GridValue('"sites.beds"', 0, 9, Fraction(1), 1),),
        lookups=frozenset({"sites"}),
    )
    notes = ["a", "a", "b", "it's", "nowhere", None]
    path = lines_file(tmp_path, [json_line({"hours": 0, "note": note}) for note in notes])
    with engine(stream(), [floors, ALL], [beds]) as running:
        found = list(running.scan_ranges([part(path)], 1, TICKS))
    assert sums(found, 0) == {(1, 0, 0): (2, 2, 6), (1, 1, 0): (1, 0, 0)}
    assert sums(found, 1) == {(1, 0, 0): (6,)}


def test_columns_follow_their_declaration(tmp_path: Path) -> None:
    lines = [
        {"hours": 0, "kind": "a", "any": "1e400", "flag": "maybe", "code": "x", "note": "y" * 2000},
        {"hours": 0, "kind": "c", "any": 5, "flag": True, "code": "x"},
        {"hours": 0, "any": -7.5, "flag": "false", "code": 1},
    ]
    rules = [
        "\"kind\" = 'other'",
        '"any" IS NOT NULL',
        '"flag" IS NOT NULL',
        '"code" BETWEEN 0 AND 96',
        'length("note") = 1024',
        '"any" = -7.5',
    ]
    columns = frozenset({"kind", "any", "flag", "code", "note"})
    path = lines_file(tmp_path, [json_line(line) for line in lines])
    with engine(stream(), [Measure(rule, (), columns=columns) for rule in rules]) as running:
        found = list(running.scan_ranges([part(path)], 1, TICKS))
    assert [sums(found, at)[1, 0, 0][0] for at in range(len(rules))] == [2, 2, 2, 3, 1, 1]


def test_records_are_counted_by_the_rule_that_they_break(tmp_path: Path) -> None:
    lines = [
        json_line({"hours": 1}),
        json_line({"hours": 25}),
        '{"ts":"2026-01-04T23:59:59.999999Z"}',
        '{"ts":"soon"}',
        "{}",
        "not json",
        "",
        "[]",
    ]
    path = lines_file(tmp_path, lines)
    with engine(stream(), [ALL]) as running:
        (one,) = running.scan_ranges([part(path)], 1, TICKS)
    assert {rule: count for rule, count in one.counts.items() if count} == {
        "records": 7,
        "outside": 2,
        "no time": 2,
        "not readable": 2,
    }


def test_a_tick_begins_with_its_first_microsecond(tmp_path: Path) -> None:
    times = ["2026-01-05T00:00:00Z", "2026-01-05T00:59:59.999999Z", "2026-01-05T01:00:00Z", at(23.9)]
    path = lines_file(tmp_path, [f'{{"ts":"{time}"}}' for time in times])
    with engine(stream(), [ALL]) as running:
        found = sums(running.scan_ranges([part(path)], 1, TICKS))
    assert found == {(1, 0, 0): (2,), (2, 0, 0): (1,), (24, 0, 0): (1,)}
