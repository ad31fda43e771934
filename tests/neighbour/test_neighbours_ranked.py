"""The law of neighbours for ranked groups: every tick has its places, for any data, and no vector changes."""

import pytest

from tests.support.neighbour_law import broken, moves_of
from tests.support.neighbour_streams import TICKS, VICTIM, json_line, record
from tests.support.neighbour_ways import Way, somewhere
from tests.support.watched_runs import house_in_memory

SQL = "SELECT region, COUNT(*), SUM(amount) FROM v GROUP BY region ORDER BY COUNT(*) DESC LIMIT 3"
REGIONS = ["north"] * 8 + ["west"] * 5 + ["east"] * 2  # so far apart that no event changes their order
PEOPLE = [record(tick, region=region, amount=1) for tick in range(TICKS) for region in REGIONS]
HOSTILE = [{"region": "north"}, {"region": "mars"}, {"region": None}, {"region": ["north"]}, {"amount": 1e308}]
BYTES = [json_line(VICTIM | {"note": "@@"}).replace(b"@@", note) for note in (b"\xff", b'"')]


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


@pytest.mark.parametrize("window", ["running", "each", "sliding 3h"])
def test_no_record_changes_places_or_moves_too_far(house, window):
    way = Way(house, releases={"top": (SQL, window)})
    people = way.arrivals(PEOPLE)
    before = way.run(people)
    assert [row["rank"] for row in before.rows] == [1, 2, 3] * TICKS
    lines = [way.line(VICTIM | hostile) for hostile in HOSTILE] + BYTES
    for number, line in enumerate(lines if window == "running" else lines[::3]):
        assert broken(before, way.run([*people, (somewhere(number), line)])) == [], line[:300]


def test_an_empty_stream_has_as_many_places(house):
    way = Way(house, releases={"top": (SQL, "each")})
    assert len(way.run([]).rows) == len(way.run(way.arrivals(PEOPLE)).rows) == 3 * TICKS


def test_unlisted_groups_are_counted_like_all_others(house):
    way = Way(house, releases={"top": (SQL, "running")})
    people = way.arrivals(PEOPLE)
    south = way.arrivals([VICTIM | {"region": "south"}])
    moved = [abs(moves).sum() for _, moves in moves_of(way.run(people), way.run(people + south))]
    assert all(moved)


def test_rows_of_groups_with_events_only_are_caught(house):
    """Without noise, a twin that lists no group without events has another number of rows after one more record."""
    way = Way(house, releases={"top": (SQL, "each")})
    before, after = way.run([]), way.run(way.arrivals([VICTIM | {"region": "south"}]))
    honest = [[row["rank"] for row in seen.rows] for seen in (before, after)]
    assert honest[0] == honest[1]
    twin = [[row["rank"] for row in seen.rows if row["count"]["value"] > 0] for seen in (before, after)]
    assert twin[0] != twin[1]
