"""The law of neighbours where events have weights: counts move by one, and who is there by a bounded history."""

from typing import Any

import numpy as np
import pytest

from tests.support.neighbour_hostile import json_values
from tests.support.neighbour_law import broken, moves_of
from tests.support.neighbour_streams import COLUMNS, TICKS, VICTIM, record
from tests.support.neighbour_ways import Way, somewhere
from tests.support.watched_runs import house_in_memory

RELEASES = {
    "there": ("SELECT region, COUNT(DISTINCT patient) FROM v GROUP BY region", "running"),
    "net": ("SELECT region, COUNT(*), SUM(age), COUNT(note) FROM v GROUP BY region", "running"),
    "each": ("SELECT COUNT(*), SUM(amount) FROM v WHERE age > 3", "each"),
}
WEIGHED = COLUMNS | {"level": {"values": [-1, 1]}, "patient": {"hash_cells": 12, "max_changes": 3}}
STREAM: dict[str, Any] = {"weight": "level", "columns": WEIGHED}
PATIENTS = {"values": [*(f"p{i}" for i in range(9)), "zed"], "max_changes": 2}
OF_USERS = {"weight": "level", "columns": WEIGHED | {"patient": PATIENTS}}
PEOPLE = [record(number, level=(1, 1, -1)[number % 3]) for number in range(5 * TICKS)]
USER = {"user": "patient", "max_events_per_tick": 2, "max_ticks": 6}
WAYS = [{}, {"live": True}, {"piped": True}, {"format": "csv"}, {"suffix": ".gz"}]
BAD = [2, -2, 0, 0.5, 1e300, None, "x", "", [1], {"a": 1}, -1.0000001]


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("weight", [1, -1])
def test_one_event_more_moves_each_count_by_its_weight(house, settings, weight):
    way = Way(house, releases=RELEASES, stream=STREAM, **settings)
    people = way.arrivals(PEOPLE)
    before, after = way.run(people), way.run(people + way.arrivals([VICTIM | {"level": weight}]))
    assert before.raised is None
    assert broken(before, after) == []
    counts = [moved for part, moved in moves_of(before, after) if not part.statistic.HAS_MEMORY]
    assert sorted(int(moved.sum()) for moved in counts[:1]) == [weight]


@pytest.mark.parametrize("live", [False, True])
def test_value_without_weight_moves_nothing_and_shows_nowhere(house, live):
    way = Way(house, live=live, releases=RELEASES, stream=STREAM)
    people = way.arrivals(PEOPLE)
    before = way.run(people)
    for bad in BAD:
        after = way.run(people + way.arrivals([VICTIM | {"level": bad}]))
        assert broken(before, after) == []
        assert not any(moved.any() for _, moved in moves_of(before, after)), bad


@pytest.mark.parametrize("live", [False, True])
def test_changes_of_a_user_alternate_and_are_bounded_over_groups(house, live):
    way = Way(house, live=live, unit=USER, releases={"there": RELEASES["there"]}, stream=OF_USERS)
    places = ("north", "south")
    zeds = [record(7 * n, patient="zed", level=(1, -1, 1)[n % 3], region=places[n % 2]) for n in range(12)]
    lines = [(somewhere(n), line) for n, (_, line) in enumerate(json_values()) if len(line) < 3000]
    before = way.run(way.arrivals(PEOPLE))
    after = way.run(way.arrivals(PEOPLE + zeds) + [line for line in lines if b'"zed"' in line[1]][:20])
    assert before.raised is None
    assert broken(before, after) == []
    (moved,) = [moved for _, moved in moves_of(before, after)]
    assert 0 < np.abs(moved).sum() <= 2
    for group in moved.T:
        signs = [int(each) for each in group if each]
        assert signs == [(-1) ** place for place in range(len(signs))]
