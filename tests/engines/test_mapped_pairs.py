"""Rows through mappers: any slices, files and blocks give the same sums; a stop ends a long scan."""

from pathlib import Path
from threading import Event as Flag
from threading import Timer
from typing import Any

import numpy as np
import pytest

from streamgauge.config.mapper import MapperSettings
from streamgauge.engines import DuckEngine
from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.connection import DuckConnection, interrupt_on_stop
from streamgauge.engines.duckdb.pairs import PairSource
from streamgauge.interfaces import StopRequestedError
from streamgauge.plan.measure import GridValue, Measure
from streamgauge.plan.pairs import PAIR_KEY, PAIR_VALUE
from streamgauge.privacy import Tick
from streamgauge.records.blocks import Block
from streamgauge.sql.query import GroupColumn
from tests.support.declared import BY_REGION, TICKS, counted, engine, engine_with, json_line, part, stream, sums

pytest.importorskip("wasmtime")

SOURCE = """
def mapper(note, any, flag, ts):
    for word in note.split():
        emit(word, any)
    if flag and ts.hour >= 6:
        emit("late", 1)
"""
COLUMNS: Any = (("note", "text"), ("any", "number"), ("flag", "bool"), ("ts", "time"))
MAPPER = MapperSettings("m", SOURCE, COLUMNS, ("a", "é", "late"), max_pairs=2)
COUNTED = Measure(
    None,
    (GroupColumn("key", ("a", "é", "late"), PAIR_KEY),),
    (GridValue(PAIR_VALUE, -5, 5, BY_REGION.values[0].step * 10, 1),),
    columns=frozenset(name for name, _ in COLUMNS),
    mapper=MAPPER,
)
NOTES = ("", "a b", "é a é", None, "a a late", "b" * 2000, "x\ty a")


def records(count: int) -> list[dict[str, Any]]:
    return [
        {"hours": i % 30 / 1.2, "note": NOTES[i % 7], "any": i % 9 - 4 if i % 5 else None, "flag": i % 3 == 0}
        for i in range(count)
    ]


def sliced(rows: int) -> type[Answers]:
    """Return answers whose mappers read so many rows at a time."""

    class SlicedAnswers(Answers):
        def __post_init__(self) -> None:
            super().__post_init__()
            for source in self._pair_sources.values():
                source.slice_rows = rows

    return SlicedAnswers


def scan_file(path: Path, measures: list[Measure], kind: Any = DuckEngine, unit: Any = None) -> Any:
    with engine(stream(unit=unit), measures, kind=kind) as found:
        return list(found.scan_ranges([part(path)], 1, TICKS))


def test_slices_blocks_and_files_give_equal_sums(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    lines = [json_line(each) for each in records(400)]
    path.write_text("\n".join(lines) + "\n")
    whole = scan_file(path, [COUNTED])
    assert sum(row[0] for row in sums(whole).values()) > 100
    for rows in (1, 7, 400):
        assert sums(scan_file(path, [COUNTED], engine_with(ANSWERS=sliced(rows)))) == sums(whole)
    with engine(stream(), [COUNTED]) as found:
        halves = ["\n".join(part_) + "\n" for part_ in (lines[:150], lines[150:])]
        blocks = [found.scan_block(Block(half.encode(), 0), 1, TICKS, False) for half in halves]
    assert sums(blocks) == sums(whole)


def test_records_are_counted_once_beside_other_measures(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    path.write_text("\n".join(json_line(each) for each in records(300)) + "\n")
    alone, both = scan_file(path, [COUNTED]), scan_file(path, [BY_REGION, COUNTED])
    assert counted(alone) == counted(both)
    assert counted(alone)["records"] == 300
    assert sums(both, 1) == sums(alone)


def test_one_record_moves_each_sum_of_two_keys_at_most(tmp_path: Path) -> None:
    """The neighbour law: any record more or less."""
    others = records(40)
    path = tmp_path / "visits.jsonl"
    extra = [{"hours": 3, "note": note, "any": value, "flag": True} for note in NOTES for value in (1e300, -7, 2, None)]

    def scan(of: list[dict[str, Any]]) -> dict[Any, Any]:
        path.write_text("\n".join(json_line(each) for each in of) + "\n")
        return sums(scan_file(path, [COUNTED]))

    before = scan(others)
    for record in extra:
        after = scan([*others, record])
        moves = [
            np.subtract(after.get(key, (0,) * 3), before.get(key, (0,) * 3)) for key in before.keys() | after.keys()
        ]
        moved = [move for move in moves if move.any()]
        assert len(moved) <= 2
        assert all(abs(move[0]) <= 1 and abs(move[2]) <= 5 for move in moved)


def test_a_stop_ends_a_mapper_between_batches() -> None:
    endless = MapperSettings(
        "m", "def mapper(any):\n    while True:\n        pass\n", (("any", "number"),), ("a",), max_steps=10**8
    )
    connection, stop = DuckConnection("UTC", "200MB", 1, {}), Flag()
    connection.run('CREATE TABLE rows AS SELECT 1::BIGINT AS "$tick", 1::DOUBLE AS "any" FROM range(100000)')
    source, timer = PairSource(connection, endless, constant_work=False), Timer(0.2, stop.set)
    timer.start()
    with pytest.raises(StopRequestedError), interrupt_on_stop(stop, connection):
        list(source.iterate_tables("rows", "true"))
    connection.close()


def test_unit_bounds_of_a_tick_come_before_the_program(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    path.write_text("\n".join(json_line({"hours": 2, "note": "a", "any": 1, "flag": False}) for _ in range(9)) + "\n")
    (row,) = sums(scan_file(path, [COUNTED], unit=Tick(4))).values()
    assert row[0] == 4


def test_no_rows_take_the_steps_of_one() -> None:
    connection, fuel = DuckConnection("UTC", "200MB", 1, {}), []
    connection.run('CREATE TABLE typed ("$tick" BIGINT, note VARCHAR, "any" DOUBLE, flag BOOLEAN, ts TIMESTAMP)')
    for statement in ("SELECT 1", "INSERT INTO typed VALUES (1, '', 0, false, TIMESTAMP '1970-01-01')"):
        connection.run(statement)
        source = PairSource(connection, MAPPER, constant_work=True)
        assert len(list(source.iterate_tables("typed", "true"))) == 1
        fuel.append(source.executor.fuel_used)
    connection.close()
    assert fuel[0] == fuel[1] > 0
