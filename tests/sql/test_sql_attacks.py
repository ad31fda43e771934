"""Attacks that try to make an error, a cost, an output or a duration depend on one record.

Refused queries never reach the engine. Neutralised ones run on hostile rows without effect. A refusal
depends only on the query text and on declarations, because the parser has no data.
"""

import inspect
import sys
from collections.abc import Iterator

import duckdb
import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import dialect
from streamgauge.sql.dialect import ALLOWED_PARTS, MAX_SQL_CHARS, MAX_TOKEN_DEPTH, MAX_TOKENS, MAX_TREE_DEPTH
from streamgauge.sql.query import Query
from tests.support.sql_clinic import engine, query

REFUSAL = "not in the dialect|refused|read only"
REFUSED = [
    # errors that would reveal a record
    ("SELECT error('x') FROM visits", "function error", "raises on demand"),
    ("SELECT SUM(TRY(1 / age)) FROM visits", "TRY", "evaluates twice where it fails"),
    ("SELECT SUM(CAST(age AS TINYINT)) FROM visits", "CAST to TINYINT", "raises outside of -128 to 127"),
    ("SELECT SUM(CAST(age AS INT)) FROM visits", "FLOOR", "raises on 1e300"),
    ("SELECT SUM(CAST(note AS DATE)) FROM visits", "CAST to DATE", "raises on what is no date"),
    ("SELECT SUM(CAST(age AS DECIMAL(4, 1))) FROM visits", REFUSAL, "raises on overflow"),
    ("SELECT SUM(age // 0) FROM visits", "FLOOR", "integer division raises"),
    ("SELECT SUM(SQRT(change)) FROM visits", "SQRT", "raises below 0"),
    ("SELECT SUM(LN(age)) FROM visits", "LN", "raises at 0"),
    ("SELECT SUM(age ** 1000) FROM visits", "powers", "overflows"),
    ("SELECT SUM(age & 1) FROM visits", "bit operations", "raises on what is not whole"),
    ("SELECT SUM((SELECT 1 FROM visits)) FROM visits", "subqueries", "raises where there are two rows"),
    # cost and duration that depend on a record
    ("SELECT sleep(5) FROM visits", "function sleep", "sleeps"),
    ("SELECT COUNT(*) FROM visits WHERE CASE WHEN note = 'x' THEN pg_sleep(9) END", "pg_sleep", "sleeps for one"),
    ("SELECT COUNT(*) FROM visits WHERE regexp_matches(note, '(a*)*b')", REFUSAL, "backtracks"),
    ("SELECT COUNT(*) FROM visits WHERE note SIMILAR TO '(a+)+'", REFUSAL, "backtracks"),
    ("SELECT COUNT(*) FROM visits WHERE note LIKE note", "a text literal", "a record brings its own pattern"),
    (f"SELECT COUNT(*) FROM visits WHERE note LIKE '{'a' * 65}'", "64 characters", "costs text x pattern"),
    (f"SELECT COUNT(*) FROM visits WHERE note LIKE '{'%a' * 9}'", "wildcards", "costs text x pattern"),
    ("SELECT COUNT(*) FROM visits WHERE note LIKE 'a!%' ESCAPE '!'", "ESCAPE", "not needed"),
    ("SELECT COUNT(repeat(note, 1000000)) FROM visits", REFUSAL, "one record takes all memory"),
    ("SELECT COUNT(*) FROM visits WHERE note || note || note = 'x'", REFUSAL, "texts grow"),
    ("SELECT COUNT(range(age)) FROM visits", REFUSAL, "a list as long as a record says"),
    ("SELECT COUNT(*) FROM visits, range(1000000)", REFUSAL, "multiplies rows"),
    ("SELECT COUNT(UNNEST([1, 2])) FROM visits", REFUSAL, "multiplies rows"),
    (f"SELECT COUNT(*) FROM visits WHERE age IN ({', '.join(map(str, range(1001)))})", "1000", "a long list"),
    # outputs that exist only for some records
    ("SELECT region, COUNT(*) FROM visits GROUP BY region HAVING COUNT(*) > 10", "HAVING", "tells who exists"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region ORDER BY 2 LIMIT 1", "ORDER BY|LIMIT", "tells who leads"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region LIMIT 1", "LIMIT", "tells who is first"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region OFFSET 1", "OFFSET", "tells who is second"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region QUALIFY row_number() OVER () = 1", "QUALIFY", "the same"),
    ("SELECT note, COUNT(*) FROM visits GROUP BY note", "declare its values", "groups made by records"),
    ("SELECT note, COUNT(*) FROM visits GROUP BY note", "declare its values", "groups made by records"),
    ("SELECT town, COUNT(*), AVG(age) FROM visits GROUP BY town", "takes one COUNT", "what hides is told"),
    ("SELECT LOWER(town), COUNT(*) FROM visits GROUP BY 1", "the column town itself", "the same, in disguise"),
    ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (town)", "must stand alone", "the sum tells what hides"),
    ("SELECT raw, COUNT(*) FROM visits GROUP BY raw", "bounds", "groups made by records"),
    ("SELECT change, COUNT(*) FROM visits GROUP BY change", "grid", "as many groups as doubles"),
    ("SELECT ts, COUNT(*) FROM visits GROUP BY ts", "date part", "a group for each event"),
    ("SELECT patient, COUNT(*) FROM visits GROUP BY patient", "no labels", "a group for each patient"),
    ("SELECT year(born), COUNT(*) FROM visits GROUP BY 1", "bounds", "as many groups as years"),
    ("SELECT LOWER(note), COUNT(*) FROM visits GROUP BY 1", "declare its values", "groups made by records"),
    ("SELECT FLOOR(change * 1000000), COUNT(*) FROM visits GROUP BY 1", "groups", "too many groups"),
    ("SELECT COUNT(*) FROM visits GROUP BY ALL", REFUSAL, "groups nobody wrote down"),
    ("SELECT COUNT(*) FROM visits GROUP BY CUBE (region, ward)", "ROLLUP", "no prefix of the columns"),
    ("SELECT COUNT(*) FROM visits GROUP BY GROUPING SETS ((region), ())", "ROLLUP", "no prefix of the columns"),
    ("SELECT DISTINCT region FROM visits", "DISTINCT", "tells who exists"),
    ("SELECT region FROM visits", "GROUP BY", "tells a record"),
    ("SELECT * FROM visits", r"COUNT\(\*\)", "tells all records"),
    ("SELECT visits.* FROM visits", r"COUNT\(\*\)", "tells all records"),
    ("FROM visits", r"COUNT\(\*\)", "tells all records"),
    ("SELECT COLUMNS(*) FROM visits", REFUSAL, "tells all records"),
    ("SELECT first(note) FROM visits", REFUSAL, "tells a record"),
    ("SELECT string_agg(note) FROM visits", REFUSAL, "tells all records"),
    ("SELECT arg_max(note, age) FROM visits", REFUSAL, "tells a record"),
    ("SELECT MAX(note) FROM visits", "needs a number", "tells a record"),
    ("SELECT mode(note) FROM visits", REFUSAL, "tells a record"),
    ("SELECT histogram(age) FROM visits", REFUSAL, "tells all records"),
    # sensitivity that is not known
    ("SELECT SUM(raw) FROM visits", r"declare bounds = \[lowest, highest\] for column raw", "one record moves it all"),
    ("SELECT SUM(age / change) FROM visits", "LEAST", "one record near zero moves it all"),
    ("SELECT SUM(age * 1e300) FROM visits", "bounds", "nearly infinite"),
    ("SELECT AVG(CAST(note AS DOUBLE)) FROM visits", "bounds", "a text may be any number"),
    ("SELECT MAX(COALESCE(age, raw)) FROM visits", "column raw", "one branch has no bounds"),
    ("SELECT MEDIAN(LEAST(raw, 5)) FROM visits", "column raw", "bounded on one side"),
    ("SELECT SUM(DISTINCT age) FROM visits", "DISTINCT", "removing an event may keep its value"),
    ("SELECT COUNT(DISTINCT note) FROM visits", "values or hash_cells", "no universe"),
    ("SELECT COUNT(DISTINCT age + 1) FROM visits", "one column", "no universe"),
    ("SELECT COUNT(DISTINCT region, ward) FROM visits", "one column", "no universe"),
    ("SELECT SUM(age) / COUNT(*) FROM visits", "stand alone", "a ratio has no sensitivity"),
    ("SELECT SUM(MAX(age)) FROM visits", "stand alone", "an aggregate of aggregates"),
    ("SELECT COUNT(*) FROM visits WHERE age > AVG(age)", "stand alone", "other events decide on this one"),
    ("SELECT SUM(age) OVER (ORDER BY ts) FROM visits", "window", "other events decide on this one"),
    ("SELECT SUM(age ORDER BY ts) FROM visits", "ORDER BY", "other events decide on this one"),
    ("SELECT ABS(age) FILTER (WHERE fever) FROM visits", "after an aggregate", "no aggregate"),
    ("SELECT COUNT(*) FILTER (WHERE age > 200) FROM visits", "never", "an empty release"),
    ("SELECT COUNT(*) FILTER (WHERE age) FROM visits", "condition", "casts behind one's back"),
    ("SELECT COUNT(*) FILTER (WHERE AVG(age) > 3) FROM visits", "stand alone", "other events decide on this one"),
    ("SELECT SUM(raw) FILTER (WHERE fever) FROM visits", "declare bounds", "one record moves it all"),
    ("SELECT town, COUNT(*) FILTER (WHERE fever) FROM visits GROUP BY town", "takes one COUNT", "what hides is told"),
    ("SELECT LAG(age) OVER () FROM visits", "window", "reads another event"),
    ("SELECT QUANTILE(age, age) FROM visits", "between 0 and 1", "a record chooses the quantile"),
    ("SELECT QUANTILE(age, [0.1, 0.9]) FROM visits", "lists|between 0 and 1", "two releases in one"),
    # other people's rows
    ("SELECT COUNT(*) FROM visits JOIN visits AS w USING (sensor)", "lookup", "multiplies rows by other events"),
    ("SELECT COUNT(*) FROM visits, sites", "USING", "multiplies rows"),
    ("SELECT COUNT(*) FROM visits CROSS JOIN sites", "JOIN", "multiplies rows"),
    ("SELECT COUNT(*) FROM visits JOIN sites ON visits.age > sites.floor", "USING", "multiplies rows"),
    ("SELECT COUNT(*) FROM visits JOIN sites ON TRUE", "USING", "multiplies rows"),
    ("SELECT COUNT(*) FROM visits JOIN sites USING (room)", "USING", "not the key"),
    ("SELECT COUNT(*) FROM visits LEFT JOIN sites USING (sensor)", "must be joined by JOIN", "not kept by the engine"),
    ("SELECT COUNT(*) FROM visits FULL JOIN sites USING (sensor)", "must be joined by JOIN", "rows without events"),
    ("SELECT COUNT(*) FROM visits ANTI JOIN sites USING (sensor)", "must be joined by JOIN", "not kept by the engine"),
    ("SELECT COUNT(*) FROM visits ASOF JOIN sites USING (sensor)", REFUSAL, "not a key"),
    ("SELECT COUNT(*) FROM visits NATURAL JOIN sites", REFUSAL, "names decide"),
    ("SELECT COUNT(*) FROM visits POSITIONAL JOIN sites", REFUSAL, "order decides"),
    ("SELECT COUNT(*) FROM visits, LATERAL (SELECT 1)", REFUSAL, "multiplies rows"),
    ("SELECT COUNT(*) FROM visits WHERE age IN (SELECT age FROM visits)", "subqueries", "reads other events"),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM visits)", "subqueries", "reads others"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 1)", "subqueries", "reads other events"),
    ("WITH w AS (SELECT 1) SELECT COUNT(*) FROM visits", "WITH", "reads other events"),
    ("WITH RECURSIVE w AS (SELECT 1 UNION ALL SELECT * FROM w) SELECT COUNT(*) FROM visits", "WITH", "never ends"),
    ("SELECT COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM visits", "UNION", "twice for one price"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", REFUSAL, "draws without the ledger"),
    ("SELECT COUNT(*) FROM visits USING SAMPLE 10", REFUSAL, "draws without the ledger"),
    ("SELECT COUNT(*) FROM visits AT (VERSION => 1)", REFUSAL, "reads another time"),
    # files, settings, chance and the clock
    ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", REFUSAL, "reads a file"),
    ("SELECT COUNT(*) FROM '/etc/passwd'", "FROM visits", "reads a file"),
    ("SELECT COUNT(*) FROM information_schema.tables", REFUSAL, "reads the engine"),
    ("SELECT COUNT(read_text('/etc/passwd')) FROM visits", REFUSAL, "reads a file"),
    ("SELECT COUNT(getenv('HOME')) FROM visits", REFUSAL, "reads the environment"),
    ("SELECT COUNT(current_setting('threads')) FROM visits", REFUSAL, "reads the engine"),
    ("SELECT COUNT(*) FROM visits WHERE random() < 0.5", REFUSAL, "draws without the ledger"),
    ("SELECT COUNT(*) FROM visits WHERE uuid() > 'a'", REFUSAL, "draws without the ledger"),
    ("SELECT COUNT(*) FROM visits WHERE ts < now()", REFUSAL, "two runs differ"),
    ("SELECT COUNT(*) FROM visits WHERE ts < CURRENT_TIMESTAMP", REFUSAL, "two runs differ"),
    ("SELECT nextval('s') FROM visits", REFUSAL, "remembers"),
    ("SELECT COUNT(*) INTO x FROM visits", "INTO", "writes"),
    ("COPY visits TO 'x.csv'", REFUSAL, "writes a file"),
    ("ATTACH 'x.db'", REFUSAL, "opens a file"),
    ("INSTALL httpfs", REFUSAL, "opens the network"),
    ("SET memory_limit = '1KB'", REFUSAL, "changes the engine"),
    ("PRAGMA database_list", REFUSAL, "reads the engine"),
    ("DROP TABLE visits", REFUSAL, "destroys"),
    ("EXPLAIN ANALYZE SELECT COUNT(*) FROM visits", REFUSAL, "tells how long it took"),
    ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "one SELECT", "a second statement"),
    ("SELECT COUNT(*) FROM visits WHERE age > $1", "parameter|literal|not in", "nobody would fill it"),
    ("SELECT COUNT(*) FROM visits WHERE age > ?", "parameter", "nobody would fill it"),
    # names and literals
    ("SELECT AVG(temperatur) FROM visits", "did you mean temperature", "a typo"),
    ("SELECT AVG(sites.flor) FROM visits JOIN sites USING (sensor)", "did you mean floor", "a typo"),
    ("SELECT AVG(secret) FROM visits", "column secret is not declared", "never read"),
    ("SELECT AGV(age) FROM visits", "did you mean avg", "a typo"),
    ("SELECT COUNT(*) FROM visit", "FROM visits", "a typo"),
    ("SELECT COUNT(*) FROM visits JOIN site USING (sensor)", "did you mean sites", "a typo"),
    ("SELECT COUNT(*) FROM other.visits", REFUSAL, "another database"),
    ('SELECT COUNT(*) AS "a b" FROM visits', "letters", "names end up in files"),
    ('SELECT COUNT(*) AS "../x" FROM visits', "letters", "names end up in files"),
    ("SELECT COUNT(*) AS n, SUM(age) AS N FROM visits", "must differ", "two columns alike"),
    ("SELECT LOWER(region) AS region, COUNT(*) FROM visits GROUP BY region", "another name", "which is meant?"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY 3", "position", "no such column"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY 2", "aggregate", "no such group"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY 0.5", "position", "no such column"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region, region", "different", "the same twice"),
    ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (region), ward", "once and last", "no prefix of the columns"),
    ("SELECT SUM(1e400) FROM visits", "finite", "infinite"),
    ("SELECT COUNT(*) FROM visits WHERE note = 'a\0b'", "NUL", "ends a text early"),
    (f"SELECT COUNT(*) FROM visits WHERE note = '{'x' * 1025}'", "1024", "longer than any text"),
    ("SELECT COUNT(*) FROM visits WHERE note = 5", "one type", "casts behind one's back"),
    ("SELECT COUNT(*) FROM visits WHERE age", "condition", "casts behind one's back"),
    ("SELECT SUM(age + fever) FROM visits", "needs a number", "casts behind one's back"),
    ("SELECT COUNT(*) FROM visits WHERE ts > 'yesterday'", "a time must be", "moves with the clock"),
    ("SELECT COUNT(*) FROM visits WHERE ts > '2026-01-05T00:00:00Z'", "without an offset", "two time zones"),
    ("SELECT COUNT(*) FROM visits WHERE patient = 5", "hashed", "hashes are nobody's business"),
    ("SELECT SUM(patient) FROM visits", "hashed", "hashes are nobody's business"),
    ("SELECT COUNT(*) FROM visits WHERE age > 200", "never", "an empty release"),
    ("SELECT EXTRACT(epoch FROM ts), COUNT(*) FROM visits GROUP BY 1", "date part", "a group for each event"),
    ("SELECT COUNT() FROM visits", "COUNT needs", "nothing to count"),
    ("", "one SELECT", "nothing"),
    ("SELECT 'open FROM visits", "not closed", "no SQL"),
    ("SELECT COUNT(* FROM visits", "cannot be read", "no SQL"),
]


@pytest.mark.parametrize(("sql", "words", "why"), REFUSED, ids=[attack[0][:70] for attack in REFUSED])
def test_an_attack_is_refused_in_one_line(sql: str, words: str, why: str) -> None:
    with pytest.raises(InvalidReleaseError, match=words) as refusal:
        query(sql)
    assert "\n" not in str(refusal.value), why
    assert "\x1b" not in str(refusal.value)


NEUTRALISED = [
    ("SELECT COUNT(*) FROM visits WHERE note ILIKE '%A%'", "case is folded once, on a text of limited length"),
    (
        "SELECT SUM(1 / raw) FILTER (WHERE raw BETWEEN 1 AND 9), COUNT_IF(1 / raw > 0) FROM visits",
        "what a filter drops",
    ),
    (
        "SELECT date_trunc('hour', ts), COUNT(DISTINCT patient) FILTER (WHERE fever) FROM visits GROUP BY 1",
        "hours that the clocks skip",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE date_trunc('week', born) < '2026-01-05' OR born::date > '1900-01-01'",
        "infinity",
    ),
    ("SELECT SUM(LEAST(GREATEST(raw / age, -1), 1)) FROM visits", "division by zero"),
    ("SELECT COUNT(raw * raw * raw) FROM visits", "overflow"),
    ("SELECT COUNT(*) FROM visits WHERE raw + raw - raw * 3 > 1e300", "overflow in WHERE"),
    ("SELECT COUNT(CAST(note AS DOUBLE)) FROM visits", "texts that are no numbers"),
    (
        "SELECT FLOOR(raw), COUNT(*), SUM(age / raw) FROM visits WHERE raw BETWEEN 1 AND 10 GROUP BY 1",
        "the engine may compute what WHERE drops",
    ),
    ("SELECT year(ts), dow(ts), date_part('hour', ts), COUNT(*) FROM visits GROUP BY 1, 2, 3", "times"),
    ("SELECT COUNT(year(born)) FROM visits", "infinite times"),
    ("SELECT COUNT(*) FROM visits WHERE note LIKE '%a%a%a%a%a%a%a%_b'", "a pattern that others backtrack on"),
    ("SELECT ward, COUNT(*) FROM visits WHERE ward = 'other' GROUP BY ward", "labels nobody declared"),
    (
        "SELECT region, COUNT(DISTINCT patient) FROM visits WHERE region <> ''' OR 1=1 --' GROUP BY region",
        "quotes in a literal",
    ),
    ("SELECT COUNT(*) /*! DROP TABLE x */ FROM visits -- ; DROP TABLE visits", "commands in comments"),
    ("SELECT /*+ PARALLEL(8) */ COUNT(*) FROM visits", "hints are comments"),
    ("SELECT COUNT(v) FROM visits WHERE v = '%'", "a column called like a variable of ours"),
    (
        "SELECT sites.area > 10, storey, COUNT(*) FROM visits JOIN sites USING (sensor) GROUP BY 1, 2",
        "NULLs in a lookup",
    ),
]


@pytest.fixture(scope="module")
def strict() -> Iterator[duckdb.DuckDBPyConnection]:
    with engine("SET ieee_floating_point_ops = false") as connection:
        yield connection


@pytest.mark.parametrize(("sql", "why"), NEUTRALISED, ids=[attack[1] for attack in NEUTRALISED])
def test_an_attack_is_neutralised(strict: duckdb.DuckDBPyConnection, sql: str, why: str) -> None:
    checked = query(sql)
    assert strict.execute(f"SELECT count(*), {everything(checked)} FROM rows").fetchall(), why


def everything(checked: Query) -> str:
    """Return all expressions that an engine may compute for a row, even if WHERE drops it."""
    wanted = [group.code for group in checked.groups] + [checked.where or "TRUE"]
    wanted += [aggregate.value.sql for aggregate in checked.aggregates if aggregate.value]
    wanted += [aggregate.codes.sql for aggregate in checked.aggregates if aggregate.codes]
    return ", ".join(f"max({sql})" for sql in wanted)


DEEP = {
    "parentheses": "SELECT COUNT(*) FROM visits WHERE {}fever{}".format("(" * 9999, ")" * 9999),
    "open parentheses": "SELECT " + "(" * 9999,
    "brackets": "SELECT " + "[" * 9999,
    "NOT": f"SELECT COUNT(*) FROM visits WHERE {'NOT ' * 5000}fever",
    "signs": f"SELECT SUM({'- ' * 5000}age) FROM visits",
    "functions": f"SELECT SUM({'abs(' * 500}age{')' * 500}) FROM visits",
    "CASE": f"SELECT SUM({'CASE WHEN fever THEN ' * 300}1{' END' * 300}) FROM visits",
    "sums": f"SELECT SUM(age{' + age' * 3000}) FROM visits",
    "AND": f"SELECT COUNT(*) FROM visits WHERE fever{' AND fever' * 3000}",
    "casts": f"SELECT SUM(age{'::double' * 3000}) FROM visits",
    "IS": f"SELECT COUNT(*) FROM visits WHERE age{' IS NULL' * 3000}",
    "words": f"SELECT COUNT(*) FROM visits WHERE {' OR '.join(['fever'] * MAX_TOKENS)}",
    "length": f"SELECT COUNT(*) FROM visits WHERE note = '{' ' * MAX_SQL_CHARS}'",
    "joins": f"SELECT COUNT(*) FROM visits{' JOIN sites USING (sensor)' * 500}",
    "aggregates": f"SELECT {', '.join(['COUNT(*)'] * 65)} FROM visits",
}


def test_too_many_words_are_refused_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "_parse_statements", None)
    with pytest.raises(InvalidReleaseError, match=f"at most {MAX_TOKENS} words and signs, got 9607"):
        query(f"SELECT SUM(age{'+1' * 4800}) FROM visits")


@pytest.mark.parametrize("sql", DEEP.values(), ids=DEEP.keys())
def test_oversized_query_is_refused_by_the_parser(sql: str) -> None:
    with pytest.raises(InvalidReleaseError):
        query(sql)


def test_query_just_below_the_limits_is_parsed(strict: duckdb.DuckDBPyConnection) -> None:
    nested = f"{'(' * (MAX_TOKEN_DEPTH - 2)}age{')' * (MAX_TOKEN_DEPTH - 2)}"
    for inner in (nested, "age" + " + age" * (MAX_TREE_DEPTH - 5)):
        checked = query(f"SELECT SUM({inner}) FROM visits")
        assert strict.execute(f"SELECT count(*), {everything(checked)} FROM rows").fetchall()


def test_parser_refuses_when_called_deep_in_the_stack() -> None:
    def deeper(levels: int) -> None:
        if levels:
            deeper(levels - 1)
        else:
            query("SELECT COUNT(*) FROM visits WHERE ((((((age > 1))))))")

    with pytest.raises(InvalidReleaseError, match="nested"):
        deeper(sys.getrecursionlimit() - len(inspect.stack()) - 60)


def test_allowed_nodes_exclude_reading_random_and_generic_calls() -> None:
    names = {node.key for node in ALLOWED_PARTS}
    assert not names & {"subquery", "window", "rand", "lateral", "unnest", "readcsv", "command", "lambda", "dot"}
