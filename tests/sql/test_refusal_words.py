"""Refusals of SQL that people type: in SQL's own words, with what to write instead."""

import re
from pathlib import Path

import pytest
from sqlglot import exp

from streamgauge.config.errors import InvalidReleaseError
from tests.support.sql_clinic import query

SUMMED = [  # an expression in a SUM, and a word of the advice
    ("age::INT", "FLOOR"),
    ("CAST(age AS BIGINT)", "FLOOR"),
    ("age::NUMERIC(10, 2)", "DOUBLE"),
    ("age::REAL", "DOUBLE"),
    ("SAFE_CAST(age AS FLOAT64)", "DOUBLE"),
    ("age // 2", "FLOOR"),
    ("age DIV 2", "FLOOR"),
    ("age ^ 2", "x * x"),
    ("age ** 2", "x * x"),
    ("POWER(age, 2)", "x * x"),
    ("SQRT(age)", "transform"),
    ("LN(age)", "transform"),
    ("LOG10(age)", "transform"),
    ("EXP(age)", "transform"),
    ("SIGN(age)", "CASE"),
    ("TRUNC(age)", "FLOOR"),
    ("age & 1", "column"),
    ("age | 1", "column"),
    ("~age", "column"),
    ("IFF(fever, 1, 0)", "IF"),
    ("DECODE(age, 1, 2)", "CASE"),
    ("LENGTH(note)", "LIKE"),
    ("LEN(note)", "LIKE"),
    ("age + INTERVAL '1 day'", "literal"),
    ("DATEDIFF('day', born, ts)", "literal"),
    ("DATE_DIFF('day', born, ts)", "literal"),
    ("EPOCH(ts)", "EXTRACT"),
    ("EXTRACT(epoch FROM ts)", "hour"),
    ("RANDOM()", "repeated"),
    ("?", "literal"),
    ("$1", "literal"),
    (":age", "literal"),
    ("[1, 2]", "column"),
    ("note[1]", "column"),
    ("{'a': 1}", "column"),
    ("note -> 'a'", "column"),
    ("note ->> '$.a'", "column"),
    ("JSON_EXTRACT(note, '$.a')", "column"),
    ("JSON_VALUE(note, '$.a')", "column"),
    ("list_sum([1])", "column"),
    ("(SELECT 1)", "once"),
    ("(SELECT MAX(age) FROM visits)", "once"),
    ("AVG(age)", "combine"),
    ("DISTINCT age", "COUNT(DISTINCT column)"),
]
CONDITIONS = [
    ("note || 'a' = 'xa'", "group by both"),
    ("CONCAT(note, ward) = 'xa'", "group by both"),
    ("SUBSTRING(note, 1, 2) = 'ab'", "LIKE"),
    ("SUBSTR(note, 1, 2) = 'ab'", "LIKE"),
    ("LEFT(note, 2) = 'ab'", "LIKE"),
    ("TRIM(note) = 'a'", "LIKE"),
    ("REPLACE(note, 'a', 'b') = 'b'", "LIKE"),
    ("STARTS_WITH(note, 'a')", "LIKE"),
    ("ENDS_WITH(note, 'a')", "LIKE"),
    ("CONTAINS(note, 'a')", "LIKE"),
    ("POSITION('a' IN note) > 0", "LIKE"),
    ("REGEXP_MATCHES(note, 'a')", "LIKE"),
    ("note ~ 'a'", "LIKE"),
    ("note RLIKE 'a'", "LIKE"),
    ("note REGEXP 'a'", "LIKE"),
    ("REGEXP_LIKE(note, 'a')", "LIKE"),
    ("note SIMILAR TO 'a'", "LIKE"),
    ("note GLOB 'a*'", "LIKE"),
    ("note LIKE 'a!%' ESCAPE '!'", "%"),
    ("note COLLATE nocase = 'a'", "LOWER"),
    ("ts > NOW()", "window"),
    ("ts > NOW() - INTERVAL '1 day'", "window"),
    ("ts > CURRENT_DATE", "window"),
    ("ts > CURRENT_TIMESTAMP", "window"),
    ("ts > GETDATE()", "window"),
    ("ts > TODAY()", "window"),
    ("ts AT TIME ZONE 'UTC' > '2026-01-05'", "time zone"),
    ("STRFTIME(ts, '%Y') = '2026'", "date_trunc"),
    ("TO_CHAR(ts, 'YYYY') = '2026'", "date_trunc"),
    ("DATE_FORMAT(ts, '%Y') = '2026'", "date_trunc"),
    ("DAYNAME(ts) = 'Monday'", "EXTRACT"),
    ("DATEPART('hour', ts) = 2", "EXTRACT"),
    ("TIME_BUCKET(INTERVAL '1 hour', ts) > '2026-01-05'", "date_trunc"),
    ("date_trunc('decade', ts) = '2020-01-01'", "year"),
    ("DATE_TRUNC(ts, DAY) = '2026-01-05'", "day"),
    ("age IS DISTINCT FROM 5", "IS NULL"),
    ("age <=> 5", "IS NULL"),
    ("ISNULL(age)", "IS NULL"),
    ("age BETWEEN SYMMETRIC 9 AND 1", "lower end"),
    ("age IN (SELECT age FROM visits)", "once"),
    ("EXISTS (SELECT 1 FROM visits)", "once"),
    ("age > (SELECT AVG(age) FROM visits)", "once"),
    ("age = ANY (ARRAY[1, 2])", "IN (literals)"),
    ("(age, note) IN ((1, 'a'))", "column"),
    ("age > AVG(age)", "combine"),
    ('region = "north"', "'north'"),
]
SELECTED = [
    ("SUM(age) / COUNT(*)", "combine"),
    ("1.0 * SUM(age) / COUNT(*)", "combine"),
    ("ROUND(AVG(age), 1)", "combine"),
    ("COUNT(DISTINCT region, ward)", "one column"),
    ("COUNT(DISTINCT note)", "hash_cells"),
    ("COUNT(DISTINCT age + 1)", "one column"),
    ("SUM(DISTINCT age)", "COUNT(DISTINCT column)"),
    ("MODE(region)", "largest group"),
    ("CORR(age, temperature)", "AVG(x * y)"),
    ("COVAR_POP(age, temperature)", "AVG(x * y)"),
    ("REGR_SLOPE(age, temperature)", "AVG(x * y)"),
    ("STDDEV_POP(age)", "STDDEV"),
    ("VAR_POP(age)", "VARIANCE"),
    ("STD(age)", "STDDEV"),
    ("MEAN(age)", "AVG"),
    ("KURTOSIS(age)", "QUANTILE"),
    ("SKEWNESS(age)", "QUANTILE"),
    ("HISTOGRAM(age)", "group by"),
    ("BOOL_AND(fever)", "AVG"),
    ("BOOL_OR(fever)", "AVG"),
    ("ANY_VALUE(age)", "MIN"),
    ("FIRST(age)", "MIN"),
    ("LAST(age)", "MIN"),
    ("ARG_MAX(note, age)", "MIN"),
    ("STRING_AGG(note, ',')", "COUNT(*)"),
    ("GROUP_CONCAT(note)", "COUNT(*)"),
    ("ARRAY_AGG(age)", "COUNT(*)"),
    ("APPROX_PERCENTILE(age, 0.5)", "QUANTILE(x, q)"),
    ("PERCENTILE(age, 0.5)", "QUANTILE(x, q)"),
    ("APPROX_QUANTILES(age, 4)", "QUANTILE(x, q)"),
    ("PERCENTILE_CONT(0.5)", "WITHIN GROUP"),
    ("PERCENTILE_CONT(2) WITHIN GROUP (ORDER BY age)", "between 0 and 1"),
    ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, change)", "WITHIN GROUP"),
    ("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY raw)", "bounds"),
    ("COUNT(*) WITHIN GROUP (ORDER BY age)", "PERCENTILE_CONT"),
    ("QUANTILE(age, [0.1, 0.9])", "lists"),
    ("STDDEV_SAMP(raw)", "bounds"),
    ("APPROX_QUANTILE(raw, 0.5)", "bounds"),
    ("APPROX_COUNT_DISTINCT(note)", "hash_cells"),
    ("APPROX_COUNT_DISTINCT(age + 1)", "one column"),
    ("UNIQ(note)", "COUNT(DISTINCT column)"),
    ("COUNT_IF(age)", "condition"),
    ("ABS(age) FILTER (WHERE fever)", "COUNT(*) FILTER"),
    ("SUM(age ORDER BY ts)", "WITHIN GROUP"),
    ("SUM(age) OVER (ORDER BY ts)", "window of the release"),
    ("AVG(age) OVER ()", "window of the release"),
    ("LAG(age) OVER (ORDER BY ts)", "window of the release"),
    ("ROW_NUMBER() OVER ()", "window of the release"),
    ("LAG(age)", "window of the release"),
    ("COUNT(*), GROUPING(region)", "level"),
    ("*", "COUNT(*)"),
    ("visits.*", "COUNT(*)"),
    ("* EXCLUDE (age)", "COUNT(*)"),
    ("DISTINCT region", "COUNT(DISTINCT column)"),
    ("region", "GROUP BY"),
    ("SLEEP(5)", "not in the dialect"),
    ("UNNEST([1, 2])", "stream"),
]
WHOLE = [
    ("SELECT COUNT(*) FROM visits GROUP BY CUBE (region, ward)", "ROLLUP"),
    ("SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((region), ())", "ROLLUP"),
    ("SELECT COUNT(*) FROM visits GROUP BY ALL", "name the columns"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region HAVING COUNT(*) > 10", "filter the releases"),
    (
        "SELECT region, COUNT(*) FROM visits GROUP BY region QUALIFY ROW_NUMBER() OVER () = 1",
        "ORDER BY COUNT(*) DESC LIMIT 10",
    ),
    ("SELECT ts, COUNT(*) FROM visits GROUP BY ts", "date_trunc"),
    ("SELECT sensor, COUNT(*) FROM visits GROUP BY sensor", "JOIN sites"),
    ("SELECT note, COUNT(*) FROM visits GROUP BY note", "values"),
    ("SELECT date_trunc('day', born), COUNT(*) FROM visits GROUP BY 1", "the stream's time"),
    ("SELECT date_trunc('second', ts), COUNT(*) FROM visits GROUP BY 1", "longer units"),
    ("WITH w AS (SELECT 1) SELECT COUNT(*) FROM visits", "one SELECT"),
    ("SELECT COUNT(*) FROM visits UNION SELECT COUNT(*) FROM visits", "two releases"),
    ("SELECT COUNT(*) FROM visits EXCEPT SELECT COUNT(*) FROM visits", "two releases"),
    ("SELECT COUNT(*) FROM visits LEFT JOIN sites USING (sensor)", "JOIN"),
    ("SELECT COUNT(*) FROM visits CROSS JOIN sites", "USING"),
    ("SELECT COUNT(*) FROM visits, sites", "USING"),
    ("SELECT COUNT(*) FROM visits NATURAL JOIN sites", "USING"),
    ("SELECT COUNT(*) FROM visits ASOF JOIN sites USING (sensor)", "USING"),
    ("SELECT COUNT(*) FROM visits JOIN sites ON TRUE", "USING"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits)", "once"),
    ("SELECT COUNT(*) FROM visits, LATERAL (SELECT 1)", "USING"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "every event"),
    ("SELECT COUNT(*) FROM visits USING SAMPLE 10", "every event"),
    ("SELECT COUNT(*) INTO x FROM visits", "sinks"),
    ("SELECT COUNT(*) FROM `visits`", "double quotes"),
    ("SELECT COUNT(*) FROM visits; SELECT 1", "one SELECT"),
    ("SELECT COUNT(*) FROM visits WHERE", "cannot be read"),
    ("SELECT COUNT(* FROM visits", "cannot be read"),
    ("SELECT TOP 10 COUNT(*) FROM visits", "write LIMIT, as in ORDER BY COUNT(*) DESC LIMIT 10"),
    ("INSERT INTO visits VALUES (1)", "SELECT"),
    ("DELETE FROM visits", "SELECT"),
    ("EXPLAIN SELECT COUNT(*) FROM visits", "SELECT"),
    ("VALUES (1)", "SELECT"),
    ("PIVOT visits ON region USING COUNT(*)", "SELECT"),
    ("SHOW TABLES", "SELECT"),
]
REFUSED = [
    *[(f"SELECT SUM({sql}) FROM visits", advice) for sql, advice in SUMMED],
    *[(f"SELECT COUNT(*) FROM visits WHERE {sql}", advice) for sql, advice in CONDITIONS],
    *[(f"SELECT {sql} FROM visits", advice) for sql, advice in SELECTED],
    *WHOLE,
]
CLASS_NAMES = {name for name, kind in vars(exp).items() if isinstance(kind, type) and issubclass(kind, exp.Expr)}
OTHER_WORDS = {"CONCAT", "JSON", "LENGTH", "SUBSTRING"}  # other spellings of what the query has
DIALECT_WORDS = OTHER_WORDS | set(re.findall(r"[A-Z_]{2,}", Path("docs/sql.md").read_text(encoding="utf-8")))


def refuse(sql: str) -> str:
    with pytest.raises(InvalidReleaseError) as refusal:
        query(sql)
    return str(refusal.value)


@pytest.mark.parametrize(("sql", "advice"), REFUSED, ids=[sql[:70] for sql, _ in REFUSED])
def test_refusal_is_in_words_of_sql_with_advice(sql: str, advice: str) -> None:
    refusal = refuse(sql)
    assert advice in refusal
    assert "\n" not in refusal
    squashed = {name.upper() for name in CLASS_NAMES}
    foreign = {word for word in re.findall(r"[A-Z_]{2,}", refusal) if word.strip("_") in squashed}
    assert foreign <= DIALECT_WORDS | set(re.findall(r"[A-Z_]{2,}", sql.upper()))
    assert not {word for word in re.findall(r"\w+", refusal) if re.search("[a-z][A-Z]", word)} & CLASS_NAMES
    assert "Expression" not in refusal


def test_refusals_are_tried_with_many_queries() -> None:
    assert len(dict(REFUSED)) >= 120


@pytest.mark.parametrize("top", ["TOP 10", "top(10)", "\n TOP 3 PERCENT"])
def test_top_says_how_to_list_the_largest(top: str) -> None:
    with pytest.raises(
        InvalidReleaseError, match=r"^TOP is refused: write LIMIT, as in ORDER BY COUNT\(\*\) DESC LIMIT 10"
    ):
        query(f"SELECT {top} ward, COUNT(*) FROM visits GROUP BY ward")
