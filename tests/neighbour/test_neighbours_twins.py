"""The law of neighbours catches engines and release parts that are broken on purpose."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from streamgauge.engines.duckdb import aggregation
from streamgauge.engines.duckdb import readers as reading
from streamgauge.engines.duckdb import scan_files as finished_scan
from streamgauge.engines.duckdb.rows import TypedColumn
from streamgauge.plan.aggregates import distinct
from streamgauge.runtime.part_runs import EventPartRun
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.sources import line_reader as lines
from streamgauge.statistics import Distinct
from tests.support import watched_runs
from tests.support.neighbour_law import broken
from tests.support.neighbour_streams import FEW, FILTERED, USER, VICTIM, record, with_column
from tests.support.neighbour_ways import Way, somewhere
from tests.support.watched_runs import house_in_memory

PEOPLE = [record(number) for number in range(40)]
LATER = [record(20 + number, patient=name, level=1) for number in range(4) for name in "abcd"]
ZEDS = [record(number, patient="zed", level=1) for number in range(60)]


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


@pytest.fixture(autouse=True)
def fresh_plans():
    """Start without cached plans, and leave none of a broken twin."""
    watched_runs.PLANS.clear()
    yield
    watched_runs.PLANS.clear()


def found(way, added=(), records=(), people=PEOPLE):
    """Return the violations of the law by added lines, or by a user's records."""
    people = way.arrivals(people)
    more = [(somewhere(1), line) for line in added] + way.arrivals(records)
    before = way.run(people)
    assert before.raised is None
    return broken(before, way.run(people + more))


def part_runs(kind):
    """Return components whose releases have parts of another kind."""

    class ChangedRun(ReleaseRun):
        def __init__(self, plan, name, first, runs):
            super().__init__(plan, name, first, [kind(run.part, run.run) for run in runs])

    return {ReleaseRun: ChangedRun}


def rewritten(monkeypatch, room, name, old, new):
    """Patch a function that writes SQL, so that it writes `new` in place of `old`."""
    write = getattr(room, name)

    def otherwise(*given, **settings):
        sql = write(*given, **settings)
        assert old in sql
        return sql.replace(old, new)

    monkeypatch.setattr(room, name, otherwise)


def test_a_stray_quote_that_swallows_lines_is_caught(house, monkeypatch):
    way = Way(house, format="csv", releases=FEW)
    assert found(way, [b'"']) == []
    rewritten(monkeypatch, reading, "build_lines_sql", "quote = ''", "quote = '\"'")
    assert found(way, [b'"'])


def test_a_line_that_ends_the_scan_is_caught(house, monkeypatch):
    way = Way(house, releases=FEW)
    line = b"x" * 2**19
    assert found(way, [line]) == []
    monkeypatch.setattr(reading, "build_lines_sql", partial(reading.build_lines_sql, longest=2**18))
    assert any(what.startswith("raised") for what in found(way, [line]))


def test_bad_line_that_drops_its_block_is_caught(house, monkeypatch):
    way = Way(house, live=True, releases=FEW)
    assert found(way, [b"\xff"]) == []
    monkeypatch.setattr(lines, "_repair_lines", lambda hop, offset, dropped: b"")
    assert any("L1" in what for what in found(way, [b"\xff"]))


def test_a_bound_on_users_after_a_filter_is_caught(house, monkeypatch):
    """Each release would have ticks of its own."""
    way = Way(house, unit=USER, releases=FILTERED)
    zeds = [record(tick, patient="zed", amount=-5 if tick < 4 else 5) for tick in range(8)]
    assert found(way, records=zeds) == []
    partition = "PARTITION BY "
    rewritten(monkeypatch, finished_scan, "bound_users_sql", partition, f"{partition}amount > 0, ")
    assert any("by all parts together" in what for what in found(way, records=zeds))


def test_users_without_a_bound_are_caught(house, monkeypatch):
    way = Way(house, unit=USER, releases=FILTERED)
    monkeypatch.setattr(finished_scan, "bound_users_sql", lambda rows, unit, first: rows)
    assert any("L1" in what for what in found(way, records=ZEDS))


def test_user_bound_that_displaces_other_users_is_caught(house, monkeypatch):
    """The bound treats all users as one, so only the first events of a tick survive."""
    way = Way(house, unit=USER, releases=FILTERED)
    bounded = finished_scan.bound_users_sql

    def as_one(rows, unit, first):
        return bounded(f'(SELECT * REPLACE (min("$user") OVER () AS "$user") FROM {rows})', unit, first)

    monkeypatch.setattr(finished_scan, "bound_users_sql", as_one)
    assert any("ticks touched" in what for what in found(way, records=ZEDS[:4], people=LATER))


def test_a_sum_that_is_not_clamped_is_caught(house, monkeypatch):
    way = Way(house, releases=FEW)
    much = way.line(VICTIM | {"amount": 51})
    assert found(way, [much]) == []
    monkeypatch.setattr(TypedColumn, "_number", lambda typed, own: own)
    assert found(way, [much]) == [], "the grid cuts off what the column did not"
    monkeypatch.setattr(aggregation, "floor_sql", lambda number, first, last: f"CAST(floor({number}) AS BIGINT)")
    assert any(what.startswith("Sum") for what in found(way, [much]))


def test_count_that_includes_null_values_is_caught(house):
    """The twin uses COUNT(*) for a column that may be NULL."""
    releases = {"moments": ("SELECT AVG(temperature), VAR_SAMP(temperature) FROM v", "each")}
    way = Way(house, releases=releases)
    missing = way.line(VICTIM | {"temperature": None})
    assert found(way, [missing]) == []

    class CountingAllRun(EventPartRun):
        def build_vectors(self, tally, rows, count):
            sums = tally.sums.copy()
            sums[1] = sums[0]
            return super().build_vectors(replace(tally, sums=sums), rows, count)

    broken_way = replace(way, components=part_runs(CountingAllRun))
    assert any("L1" in what for what in found(broken_way, [missing]))


def test_hash_codes_bounded_like_users_are_caught(house, monkeypatch):
    sql = "SELECT level, COUNT(DISTINCT patient) FROM v GROUP BY level"
    ways = [
        Way(house, unit=USER, releases={"users": (sql, window)}, stream=with_column("patient", hash_cells=2))
        for window in ("each", "running")
    ]
    assert [found(way, records=ZEDS[:4], people=LATER) for way in ways] == [[], []]

    def as_users(codes, asked):
        groups = min(asked.width, asked.unit.events * asked.unit.ticks)
        return Distinct(asked.loss, universe=codes.universe, max_groups=groups, **asked.to_settings())

    monkeypatch.setattr(distinct, "build_distinct", as_users)
    watched_runs.PLANS.clear()
    assert all(found(way, records=ZEDS[:4], people=LATER) for way in ways)


def test_an_event_that_is_added_twice_is_caught(house):
    class DoublingRun(EventPartRun):
        def build_vectors(self, *given):
            return 2 * super().build_vectors(*given)

    way = Way(house, releases=FEW, components=part_runs(DoublingRun))
    assert any("L1 2 above" in what for what in found(way, [way.line(VICTIM)]))


def test_a_record_that_moves_another_tick_is_caught(house):
    """The twin reads its clock from events: the newest record decides the lateness of the others."""

    class EventClockRun(EventPartRun):
        def build_vectors(self, tally, rows, count):
            made = super().build_vectors(tally, rows, count)
            late = np.arange(len(made)) < len(made) - 1 - (rows == count - 1).any() * 3
            return made * late[:, None, None]

    way = Way(house, releases=FEW, components=part_runs(EventClockRun))
    people = way.arrivals(person for person in PEOPLE if not person["ts"].startswith("2026-01-05T07"))
    before, after = (way.run(people + way.arrivals(more)) for more in ((), [VICTIM | {"ts": "2026-01-05T07:00:00Z"}]))
    assert any("ticks touched" in what for what in broken(before, after))
