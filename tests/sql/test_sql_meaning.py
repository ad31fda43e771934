"""The meaning of a SELECT: its groups, aggregates, bounds, names and canonical text."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.settings import Column, Stream
from streamgauge.sql import parse
from streamgauge.sql.query import Aggregate, Codes, Value
from tests.support.sql_clinic import LIVE, LOOKUPS, REGIONS, STREAM, engine, query


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    with engine() as connection:
        yield connection


def value(sql: str, where: str = "") -> Value:
    (found,) = query(f"SELECT SUM({sql}) FROM visits JOIN sites USING (sensor) {where}").aggregates
    assert found.value is not None
    return found.value


def bounds(sql: str, where: str = "") -> tuple[Fraction | None, Fraction | None, Fraction | None]:
    found = value(sql, where)
    return found.lower, found.upper, found.step


def labels(sql: str, where: str = "", stream: Stream = STREAM) -> tuple[object, ...]:
    (group,) = query(f"SELECT COUNT(*) FROM visits JOIN sites USING (sensor) {where} GROUP BY {sql}", stream).groups
    return group.labels


def names(select: str) -> list[str]:
    checked = query(f"SELECT {select} FROM visits")
    return [column.name for column in (*checked.groups, *checked.aggregates)]


def test_every_aggregate_of_the_dialect_has_its_kind() -> None:
    select = """COUNT(*), COUNT(age), SUM(age), AVG(age), VAR_SAMP(age), VARIANCE(age), STDDEV(age),
        STDDEV_SAMP(age), MIN(age), MAX(age), MEDIAN(age), QUANTILE(age, 0.9), COUNT(DISTINCT patient)"""
    kinds = [found.kind for found in query(f"SELECT {select} FROM visits").aggregates]
    assert kinds == [
        *["count", "count", "sum", "mean", "variance", "variance", "stddev", "stddev", "min", "max"],
        *["quantile", "quantile", "distinct"],
    ]


def test_unnamed_columns_are_named_by_their_expression() -> None:
    assert names("COUNT(*), AVG(temperature), COUNT(DISTINCT patient)") == [
        *["count", "avg_temperature", "count_distinct_patient"]
    ]
    assert names("MEDIAN(age), QUANTILE(age, 0.9), VAR_SAMP(age)") == [
        *["median_age", "quantile_age_0_9", "variance_age"]
    ]
    assert names("SUM(age * 2 + 1), SUM(age), SUM(age), SUM(age) AS sum_age_2") == [
        *["sum_age_2_1", "sum_age", "sum_age_3", "sum_age_2"]
    ]


def test_group_columns_have_group_by_order_and_select_names() -> None:
    checked = query("SELECT hour(ts) AS h, region, COUNT(*) FROM visits GROUP BY region, 1, fever")
    assert [group.name for group in checked.groups] == ["region", "h", "fever"]
    assert checked.levels == (3,)
    assert checked.columns == {"ts", "region", "fever"}


@pytest.mark.parametrize("key", ["1", "h", "hour(ts)", "HOUR( ts )", "(hour(ts))"])
def test_groups_can_be_given_by_position_alias_or_expression(key: str) -> None:
    (group,) = query(f"SELECT hour(ts) AS h, COUNT(*) FROM visits GROUP BY {key}").groups
    assert (group.name, group.labels) == ("h", tuple(range(24)))


def test_a_rollup_keeps_fewer_and_fewer_columns() -> None:
    def levels(group: str) -> tuple[int, ...]:
        return query(f"SELECT COUNT(*) FROM visits GROUP BY {group}").levels

    assert levels("ROLLUP (region, ward)") == (2, 1, 0)
    assert levels("region, ROLLUP (ward, fever)") == (3, 2, 1)
    assert levels("region, ward WITH ROLLUP") == (2, 1, 0)
    assert query("SELECT COUNT(*) FROM visits").levels == (0,)


def test_labels_have_their_declared_order() -> None:
    assert labels("region") == REGIONS
    assert labels("ward") == ("a", "b", "other")
    assert labels("fever") == labels("age > 5") == (False, True)
    assert labels("storey") == (1, 2, 5)
    assert labels("room") == ("r1", "r2", "r3")
    assert labels("sites.floor") == (1, 2)
    assert labels("area") == (9.0, 10.5)
    assert labels("isodow(ts)") == (1, 2, 3, 4, 5, 6, 7)
    assert labels("quarter(ts)") == (1, 2, 3, 4)
    assert labels("EXTRACT(month FROM born)") == tuple(range(1, 13))
    assert labels("FLOOR(age / 40) * 40") == (0, 40, 80, 120)
    assert labels("FLOOR(age) % 3") == (0, 1, 2)
    assert labels("CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END") == (
        *("child", "adult", "old"),
    )
    assert labels("CASE region WHEN 'north' THEN 2 WHEN 'south' THEN 1 END") == (1, 2)
    assert labels("COALESCE(region, 'unknown')") == (*REGIONS, "unknown")
    assert labels("UPPER(ward)") == ("A", "B", "OTHER")
    assert labels("NULLIF(ward, 'other')") == ("a", "b")
    assert labels("ROUND(temperature, 1)")[:3] == (35, 35.1, 35.2)
    assert len(labels("temperature")) == 71


def test_years_are_those_of_the_stream_in_its_time_zone() -> None:
    assert labels("year(ts)") == (2026,)
    assert labels("year(ts)", stream=replace(STREAM, timezone="America/New_York")) == (2025, 2026)
    with pytest.raises(InvalidReleaseError, match="bounds"):
        labels("year(ts)", stream=LIVE)


def test_condition_narrows_group_labels() -> None:
    assert labels("FLOOR(age / 10) * 10", "WHERE age >= 65 AND age < 90") == (60, 70, 80, 90)


@pytest.mark.parametrize("count", [3, 65, 5000])
def test_codes_are_the_numbers_of_labels_however_many(rows: duckdb.DuckDBPyConnection, count: int) -> None:
    texts = tuple(f"it's \\ {i}" for i in range(count))
    wholes, parts = tuple(3 * i for i in range(count)), tuple(i + 0.5 for i in range(count))
    declared = {"t": Column("t", values=texts), "w": Column("w", "number", values=wholes)}
    declared["p"] = Column("p", "number", values=parts)
    checked = parse("SELECT COUNT(*) FROM visits GROUP BY t, w, p", replace(STREAM, columns=declared), {})
    codes = ", ".join(group.code for group in checked.groups)
    for i in (0, 1, count // 2, count - 1):
        found = rows.execute(
            f"SELECT {codes} FROM (SELECT ? AS t, ?::DOUBLE AS w, ? AS p)", [texts[i], wholes[i], parts[i]]
        )
        assert found.fetchall() == [(i, i, i)]
    assert [group.labels for group in checked.groups] == [texts, wholes, parts]


def test_bounds_and_grids_follow_arithmetic() -> None:
    tenth = Fraction(1, 10)
    assert bounds("temperature") == (35, 42, tenth)
    assert bounds("temperature * 1.8 + 32") == (95, Fraction("107.6"), Fraction(1, 50))
    assert bounds("temperature - 37") == (-2, 5, tenth)
    assert bounds("-age") == (-120, 0, 1)
    assert bounds("ABS(change)") == (0, Fraction(5, 2), None)
    assert bounds("age / 12") == (0, 10, Fraction(1, 12))
    assert bounds("age * temperature") == (0, 5040, None)
    assert bounds("age / temperature")[0] == 0
    assert bounds("temperature > 38") == (0, 1, 1)
    assert bounds("CASE WHEN fever THEN age ELSE 0.5 END") == (0, 120, Fraction(1, 2))
    assert bounds("LEAST(GREATEST(raw, 0), 9)") == (0, 9, None)
    assert bounds("COALESCE(age, 150)") == (0, 150, 1 * Fraction(1))
    assert bounds("storey") == (1, 5, 1)
    assert bounds("area") == (9, Fraction(21, 2), Fraction(3, 2))
    assert bounds("FLOOR(raw)", "WHERE raw BETWEEN -3 AND 7.5") == (-3, 7, 1)
    assert bounds("age + 1e-30")[2] is None


def test_condition_narrows_bounds_of_aggregates() -> None:
    assert bounds("temperature", "WHERE temperature > 38")[:2] == (38, 42)
    assert bounds("temperature", "WHERE 40 >= temperature AND (36 < temperature AND fever)")[:2] == (36, 40)
    assert bounds("raw", "WHERE raw BETWEEN 0 AND temperature")[:2] == (0, 42)
    assert bounds("temperature", "WHERE temperature > 38 OR fever")[:2] == (35, 42)
    assert bounds("temperature", "WHERE NOT temperature > 38")[:2] == (35, 42)
    assert bounds("temperature", "WHERE temperature >= 42")[:2] == (35, 42)


@pytest.mark.parametrize(
    ("condition", "nullable"),
    [
        ("temperature > 38", False),
        ("temperature IS NOT NULL", False),
        ("NOT temperature IS NULL", False),
        ("fever AND temperature + age <> 5", False),
        ("temperature BETWEEN raw AND 40", False),
        ("temperature IN (36, 37)", False),
        ("NOT (temperature IN (36, 37) OR fever)", False),
        ("(temperature > 38) IS TRUE", False),
        ("temperature > 38 OR temperature < 36", False),
        ("temperature > 38 OR fever", True),
        ("temperature IS NULL", True),
        ("NOT (temperature > 38 AND fever)", True),
        ("COALESCE(temperature, 38) > 37", True),
        ("GREATEST(temperature, age) > 37", True),
        ("(temperature > 38) IS NOT TRUE", True),
        ("NOT (age BETWEEN temperature AND 40)", True),
        ("CASE WHEN temperature > 38 THEN TRUE ELSE FALSE END", True),
    ],
)
def test_condition_decides_if_a_column_is_nullable(
    rows: duckdb.DuckDBPyConnection, condition: str, nullable: bool
) -> None:
    assert value("temperature", f"WHERE {condition}").nullable is nullable
    where = query(f"SELECT COUNT(*) FROM visits WHERE {condition}").where
    missing = rows.execute(f'SELECT count(*) FROM rows WHERE {where} AND "temperature" IS NULL').fetchall()
    assert nullable or missing == [(0,)]


def test_columns_of_group_keys_are_not_nullable() -> None:
    (found,) = query("SELECT FLOOR(age / 10), AVG(age) FROM visits GROUP BY 1").aggregates
    assert found.value is not None
    assert not found.value.nullable


@pytest.mark.parametrize(
    ("group", "nullable"),
    [
        ("ROLLUP (FLOOR(age / 10))", True),
        ("ROLLUP (FLOOR(age / 10), region)", True),
        ("region, ROLLUP (FLOOR(age / 10))", True),
        ("FLOOR(age / 10), ROLLUP (region)", False),
        ("FLOOR(age / 10), region", False),
    ],
)
def test_columns_of_rolled_up_groups_are_nullable(group: str, nullable: bool) -> None:
    (found,) = query(f"SELECT COUNT(age) FROM visits GROUP BY {group}").aggregates
    assert found.value is not None
    assert found.value.nullable is nullable


@pytest.mark.parametrize("group", ["", "GROUP BY room", "GROUP BY FLOOR(area)"])
@pytest.mark.parametrize(
    ("key", "nullable"),
    [
        (Column("sensor"), False),
        (Column("sensor", values=("s1", "s9")), True),
        (Column("sensor", values=("s1", "s9"), other=True), False),
    ],
)
def test_joined_key_with_declared_values_is_nullable(key: Column, nullable: bool, group: str) -> None:
    """Joins compare the event's text, but its column is NULL if the text is not declared."""
    stream = replace(STREAM, columns={**STREAM.columns, "sensor": key})
    sql = f"SELECT COUNT(sensor) FROM visits JOIN sites USING (sensor) {group}"
    (found,) = parse(sql, stream, LOOKUPS).aggregates
    assert found.value is not None
    assert found.value.nullable is nullable


def test_condition_selects_the_same_events_as_plain_sql(rows: duckdb.DuckDBPyConnection) -> None:
    where = query("SELECT COUNT(*) FROM visits WHERE age > 17 AND ts < '2026-01-04 13:00' AND region = 'o''east'").where
    plain = "age > 17 AND ts < TIMESTAMP '2026-01-04 13:00' AND region = 'o''east'"
    kept = rows.execute(f"SELECT count(*) FILTER ({where}), count(*) FILTER ({plain}) FROM rows").fetchall()
    assert kept[0][0] == kept[0][1] > 0


def test_count_uses_the_expression_value_or_its_presence() -> None:
    shared, there = query("SELECT COUNT(age), COUNT(note) FROM visits").aggregates
    assert shared.value == value("age")
    assert there.value == Value(
        'CASE WHEN "note" IS NOT NULL THEN 1e0 END', Fraction(1), Fraction(1), Fraction(1), True
    )


def test_distinct_counts_have_a_universe() -> None:
    hashed, declared = query("SELECT COUNT(DISTINCT patient), COUNT(DISTINCT ward) FROM visits").aggregates
    assert hashed == Aggregate(
        "count_distinct_patient", "distinct", codes=Codes('"patient"', 1000, "patient", is_hashed=True)
    )
    assert declared.codes is not None
    assert (declared.codes.universe, declared.codes.column, declared.codes.is_hashed) == (3, "ward", False)
    (joined,) = query("SELECT COUNT(DISTINCT room) FROM visits JOIN sites USING (sensor)").aggregates
    assert joined.codes is not None
    assert joined.codes.universe == 3


@pytest.mark.parametrize(
    "join", ["USING (sensor)", "ON visits.sensor = sites.sensor", "ON sites.sensor = visits.sensor"]
)
def test_a_lookup_is_joined_by_its_key(join: str) -> None:
    checked = query(f"SELECT sites.room, COUNT(*) FROM visits INNER JOIN sites {join} GROUP BY sites.room")
    assert checked.lookups == {"sites"}
    assert checked.columns == {"sensor"}
    assert checked.groups[0].name == "room"


def test_tables_may_have_aliases() -> None:
    checked = query("SELECT s.floor, SUM(v.age) FROM visits AS v JOIN sites s ON v.sensor = s.sensor GROUP BY 1")
    assert checked.lookups == {"sites"}
    assert checked.columns == {"sensor", "age"}


def test_ambiguous_column_name_is_refused() -> None:
    both = replace(STREAM, columns={**STREAM.columns, "floor": Column("floor", "boolean")})
    with pytest.raises(InvalidReleaseError, match=r"write sites\.floor"):
        parse("SELECT floor, COUNT(*) FROM visits JOIN sites USING (sensor) GROUP BY 1", both, LOOKUPS)
    asked = "SELECT sites.floor, COUNT(*) FROM visits JOIN sites USING (sensor) GROUP BY 1"
    assert parse(asked, both, LOOKUPS).columns == {"sensor"}


TYPED = [
    "SELECT region, COUNT(*), AVG(age) FROM visits WHERE age > 38 GROUP BY region",
    "select region,count(*),avg(age) from visits where age>38 group by region;",
    "SELECT region,\n  COUNT( * ),\tAVG(age)\n FROM visits\n WHERE age > 38\n GROUP BY region",
    "Select region, Count(*), Avg(age) -- a remark\nFrom visits Where /* old */ age > 38 Group By region",
    'SELECT "region", COUNT(*), AVG("age") FROM "visits" WHERE age > 38 GROUP BY region',
]


@pytest.mark.parametrize("sql", TYPED[1:])
def test_canonical_text_does_not_depend_on_typing(sql: str) -> None:
    assert query(sql).text == query(TYPED[0]).text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT hour(ts) h, region, QUANTILE(age,.9) FROM visits WHERE note NOT LIKE 'a%' GROUP BY 1, 2",
        "SELECT COUNT(DISTINCT patient) FROM visits v JOIN sites USING (sensor) WHERE -age % 7 = 5",
        "SELECT COUNT(*) FROM visits GROUP BY region, ROLLUP (ward)",
        'SELECT "region", COUNT(*) FROM visits GROUP BY (visits.region)',
    ],
    ids=["groups", "joins", "levels", "quotes"],
)
def test_canonical_text_parses_to_the_same_query(sql: str) -> None:
    assert query(query(sql).text) == query(sql)


def test_parsing_a_query_is_deterministic() -> None:
    sql = "SELECT ward, COUNT(*), SUM(age) FROM visits WHERE region IN ('north', 'south') GROUP BY ward"
    assert query(sql) == query(sql)


def test_columns_named_to_break_out_stay_in_their_quotes(rows: duckdb.DuckDBPyConnection) -> None:
    name = 'x" FROM rows; DROP TABLE rows; --'
    stream = replace(STREAM, columns={name: Column(name, "number", bounds=(Fraction(0), Fraction(1)))})
    asked = name.replace('"', '""')
    (found,) = parse(f'SELECT SUM("{asked}") FROM visits', stream, {}).aggregates
    assert found.value is not None
    assert found.name == "sum_x_from_rows_drop_table_rows"
    assert rows.execute(f'SELECT sum({found.value.sql}) FROM (SELECT 0.5 AS "{asked}")').fetchall() == [(0.5,)]
