"""The law of neighbours for tumbling releases: an event moves the vector of one period, and nothing else."""

import numpy as np
import pytest

from streamgauge.runtime.release_run import ReleaseRun
from tests.support.broken_periods import OverlappingPeriod
from tests.support.neighbour_law import broken, moves_of
from tests.support.neighbour_streams import COUNTED, VICTIM, record
from tests.support.neighbour_ways import Way
from tests.support.watched_runs import house_in_memory

PEOPLE = [record(number) for number in range(40)]
PERIODS = {
    "counted": (COUNTED, "tumbling 3h"),
    "axes": ("SELECT MIN(temperature), MEDIAN(amount) FROM v", "tumbling 3h"),
}
DAYS = {"days": ("SELECT kind, COUNT(*) FROM v GROUP BY ROLLUP (kind)", "tumbling day America/New_York")}
EDGES = ("00:00:00", "02:59:59.999999", "03:00:00", "05:00:00", "07:59:59")  # in UTC, of 8 hours; a day begins at 5:00


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


def find_broken(way, time):
    before = way.run(way.arrivals(PEOPLE))
    after = way.run(way.arrivals([*PEOPLE, VICTIM | {"ts": f"2026-01-05T{time}Z"}]))
    assert before.raised is None
    return broken(before, after), moves_of(before, after)


@pytest.mark.parametrize("time", EDGES)
def test_event_at_an_edge_is_in_one_period(house, time):
    for releases, rows in ((PERIODS, 3), (DAYS, 2)):
        found, moves = find_broken(Way(house, releases=releases), time)
        assert found == []
        assert [np.count_nonzero(abs(moved).sum(axis=1)) for _, moved in moves] == [1] * len(moves)
        assert {len(moved) for _, moved in moves} == {rows}


def test_event_of_a_followed_file_is_in_one_period(house):
    found, moves = find_broken(Way(house, live=True, releases=PERIODS), EDGES[2])
    assert found == []
    assert all(np.count_nonzero(abs(moved).sum(axis=1)) == 1 for _, moved in moves)


class OverlappingRun(ReleaseRun):
    def __init__(self, *given):
        super().__init__(*given)
        if self.open_period is not None:
            periods, measures = self.open_period.periods, self.scan.measures
            self.open_period = OverlappingPeriod(periods, self.first, measures, is_forgetful=False)


def test_periods_that_overlap_by_a_tick_are_found(house):
    releases = {"counted": PERIODS["counted"]}
    found, _ = find_broken(Way(house, releases=releases, components={ReleaseRun: OverlappingRun}), EDGES[1])
    assert any("ticks touched" in each or "touched by all parts" in each for each in found), found
    assert find_broken(Way(house, releases=releases), EDGES[1])[0] == []
