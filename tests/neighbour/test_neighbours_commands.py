"""Commands have the same outputs, exit codes, sinks and reader views for all neighbours."""

import json
import sys

import pytest

from streamgauge.cli.runs.monitor import RunMonitor
from streamgauge.engines.duckdb import connection
from streamgauge.engines.duckdb.rows import TypedColumn
from streamgauge.runtime.release_run import ReleaseRun
from tests.support.neighbour_commands import public
from tests.support.neighbour_hostile import json_hostile
from tests.support.neighbour_streams import VICTIM, json_line, record
from tests.support.watched_runs import house_in_memory

PEOPLE = [json_line(record(number)) for number in range(40)]
NAMES = ("a stray quote", "invalid UTF-8", "a note of 1 MB", "2 MB", "ts: year 2099")
HOSTILE = {name: line for name, line in json_hostile() if name in NAMES} | {
    "a plain visit": json_line(VICTIM),
    "numbers": json_line(VICTIM | {"amount": 1e300, "temperature": float("nan")}),
    "a wrong type": json_line(VICTIM | {"amount": "zzz", "region": {"a": [1]}}),
}
WORDS = {"plain": ("run",), "json": ("run", "--json"), "debug": ("--debug", "run"), "quiet": ("run", "--quiet")}


@pytest.fixture
def house():
    with house_in_memory() as house:
        yield house


def told_apart(house, line, *words, people=PEOPLE):
    """Return the outputs that differ between runs with and without a line."""
    before = public(house, *words, lines=people)
    after = public(house, *words, lines=[*people[:9], line, *people[9:]])
    return [name for name in before if before[name] != after[name]]


def test_run_has_output_in_every_observed_channel(house):
    observed = public(house, "run", lines=PEOPLE)
    assert set(observed["exit codes"]) == {0}
    assert all(observed.values())
    rows = len(observed["standard output"])
    assert len(observed["jsonl"]) == rows
    assert len(observed["csv"]) == len(observed["export"]) == rows
    assert sum(len(part) for _, part in observed["parquet"]) == 3 * rows


@pytest.mark.one_of_each
@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_commands_do_not_reveal_presence_of_record(house, words, capfd):
    before = public(house, *words, lines=PEOPLE)
    for line in HOSTILE.values() if words == ("run",) else (HOSTILE["invalid UTF-8"],):
        after = public(house, *words, lines=[*PEOPLE[:9], line, *PEOPLE[9:]])
        assert [name for name in before if before[name] != after[name]] == [], line[:200]
    assert "".join(capfd.readouterr()) == ""


def test_event_count_on_standard_error_is_caught(house, monkeypatch):
    def seen(watching, progress):
        sys.stderr.write(f"{progress.events} records\n")

    monkeypatch.setattr(RunMonitor, "on_progress", seen)
    assert told_apart(house, HOSTILE["a plain visit"], "run") == ["standard error"]


def let_casts_fail(monkeypatch):
    cast = TypedColumn.cast
    monkeypatch.setattr(TypedColumn, "cast", lambda typed, raw: cast(typed, raw).replace("TRY_CAST", "CAST"))


def test_an_error_about_a_record_is_caught(house, monkeypatch):
    line = HOSTILE["a wrong type"]
    assert told_apart(house, line, "run") == []
    let_casts_fail(monkeypatch)
    assert {"exit codes", "standard error", "standard output"} <= set(told_apart(house, line, "run"))


def test_an_error_that_quotes_a_record_is_caught(house, monkeypatch):
    """Each of two records ends a run; the outputs must not show which of them it was."""
    let_casts_fail(monkeypatch)
    lines = [[json_line(VICTIM | {"amount": word})] for word in ("one", "two")]
    before, after = (public(house, "run", lines=some) for some in lines)
    assert before == after
    monkeypatch.setattr(connection, "redact_error", lambda error: connection.EngineError(str(error)))
    before, after = (public(house, "run", lines=some) for some in lines)
    assert before["standard error"] != after["standard error"]


def test_twin_that_skips_empty_ticks_is_caught(house, monkeypatch):
    """The stream has no other event in the tick of the victim."""
    take = ReleaseRun.release_ticks
    empty = [line for line in PEOPLE if json.loads(line)["ts"][11:13] != "03"]
    line = HOSTILE["a plain visit"]
    assert told_apart(house, line, "run", people=empty) == []

    def take_some(run, answers, count):
        first = run.next_tick
        there = {int(tick) for tally in answers for tick in tally.ticks}
        return [each for each in take(run, answers, count) if each.tick in there or each.tick == first]

    monkeypatch.setattr(ReleaseRun, "release_ticks", take_some)
    observed = told_apart(house, line, "run", people=empty)
    assert {"standard output", "jsonl", "csv", "parquet", "export"} <= set(observed)
