"""Only releases reveal data: no exception, printed line, log or progress display of a run does.

All values are marked. The tests search for the marks in everything that a run shows to readers and to its curator:
after success, after a failure of the engine, and after a bug.
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
LIVE = [{"live": True}, {"piped": True}]  # these do not try again after they run out of memory


@pytest.fixture
def house():
    with house_in_memory() as house:
        yield house


def chain_of(error):
    """Yield an exception and all its causes and contexts, shown or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def everything_said(error):
    shown = "".join(traceback.format_exception(error))
    return shown + "".join(f"{each!r} {each.args} {vars(each)}" for each in chain_of(error))


def lines_of(way):
    return way.arrivals(PEOPLE) + [(somewhere(number), line) for number, line in enumerate(BAD)]


@pytest.mark.parametrize("settings", [{}, {"live": True}, {"piped": True}, {"suffix": ".gz"}])
def test_run_reveals_no_marked_value(house, settings, capfd, caplog):
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
def test_engine_error_with_data_is_reported_without_data(house, settings, kind, monkeypatch):
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
def test_invalid_header_is_refused_without_quoting_it(house, first, live):
    """The header may be a record."""
    way = Way(house, format="csv", live=live, releases=FEW, header=first)
    observed = way.run(way.arrivals(PEOPLE))
    assert isinstance(observed.raised, SourceError)
    shown = "".join(traceback.format_exception(observed.raised))
    assert MARK not in shown + repr(vars(observed.raised))


def test_curator_log_counts_records_and_quotes_none(house):
    found = commanded(house, "run", lines=[*(json_line(person) for person in PEOPLE), *BAD])
    assert found.exit_code == 0
    log = (house.folder / "v.streamgauge" / "curator.log").read_text()
    assert "not readable" in log
    assert MARK not in log


def test_bug_is_reported_by_class_without_data(house, monkeypatch):
    def crash(*given):
        raise KeyError(f"{MARK}zed")

    monkeypatch.setattr(EventPartRun, "estimate_ticks", crash)
    people = [json_line(person) for person in PEOPLE]
    texts = commanded(house, "run", lines=people)
    assert (texts.exit_code, texts.stdout) == (1, "")
    assert "KeyError: this is a bug" in texts.stderr
    assert MARK not in texts.output


def test_neighbours_differ_in_vectors_and_curator_progress(house):
    """The law can fail here: with a bound of zero units it does."""
    way = Way(house, releases=FEW)
    people = way.arrivals(PEOPLE)
    before, after = way.run(people), way.run([*people, (moment(VICTIM), way.line(VICTIM))])
    assert broken(before, after) == []
    assert broken(before, after, units=0)
    assert before.progress != after.progress


@pytest.mark.parametrize("settings", [{}, {"format": "csv"}, {"live": True}, {"piped": True}])
def test_unmatched_declared_values_are_reported_to_curator_only(house, settings):
    way = Way(house, releases=FEW, **settings)
    people = [record(number) for number in range(20)]
    good, bad = (way.run(way.arrivals([each | other for each in people])) for other in ({}, MARKED))
    assert told_apart(good, bad) == []
    value = "a declared value of region"
    assert not [line for line in good.diagnoses if line.startswith("warning")]
    assert [line for line in bad.diagnoses if line.startswith("warning") and value in line]
    assert not [line for line in good.diagnoses + bad.diagnoses if MARK in line]
