"""The law of neighbours for one event: one record cannot matter beyond its bound, with any content.

Each hostile record is added at the beginning, in the middle or at the end of a stream of forty. The whole pipeline
runs with it and without it, from each kind of source (see `neighbour_law`). A record added to one neighbour is
removed from the other; a changed record is one removed and another added.
"""

from itertools import chain, islice

import pytest

from tests.support.neighbour_hostile import (
    at_each_tick,
    broken_lines,
    csv_hostile,
    csv_values,
    json_hostile,
    json_values,
)
from tests.support.neighbour_law import broken, broken_at_a_tick, furthest, moves_of
from tests.support.neighbour_streams import FEW, RELEASES, VALUED, VICTIM, record
from tests.support.neighbour_ways import Way, moment, somewhere
from tests.support.watched_runs import house_in_memory

PEOPLE = [record(number) for number in range(40)]
FINE = 48  # ticks of ten minutes
WAYS = {
    "a batch file": {},
    "a batch CSV file": {"format": "csv"},
    "a compressed file": {"suffix": ".gz"},
    "batch standard input": {"piped": True},
    "live standard input": {"piped": True, "live": True},
    "a followed file": {"live": True},
    "a followed CSV file": {"live": True, "format": "csv"},
}
JSON, CSV = "a batch file", "a batch CSV file"
PIPES = ["a compressed file", "batch standard input", "live standard input"]
FOLLOWED = [("a followed file", "next_tick", 2), ("a followed CSV file", "drop", 5)]
VALUES = [(JSON, json_values), (CSV, csv_values)]
LONG = ("40 MB", b"x" * 40_000_000)


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


def way_of(house, name, **settings):
    return Way(house, **(WAYS[name] | {"releases": FEW} | settings))


@pytest.fixture(scope="module")
def without():
    """Return a function that runs a source without hostile records, once for all tests."""
    known = []

    def found(way):
        if way not in [each for each, _ in known]:
            known.append((way, way.run(way.arrivals(PEOPLE))))
        return next(run for each, run in known if each == way)

    return found


def check(way, before, hostile):
    """Run with each hostile record, and compare with the run without it."""
    people = way.arrivals(PEOPLE)
    assert before.raised is None
    assert before.counted
    for number, (name, line) in enumerate(hostile):
        after = way.run([*people, (somewhere(number), line)])
        assert broken(before, after) == [], name


def broken_lines_of(way):
    return broken_lines(way.line(VICTIM), way.line(VICTIM | {"note": "@@"}))


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", WAYS)
def test_plain_record_moves_every_vector_by_at_most_its_bound(house, without, name):
    kinds = {JSON: RELEASES, CSV: VALUED, "live standard input": VALUED}
    way = way_of(house, name, releases=kinds.get(name, FEW))
    people = way.arrivals(PEOPLE)
    before, after = without(way), way.run([*people, (moment(VICTIM), way.line(VICTIM))])
    assert before.raised is None
    assert broken(before, after) == []
    assert all(moved.any() for _, moved in moves_of(before, after))


@pytest.mark.parametrize("amount", [50, 1e300])
def test_bound_of_counts_and_sums_is_attained_by_event(house, without, amount):
    way = way_of(house, JSON)
    people = way.arrivals(PEOPLE)
    before, after = without(way), way.run(people + way.arrivals([VICTIM | {"amount": amount}]))
    assert broken(before, after) == []
    assert all(far == reach for far, reach in furthest(before, after))


def test_no_line_of_json_matters_beyond_its_bound(house, without):
    way = way_of(house, JSON)
    check(way, without(way), json_hostile())


@pytest.mark.slow
def test_no_line_of_csv_matters_beyond_its_bound(house, without):
    way = way_of(house, CSV)
    check(way, without(way), csv_hostile())


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", PIPES)
def test_no_line_of_pipe_or_archive_matters_beyond_its_bound(house, without, name):
    way = way_of(house, name)
    check(way, without(way), islice(broken_lines_of(way), PIPES.index(name), None, 3))


@pytest.mark.one_of_each
@pytest.mark.parametrize(("name", "late", "first"), FOLLOWED)
def test_no_line_of_followed_file_matters_beyond_its_bound(house, without, name, late, first):
    way = way_of(house, name, stream={"late": late})
    times = ("2099-01-01T00:00:00Z", "2026-01-05T00:10:00Z", "2026-01-05T07:50:00Z")
    elsewhere = ((time, way.line(VICTIM | {"ts": time})) for time in times)
    check(way, without(way), chain(islice(broken_lines_of(way), first, None, 6), elsewhere))


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", [JSON, "a compressed file", "live standard input", "a followed CSV file"])
def test_line_of_40_megabytes_does_not_break_law(house, without, name):
    way = way_of(house, name)
    check(way, without(way), [LONG])


@pytest.mark.one_of_each
@pytest.mark.parametrize(("name", "values"), VALUES)
def test_no_column_value_moves_any_statistic_beyond_its_bound(house, without, name, values):
    way = way_of(house, name, releases=VALUED, stream={"tick": "10m"})
    people, before = way.arrivals(PEOPLE), without(way)
    lines = [line for name, line in values() if not name.startswith("ts:")]
    for some in at_each_tick(lines, FINE):
        after = way.run([*people, *((somewhere(number), line) for number, line in enumerate(some))])
        assert broken_at_a_tick(before, after) == []


@pytest.mark.parametrize(("name", "values"), VALUES)
def test_no_time_moves_any_tick_beyond_its_bound(house, without, name, values):
    times = ((name, line) for name, line in values() if name.startswith("ts:"))
    way = way_of(house, name)
    check(way, without(way), islice(times, None, None, 4 if name == CSV else 3))


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", WAYS)
def test_only_record_of_stream_moves_its_vector_alone(house, name):
    way = way_of(house, name)
    no_user = way.run([])
    assert no_user.raised is None
    for line in (way.line(VICTIM), b"\xff"):
        assert broken(no_user, way.run([(moment(VICTIM), line)])) == []


@pytest.mark.parametrize("name", [JSON, CSV, "batch standard input"])
def test_last_line_without_newline_is_ordinary_record(house, without, name):
    way = way_of(house, name)
    people, before = way.arrivals(PEOPLE), without(way)
    for line in (way.line(VICTIM), b'"', b"\xff"):
        assert broken(before, way.run([*people, (somewhere(2), line)], end=b"")) == []


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", WAYS)
def test_repeated_record_is_one_unit_and_moved_record_two(house, name):
    way = way_of(house, name)
    people = way.arrivals(PEOPLE)
    before = way.run([*people, *way.arrivals([VICTIM])])
    later = VICTIM | {"ts": "2026-01-05T06:10:00Z"}
    moved = later | {"region": "west"}
    assert broken(before, way.run([*people, *way.arrivals([VICTIM, later])])) == []
    assert broken(before, way.run([*people, *way.arrivals([moved])]), units=2) == []
