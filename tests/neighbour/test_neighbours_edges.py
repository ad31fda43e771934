"""One record in edge cases: a byte order mark, a text that a library quotes, a scan without memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamgauge.engines import EngineMemoryError
from streamgauge.engines.duckdb import connection
from tests.neighbour.test_neighbours_parquet import texts
from tests.support.neighbour_hostile import MARK
from tests.support.neighbour_law import broken
from tests.support.neighbour_streams import FEW, START, record
from tests.support.neighbour_ways import Way
from tests.support.watched_runs import house_in_memory, tables

PEOPLE = [record(number) for number in range(40)]


@pytest.fixture
def house():
    with house_in_memory() as house:
        yield house


@pytest.mark.parametrize("settings", [{}, {"suffix": ".gz"}, {"piped": True}])
def test_first_line_is_read_like_any_other(house, settings):
    way = Way(house, releases=FEW, **settings)
    lines = [(START + place, line) for place, (_, line) in enumerate(way.arrivals(PEOPLE))]
    lines[1] = (lines[1][0], MARK + lines[1][1])
    assert broken(way.run(lines), way.run(lines[1:])) == []


def test_damaged_text_in_json_column_harms_only_itself(house):
    def ran(notes, people):
        columns = {name: pa.array([person[name] for person in people]) for name in people[0]}
        columns["note"] = pa.ExtensionArray.from_storage(pa.json_(), texts(notes))
        pq.write_table(pa.table(columns), house.folder / "v.parquet")
        releases = {"noted": ("SELECT COUNT(*), COUNT(note) FROM v", "each")}
        return house.run(tables("v.parquet", releases=releases))

    before = ran([b"{}"] * 40, PEOPLE)
    assert broken(before, ran([b"{}"] * 40 + [b"\xff"], [*PEOPLE, PEOPLE[0]])) == []


def test_scan_that_never_fits_ends_with_memory_error(house, monkeypatch):
    tried = []

    def full(self, sql, fetch):
        tried.append(sql)
        if len(tried) > 100:
            raise KeyboardInterrupt
        raise EngineMemoryError("the engine must have enough memory for one tick, got too little")

    monkeypatch.setattr(connection.DuckConnection, "execute", full)
    way = Way(house, releases=FEW)
    try:
        observed = way.run(way.arrivals(PEOPLE))
    except KeyboardInterrupt:
        pytest.fail("it goes on for ever")
    assert isinstance(observed.raised, EngineMemoryError)
