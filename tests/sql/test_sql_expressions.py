"""Random expressions of the dialect, run by the real engine over hostile rows: total and bounded."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import grouping as domains
from streamgauge.sql.expressions import Expression, Interval, build_predicate
from streamgauge.sql.scope import build_stream_column
from tests.support.sql_clinic import HOSTILE, STREAM, engine, expression

PRESENT = [name for name in HOSTILE if name not in ("sensor", "ts")]

LEAVES = """temperature age change raw storey floor sites.area 0 1 2.5 0.1 7 1e300 1e-300 NULL
    9007199254740993 hour(ts) isodow(ts) year(ts) year(born) note::DOUBLE fever::DOUBLE"""
NUMBERS = st.sampled_from(LEAVES.split())
TEXTS = st.sampled_from(["region", "ward", "note", "v", "room", "'a'", "'o''east'", "NULL", "CAST(raw AS TEXT)"])
TRUTHS = st.sampled_from(
    ["fever", "TRUE", "NULL", "CAST(note AS BOOLEAN)", "CAST(age AS BOOLEAN)", "ts > '2026-01-04'"]
)


@st.composite
def numbers(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(NUMBERS)
    a, b, c = (draw(numbers(depth=draw(st.integers(0, depth - 1)))) for _ in range(3))
    truth = draw(truths(depth=depth - 1))
    forms = [f"({a} {sign} {b})" for sign in "+-*/%"]
    forms += [f"-{a}", f"ABS({a})", f"FLOOR({a})", f"CEIL({a})", f"ROUND({a})", f"ROUND({a}, 2)", f"ROUND({a}, -1)"]
    forms += [f"LEAST({a}, {b})", f"GREATEST({a}, {b}, {c})", f"COALESCE({a}, {b})", f"NULLIF({a}, 7)"]
    forms += [f"CASE WHEN {truth} THEN {a} WHEN {b} > {c} THEN {b} ELSE {c} END", f"CASE {a} WHEN 1 THEN {b} END"]
    return draw(st.sampled_from(forms))


@st.composite
def truths(draw: st.DrawFn, depth: int = 3) -> str:
    if depth <= 0:
        return draw(TRUTHS)
    a, b = (draw(numbers(depth=draw(st.integers(0, depth - 1)))) for _ in range(2))
    s, t = draw(TEXTS), draw(TEXTS)
    p, q = (draw(truths(depth=depth - 1)) for _ in range(2))
    forms = [f"({a} {sign} {b})" for sign in ("=", "<>", "<", "<=", ">", ">=")] + [f"({s} = {t})", f"({s} < {t})"]
    forms += [f"({p} AND {q})", f"({p} OR {q})", f"(NOT {p})", f"({p} IS TRUE)", f"({p} IS NOT FALSE)"]
    forms += [f"({a} IS NULL)", f"({a} IS NOT NULL)", f"({s} IS NOT NULL)", f"({a} BETWEEN {b} AND 5)"]
    forms += [f"({a} NOT IN (1, 2, 0.1))", f"({s} IN ('a', 'north'))", f"({s} LIKE '%a_%')", f"({s} NOT LIKE 'a%')"]
    forms += [f"(LOWER({s}) = UPPER({t}))", f"(COALESCE({s}, {t}) = 'a')", f"(NULLIF({s}, 'a') = {t})"]
    return draw(st.sampled_from(forms))


def broken(found: Expression, connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Yield the guarantees that an expression breaks on the hostile rows."""
    columns = ", ".join(f'"{name}" IS NULL' for name in PRESENT)
    try:
        answers = connection.execute(f"SELECT typeof({found.sql}), {found.sql}, {columns} FROM rows").fetchall()
    except duckdb.Error as error:
        yield f"raises {type(error).__name__}"
        return
    for kind, value, *missing in answers:
        absent = {name for name, is_missing in zip(PRESENT, missing, strict=True) if is_missing}
        yield from broken_by(found, kind, value, absent)


STRICTER = "SET ieee_floating_point_ops = false"  # a division by zero raises, and prints its operands


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with engine() as connection:
        yield connection


@pytest.fixture(scope="module")
def strict() -> Iterator[duckdb.DuckDBPyConnection]:
    with engine(STRICTER) as connection:
        yield connection


@pytest.fixture(scope="module")
def engines(
    plain: duckdb.DuckDBPyConnection, strict: duckdb.DuckDBPyConnection
) -> tuple[duckdb.DuckDBPyConnection, ...]:
    return plain, strict


KINDS = {"number": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN"}


def broken_by(found: Expression, kind: str, value: object, absent: set[str]) -> Iterator[str]:
    if kind != KINDS[found.kind]:
        yield f"has the type {kind}"
    if value is None:
        if not found.nullable:
            yield "is NULL"
        return
    if found.needs & absent:
        yield "is not NULL where a column that it needs is"
    if isinstance(value, bool) and (found.if_true if value else found.if_false) & absent:
        yield f"is {value} where a column is NULL that cannot be"
    if isinstance(value, float) and not (math.isfinite(value) and found.span.contains(value)):
        yield f"leaves {found.span}: {value}"
    if found.labels is not None and value not in found.labels:
        yield f"is {value}, which is no label"
    grid = found.grid
    if isinstance(value, float) and grid and grid.is_exact and (Fraction(value) % grid.step if grid.step else value):
        yield f"leaves the grid {grid}: {value}"


Engines = tuple[duckdb.DuckDBPyConnection, ...]


@pytest.mark.slow
@settings(max_examples=200)
@given(sql=numbers() | truths() | TEXTS)
def test_expressions_never_raise_and_stay_in_their_bounds(engines: Engines, sql: str) -> None:
    try:
        found = expression(sql)
    except InvalidReleaseError:
        return
    if found.kind != "null":
        assert not {law for each in engines for law in broken(found, each)}


@settings(max_examples=60)
@given(sql=numbers(depth=2) | truths(depth=1) | TEXTS)
def test_group_codes_are_below_the_number_of_labels(plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        found = expression(sql)
        group = domains.build_group_column("g", found, sql)
    except InvalidReleaseError:
        return
    answers = plain.execute(f"SELECT {found.sql}, {group.code}, typeof({group.code}) FROM rows").fetchall()
    for value, code, kind in answers:
        assert kind == "INTEGER"
        assert (code is None) == (value is None)
        if code is not None:
            assert 0 <= code < len(group.labels)
            assert found.labels is None or group.labels[code] == value


@settings(max_examples=100)
@given(sql=numbers(depth=2))
def test_clamping_bounds_unbounded_expressions(sql: str) -> None:
    try:
        found = expression(f"LEAST(GREATEST({sql}, -1e6), 1e6)")
    except InvalidReleaseError:
        return
    assert Interval(-1e6, 1e6) & found.span == found.span


NULL_RULES = [
    ("1 / 0", None, "division by zero is NULL"),
    ("0 / 0", None, "and so is 0 / 0"),
    ("5 % 0", None, "and the remainder"),
    ("1e300 * 1e300", None, "overflow is NULL"),
    ("-1e300 * 1e300", None, "in both directions"),
    ("1 + NULL", None, "NULL in, NULL out"),
    ("-7 % 5", -2.0, "remainders have the sign of the dividend"),
    ("ROUND(-2.5)", -3.0, "halves go away from zero"),
    ("ROUND(17, -1)", 20.0, "also left of the point"),
    ("CAST('nan' AS DOUBLE)", None, "NaN is no number"),
    ("CAST('-inf' AS DOUBLE)", None, "nor is infinity"),
    ("CAST('twelve' AS DOUBLE)", None, "what cannot be read is NULL"),
    ("CAST(' 12 ' AS DOUBLE)", 12.0, "spaces around a number are none"),
    ("CAST('maybe' AS BOOLEAN)", None, "nor can this be read"),
    ("CAST(0.5 AS BOOLEAN)", True, "what is not 0 is true"),
    ("CAST(TRUE AS DOUBLE)", 1.0, "true is 1"),
    ("CAST(38 AS TEXT)", "38.0", "numbers are doubles"),
    ("NULL = 1", None, "comparisons with NULL are NULL"),
    ("NULL IS NULL", True, "but this is not"),
    ("FALSE AND NULL", False, "AND knows when it is false"),
    ("TRUE OR NULL", True, "OR knows when it is true"),
    ("NOT CAST(NULL AS BOOLEAN)", None, "NOT does not"),
    ("LEAST(NULL, 3)", 3.0, "LEAST ignores NULLs"),
    ("GREATEST(1 / 0, 0)", 0.0, "so does GREATEST"),
    ("COALESCE(1 / 0, 5)", 5.0, "COALESCE takes the first that is there"),
    ("NULLIF(5, 5)", None, "NULLIF takes a value away"),
    ("NULLIF(CAST(NULL AS DOUBLE), 5)", None, "and keeps NULL"),
    ("CASE WHEN NULL THEN 1 ELSE 2 END", 2.0, "a condition that is NULL is not true"),
    ("CASE WHEN FALSE THEN 1 END", None, "without ELSE there is NULL"),
    ("CASE 3 WHEN NULL THEN 1 WHEN 3 THEN 2 END", 2.0, "NULL matches nothing"),
    ("3 BETWEEN 5 AND NULL", False, "BETWEEN is two comparisons"),
    ("3 BETWEEN 1 AND NULL", None, "of which one is not known"),
    ("'a\\b' LIKE 'a\\b'", True, "backslashes are letters"),
    ("'it''s' = 'it''s'", True, "a quote is doubled"),
    ("'A' LIKE 'a'", False, "case matters"),
    ("LOWER('ÄB')", "äb", "letters of all alphabets"),
]


@pytest.mark.parametrize(("sql", "expected", "why"), NULL_RULES, ids=[rule[0] for rule in NULL_RULES])
def test_results_are_defined_even_if_engines_differ(engines: Engines, sql: str, expected: object, why: str) -> None:
    found = expression(sql)
    for each in engines:
        assert each.execute(f"SELECT {found.sql}").fetchall() == [(expected,)], why


AGE, RAW, NOTE, CHANGE = (build_stream_column(STREAM.columns[name]) for name in ("age", "raw", "note", "change"))
TWINS = [
    ("raw division", replace(RAW, sql='("raw" / "age")')),
    ("raw remainder", replace(RAW, sql='("raw" % "age")')),
    ("a product that overflows", replace(RAW, sql='("raw" * "raw")')),
    ("a cast that raises", replace(RAW, sql='CAST("note" AS DOUBLE)', needs=NOTE.needs)),
    ("a cast that reads NaN", replace(RAW, sql='TRY_CAST("note" AS DOUBLE)', needs=NOTE.needs)),
    ("DECIMAL literals", replace(AGE, sql='("age" * 0 + 0.1)', span=Interval(0.0, 0.0))),
    ("an interval an ulp too narrow", replace(CHANGE, span=Interval(-2.4999999999999996, 0.3))),
    ("NULL where it was ruled out", replace(AGE, nullable=False)),
    ("GREATEST that needs its operands", replace(AGE, sql='greatest("age", 0e0)')),
    ("OR that needs both sides", build_predicate('("age" > 5e0 OR "raw" > 5e0)', (AGE, RAW))),
    ("a grid that is only natural", replace(AGE, grid=replace(AGE.grid, is_exact=True))),
    ("a label too few", replace(build_stream_column(STREAM.columns["region"]), labels=("north", "south"))),
]


@pytest.mark.parametrize("twin", [twin for _, twin in TWINS], ids=[name for name, _ in TWINS])
def test_an_emission_that_breaks_a_promise_is_caught(engines: Engines, twin: Expression) -> None:
    assert {law for each in engines for law in broken(twin, each)}


def test_guarded_division_does_not_raise_unlike_raw_division(strict: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error):
        strict.execute('SELECT "raw" / "age" FROM rows').fetchall()
    found = expression("raw / age")
    assert strict.execute(f"SELECT count({found.sql}) FROM rows").fetchall() != [(0,)]


def test_emitted_text_grows_linearly_with_query_depth(plain: duckdb.DuckDBPyConnection) -> None:
    deep = shallow = "raw"
    for level in range(25):
        deep = f"NULLIF({deep} / age, 3)"
        shallow = deep if level == 4 else shallow
    assert len(expression(deep).sql) < 6 * len(expression(shallow).sql)
    assert not set(broken(expression(deep), plain))
