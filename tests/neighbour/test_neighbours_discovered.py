"""The law of neighbours for discovered groups: one event adds one to one key, with any content.

A vector has a place for every key. Keys that only one unit has are never published, so neighbours have the same
rows, unless a key is at its threshold; delta covers that case.
"""

import pytest

from streamgauge.statistics.keys.discovery import KeySelection
from tests.support.neighbour_law import broken, moves_of
from tests.support.neighbour_streams import TICKS, VICTIM, json_line, record, with_column
from tests.support.neighbour_ways import Way, somewhere
from tests.support.watched_runs import house_in_memory

NOTES = {"notes": ("SELECT note, COUNT(*) FROM v WHERE amount < 100 GROUP BY note", "running")}
LOSS = {"rho": 1, "delta": "1/1000"}
STREAM = with_column("note", max_groups=2) | {"budget": {"epsilon": 1000, "delta": "1/10"}}
WORDS = ["tea"] * 9 + ["coffee"] * 3 + ["milk", "wine"]
PEOPLE = [record(tick, note=word) for tick in range(TICKS) for word in WORDS]
KEYS = ["once", "tea", "milk", "", " ", "x" * 10**6, "a\x00b", "\u2028", "\x1b[2J", "NULL", None, 1e300, [1], True]
BYTES = [json_line(VICTIM | {"note": "@@"}).replace(b"@@", note) for note in (b"\xff", b"\\ud800", b'"')]
WAYS = [{}, {"live": True}, {"piped": True}, {"format": "csv"}, {"suffix": ".gz"}]


@pytest.fixture(scope="module")
def house():
    with house_in_memory() as house:
        yield house


def way_of(house, window="running", unit="event", **settings):
    releases = {name: (sql, window) for name, (sql, _) in NOTES.items()}
    return Way(house, unit=unit, releases=releases, loss=LOSS, stream=STREAM, **settings)


def keys_published(observed):
    return {row["group"]["note"] for row in observed.rows}


@pytest.mark.parametrize("settings", WAYS)
def test_one_event_adds_one_to_one_key(house, settings):
    way = way_of(house, **settings)
    people = way.arrivals(PEOPLE)
    before, after = way.run(people), way.run(people + way.arrivals([VICTIM | {"note": "once"}]))
    assert before.raised is None
    assert keys_published(before) == {"tea", "coffee"}
    assert broken(before, after) == []
    assert [abs(moved).sum() for _, moved in moves_of(before, after)] == [1]


@pytest.mark.parametrize("window", ["running", "each", "sliding 3h"])
def test_no_key_matters_beyond_its_bound(house, window):
    way = way_of(house, window)
    people = way.arrivals(PEOPLE)
    before = way.run(people)
    assert "tea" in keys_published(before)
    lines = [way.line(VICTIM | {"note": key}) for key in KEYS] + BYTES
    for number, line in enumerate(lines if window == "running" else lines[::4]):
        assert broken(before, way.run([*people, (somewhere(number), line)])) == [], line[:300]


def test_one_event_per_tick_of_window_is_one_unit(house):
    way = way_of(house, unit={"w_event": 3})
    people = way.arrivals(PEOPLE)
    more = [VICTIM | {"ts": f"2026-01-05T0{tick}:20:00Z", "note": note} for tick, note in enumerate("aab", 2)]
    assert broken(way.run(people), way.run(people + way.arrivals(more))) == []


def test_a_threshold_that_one_event_passes_is_caught(house, monkeypatch):
    way = way_of(house)
    people = way.arrivals(PEOPLE)
    monkeypatch.setattr(KeySelection, "threshold", lambda selection, tick: 0.5)
    before, after = way.run(people[:6]), way.run(people[:6] + way.arrivals([VICTIM | {"note": "once"}]))
    assert any(what.startswith("rows") for what in broken(before, after))
