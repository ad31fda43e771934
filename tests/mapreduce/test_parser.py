"""Sources of mappers: the allowed language, and refusals that name the line and a replacement."""

import sys
from types import FrameType
from typing import Any

import pytest

from streamgauge.mapreduce.compiler import compile_program
from streamgauge.mapreduce.errors import MapperError
from streamgauge.mapreduce.interpreter import run_record
from streamgauge.mapreduce.memory_layout import MemoryLayout
from streamgauge.mapreduce.parser import MAX_NODES, parse_mapper
from streamgauge.mapreduce.program import MapperProgram

COLUMNS: Any = {"x": "number", "y": "number", "s": "text", "t": "time", "f": "bool"}


def parse(body: str, *, before: str = "", keys: Any = ("k", "j"), **settings: Any) -> MapperProgram:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    given = {"max_pairs": 2, "max_steps": 10_000, **settings}
    return parse_mapper(f"{before}def mapper(x, y, s, t, f):\n{lines}\n", COLUMNS, keys, **given)


def evaluate(expression: str, **record: Any) -> float:
    known: dict[str, Any] = {"x": 0.0, "y": 0.0, "s": b"", "t": 0.0, "f": False, **record}
    return dict(run_record(parse(f'emit("k", {expression})'), known).pairs)[0]


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("import os", 2, "nothing can be imported"),
        ("emit('k', t)", 2, "t.hour, or the difference of two times"),
        ("emit('k', x > 1)", 2, "1 if ... else 0"),
        ("if s:\n    pass", 2, 'a comparison, such as text != ""'),
        ("emit('k', round(x))", 2, "floor(x + 0.5)"),
        ("emit('k', t.hour())", 2, "write t.hour"),
        ("for i in range(0, 9, 2):\n    pass", 2, "a while loop"),
        ("x = 1\nseen = []", 3, "values in names of their own"),
        ("x ** 2", 2, "emit(key, value)"),
        ("y = x ** 2", 2, "write x * x"),
        ("y = x << 2", 2, "operators must be"),
        ("global z", 2, "no value outlives a record"),
        ("try:\n    x = 1\nexcept E:\n    pass", 2, "gives no pairs"),
        ("print(x)", 2, "emit(key, value)"),
        ("y = eval(s)", 2, "functions must be the mapper's own"),
        ("y = s.__class__", 2, "attributes must be"),
        ("y = s.format(x)", 2, "methods must be"),
        ("y = t.hour()", 2, "methods must be"),
        ("z = s + s", 2, "so that none grows"),
        ("z = s * 3", 2, "so that none grows"),
        ("z = f'{x}'", 2, "one for each text"),
        ("z = [i for i in s]", 2, "a for loop"),
        ("z = lambda: 1", 2, "a def"),
        ("if x:\n    pass", 2, "such as x != 0"),
        ("if s < 'a':\n    pass", 2, "compared by == or !="),
        ("if x == s:\n    pass", 2, "number(...)"),
        ("if x is None:\n    pass", 2, "comparisons must be"),
        ("for c in s:\n    pass", 2, "for i in range(n):"),
        ("w = s.split(' ')", 2, "sequence of a for loop"),
        ("w = s.split(s)[0]", 2, "literal"),
        ("w = s.split(' ')[-1]", 2, "numbered from 0"),
        ("w = s[::2]", 2, "no step"),
        ("w = s.split(' ')[1:2]", 2, "numbered from 0"),
        ("return x", 2, "return no value"),
        ("emit('other', 1)", 2, "keys must be declared ('k', 'j')"),
        ("emit(x, 1)", 2, "must be a text"),
        ("emit('k', s)", 2, "number(...) around a text"),
        ("emit('k')", 2, "write emit(key, value)"),
        ("y = emit('k', 1)", 2, "functions must be"),
        ("break", 2, "inside of a loop"),
        ("x = s", 2, "x must stay a number"),
        ("len = 1", 2, "not be those of functions"),
        ("if f:\n    z = 1\nemit('k', z)", 4, "on every path"),
        ("for i in range(3):\n    z = 1\nemit('k', z)", 4, "on every path"),
        ("emit('k', i)", 2, "on every path"),
        ("a, b = x, y", 2, "name = value"),
        ("s[0] = 'a'", 2, "name = value"),
        ("del x", 2, "need not be deleted"),
        ("while f:\n    pass\nelse:\n    pass", 2, "statements must be"),
        ("z = None", 2, "constants must be"),
        ("z = 1e999", 2, "finite"),
        ("z = abs(x=1)", 2, "no names"),
        ("z = abs(*s)", 2, "no names"),
        ("z = min(x)", 2, "two arguments"),
        ("class A:\n    pass", 2, "a def"),
        ("def g():\n    pass", 2, "statements must be"),
        ("yield x", 2, "emit"),
        ("await x", 2, "emit"),
        ("z = (q := 1)", 2, "an assignment before it"),
        ("z = f == True", 2, "not be compared"),
        ("z = t + 1", 2, "must be a number"),
        ("z = ~x", 2, "operators"),
        ("match x:\n    case 1:\n        pass", 2, "if and elif"),
    ],
)
def test_refusals_name_line_and_replacement(body: str, line: int, words: str) -> None:
    with pytest.raises(MapperError) as refusal:
        parse(body)
    assert refusal.value.line == line
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1", "it inside of def mapper"),
        ("def other(x):\n    pass", "source must define mapper"),
        ("def mapper(z):\n    pass", "must be columns (f, s, t, x, y), got z"),
        ("def mapper(x, *more):\n    pass", "parameters must be different plain names"),
        ("def mapper():\n    emit('k', 1)", "mapper must have one or more columns"),
        ("def g(a, a):\n    return a\ndef mapper(x):\n    emit('k', g(x, x))", "different plain names"),
        ("def mapper(x=1):\n    pass", "parameters must be different plain names"),
        ("@cache\ndef mapper(x):\n    pass", "functions only"),
        ("async def mapper(x):\n    pass", "functions only"),
        ("def emit(x):\n    pass", "none of a built-in"),
        ("def mapper(x):\n    pass\ndef mapper(x):\n    pass", "different names"),
        ("def mapper(x:\n    pass", "source must be Python"),
        ("def mapper(x):\n    y = " + "(" * 500 + "x" + ")" * 500, "Python"),
        ("def mapper(x):\n    y = " + "-" * 5000 + "x", "nested"),
        ("x" * 100_000, "at most 65,536"),
        ("def mapper(x):\n    y = '\\ud800' == '\\ud800'", "UTF-8"),
    ],
)
def test_other_sources_are_refused(source: str, words: str) -> None:
    with pytest.raises(MapperError) as refusal:
        parse_mapper(source, COLUMNS, ["k"], max_steps=100)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("helper", "call", "words"),
    [
        ("def g(a):\n    return g(a)\n", "y = g(x)", "must not call itself"),
        ("def g(a):\n    return h(a)\ndef h(a):\n    return g(a)\n", "y = g(x)", "must not call itself"),
        ("def g(a):\n    return mapper(a)\n", "y = g(x)", "functions must be the mapper's own"),
        ("def g(a):\n    if a > 1:\n        return a\n", "y = g(x)", "on every path"),
        ("def g(a):\n    if a > 1:\n        return\n    return a\n", "y = g(x)", "on every path"),
        ("def g(a):\n    if a > 1:\n        return 'x'\n    return a\n", "y = g(x)", "one kind"),
        ("def g(a):\n    emit('k', a)\n    return a\n", "y = g(x)", "must not emit"),
        ("def g(a):\n    return a\n", "g(x)", "value of a function must be used"),
        ("def g(a):\n    return a\n", "y = g(x, 1)", "must have 1 arguments"),
        ("def g(a):\n    break\n", "for i in range(3):\n    g(x)", "inside of a loop"),
        ("def g(a):\n    return z\n", "z = 1\ny = g(x)", "on every path"),
    ],
)
def test_refusals_of_own_functions(helper: str, call: str, words: str) -> None:
    with pytest.raises(MapperError) as refusal:
        parse(call, before=helper)
    assert words in str(refusal.value)


def test_inlining_is_bounded() -> None:
    doubling = "".join(f"def g{n + 1}(a):\n    return g{n}(a) + g{n}(a)\n" for n in range(40))
    with pytest.raises(MapperError, match=f"{MAX_NODES:,}"):
        parse("y = g40(x)", before=f"def g0(a):\n    return a\n{doubling}")


def test_repeated_operands_are_bounded() -> None:
    nested = "s"
    for _ in range(30):
        nested = f'("a" if {nested} in ("a", "b") else "b")'
    with pytest.raises(MapperError, match=f"{MAX_NODES:,}|nested"):
        parse(f"z = {nested}")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keys": []}, "keys must be 1 to"),
        ({"keys": ["a", "a"]}, "different"),
        ({"keys": ["a", 1]}, "texts, or whole numbers"),
        ({"keys": [True]}, "texts, or whole numbers"),
        ({"keys": "abc"}, "keys must be"),
        ({"max_pairs": 0}, "max_pairs must be"),
        ({"max_pairs": 10**6}, "max_pairs must be"),
        ({"max_steps": 0}, "max_steps must be"),
        ({"max_steps": 2.5}, "max_steps must be"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(MapperError, match=words):
        parse("pass", **settings)


@pytest.mark.parametrize(
    ("expression", "record"),
    [
        ("x // y + x % y", {"x": -7.0, "y": 2.0}),
        ("x - y * (x // y)", {"x": 2.0**53 - 1, "y": 3.0}),
        ("min(x, y, 2) + max(x, y, 1)", {"x": 4.0, "y": -2.0}),
        ("int(x) + abs(x)", {"x": -2.5}),
        ("len(s[1:-1]) + len(s[-2:]) + len(s[9:])", {"s": b"abcdef"}),
        ("s.find('c') + s.find('z')", {"s": b"abcdef"}),
        ("1 if 1 < x <= 3 and s.startswith('ab') else 2", {"x": 3.0, "s": b"abc"}),
        ("1 if s.lower() in ('abc', 'x') else 2", {"s": b"ABC"}),
        ("1 if 'b' in s and not f else 2", {"s": b"abc"}),
        ("len(s.strip().upper()) * 10 + s.upper().find('B')", {"s": b" ab "}),
        ("1 if s.split(',')[1] == 'b' else 2", {"s": b"a,b,c"}),
        ("1 if s[-1] == 'c' else 2", {"s": b"abc"}),
    ],
)
def test_expressions_mean_what_python_means(expression: str, record: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"x": 0.0, "y": 0.0, "s": b"", "f": False, **record}
    expected = eval(expression, {}, {**plain, "s": plain["s"].decode()})
    assert evaluate(expression, **record) == expected


@pytest.mark.parametrize(
    ("expression", "number"),
    [("t.hour", 14), ("t.minute", 5), ("t.second", 9), ("t.day", 29), ("t.month", 2), ("t.year", 2024)],
)
def test_clock_and_calendar(expression: str, number: int) -> None:
    moment = 1_709_215_509_250_000.0  # 2024-02-29 14:05:09.25, a Thursday
    assert evaluate(expression, t=moment) == number
    assert evaluate("t.weekday()", t=moment) == 3
    assert evaluate("t.weekday()", t=-86_400e6) == 2


def test_differences_of_times_are_seconds() -> None:
    program = parse_mapper("def mapper(a, b):\n    emit('k', a - b)\n", {"a": "time", "b": "time"}, ["k"], max_steps=50)
    assert run_record(program, {"a": 90e6, "b": 30e6}).pairs == ((0, 60.0),)


def test_a_key_adds_up_and_takes_one_place() -> None:
    program = parse("emit('k', 1)\nemit('j', 2)\nemit('k', 3)\n", max_pairs=1)
    record = {"x": 0.0, "y": 0.0, "s": b"", "t": 0.0, "f": False}
    assert run_record(program, record).pairs == ((0, 4.0),)


def test_long_sums_and_chains_of_conditions_are_small() -> None:
    program = parse(f"emit('k', {'+'.join(['x'] * 200)})")
    assert program.body.size == 200
    branches = "if x == 0:\n    emit('k', 0)\n" + "".join(f"elif x == {i}:\n    emit('k', {i})\n" for i in range(1, 90))
    record = {"x": 89.0, "y": 0.0, "s": b"", "t": 0.0, "f": False}
    assert run_record(parse(branches), record).pairs == ((0, 89.0),)


DEEP = {  # sources with n levels
    "sum": lambda n: f"emit('k', {'+'.join(['x'] * n)})",
    "signs": lambda n: f"emit('k', {'-' * n}x)",
    "plus": lambda n: f"emit('k', {'+' * n}x)",
    "least": lambda n: f"emit('k', min({', '.join(['x'] * n)}))",
    "calls": lambda n: f"emit('k', {'abs(' * n}x{')' * n})",
    "choices": lambda n: f"emit('k', {'1 if f else ' * n}x)",
    "not": lambda n: f"if {'not ' * n}f:\n    emit('k', 1)",
    "slices": lambda n: f"emit(s{'[0:]' * n}, 1)",
    "methods": lambda n: f"emit(s{'.strip()' * n}, 1)",
    "alternating": lambda n: (
        f"if {'(' * (n // 3)}f{' and f) or f' * (n // 3)}:\n    emit('k', 1)" if n < 300 else "x.y"
    ),
    "elif": lambda n: "if f:\n    pass\n" + "elif f:\n    pass\n" * n,
    "or": lambda n: f"if {' or '.join(['f'] * n)}:\n    emit('k', 1)",
    "in": lambda n: f"if x in ({', '.join(['1'] * n)}):\n    emit('k', 1)",
    "loops": lambda n: (
        "".join("    " * i + f"for i{i} in range(1):\n" for i in range(min(n, 95))) + "    " * 99 + "pass"
    ),
    "functions": lambda n: f"emit('k', {'twice(' * n}x{')' * n})",
}


def count_frames() -> int:
    frame: FrameType | None = sys._getframe()
    found = 0
    while frame is not None:
        frame, found = frame.f_back, found + 1
    return found


@pytest.mark.parametrize("write", DEEP.values(), ids=DEEP)
def test_programs_that_parse_can_be_run_and_compiled(write: Any) -> None:
    """The stack has little more than a program may use, whatever its shape."""
    limit, accepted = sys.getrecursionlimit(), 0
    for n in (1, 10, 40, 70, 90, 110, 130, 180, 225, 400, 900, 2000):
        sys.setrecursionlimit(count_frames() + 760)
        try:
            program = parse(write(n), before="def twice(a):\n    return a + a\n")
        except MapperError:
            continue
        else:
            accepted += 1
            run_record(program, {"x": 1.0, "y": 0.0, "s": b"k", "t": 0.0, "f": True})
            assert compile_program(program, MemoryLayout(program))
        finally:
            sys.setrecursionlimit(limit)
    assert accepted >= 3


def test_deep_sources_are_refused_anywhere() -> None:
    for source in (f"a = {'+'.join(['x'] * 900)}\n", f"def mapper(x):\n    emit('k', {'-' * 900}x)\n"):
        with pytest.raises(MapperError):
            parse_mapper(source, COLUMNS, ["k"], max_steps=100)
