"""`parse` returns a query for any text or refuses it in one line, and never raises otherwise."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.sql import parse
from streamgauge.sql import parser as select
from streamgauge.sql.dialect import list_function_names
from streamgauge.sql.functions import SCALAR_FUNCTIONS, load_functions
from streamgauge.sql.parser import parse_unguarded
from tests.support.sql_clinic import LOOKUPS, STREAM

CALLED = sorted({*list_function_names(load_functions()), *SCALAR_FUNCTIONS})
OPERANDS = [
    *("age", "temperature", "ts", "born", "region", "ward", "note", "fever", "patient", "storey", "area"),
    *("NULL", "CAST(NULL AS DOUBLE)", "CAST(NULL AS TEXT)", "TRUE", "1", "0", "-1", "0.5", "1e308", "1e999"),
    *("'a'", "'hour'", "''", "'2026-01-01'", "hour(ts)", "age > 5", "*", "DISTINCT age", "age IS NULL"),
]
WORDS = [
    *("SELECT", "FROM", "visits", "WHERE", "GROUP BY", "ROLLUP", "JOIN", "sites", "USING", "ON", "sensor"),
    *("(", ")", "(", ")", ",", "*", "+", "-", "/", "%", "=", "<>", "<", ">=", "::", "||", "**", "//", "."),
    *("AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT"),
    *("CAST", "TRY_CAST", "AS", "DOUBLE", "TEXT", "DATE", "INTERVAL", "EXTRACT", "hour", "OVER", "FILTER"),
    *("[", "]", "{", "}", ";", "--", "/*", "$1", "?", "@x", "->", "=>", ":=", "lambda", "e'\\x'", "0x10"),
    *("²", "٣", '"age"', "visits.age", "UNION", "WITH", "VALUES", "PIVOT", "UNNEST", "COLLATE", "ESCAPE"),
    *OPERANDS,
    *CALLED,
]
SIGNS = ["+", "-", "*", "/", "%", "=", "<>", "<", "AND", "OR", "IS", "IS NOT", "LIKE", "IN", "||"]


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    calls = st.tuples(st.sampled_from(CALLED), st.lists(parts, max_size=4))
    return st.one_of(
        calls.map(lambda call: f"{call[0]}({', '.join(call[1])})"),
        st.tuples(parts, st.sampled_from(SIGNS), parts).map(lambda three: f"({' '.join(three)})"),
        st.tuples(parts, parts, parts).map(lambda abc: "CASE WHEN {} THEN {} ELSE {} END".format(*abc)),
        st.tuples(parts, parts, parts).map(lambda abc: "CASE {} WHEN {} THEN {} END".format(*abc)),
        st.tuples(parts, parts, parts).map(lambda abc: "({} BETWEEN {} AND {})".format(*abc)),
        st.tuples(parts, st.sampled_from(["DOUBLE", "TEXT", "BOOLEAN", "DATE"])).map(
            lambda cast: f"CAST({cast[0]} AS {cast[1]})"
        ),
    )


EXPRESSIONS = st.recursive(st.sampled_from(OPERANDS), larger, max_leaves=8)
QUERIES = st.tuples(
    st.sampled_from(["COUNT", "SUM", "AVG", "QUANTILE", "MIN", "STDDEV"]),
    EXPRESSIONS,
    st.sampled_from(["", "JOIN sites USING (sensor)"]),
    st.one_of(st.just(""), EXPRESSIONS.map(lambda found: f"WHERE {found}")),
    st.one_of(
        st.just(""),
        EXPRESSIONS.map(lambda found: f"GROUP BY {found}"),
        EXPRESSIONS.map(lambda found: f"GROUP BY ROLLUP ({found})"),
    ),
).map(lambda parts: "SELECT {}({}) FROM visits {} {} {}".format(*parts))
CUT = st.tuples(QUERIES, st.floats(0, 1)).map(lambda cut: cut[0][: int(len(cut[0]) * cut[1])])
SEQUENCES = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)


@pytest.fixture(autouse=True, scope="module")
def silent() -> Iterator[None]:
    """Silence the log of the parser's fallbacks."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def lines_of(sql: str) -> int:
    """Return the number of lines of a refusal, or 0 if the text is valid."""
    try:
        parse_unguarded(sql, STREAM, LOOKUPS)
    except InvalidReleaseError as refused:
        return len(str(refused).splitlines())
    return 0


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.one_of(QUERIES, CUT, SEQUENCES, st.text(max_size=40)))
def test_any_text_is_read_or_refused(sql: str) -> None:
    assert lines_of(sql) <= 1


@pytest.mark.one_of_each
@pytest.mark.parametrize("called", CALLED)
def test_functions_with_any_operands_are_read_or_refused(called: str) -> None:
    pairs = [f"{a}, {b}" for a in OPERANDS[::5] for b in OPERANDS[1::7]]
    for operands in ["", *OPERANDS, *pairs, "age, 1, 2", "age, 1, 2, 3", "ts, ts, ts"]:
        assert lines_of(f"SELECT SUM({called}({operands})), {called}({operands}) FROM visits") <= 1
        assert lines_of(f"SELECT COUNT({called}({operands})) FROM visits JOIN sites USING (sensor)") <= 1


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SUM(CASE WHEN age > 1 THEN CAST(NULL AS DOUBLE) END)", "a value that is not NULL"),
        ("SUM(COALESCE(CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE)))", "a value that is not NULL"),
        ("SUM(dow())", "dow needs one time"),
        ("SUM(weekday(ts, ts))", "weekday needs one time"),
        ("SUM(date_part())", "date_part needs a date part and a time"),
        ("SUM(date_part(ts))", "date_part needs a date part and a time"),
        ("SUM(date_part(age, ts))", "date_part needs a date part and a time"),
        ("SUM(FLOOR())", "FLOOR needs more operands"),
    ],
)
def test_missing_operands_are_named_in_the_refusal(sql: str, told: str) -> None:
    with pytest.raises(InvalidReleaseError, match=told):
        parse(f"SELECT {sql} FROM visits", STREAM, LOOKUPS)


@pytest.mark.parametrize("error", [TypeError("a\nsecret"), KeyError("secret"), RecursionError()])
def test_unexpected_exception_is_refused_without_its_text(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(select, "parse_select", fails)
    with pytest.raises(InvalidReleaseError) as refused:
        parse("SELECT COUNT(*) FROM visits", STREAM, LOOKUPS)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
