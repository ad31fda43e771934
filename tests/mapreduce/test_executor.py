"""The compiled mapper equals the interpreter to the bit, in any order and any batch."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from streamgauge.mapreduce.columns import RecordColumn, TextColumn, build_column, read_record
from streamgauge.mapreduce.executor import MappedPairs, MapperExecutor
from streamgauge.mapreduce.interpreter import run_record
from streamgauge.mapreduce.parser import parse_mapper
from streamgauge.mapreduce.program import MapperProgram
from tests.support.random_mappers import COLUMNS, KEYS, MapperWriter, draw_columns

pytest.importorskip("wasmtime")

Pairs = list[tuple[tuple[int, str], ...]]


def write_program(seed: int, **settings: Any) -> MapperProgram:
    source = MapperWriter(random.Random(seed)).write()
    given: dict[str, Any] = {"max_pairs": 3, "max_steps": 2000, **settings}
    return parse_mapper(source, COLUMNS, KEYS, **given)


def build_columns(seed: int, records: int) -> dict[str, RecordColumn]:
    return {
        name: build_column(COLUMNS[name], items) for name, items in draw_columns(random.Random(seed), records).items()
    }


def list_pairs(pairs: MappedPairs, records: int) -> Pairs:
    """Return the pairs of each record, with the bits of their values."""
    found: list[list[tuple[int, str]]] = [[] for _ in range(records)]
    for record, key, value in zip(pairs.records, pairs.keys, pairs.values, strict=True):
        found[record].append((int(key), float(value).hex()))
    return [tuple(each) for each in found]


def interpret(program: MapperProgram, columns: Mapping[str, RecordColumn], records: int) -> Pairs:
    runs = [run_record(program, read_record(columns, place)) for place in range(records)]
    return [tuple((key, float(value).hex()) for key, value in run.pairs) for run in runs]


def select(columns: Mapping[str, RecordColumn], order: list[int]) -> dict[str, RecordColumn]:
    return {
        name: TextColumn.from_items([column.item(i) for i in order])
        if isinstance(column, TextColumn)
        else column[order]
        for name, column in columns.items()
    }


@pytest.mark.parametrize("seed", range(80))
def test_compiled_mappers_equal_the_interpreter(seed: int) -> None:
    program, columns = write_program(seed), build_columns(seed, 25)
    assert list_pairs(MapperExecutor(program).run(columns), 25) == interpret(program, columns, 25)


@pytest.mark.parametrize("seed", range(12))
def test_steps_run_out_at_the_same_number(seed: int) -> None:
    columns = build_columns(seed, 12)
    steps = sorted({run_record(write_program(seed), read_record(columns, i)).steps for i in range(12)})
    for most in {step + more for step in steps[:6] for more in (-1, 0)} - {0}:
        program = write_program(seed, max_steps=most)
        assert list_pairs(MapperExecutor(program).run(columns), 12) == interpret(program, columns, 12)


@pytest.mark.parametrize("seed", range(6))
def test_order_and_batches_change_no_record(seed: int) -> None:
    program, columns, records = write_program(seed), build_columns(seed, 60), 60
    expected = list_pairs(MapperExecutor(program).run(columns), records)
    order = random.Random(seed).sample(range(records), records)
    for size in (1, 7, 60):
        executor = MapperExecutor(program, batch_records=size, constant_work=size == 7)
        found = list_pairs(executor.run(select(columns, order)), records)
        assert found == [expected[place] for place in order]


def test_memory_is_erased_after_each_batch() -> None:
    program = write_program(3)
    executor = MapperExecutor(program)
    executor.run(build_columns(1, 0))
    executor.run(build_columns(1, 1))
    first = executor.memory.copy()
    executor.run(build_columns(2, 50))
    assert np.array_equal(first, executor.memory)


def test_texts_beyond_a_batch_are_cut_into_batches() -> None:
    source = "def mapper(s):\n    emit('n', len(s))\n"
    program = parse_mapper(source, {"s": "text"}, ["n"], max_steps=10_000)
    column = build_column("text", ["x" * 5000] * 3000)
    pairs = MapperExecutor(program).run({"s": column})
    assert pairs.values.tolist() == [4096.0] * 3000
    assert pairs.records.tolist() == list(range(3000))


def test_numbers_can_be_keys() -> None:
    source = "def mapper(t):\n    emit(t.hour, 1)\n"
    program = parse_mapper(source, {"t": "time"}, [9, 3, 23], max_steps=100)
    times = np.array(["2026-01-05T03:10", "2026-01-05T23:59:59.9", "2026-01-05T04", "NaT"], "datetime64[us]")
    assert MapperExecutor(program).run({"t": build_column("time", times)}).keys.tolist() == [1, 2]


def test_no_records_give_no_pairs() -> None:
    pairs = MapperExecutor(write_program(1)).run(build_columns(1, 0))
    assert len(pairs.records) == len(pairs.keys) == len(pairs.values) == 0


def test_names_of_helpers_are_apart_from_their_results() -> None:
    source = "def g(n):\n    result = 'a'\n    return n + len(result)\ndef mapper(a):\n    emit(1, g(a))\n"
    program = parse_mapper(source, {"a": "number"}, [1], max_steps=100)
    columns = {"a": build_column("number", [1.0])}
    assert list_pairs(MapperExecutor(program).run(columns), 1) == interpret(program, columns, 1)
