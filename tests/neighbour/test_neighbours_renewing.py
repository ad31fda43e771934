"""The law of neighbours for contributions that renew, whole ticks, and events that are replaced."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.neighbour_law import broken
from tests.support.neighbour_streams import FEW, FILTERED, HOUR, VALUED, record, with_column
from tests.support.neighbour_ways import Way
from tests.support.watched_runs import house_in_memory

PER = 4
RENEWED = {"user": "patient", "max_events_per_tick": 2, "max_ticks": 2, "per": "4h", "renewal": "2h"}
NUMBERS = st.integers(0, 79)
PEOPLE = st.lists(st.builds(record, NUMBERS, patient=st.sampled_from("abcd")), min_size=1, max_size=30)
ZEDS = st.lists(st.builds(record, NUMBERS, patient=st.just("zed")), min_size=1, max_size=40)
some = settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


def outside(records, first, length=PER):
    """Records but those of some ticks; the number of a record says its tick."""
    return [each for each in records if not first <= each["age"] % 8 + 1 < first + length]


def check(way, before, after, units=1, shift=0):
    runs = [way.run([(moment + shift, line) for moment, line in way.arrivals(each)]) for each in (before, after)]
    assert runs[0].raised is None
    assert broken(*runs, units) == []


@pytest.mark.slow
@some
@given(PEOPLE, ZEDS, st.integers(1, 6))
def test_absence_from_any_window_is_one_unit(house, people, zeds, first):
    way = Way(house, unit=RENEWED, releases=VALUED, stream=with_column("patient", hash_cells=4000))
    check(way, people + outside(zeds, first), people + zeds)


@some
@given(PEOPLE, ZEDS, st.integers(1, 6))
def test_absence_from_window_of_followed_file_is_one_unit(house, people, zeds, first):
    way = Way(house, live=True, unit=RENEWED, releases=FEW | FILTERED, stream={"allowed_lateness": "2h"})
    check(way, people + outside(zeds, first), people + zeds, shift=HOUR)


@pytest.mark.slow
@some
@given(PEOPLE, ZEDS, st.integers(1, 8), st.booleans())
def test_whole_tick_is_one_unit(house, people, zeds, tick, live):
    way = Way(house, live=live, unit={"tick": 3}, releases=FEW | FILTERED if live else VALUED)
    check(way, outside(people + zeds, tick, 1), people + zeds)


@some
@given(PEOPLE, st.builds(record, NUMBERS, patient=st.just("zed")), st.data())
def test_event_replaced_by_one_of_another_time_is_two_events(house, people, one, data):
    place = data.draw(st.integers(0, len(people) - 1))
    way = Way(house, releases=FEW, stream={"adjacency": "replace"})
    check(way, people, [*people[:place], one, *people[place + 1 :]], units=2)
