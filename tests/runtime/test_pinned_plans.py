"""A release goes on as it was charged, under a version that spells, names or chooses otherwise."""

import json
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from sqlglot import exp

from streamgauge import Pipeline, Pure, Zcdp, continual
from streamgauge.config import mechanism as mechanism_names
from streamgauge.config.errors import InvalidReleaseError
from streamgauge.plan.planner import apply_choice, build_choice
from streamgauge.privacy import Event, User, WEvent
from streamgauge.runtime import edits as as_charged
from streamgauge.runtime.session import RunRefusedError
from streamgauge.sql import grouping as naming
from streamgauge.sql import parser as select
from streamgauge.sql import reader as spelling
from streamgauge.statistics import Count, Statistic, Summary, TopK, statistic
from tests.support.pipelines import (
    Tables,
    as_they_happen,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
)

ASKED = {"name": "r", "sql": "SELECT g, COUNT(x), AVG(x) FROM v GROUP BY g", "window": "running"}
EXACT = [[5.0 * tick, 5.0 * tick] for tick in range(1, 7)]


def made(**change: Any) -> Tables:
    return tables(ASKED | {"horizon": "5000s"} | change, live=True)


def until(folder: Path, asked: Tables, second: float, *, at: float = 0) -> Pipeline:
    """Runs a live file up to a second after its start, everything being written as it happens."""
    coming = {second: some for second, some in as_they_happen(one_a_second(300)).items() if second > at}
    clock, stop = world(folder, coming, at=at), Flag()
    clock.acts[second] = stop.set
    edited = pipeline(folder, asked)
    run(edited, clock=clock, stop=stop)
    return edited


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder whose file was run for three ticks by today's version."""
    until(tmp_path, made(), 36)
    return tmp_path


def chooses_otherwise(patch: pytest.MonkeyPatch) -> None:
    def another(loss: Any, *, horizon: int, window: str, **asked: Any) -> Any:
        return continual.TwoLevel(loss, horizon=horizon, **asked)

    patch.setattr(statistic, "choose", another)


def spells_otherwise(patch: pytest.MonkeyPatch) -> None:
    before = spelling.format_query

    def another(query: exp.Select) -> str:
        return before(query).replace("COUNT(", "count(").replace("SELECT", "select ")

    patch.setattr(spelling, "format_query", another)
    patch.setattr(select, "format_query", another)


def names_otherwise(patch: pytest.MonkeyPatch) -> None:
    before = naming.format_expression
    patch.setattr(naming, "format_expression", lambda node: f"the {before(node)}")


OTHERWISE = [chooses_otherwise, spells_otherwise, names_otherwise]


@pytest.mark.parametrize("otherwise", OTHERWISE)
def test_a_later_version_goes_on_with_what_was_charged(
    begun: Path, monkeypatch: pytest.MonkeyPatch, otherwise: Any
) -> None:
    acts = pipeline(begun, made()).ledger().ledger_entries
    otherwise(monkeypatch)
    later = pipeline(begun, made())
    plan = later.plan()
    assert (plan.refusals, plan.edits.continued_releases) == ((), ("r",))
    assert plan.releases[0].choices[0].mechanism.startswith("BridgeTree")
    assert {error.measure for error in plan.releases[0].errors} == {"count_x", "avg_x"}
    until(begun, made(), 66, at=36)
    assert published(later, "r") == EXACT
    assert ticks_of(later, "r") == [1, 2, 3, 4, 5, 6]
    assert {each.shape.measures for each in later.releases("r")} == {("count_x", "avg_x")}
    assert later.ledger().ledger_entries == acts


@pytest.mark.parametrize("otherwise", OTHERWISE)
def test_a_later_version_still_refuses_what_was_changed(
    begun: Path, monkeypatch: pytest.MonkeyPatch, otherwise: Any
) -> None:
    otherwise(monkeypatch)
    changes = {
        "sql": {"sql": "SELECT g, COUNT(x), SUM(x) FROM v GROUP BY g"},
        "loss": {"epsilon": "1/4"},
        "mechanism": {"mechanism": "TwoLevel"},
        "horizon": {"horizon": "5010s"},
    }
    for key, change in changes.items():
        with pytest.raises(RunRefusedError, match=f"must stay as it was charged, got another {key}: give it"):
            until(begun, made(**change), 66, at=36)


@pytest.mark.parametrize("otherwise", OTHERWISE)
def test_a_twin_that_plans_again_is_found_out(begun: Path, monkeypatch: pytest.MonkeyPatch, otherwise: Any) -> None:
    """Without what was pinned, a later version refuses the run or calls its columns otherwise."""
    monkeypatch.setattr(as_charged, "find_charge_body", lambda name, book: {})
    monkeypatch.setattr(spelling, "normalize_query", lambda sql: sql)
    otherwise(monkeypatch)
    with pytest.raises((ValueError, KeyError)):
        until(begun, made(), 66, at=36)


def test_another_shape_is_refused(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that would publish other groups must not go on, whatever the SQL says."""
    before = as_charged.rename_columns
    monkeypatch.setattr(as_charged, "rename_columns", lambda query, layout: before(as_other_groups(query), layout))
    with pytest.raises(RunRefusedError, match="release r must stay as it was charged, got another shape"):
        until(begun, made(), 66, at=36)


def as_other_groups(query: Any) -> Any:
    return replace(query, groups=tuple(replace(group, labels=("b", "a")) for group in query.groups))


def test_a_choice_that_this_version_has_not_is_refused(begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: claim for name, claim in mechanism_names.find_mechanisms().items() if name != "BridgeTree"}
    monkeypatch.setattr(mechanism_names, "find_mechanisms", lambda: known)
    with pytest.raises(InvalidReleaseError, match=r"mechanism must be auto or one of .*, got BridgeTree"):
        until(begun, made(), 66, at=36)


def test_two_releases_that_ask_the_same_each_go_on_with_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = dict(ASKED, name="one", horizon="5000s"), dict(ASKED, name="two", horizon="5000s")
    until(tmp_path, tables(one, live=True), 36)
    with monkeypatch.context() as later:
        chooses_otherwise(later)
        until(tmp_path, tables(one, two, live=True), 66, at=36)
    both = until(tmp_path, tables(one, two, live=True), 96, at=66)
    assert [c.mechanism.partition("(")[0] for r in both.plan().releases for c in r.choices] == [
        "BridgeTree",
        "TwoLevel",
    ]
    assert ticks_of(both, "one")[-1] == ticks_of(both, "two")[-1] == 9


STATISTICS: list[Statistic[Any]] = [
    *(
        Count(loss, window=window, horizon=horizon, unit=unit)
        for loss in (Pure(1), Zcdp("1/20"))
        for window in ("running", "each", "sliding 7", "decayed 5")
        for horizon in (None, 100)
        for unit in (Event(), WEvent(10), User(2, 5))
    ),
    *(
        Count(loss, window="decayed polynomial 0.2", horizon=100, unit=unit)
        for loss in (Pure(1), Zcdp("1/20"))
        for unit in (Event(), WEvent(10), User(2, 5))
    ),
    Summary(Pure(1), lower=0, upper=10, squares=True, horizon=360),
    Count(Pure(1), horizon=100, mechanism=continual.Kary),
    TopK(Zcdp("1/20"), k=10, delta="1/1000000", window="each", horizon=100),
]


@pytest.mark.parametrize("counted", STATISTICS, ids=repr)
def test_a_choice_is_the_whole_choice(counted: Statistic[Any]) -> None:
    choice = json.loads(json.dumps(build_choice(counted)))
    assert choice is not None
    assert choice["mechanism"] == type(counted.counter).__name__
    assert apply_choice(counted, choice).counter == counted.counter
    assert apply_choice(counted, choice).counter.identity() == counted.counter.identity()
