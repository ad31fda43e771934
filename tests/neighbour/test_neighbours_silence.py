"""Nothing speaks of the data but a release: not what is raised, printed, logged or shown while a run goes on.

All values are marked. The marks are looked for in everything that a run says, to readers and to its curator,
when it goes well, when the engine fails, and when a bug is shown with --debug.
"""

import json
import logging
import traceback

import duckdb
import pytest

from streamgauge.engines import EngineError
from streamgauge.engines.duckdb import connection
from streamgauge.runtime.part_runs import EventPartRun
from streamgauge.sources import SourceError
from tests.support.neighbour_commands import commanded
from tests.support.neighbour_hostile import json_hostile
from tests.support.neighbour_law import broken, told_apart
from tests.support.neighbour_streams import FEW, VICTIM, json_line, record
from tests.support.neighbour_ways import Way, moment, somewhere
from tests.support.watched_runs import house_in_memory

MARK = "qzvx"
MARKED = {"note": f"{MARK}note", "sensor": f"{MARK}sensor", "patient": f"{MARK}zed", "region": f"{MARK}region"}
PEOPLE = [record(number) | MARKED for number in range(20)]
BAD = [line.replace(b"north", MARK.encode()) for _, line in json_hostile() if len(line) < 3000]
FAILURES = [duckdb.ConversionException, duckdb.FatalException, RuntimeError]
LIVE = [{"live": True}, {"piped": True}]  # where running out of memory is no reason to try again


@pytest.fixture
def house():
    with house_in_memory() as house:
        yield house


def chain_of(error):
    """An exception, and all that it came from, shown or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def everything_said(error):
    shown = "".join(traceback.format_exception(error))
    return shown + "".join(f"{each!r} {each.args} {vars(each)}" for each in chain_of(error))


def lines_of(way):
    return way.arrivals(PEOPLE) + [(somewhere(number), line) for number, line in enumerate(BAD)]


@pytest.mark.parametrize("settings", [{}, {"live": True}, {"piped": True}, {"suffix": ".gz"}])
def test_a_run_over_marked_records_says_nothing_of_them(house, settings, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    way = Way(house, releases=FEW, **settings)
    observed = way.run(lines_of(way))
    assert observed.raised is None
    said = "".join(capfd.readouterr()) + caplog.text + json.dumps([*observed.rows, observed.public], default=repr)
    assert MARK not in said + repr(observed.progress)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        *((settings, kind) for settings in ({}, {"suffix": ".gz"}, *LIVE) for kind in FAILURES),
        *((settings, MemoryError) for settings in LIVE),
    ],
)
def test_an_engine_that_fails_with_data_in_its_words_is_reported_without_them(house, settings, kind, monkeypatch):
    arrays = connection.DuckConnection.execute

    class Loud:
        def __init__(self, database):
            self.database = database

        def execute(self, sql):
            if "GROUPING" in sql:
                raise kind(f"Could not convert {MARK}zed to DOUBLE in line 3")
            return self.database.execute(sql)

    def failing(self, sql, fetch):
        self._database = Loud(self._open_database())
        try:
            return arrays(self, sql, fetch)
        finally:
            self._database = self._database and self._database.database

    monkeypatch.setattr(connection.DuckConnection, "execute", failing)
    way = Way(house, releases=FEW, **settings)
    observed = way.run(lines_of(way))
    assert isinstance(observed.raised, EngineError)
    assert MARK not in everything_said(observed.raised)


@pytest.mark.parametrize("first", [b"\xff" + MARK.encode(), f'"{MARK}'.encode(), f"{MARK},{MARK}".encode()])
@pytest.mark.parametrize("live", [False, True])
def test_a_header_that_is_none_is_refused_without_its_words(house, first, live):
    """It may be a record."""
    way = Way(house, format="csv", live=live, releases=FEW, header=first)
    observed = way.run(way.arrivals(PEOPLE))
    assert isinstance(observed.raised, SourceError)
    shown = "".join(traceback.format_exception(observed.raised))
    assert MARK not in shown + repr(vars(observed.raised))


def test_the_curators_log_counts_and_quotes_nothing(house):
    found = commanded(house, "run", lines=[*(json_line(person) for person in PEOPLE), *BAD])
    assert found.exit_code == 0
    log = (house.folder / "v.streamgauge" / "curator.log").read_text()
    assert "not readable" in log
    assert MARK not in log


def test_a_bug_is_named_by_its_class_and_shown_only_when_requested(house, monkeypatch):
    def crash(*given):
        raise KeyError(f"{MARK}zed")

    monkeypatch.setattr(EventPartRun, "estimate_ticks", crash)
    people = [json_line(person) for person in PEOPLE]
    texts = commanded(house, "run", lines=people)
    assert (texts.exit_code, texts.stdout) == (1, "")
    assert "KeyError: this is a bug" in texts.stderr
    assert MARK not in texts.output


def test_neighbours_differ_in_vectors_and_in_what_is_counted_for_the_curator(house):
    """So what was compared above is not the same for want of anything to see."""
    way = Way(house, releases=FEW)
    people = way.arrivals(PEOPLE)
    before, after = way.run(people), way.run([*people, (moment(VICTIM), way.line(VICTIM))])
    assert broken(before, after) == []
    assert broken(before, after, units=0)
    assert before.progress != after.progress


@pytest.mark.parametrize("settings", [{}, {"format": "csv"}, {"live": True}, {"piped": True}])
def test_values_that_match_no_record_are_reported_to_the_curator_alone(house, settings):
    way = Way(house, releases=FEW, **settings)
    people = [record(number) for number in range(20)]
    good, bad = (way.run(way.arrivals([each | other for each in people])) for other in ({}, MARKED))
    assert told_apart(good, bad) == []
    value = "a declared value of region"
    assert not [line for line in good.diagnoses if line.startswith("warning")]
    assert [line for line in bad.diagnoses if line.startswith("warning") and value in line]
    assert not [line for line in good.diagnoses + bad.diagnoses if MARK in line]
