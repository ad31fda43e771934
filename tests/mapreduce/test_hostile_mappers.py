"""Hostile mappers: each costs at most `max_steps`, keeps nothing between records, and gives declared pairs only."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from streamgauge.mapreduce.columns import build_column
from streamgauge.mapreduce.errors import MapperError
from streamgauge.mapreduce.executor import MappedPairs, MapperExecutor
from streamgauge.mapreduce.parser import parse_mapper
from streamgauge.mapreduce.program import MapperProgram

pytest.importorskip("wasmtime")

MAX_STEPS = 20_000
FUEL_PER_STEP = 60  # instructions of WebAssembly: far more than any step takes
FUEL_PER_RECORD = 500_000  # the operations of one block, and the pairs of a record
COLUMNS: Any = {"x": "number", "s": "text"}
ENDLESS = {
    "while": "while True:\n        pass",
    "while that continues": "while x == x:\n        continue",
    "range": "for i in range(1e18):\n        pass",
    "range that cannot grow": "for i in range(9007199254740992, 9007199254740999):\n        pass",
    "nested": "for i in range(1e6):\n        for j in range(1e6):\n            emit('k', j)",
    "search": "while True:\n        x = s.find('aaaaaaaab')",
    "comparison": "while s == s:\n        pass",
    "copies": "while True:\n        w = s.lower()",
    "numbers": "while True:\n        x = number(s)",
    "parts": "while True:\n        for w in s.split('a'):\n            emit(w, 1)",
    "part": "while True:\n        w = s.split('a')[1000]",
    "white space": "while True:\n        for w in s.split():\n            pass",
}


def build_program(body: str, keys: Any = ("k", "j"), **settings: Any) -> MapperProgram:
    given: dict[str, Any] = {"max_pairs": 2, "max_steps": MAX_STEPS, **settings}
    return parse_mapper(f"def mapper(x, s):\n    {body}\n", COLUMNS, keys, **given)


def run(program: MapperProgram, numbers: list[float], texts: list[str], **settings: Any) -> MappedPairs:
    columns = {"x": build_column("number", numbers), "s": build_column("text", texts)}
    return MapperExecutor(program, **settings).run(columns)


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("text", ["", "a" * 4096, " a" * 2048])
def test_endless_mappers_stop_and_give_nothing(body: str, text: str) -> None:
    executor = MapperExecutor(build_program(f"emit('k', 1)\n    {body}"))
    pairs = executor.run({"x": build_column("number", [1.0] * 3), "s": build_column("text", [text] * 3)})
    assert executor.fuel_used <= 3 * (MAX_STEPS * FUEL_PER_STEP + FUEL_PER_RECORD)
    if "part" not in body and "split('a')" not in body:
        assert len(pairs.records) == 0


def test_texts_cannot_grow() -> None:
    for body in ("s = s + s", "s += s", "s = s * 2", "s = f'{s}{s}'", "s = s.replace('a', 'aa')", "s = s.join(s)"):
        with pytest.raises(MapperError):
            build_program(f"for i in range(60):\n        {body}")


def test_copies_of_texts_have_a_bound() -> None:
    program = build_program("for i in range(17):\n        s = s.upper()\n    emit('k', 1)", max_steps=10**6)
    assert len(run(program, [0.0], ["a" * 4096]).records) == 0
    assert len(run(program, [0.0], ["a" * 2048]).records) == 1


def test_records_cannot_be_counted() -> None:
    for source in (
        "seen = 0\ndef mapper(x):\n    global seen\n    seen += 1",
        "def mapper(x, seen=[]):\n    seen.append(x)",
        "def mapper(x):\n    mapper.seen = 1",
        "def mapper(x):\n    n = n + 1\n    emit('k', n)",
    ):
        with pytest.raises(MapperError):
            parse_mapper(source, COLUMNS, ["k"], max_steps=100)


def test_chosen_keys_cost_no_more_than_others() -> None:
    """Keys that FNV-1a, a public hash, would put into neighbouring slots of a table."""
    slots = {"": 0x811C9DC5}
    for _ in range(3):
        slots = {
            text + chr(byte): (state ^ byte) * 0x01000193 % 2**32
            for text, state in slots.items()
            for byte in range(ord("a"), ord("z") + 1)
        }
    colliding = sorted(slots, key=lambda text: slots[text] % 4096)[:2000]
    fuel = []
    for keys in (colliding, [f"{place:03x}" for place in range(2000)]):
        executor = MapperExecutor(build_program("while True:\n        emit(s, 1)", keys=keys))
        executor.run({"x": np.zeros(1), "s": build_column("text", [keys[-1]])})
        fuel.append(executor.fuel_used)
    assert max(fuel) < 2 * min(fuel)


def test_a_slow_marker_record_changes_no_other() -> None:
    program = build_program("if s == 'marker':\n        while True:\n            x += 1\n    emit('k', x)")
    numbers, texts = [1.0, 2.0, 3.0], ["a", "marker", "b"]
    pairs = run(program, numbers, texts)
    assert pairs.records.tolist() == [0, 2]
    assert pairs.values.tolist() == [1.0, 3.0]


def test_constant_work_spends_the_steps_of_short_records() -> None:
    program = build_program("if s == 'marker':\n        while True:\n            x += 1\n    emit('k', x)")
    fuel = {}
    for text in ("marker", "a"):
        for constant in (False, True):
            executor = MapperExecutor(program, constant_work=constant)
            executor.run({"x": build_column("number", [1.0]), "s": build_column("text", [text])})
            fuel[text, constant] = executor.fuel_used
    assert fuel["a", False] < fuel["marker", False] / 50
    assert fuel["a", True] > fuel["marker", True] / 3


@pytest.mark.parametrize(
    "body",
    [
        "w = s[9999]",
        "w = s.split('/')[9]",
        "for i in range(17):\n            w = s.upper()",
        "x = number(s)\n        while True:\n            x = number(s)",
        "x = " + "+".join(["x"] * 200) + "\n        x = " + "+".join(["x"] * 200),
    ],
    ids=["character", "part", "memory", "text", "block"],
)
def test_records_that_fail_spend_the_steps_of_others(body: str) -> None:
    steps = 200_000 if "range" in body else 399
    program = build_program(f"if len(s) > 0:\n        {body}\n    emit('k', 1)", max_steps=steps)
    fuel = {}
    for text in ("a" * 4096, ""):
        executor = MapperExecutor(program, constant_work=True)
        pairs = executor.run({"x": np.zeros(1), "s": build_column("text", [text])})
        fuel[len(pairs.records)] = executor.fuel_used  # by number of pairs
    assert fuel[0] > fuel[1] / 2


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_values_that_are_not_finite_are_dropped(value: float) -> None:
    pairs = run(build_program("emit('k', x)\n    emit('j', x / 0)\n    emit('k', 5)"), [value, 1.0], ["", ""])
    assert pairs.values.tolist() == [5.0, 6.0]


def test_a_sum_that_overflows_is_dropped() -> None:
    pairs = run(build_program("emit('k', x)\n    emit('k', x)\n    emit('j', 1)"), [1.7e308], [""])
    assert pairs.keys.tolist() == [1]


def test_a_million_pairs_are_few() -> None:
    program = build_program("for i in range(1e6):\n        emit(i, 1)", keys=range(1000), max_steps=10**8, max_pairs=3)
    pairs = run(program, [0.0], [""])
    assert pairs.keys.tolist() == [0, 1, 2]


def test_undeclared_keys_never_come_out() -> None:
    program = build_program("for w in s.split():\n        emit(w, 1)")
    pairs = run(program, [0.0], ["secret k kk K j\u0000 j secret"])
    assert pairs.keys.tolist() == [0, 1]


def test_memory_has_a_fixed_size() -> None:
    program = build_program("for w in s.split('a'):\n        emit('k', len(w.lower()))", max_steps=10**6)
    executor = MapperExecutor(program)
    sizes = set()
    for records in (1, 100, 20_000):
        executor.run({"x": np.zeros(records), "s": build_column("text", ["ab" * 100] * records)})
        sizes.add(len(executor.memory))
    assert sizes == {executor.layout.pages * 2**16}


def test_items_of_any_type_are_read_alone() -> None:
    items: list[Any] = [1, None, "7", object(), 10**400, True, [1], b"\xff"]
    assert build_column("number", np.array(items, object)).tolist()[0] == 1.0
    texts = build_column("text", np.array(items, object))
    assert [texts.item(place) for place in range(len(items))] == [b"", b"", b"7", b"", b"", b"", b"", b"\xff"]
