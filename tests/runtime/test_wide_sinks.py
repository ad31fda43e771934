"""Wide CSV sinks of pipelines: one header for all releases, which no later edit changes."""

import csv
from pathlib import Path
from typing import Any

import pytest

from streamgauge.sinks import SinkError
from streamgauge.sinks.formats import LONG_COLUMNS
from tests.support.pipelines import COUNTS, Tables, lines, one_a_second, pipeline, run, tables, write

SUMS: Tables = {"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": "1/8"}
COUNTED: Tables = {"name": "counts", "sql": COUNTS, "epsilon": "1/8"}
MORE: Tables = {"name": "more", "sql": "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g", "epsilon": "1/8"}
ROLLED: Tables = {"name": "rolled", "sql": "SELECT g, COUNT(*) FROM v GROUP BY ROLLUP(g)", "epsilon": "1/8"}
CSV = [{"to": "out.jsonl"}, {"to": "out.csv"}]
COUNT_COLUMNS = ["count", "count_stddev", "count_low", "count_high", "count_reliable"]
SUM_COLUMNS = [name.replace("count", "sum_x") for name in COUNT_COLUMNS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, one_a_second())
    return tmp_path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, strict=True))


def test_csv_sink_has_one_wide_line_per_tick_and_group(folder: Path) -> None:
    run(pipeline(folder, tables(sinks=CSV)))
    records, objects = read(folder / "out.csv"), lines(folder / "out.jsonl")
    assert list(records[0]) == ["release", "tick", "start", "end", "g", *COUNT_COLUMNS, "trace"]
    assert len(records) == len(objects) == 20
    for record, row in zip(records, objects, strict=True):
        assert (record["g"], int(record["tick"])) == (row["group"]["g"], row["tick"])
        assert float(record["count"]) == row["count"]["value"]
        assert (record["trace"], record["end"]) == (row["trace"], row["end"])


def test_csv_sink_is_long_if_declared(folder: Path) -> None:
    run(pipeline(folder, tables(sinks=[{"to": "out.csv", "shape": "long"}])))
    assert tuple(read(folder / "out.csv")[0]) == LONG_COLUMNS


def test_standard_output_is_wide_too(folder: Path, capfd: Any) -> None:
    run(pipeline(folder, tables(sinks=[{"to": "-", "format": "csv"}])))
    printed = capfd.readouterr().out.splitlines()
    assert printed[0].split(",") == ["release", "tick", "start", "end", "g", *COUNT_COLUMNS, "trace"]
    assert len(printed) == 1 + 20


def test_releases_share_header_in_order_of_file(folder: Path) -> None:
    run(pipeline(folder, tables(SUMS, COUNTED, ROLLED, sinks=CSV)))
    records = read(folder / "out.csv")
    names = ["release", "tick", "start", "end", "level", "g", *SUM_COLUMNS, *COUNT_COLUMNS, "trace"]
    assert list(records[0]) == names
    by_name = {name: [r for r in records if r["release"] == name] for name in ("sums", "counts", "rolled")}
    assert [len(some) for some in by_name.values()] == [10, 20, 30]
    assert {(r["level"], r["g"], r["count"], r["count_reliable"]) for r in by_name["sums"]} == {("0", "", "", "")}
    assert {(r["level"], r["g"], r["sum_x"]) for r in by_name["counts"]} == {("1", "a", ""), ("1", "b", "")}
    assert {(r["level"], r["g"]) for r in by_name["rolled"]} == {("0", ""), ("1", "a"), ("1", "b")}
    assert len(lines(folder / "out.jsonl")) == len(records)


def test_edit_that_changes_header_is_refused_before_charge(folder: Path) -> None:
    run(pipeline(folder, tables(COUNTED, sinks=CSV)))
    before, acts = ((folder / "out.csv").read_bytes(), pipeline(folder, tables(COUNTED)).ledger().ledger_entries)
    assert pipeline(folder, tables(COUNTED, sinks=CSV)).plan().refusals == ()
    edited = pipeline(folder, tables(COUNTED, MORE, sinks=CSV))
    (planned,) = edited.plan().refusals
    assert planned.startswith("v.toml: sink out.csv must keep the columns of its header, got a change (+")
    way = 'undo the edit, or name a new sink; with shape = "long" all releases have the same columns'
    with pytest.raises(SinkError, match=r"sink out\.csv must keep the columns of its header") as refused:
        run(edited)
    assert str(refused.value).endswith(way)
    assert "(+sum_x, +sum_x_stddev, +sum_x_low, +sum_x_high, +sum_x_reliable)" in str(refused.value)
    assert edited.ledger().ledger_entries == acts
    assert (folder / "out.csv").read_bytes() == before
    run(pipeline(folder, tables(COUNTED, MORE, sinks=[*CSV[:1], {"to": "new.csv"}])))
    assert {record["release"] for record in read(folder / "new.csv")} == {"counts", "more"}


def test_wide_sink_is_not_continued_as_long_sink(folder: Path) -> None:
    run(pipeline(folder, tables(COUNTED, sinks=CSV)))
    long = [*CSV[:1], {"to": "out.csv", "shape": "long"}]
    with pytest.raises(SinkError, match=r"got a change \(.*\+group, \+measure"):
        run(pipeline(folder, tables(COUNTED, sinks=long)))


def test_releases_with_header_columns_may_be_added_and_removed(folder: Path) -> None:
    run(pipeline(folder, tables(SUMS, COUNTED, sinks=CSV)))
    header = (folder / "out.csv").read_text().splitlines()[0]
    run(pipeline(folder, tables(COUNTED, MORE, sinks=CSV)))
    records = read(folder / "out.csv")
    assert (folder / "out.csv").read_text().splitlines()[0] == header
    assert {record["release"] for record in records} == {"sums", "counts", "more"}
    assert len(records) == len(lines(folder / "out.jsonl")) == 10 + 20 + 20


def test_recharged_source_uses_same_columns(folder: Path) -> None:
    run(pipeline(folder, tables(COUNTED, sinks=CSV)))
    write(folder, one_a_second(90))
    run(pipeline(folder, tables(COUNTED, sinks=CSV)), recharge_source=True)
    assert {record["release"] for record in read(folder / "out.csv")} == {"counts", "counts@2"}


def test_ambiguous_columns_are_refused_by_plan_and_run(folder: Path) -> None:
    clash = {"name": "clash", "sql": "SELECT COUNT(*) AS g FROM v", "epsilon": "1/8"}
    made = pipeline(folder, tables(COUNTED, clash, sinks=CSV))
    said = r"sink out\.csv: columns of wide CSV must have one meaning each, got 'g' as .*: rename one with AS"
    (refused,) = made.plan().refusals
    with pytest.raises(SinkError, match=said) as refusal:
        run(made)
    assert refused == f"v.toml: {refusal.value}"
    assert made.ledger().ledger_entries == []
    apart = [{"to": "a.csv", "releases": ["counts"]}, {"to": "b.csv", "releases": ["clash"]}]
    run(pipeline(folder, tables(COUNTED, clash, sinks=apart)))
    assert len(read(folder / "b.csv")) == 10


def test_lines_of_wide_csv_do_not_depend_on_data(folder: Path) -> None:
    keys = []
    for seconds in (0, 1, 100):
        own = folder / str(seconds)
        own.mkdir()
        write(own, one_a_second(seconds))
        run(pipeline(own, tables(SUMS, COUNTED, ROLLED, sinks=CSV)))
        records = read(own / "out.csv")
        keys.append([(r["release"], r["tick"], r["level"], r["g"], r["count_reliable"]) for r in records])
    assert keys[0] == keys[1] == keys[2]
    assert len(keys[0]) == 60


def test_stamps_are_short_and_the_store_knows_them(folder: Path) -> None:
    """A chain and an owner of full length would need 97 bytes and more of each line."""
    made = pipeline(folder, tables(sinks=CSV))
    run(made)
    stamps = {row["trace"] for row in lines(folder / "out.jsonl")}
    assert stamps == {record["trace"] for record in read(folder / "out.csv")}
    assert max(map(len, stamps)) <= len("10:") + 16 + len(":") + 8
    assert str(run(pipeline(folder, tables(sinks=CSV)))) == "nothing was left to publish"
