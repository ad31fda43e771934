"""The law of neighbours for each unit of privacy, on random streams and changes.

event      one event is added, removed, changed, moved or doubled
w-event    one event at each tick of a window
user       all that one user did is added or removed, many events or few, good or hostile
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.neighbour_hostile import json_hostile, json_values
from tests.support.neighbour_law import broken
from tests.support.neighbour_streams import FEW, FILTERED, HOUR, USER, VALUED, record, with_column
from tests.support.neighbour_ways import Way, somewhere
from tests.support.watched_runs import house_in_memory

W = 3
HOSTILE = [
    line
    for name, line in [*json_hostile(), *json_values()]
    if len(line) < 3000 and (b'"zed"' in line or b'"patient"' not in line) and not name.startswith("patient:")
]
NUMBERS = st.integers(0, 79)
PEOPLE = st.lists(st.builds(record, NUMBERS, patient=st.sampled_from("abcdefghi")), min_size=1, max_size=40)
ONE = st.builds(record, NUMBERS, patient=st.sampled_from(["a", "zed"]))
ZEDS = st.lists(st.builds(record, NUMBERS, patient=st.just("zed")), min_size=1, max_size=30)
some = settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
few = settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


def check(way, before, after, units=1):
    runs = [way.run(way.arrivals(records) + list(lines)) for records, lines in (before, after)]
    assert runs[0].raised is None
    assert broken(*runs, units) == []


@pytest.mark.slow
@some
@given(PEOPLE, ONE, st.data())
def test_added_event_is_one_unit_and_changed_event_two(house, people, one, data):
    way, place = Way(house, releases=VALUED), data.draw(st.integers(0, len(people) - 1))
    streams = people, [*people[:place], one, *people[place:]], [*people[:place], one, *people[place + 1 :]]
    before, added, changed = (way.run(way.arrivals(records)) for records in streams)
    assert before.raised is None
    assert broken(before, added) == broken(added, changed) == []
    assert broken(before, changed, units=2) == []


@some
@given(PEOPLE, st.lists(NUMBERS, min_size=W, max_size=W), st.integers(1, 8 - W + 1))
def test_one_event_per_tick_of_window_is_one_unit(house, people, numbers, first):
    window = [
        record(number, patient="zed", ts=f"2026-01-05T{first - 1 + place:02d}:{number % 60:02d}:00Z")
        for place, number in enumerate(numbers)
    ]
    check(Way(house, unit={"w_event": W}, releases=VALUED), (people, ()), (people + window, ()))


@some
@given(PEOPLE, ZEDS, st.lists(st.sampled_from(HOSTILE), max_size=10), st.sampled_from([2, 4000]))
def test_all_events_of_user_are_one_unit(house, people, zeds, hostile, universe):
    lines = [(somewhere(number), line) for number, line in enumerate(hostile)]
    way = Way(house, unit=USER, releases=VALUED, stream=with_column("patient", hash_cells=universe))
    check(way, (people, ()), (people + zeds, lines))


@few
@given(PEOPLE, ZEDS, st.lists(st.sampled_from(HOSTILE), max_size=10), st.sampled_from(["drop", "next_tick"]))
def test_all_events_of_user_in_followed_file_are_one_unit(house, people, zeds, hostile, late):
    lines = [(somewhere(number), line) for number, line in enumerate(hostile)]
    way = Way(
        house,
        live=True,
        unit=USER,
        releases=FEW | FILTERED,
        stream={"late": late} | with_column("patient", hash_cells=3),
    )
    check(way, (people, ()), (people + zeds, lines))


@some
@given(PEOPLE, ZEDS, st.booleans())
def test_user_has_same_ticks_in_releases_with_any_filter(house, people, zeds, piped):
    check(Way(house, unit=USER, piped=piped, releases=FILTERED), (people, ()), (people + zeds, ()))


@few
@given(PEOPLE, ZEDS)
def test_user_with_late_events_in_many_blocks_is_one_unit(house, people, zeds):
    way = Way(house, live=True, unit=USER, releases=FILTERED, stream={"allowed_lateness": "2h"})
    late = [(moment + HOUR, line) for moment, line in way.arrivals(zeds)]
    check(way, (people, ()), (people, late))


def test_users_with_same_hash_do_not_displace_each_other(house):
    """With one hash for all, the first user hides the others, at two ticks and no more."""
    hidden = [record(number, patient="a") for number in (20, 21, 22, 23)]
    zeds = [record(number, patient="zed", level=record(number)["level"]) for number in (0, 1, 2, 3, 4, 5)]
    for window in ("each", "running"):
        for group in ("level", "region"):
            sql = f"SELECT {group}, COUNT(DISTINCT patient) FROM v GROUP BY {group}"
            way = Way(house, unit=USER, releases={"users": (sql, window)}, stream=with_column("patient", hash_cells=2))
            check(way, (hidden, ()), (hidden + zeds, ()))
