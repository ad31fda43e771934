"""Answers of whole pipelines under silent noise: releases equal the results of their queries."""

from fractions import Fraction

import duckdb
import numpy as np
import pytest

from streamgauge.config.pipeline_file import PipelineFileError
from streamgauge.engines.duckdb.aggregation import cell_index_sql
from streamgauge.plan.aggregates.grids import find_fine_step
from streamgauge.plan.measure import Cell
from streamgauge.statistics.ordered.axis import Axis
from tests.support.pipelines import START, event, one_a_second, pipeline, published, run, tables, write

INTERNAL = [f"{letter}{at}" for letter in "dipcs" for at in range(3)]
NAMES = [*INTERNAL, "number", "place", "cell", "tick", "line", "own", "label", "r", "v", "n", "frame"]


def build_request(folder, sql, events, columns=None, **stream):
    """Return the values of one release of these events at the first tick, a row for each measure."""
    declared = {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 10], "grid": 1}} | (columns or {})
    write(folder, events)
    made = pipeline(folder, tables({"name": "r", "sql": sql}, columns=declared, **stream))
    run(made)
    return made.releases("r")[0].value.tolist()


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", NAMES)
def test_column_of_any_name_is_ordinary_column(tmp_path, name):
    sql = f'SELECT g, COUNT(*), SUM(x), MEDIAN(x) FROM v WHERE "{name}" > 0 GROUP BY g'
    events = [event(1, "a", 3) | {name: 10**9}, event(2, "b", 4) | {name: 1}, event(3, "a", 5) | {name: -1}]
    values = build_request(tmp_path, sql, events, {name: {"type": "number"}})
    assert values[:2] == [[1, 1], [3, 4]]


@pytest.mark.parametrize("name", ["number", "r", "v"])
def test_user_unit_accepts_column_of_any_name(tmp_path, name):
    sql = f'SELECT COUNT(*) FROM v WHERE "{name}" > 0'
    unit = {"user": "u", "max_events_per_tick": 1, "max_ticks": 2}
    events = [event(s, u="alice") | {name: 1} for s in range(3)]
    assert build_request(tmp_path, sql, events, {name: {"type": "number"}}, unit=unit) == [[1]]


def test_reserved_column_name_is_refused(tmp_path):
    with pytest.raises(PipelineFileError, match=r"without control characters, double quotes or a \$ in front"):
        pipeline(tmp_path, tables(columns={"$tick": {"type": "number"}}))


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT COUNT(1), SUM(x) FROM v WHERE x > 1", [[2], [9]]),
        ("SELECT COUNT(g), SUM(x) FROM v WHERE x > 1", [[2], [9]]),
        ("SELECT COUNT(g), SUM(x * 2) FROM v WHERE x >= 0 AND g = 'a'", [[1], [8]]),
        ("SELECT COUNT(x), COUNT(*), SUM(y) FROM v", [[2], [3], [30]]),
        ("SELECT COUNT(x), SUM(y) FROM v WHERE x >= 0 AND y >= 0", [[2], [20]]),
    ],
)
def test_counts_with_sums_are_of_their_own_expressions(tmp_path, sql, values):
    events = [event(1, "a", 4, y=10), event(2, "b", 5, y=10), {"ts": START + 3, "g": "b", "y": 10}]
    columns = {"y": {"bounds": [0, 10], "grid": 1}}
    assert build_request(tmp_path, sql, events, columns) == values


def test_values_on_the_grid_are_in_their_own_cells(tmp_path):
    columns = {"x": {"bounds": [35, 42], "grid": 0.1}}
    for value in (35.1, 35.3, 36.6, 41.9):
        folder = tmp_path / str(value)
        folder.mkdir()
        found = build_request(folder, "SELECT MEDIAN(x) FROM v", [event(1, "a", value)] * 3, columns)
        assert found == [[pytest.approx(value)]]


def test_cells_of_sql_are_those_of_an_axis():
    for low, high, step in (("35", "42", "1/10"), ("-1", "1", "1/30"), ("0", "1/3", "1/768"), ("-7", "9", "2")):
        axis = Axis(Fraction(low), Fraction(high), Fraction(step))
        values = sorted({*axis.edges.tolist(), *(axis.edges - 1e-12).tolist(), 1e300, -1e300, 0.1, 0.3})
        sql = cell_index_sql(Cell("x", axis.cells, axis.lower, axis.step))
        rows = ", ".join(f"({value!r}::DOUBLE)" for value in values)
        found = duckdb.connect().execute(f"SELECT {sql} FROM (VALUES {rows}) AS t(x)").fetchall()
        assert [cell for (cell,) in found] == axis.encode(np.array(values))[0].tolist()


def test_expression_without_grid_is_summed_finely(tmp_path):
    events = [event(1, x=s % 11) for s in range(40)]
    true = sum((s % 11) * (s % 11) / 3 for s in range(40))
    found = build_request(tmp_path, "SELECT SUM(x * x / 3), AVG(x / 3) FROM v", events)
    assert found[0][0] == pytest.approx(true, abs=0.01)
    assert found[1][0] == pytest.approx(sum(s % 11 for s in range(40)) / 120, abs=0.001)


def test_fine_step_divides_range_into_enough_cells():
    for low, high in ((0, 1), (-3, 10**9), (Fraction(1, 3), Fraction(2, 3)), (0, Fraction(1, 10**6))):
        step = find_fine_step(Fraction(low), Fraction(high), 2**20)
        assert 2**18 < (Fraction(high) - Fraction(low)) / step <= 2**20 - 2


def test_late_next_tick_is_refused_under_w_event_unit(tmp_path):
    with pytest.raises(PipelineFileError, match='late must be "drop" under a w-event unit'):
        pipeline(tmp_path, tables(live=True, late="next_tick", unit={"w_event": 5}))


def test_bad_record_in_parquet_source_ends_no_run(tmp_path):
    duckdb.connect().execute(
        f"COPY (SELECT * FROM (VALUES ({START + 1}, 'a', 1), (NULL, 'a', 1)) AS t(ts, g, x)) "
        f"TO '{tmp_path / 'v.pq'}' (FORMAT parquet)"
    )
    made = pipeline(tmp_path, tables(source="v.pq", format="parquet"))
    run(made)
    assert published(made)[0] == [1, 0]
    assert made.quarantine() == ()


def test_bad_records_of_batch_file_are_found_on_request_only(tmp_path):
    write(tmp_path, one_a_second(20))
    with (tmp_path / "v.jsonl").open("a") as file:
        file.write('nonsense\n{"g": "a"}\n')
    made = pipeline(tmp_path, tables())
    steps = []
    run(made, step=steps.append)
    clean = pipeline(tmp_path, tables(), "clean.toml")
    (tmp_path / "out.jsonl").unlink()
    write(tmp_path, one_a_second(20))
    others = []
    run(clean, step=others.append)
    assert steps == others
    with (tmp_path / "v.jsonl").open("a") as file:
        file.write('nonsense\n{"g": "a"}\n')
    size = (tmp_path / "v.jsonl").stat().st_size
    assert [(each.offset, each.length, each.rule) for each in made.quarantine()] == [
        (size - 20, 8, "not readable"),
        (size - 11, 10, "no time"),
    ]
