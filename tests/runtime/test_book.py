"""The book: acts that are only ever added, and the one ledger that follows from them."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge import Event, Pipeline, Pure, User, WEvent, Zcdp
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.privacy import Approx, BudgetExceededError
from streamgauge.releases.schema import base_name
from streamgauge.runtime.ledger.log import LedgerLog, hash_block, loss_as_json, parse_loss
from streamgauge.store.store import LedgerEntry
from tests.support.pipelines import COUNTS, Tables, tables

UNITS = {"event": Event(), "w": WEvent(3), "user": User(2, 5)}


def plan_for(epsilon: str = "1/4", *, live: bool = True, **stream: object) -> ReleasePlan:
    made: Tables = tables({"name": "r", "sql": COUNTS, "epsilon": epsilon}, live=live, **stream)
    file = Pipeline.from_tables(made, Path("v.toml")).file
    return plan_release(file, file.releases[0])


PLANS = {epsilon: plan_for(epsilon) for epsilon in ("1/4", "1/2", "1/1")}


def same(one: LedgerLog, other: LedgerLog) -> bool:
    """Whether two books say the same, in all that they say."""
    ledgers = [(str(book.ledger), book.ledger and book.ledger.entries) for book in (one, other)]
    return ledgers[0] == ledgers[1] and (one.releases, one.pins, one.ledger_entries) == (
        other.releases,
        other.pins,
        other.ledger_entries,
    )


@given(st.data())
@settings(max_examples=150)
def test_the_acts_of_a_book_replay_to_the_same_ledger(data: st.DataObject) -> None:
    """Whatever was charged, refused, ended and raised."""
    unit = UNITS[data.draw(st.sampled_from(list(UNITS)))]
    book = LedgerLog(unit)
    book.declare_budget(Pure(1))
    for number in range(data.draw(st.integers(1, 8))):
        act = data.draw(st.sampled_from(["charge", "end", "budget"]))
        try:
            if act == "charge":
                plan = PLANS[data.draw(st.sampled_from(list(PLANS)))]
                book.charge(f"r{number}", plan, data.draw(st.integers(1, 20)))
            elif act == "budget":
                book.declare_budget(Pure(data.draw(st.sampled_from(["1/2", "1", "2"]))))
            elif book.open_releases():
                book.end(data.draw(st.sampled_from(list(book.open_releases()))), data.draw(st.integers(0, 30)))
        except BudgetExceededError:
            pass
        assert same(book, LedgerLog.read(list(book.ledger_entries), unit))
        assert book.ledger is not None
        assert book.ledger.spent_loss() <= book.ledger.budget


def test_a_book_is_read_with_the_unit_that_was_charged_whatever_a_file_says_now() -> None:
    """One event never loses to both, since one ended before the other began; a window of 9 ticks does."""
    book = LedgerLog(Event())
    book.declare_budget(Pure(1))
    book.charge("one", PLANS["1/1"], 1)
    book.end("one", 4)
    book.charge("two", PLANS["1/1"], 8)
    book.pin({"stream": Pipeline.from_tables(tables(), Path("v.toml")).file.blocks["stream"]})
    assert same(book, LedgerLog.read(book.ledger_entries, WEvent(9)))
    unpinned = [act for act in book.ledger_entries if act.kind != "pin"]
    with pytest.raises(BudgetExceededError):
        LedgerLog.read(unpinned, WEvent(9))


@pytest.mark.parametrize(
    ("declared", "unit"),
    [
        ("event", Event()),
        ({"w_event": 7}, WEvent(7)),
        ({"user": "u", "max_events_per_tick": 2, "max_ticks": 5}, User(2, 5)),
    ],
)
def test_every_unit_of_a_file_is_pinned_and_read_back(declared: object, unit: object) -> None:
    book = LedgerLog(unit)
    book.pin({"stream": Pipeline.from_tables(tables(unit=declared), Path("v.toml")).file.blocks["stream"]})
    assert LedgerLog.read(book.ledger_entries, UNITS["event"]).unit == unit


def test_units_decide_how_charges_add_up() -> None:
    """Two releases that follow each other: ticks 1 to 4, and from 8 on."""
    spent = {}
    for name, unit in (("event", Event()), ("apart", WEvent(4)), ("together", WEvent(5)), ("user", User(1, 2))):
        book = LedgerLog(unit)
        book.declare_budget(Pure(1))
        book.charge("one", PLANS["1/2"], 1)
        book.end("one", 4)
        book.charge("two", PLANS["1/4"], 8)
        spent[name] = book.ledger and book.ledger.spent_loss()
    assert spent == {"event": Pure("1/2"), "apart": Pure("1/2"), "together": Pure("3/4"), "user": Pure("3/4")}


def test_a_refused_charge_leaves_no_trace_and_tells_its_numbers() -> None:
    book = LedgerLog(Event())
    book.declare_budget(Pure(1))
    book.charge("one", PLANS["1/2"], 1)
    before = LedgerLog.read(list(book.ledger_entries), Event())
    with pytest.raises(BudgetExceededError) as found:
        book.charge("two", PLANS["1/1"], 3)
    assert (found.value.requested, found.value.spent, found.value.allowed) == (Pure(1), Pure("1/2"), Pure(1))
    assert (found.value.first, found.value.last) == (3, None)
    assert same(book, before)


def test_a_refused_budget_leaves_no_trace() -> None:
    book = LedgerLog(Event())
    book.declare_budget(Pure(1))
    book.charge("one", PLANS["1/2"], 1)
    before = LedgerLog.read(list(book.ledger_entries), Event())
    with pytest.raises(BudgetExceededError):
        book.declare_budget(Pure("1/4"))
    assert same(book, before)


def test_a_charge_needs_a_budget_and_a_tick() -> None:
    with pytest.raises(ValueError, match="a budget must be declared before a charge, got none"):
        LedgerLog(Event()).charge("one", PLANS["1/2"], 1)
    book = LedgerLog(Event())
    book.declare_budget(Pure(1))
    with pytest.raises(ValueError, match="release one must begin by tick 10, the last one, got 11"):
        book.charge("one", plan_for(live=True, end="2026-01-05T00:01:40Z"), 11)
    assert [act.kind for act in book.ledger_entries] == ["budget"]


def test_ends_may_be_told_in_any_order() -> None:
    """A release that published less than one which ended before it: what was ingested stays ingested."""
    book = LedgerLog(Event())
    book.declare_budget(Pure(2))
    book.charge("one", PLANS["1/2"], 1)
    book.charge("two", PLANS["1/2"], 1)
    book.charge("three", PLANS["1/2"], 60)
    for name, released in (("one", 50), ("two", 20), ("three", 0)):
        book.end(name, released)
    assert [entry.end_tick for entry in book.releases.values()] == [50, 50, 50]
    assert book.releases["three"].charge.active_timeline is None
    assert book.ledger is not None
    assert (book.ledger.spent_loss(), book.ledger.remaining_loss(51)) == (Pure(1), Pure(2))


def test_a_block_is_pinned_once_until_it_changes() -> None:
    book = LedgerLog(Event())
    assert [act.body["block"] for act in book.pin({"a": "1", "b": "2"})] == ["a", "b"]
    assert book.pin({"a": "1"}) == []
    assert [act.body["text"] for act in book.pin({"a": "3", "b": "2"})] == ["3"]
    assert book.pins == {"a": hash_block("3"), "b": hash_block("2")}


def test_editions_of_a_release_are_one_name_in_the_file() -> None:
    book = LedgerLog(Event())
    book.declare_budget(Pure(1))
    for name in ("r", "r@2"):
        book.charge(name, PLANS["1/4"], 1)
        book.end(name, 10)
    book.charge("r@3", PLANS["1/2"], 1)
    assert base_name("r@3") == base_name("r") == "r"
    assert {name: entry.name for name, entry in book.latest_releases().items()} == {"r": "r@3"}
    assert list(book.open_releases()) == ["r@3"]


@pytest.mark.parametrize("loss", [Pure("1/3"), Zcdp("1/7"), Approx(1, "1/1000000")])
def test_losses_survive_json_exactly(loss: object) -> None:
    assert parse_loss(loss_as_json(loss)) == loss


def test_what_a_share_was_charged_is_written_down() -> None:
    made = tables(budget={"epsilon": 3}) | {"release": [{"name": "r", "sql": COUNTS, "share": "1/3"}]}
    file = Pipeline.from_tables(made, Path("v.toml")).file
    book = LedgerLog(Event())
    book.declare_budget(file.stream.budget)
    act = book.charge("r", plan_release(file, file.releases[0]), 1)
    assert (act.body["loss"], act.body["share"]) == ({"epsilon": "1"}, "1/3")
    read = LedgerLog.read(book.ledger_entries, Event()).releases["r"]
    assert (read.loss, read.share) == (Pure(1), Fraction(1, 3))


def test_an_act_of_a_later_version_changes_no_ledger() -> None:
    book = LedgerLog(Event())
    book.declare_budget(Pure(1))
    book.charge("one", PLANS["1/2"], 1)
    later = LedgerLog.read([*book.ledger_entries, LedgerEntry("seen by a later version", {"a": 1})], Event())
    assert str(later.ledger) == str(book.ledger)
