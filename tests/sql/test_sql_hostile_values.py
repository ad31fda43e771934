"""Hostile curators and hostile records: oversized texts and extreme numbers.

Accepted queries run on hostile rows under the strictest engine settings. They must not raise. Values must lie in
their bounds, codes must have labels, and expressions declared not NULL must not be NULL.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest

from streamgauge import Pure
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.rules import COLUMN
from streamgauge.config.settings import Column, Release
from streamgauge.engines.duckdb.aggregation import build_aggregations
from streamgauge.plan.parts import build_parts
from streamgauge.sql import scope
from streamgauge.sql.expressions import LAMBDA_ARGUMENT
from streamgauge.sql.query import Query
from tests.support.sql_clinic import STREAM, engine, query

MANY = 1000
FAR = "raw < 1e15 AND raw > 999999999999999"

REFUSED = [
    (f"SELECT COUNT(age{'[1]' * MANY}) FROM visits", "nested", "took the parser 5 seconds"),
    (f"SELECT CAST(age AS {'ARRAY<' * MANY}INT) FROM visits", "nested", "types within types"),
    (f"SELECT CAST(age AS {'STRUCT<a ' * MANY}INT) FROM visits", "nested", "types within types"),
    (f"SELECT {'INTERVAL ' * MANY}'1' day FROM visits", "nested", "a prefix nobody counts"),
    (f"SELECT {'x := ' * MANY}1 FROM visits", "nested", "to the right"),
    (f"SELECT COUNT(*) FROM visits WHERE {'age BETWEEN 1 AND ' * 900}2", "80 operations", "to the right"),
    (f"SELECT COUNT(*) FROM visits WHERE age = {'ANY ' * MANY}2", "nested", "a prefix nobody counts"),
    ("FROM " * MANY, "nested", "a table of tables"),
    ("EXPLAIN " * MANY + "SELECT 1", "EXPLAIN is refused", "statements of statements"),
    ("SELECT COUNT(*) FROM visits; EXPLAIN SELECT 1", "one SELECT", "a second statement"),
    ("SELECT COUNT(*) FROM visits WHERE note = '\ud800'", "halves", "no engine can be told it"),
    (f"SELECT COUNT(*) FROM visits WHERE age > {'9' * 30000}", "finite", "infinite in the end"),
    ("SELECT SUM(1e15+1) FROM visits", "must be like 12, 0.5 or 1e3 and stand apart, got 1e15", "one literal"),
    ("SELECT COUNT(*) FROM visits WHERE age > \uff11\uff12", "not declared", "digits that are letters"),
    ("SELECT COUNT(*) FROM visits WHERE age > 0x10", "cannot be read", "another notation"),
    ("SELECT SUM(ROUND(age, TRUE)) FROM visits", "whole number", "a truth is no number"),
    ("SELECT SUM(ROUND(age, age)) FROM visits", "whole number", "a record chooses"),
    ("SELECT SUM(ROUND(age, 16)) FROM visits", "at most 15", "beyond what doubles tell"),
    ("SELECT SUM(SUBSTR(note, -1)) FROM visits", "refused", "counts from the end"),
    ("SELECT COUNT(*) FROM visits WHERE note GLOB 'a*'", "refused", "backtracks"),
    ("SELECT COUNT(*) FROM visits WHERE note ~ 'a*'", "refused", "backtracks"),
    ("SELECT SUM(raw) FROM visits WHERE raw > 1 AND raw <= raw", "bounds", "bounded by itself"),
    ("SELECT SUM(raw) FROM visits WHERE NOT raw BETWEEN 1 AND 2", "bounds", "what is left is unbounded"),
    ("SELECT SUM(raw) FROM visits WHERE raw BETWEEN 1 AND 2 OR fever", "bounds", "one branch is unbounded"),
    ("SELECT SUM(raw) FROM visits WHERE (raw BETWEEN 1 AND 2) IS NOT TRUE", "bounds", "turned round"),
    ("SELECT SUM(temperature / change) FROM visits WHERE change < 0", "bounds", "comes near zero"),
    ("SELECT SUM(temperature / FLOOR(change)) FROM visits", "bounds", "zero is in between"),
    ("SELECT SUM(raw - raw) FROM visits", "bounds", "no number minus itself"),
    ("SELECT MAX(year(ts)) FROM visits GROUP BY year(born)", "bounds", "year 294247"),
]


@pytest.mark.parametrize(("sql", "words", "why"), REFUSED, ids=[attack[0][:60] for attack in REFUSED])
def test_a_hostile_text_is_refused_in_one_line(
    sql: str, words: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(InvalidReleaseError, match=words) as refusal:
        parts(sql)
    assert "\n" not in str(refusal.value), why
    assert not caplog.records, "the parser said something of its own"
    assert "class" not in str(refusal.value)


NEUTRALISED = [
    ("SUM(1 / GREATEST(age + 1, change))", "age IS NOT NULL", "NULL for events that WHERE drops"),
    ("SUM(1 / COALESCE(age + 1, change))", "age IS NOT NULL", "the same"),
    ("SUM(1 / GREATEST(CASE WHEN fever THEN age + 1 ELSE 1 END, change))", "age IS NOT NULL", "in disguise"),
    ("SUM(1 / LEAST(-age - 1, change))", "age >= 0", "the same from above"),
    ("SUM(FLOOR(age) % FLOOR(change)), SUM(age % change), SUM(change % -7), SUM(age % 0)", "", "remainders"),
    ("SUM(change * change), SUM(change * -change), SUM(-change * -change * change)", "", "negative ranges"),
    ("SUM(temperature / change)", "change < -0.1", "a divisor below zero"),
    ("SUM(LEAST(GREATEST(raw * 1e308 - raw * 1e308, -1), 1))", "", "infinity minus infinity"),
    ("SUM(LEAST(GREATEST(0 * (raw * 1e308), -1), 1))", "", "zero times infinity"),
    ("SUM(LEAST(GREATEST(raw % age, -1), 1)), SUM(raw * 0)", "", "a remainder of 1e308, nothing times it"),
    ("SUM(CEIL(change)), SUM(FLOOR(-change)), SUM(ROUND(change)), SUM(ABS(FLOOR(change)))", "", "to whole"),
    ("SUM(ROUND(age, -15)), SUM(ROUND(change, 15)), SUM(ROUND(change, -1))", "", "digits"),
    ("SUM(LEAST(GREATEST(year(born), 1900), 2000)), SUM(week(born)), SUM(doy(born))", "", "BC, infinity"),
    ("COUNT(*)", "born > '9999-12-31 23:59:59.999999' OR born BETWEEN '0001-01-01' AND ts", "the last year"),
    ("COUNT(*)", "UPPER(note) LIKE '%ÄÖ_%' OR LOWER(UPPER(note)) = 'ß' OR note LIKE ''", "letters"),
    ("COUNT(*)", r"note LIKE '\%' AND note NOT LIKE '\_' AND note LIKE '%_%_%_%_%_%_%_%'", "wildcards"),
    ("SUM(LEAST(GREATEST(CAST(CAST(raw AS TEXT) AS DOUBLE), 0), 1))", "", "to text and back"),
    ("SUM(LEAST(GREATEST(CAST(note AS DOUBLE), 0), 1))", "CAST(note AS BOOLEAN) IS NOT TRUE", "texts"),
    ("SUM(raw), AVG(raw), STDDEV(raw), MEDIAN(raw), MIN(raw)", FAR, "far from zero"),
    ("SUM(raw), AVG(raw), STDDEV(raw), MEDIAN(raw)", "raw < 1e-12 AND raw > -1e-12", "close to zero"),
    ("SUM(raw)", "raw > 1 AND raw < LEAST(age, 5)", "bounded by a column"),
    ("SUM(raw), SUM(COALESCE(raw, 3))", "raw BETWEEN change AND age", "bounded by two"),
    (f"COUNT({' + '.join(['raw'] * 76)})", "", "seventy-six overflows"),
    (f"COUNT({'raw / (' * 28}raw{')' * 28})", "", "twenty-eight divisions"),
    ("COUNT(*)", " AND ".join(["raw / age > 1"] * 70), "seventy divisions"),
    ("AVG(raw > change), SUM(CAST(raw > 1 AS DOUBLE)), SUM(NULLIF(fever, TRUE))", "", "truths are numbers"),
]
GROUPS = [
    *("NULLIF(storey, 1)", "NULLIF(region, 'north')", "NULLIF(fever, TRUE)", "COALESCE(storey, -0.0)"),
    *("CASE WHEN raw > 1 THEN -0.0 ELSE 0.0 END", "-storey", "storey * 0.1", "storey / 3", "FLOOR(age) % 7"),
    *("CASE WHEN raw > 1 THEN 0.30000000000000004 ELSE 0.3 END", "CASE WHEN fever THEN 1e-310 ELSE 0 END"),
    *("FLOOR(change) % -7", "year(ts)", "doy(ts)", "isodow(ts)", "ROUND(temperature, 1)", "UPPER(ward)"),
]
ALL = [(asked, where, "") for asked, where, _ in NEUTRALISED] + [("COUNT(*)", "", group) for group in GROUPS]


@pytest.fixture(scope="module")
def strict() -> Iterator[duckdb.DuckDBPyConnection]:
    with engine("SET ieee_floating_point_ops = false") as connection:
        yield connection


@pytest.mark.parametrize(("asked", "where", "group"), ALL, ids=[f"{a[:40]} {w[:20]} {g}" for a, w, g in ALL])
def test_a_hostile_record_changes_nothing_but_its_own_numbers(
    strict: duckdb.DuckDBPyConnection, asked: str, where: str, group: str
) -> None:
    sql = f"SELECT {asked} FROM visits"
    sql += (f" WHERE {where}" if where else "") + (f" GROUP BY {group}" if group else "")
    checked = query(sql)
    rows = '(SELECT *, 1::BIGINT AS "$tick" FROM rows)'
    for added in build_aggregations([part.measure for part in parts(sql)]):
        assert strict.execute(added.sql(rows, "TRUE")).fetchall()
    assert not broken(strict, checked)


def broken(strict: duckdb.DuckDBPyConnection, checked: Query) -> list[str]:
    """Return the claims of a query that the rows break."""
    found = []
    for aggregate in checked.aggregates:
        value = aggregate.value
        if value is not None:
            low, high, there, all_ = strict.execute(
                f"SELECT min(x), max(x), count(x), count(*) FROM (SELECT {value.sql} AS x FROM rows "
                f"WHERE {checked.where or 'TRUE'})"
            ).fetchone() or (None, None, 0, 0)
            slack = Fraction(1, 10**14) * max(abs(value.lower or 0), abs(value.upper or 0))
            if low is not None and value.lower is not None and value.upper is not None:
                found += ["bounds"] * (not value.lower - slack <= Fraction(low))
                found += ["bounds"] * (not Fraction(high) <= value.upper + slack)
            found += ["NULL"] * (there < all_ and not value.nullable)
    for group in checked.groups:
        low, high = strict.execute(f"SELECT min(x), max(x) FROM (SELECT {group.code} AS x FROM rows)").fetchone()
        found += ["code"] * (low is None or not 0 <= low <= high < len(group.labels))
    return found


def parts(sql: str) -> object:
    return build_parts(Release("r", sql, Pure(1), horizon=10), query(sql), STREAM)


def test_twin_that_ignores_condition_scope_is_caught(
    strict: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine also divides for dropped events, which can have NULL in this column."""
    before = scope.Scope.resolve_column

    def twin(self: scope.Scope, node: object) -> object:
        return replace(before(self, node), is_unconditional=True)

    monkeypatch.setattr(scope.Scope, "resolve_column", twin)
    checked = query("SELECT SUM(1 / GREATEST(age + 1, change)) FROM visits WHERE age IS NOT NULL")
    with pytest.raises(duckdb.Error, match="zero"):
        strict.execute(f"SELECT max({checked.aggregates[0].value.sql}) FROM rows").fetchall()


def test_guard_argument_name_cannot_be_a_column() -> None:
    assert COLUMN.parse(LAMBDA_ARGUMENT.strip('"')) is None
    checked = query("SELECT COUNT(NULLIF(raw / age, 1) * 1e300) FROM visits WHERE raw / raw > 1")
    named = re.findall(r"lambda ([^:]+):", f"{checked.where} {checked.aggregates[0].value.sql}")
    assert len(named) >= 4
    assert set(named) == {LAMBDA_ARGUMENT}


@pytest.mark.parametrize("name", ["v", "it", "x", "lambda"])
def test_columns_named_like_variables_are_columns(name: str) -> None:
    columns = {**STREAM.columns, name: Column(name, "number", bounds=(Fraction(0), Fraction(9)))}
    checked = query(f'SELECT SUM("{name}" / ("{name}" + 1)) FROM visits', replace(STREAM, columns=columns))
    made = duckdb.connect().execute(f'SELECT {checked.aggregates[0].value.sql} FROM (SELECT 3.0::DOUBLE AS "{name}")')
    assert made.fetchone() == (0.75,)


SIZES = [
    ("SUM(raw) FROM visits WHERE raw < 1e99 AND raw > -1e99", "within 1e+15 of 0, got -1e+99 to 1e+99: divide it"),
    ("MEDIAN(age * 1e20) FROM visits", "within 1e+15 of 0, got 0 to 1.2e+22: divide it"),
    ("AVG(age * 1e-320) FROM visits", "at least 1e-12 apart, got 0 to 1.19999e-318: multiply it"),
    ("MAX(CASE WHEN fever THEN 5e-324 ELSE 0 END) FROM visits", "at least 1e-12 apart"),
]


@pytest.mark.parametrize(("sql", "words"), SIZES, ids=[sql for sql, _ in SIZES])
def test_numbers_outside_any_grid_are_refused_with_advice(sql: str, words: str) -> None:
    with pytest.raises(InvalidReleaseError, match=re.escape(words)):
        parts(f"SELECT {sql}")
