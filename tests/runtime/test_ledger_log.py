"""The ledger log: an append-only list of entries, and the one ledger that follows from them."""

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
    """Return True if two ledger logs are equal in every part."""
    ledgers = [(str(ledger_log.ledger), ledger_log.ledger and ledger_log.ledger.entries) for ledger_log in (one, other)]
    return ledgers[0] == ledgers[1] and (one.releases, one.pins, one.ledger_entries) == (
        other.releases,
        other.pins,
        other.ledger_entries,
    )


@given(st.data())
@settings(max_examples=150)
def test_entries_of_ledger_replay_to_same_ledger(data: st.DataObject) -> None:
    """This holds for all sequences of charges, refusals, ends and budgets."""
    unit = UNITS[data.draw(st.sampled_from(list(UNITS)))]
    ledger_log = LedgerLog(unit)
    ledger_log.declare_budget(Pure(1))
    for number in range(data.draw(st.integers(1, 8))):
        act = data.draw(st.sampled_from(["charge", "end", "budget"]))
        try:
            if act == "charge":
                plan = PLANS[data.draw(st.sampled_from(list(PLANS)))]
                ledger_log.charge(f"r{number}", plan, data.draw(st.integers(1, 20)))
            elif act == "budget":
                ledger_log.declare_budget(Pure(data.draw(st.sampled_from(["1/2", "1", "2"]))))
            elif ledger_log.open_releases():
                ledger_log.end(
                    data.draw(st.sampled_from(list(ledger_log.open_releases()))), data.draw(st.integers(0, 30))
                )
        except BudgetExceededError:
            pass
        assert same(ledger_log, LedgerLog.read(list(ledger_log.ledger_entries), unit))
        assert ledger_log.ledger is not None
        assert ledger_log.ledger.spent_loss() <= ledger_log.ledger.budget


def test_ledger_is_read_with_pinned_unit_not_with_current_one() -> None:
    """One event never loses to both, since one ended before the other began; a window of 9 ticks does."""
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(1))
    ledger_log.charge("one", PLANS["1/1"], 1)
    ledger_log.end("one", 4)
    ledger_log.charge("two", PLANS["1/1"], 8)
    ledger_log.pin({"stream": Pipeline.from_tables(tables(), Path("v.toml")).file.blocks["stream"]})
    assert same(ledger_log, LedgerLog.read(ledger_log.ledger_entries, WEvent(9)))
    unpinned = [act for act in ledger_log.ledger_entries if act.kind != "pin"]
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
    ledger_log = LedgerLog(unit)
    ledger_log.pin({"stream": Pipeline.from_tables(tables(unit=declared), Path("v.toml")).file.blocks["stream"]})
    assert LedgerLog.read(ledger_log.ledger_entries, UNITS["event"]).unit == unit


def test_units_decide_how_charges_add_up() -> None:
    """Two releases that follow each other: ticks 1 to 4, and from 8 on."""
    spent = {}
    for name, unit in (("event", Event()), ("apart", WEvent(4)), ("together", WEvent(5)), ("user", User(1, 2))):
        ledger_log = LedgerLog(unit)
        ledger_log.declare_budget(Pure(1))
        ledger_log.charge("one", PLANS["1/2"], 1)
        ledger_log.end("one", 4)
        ledger_log.charge("two", PLANS["1/4"], 8)
        spent[name] = ledger_log.ledger and ledger_log.ledger.spent_loss()
    assert spent == {"event": Pure("1/2"), "apart": Pure("1/2"), "together": Pure("3/4"), "user": Pure("3/4")}


def test_refused_charge_changes_nothing_and_reports_its_numbers() -> None:
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(1))
    ledger_log.charge("one", PLANS["1/2"], 1)
    before = LedgerLog.read(list(ledger_log.ledger_entries), Event())
    with pytest.raises(BudgetExceededError) as found:
        ledger_log.charge("two", PLANS["1/1"], 3)
    assert (found.value.requested, found.value.spent, found.value.allowed) == (Pure(1), Pure("1/2"), Pure(1))
    assert (found.value.first, found.value.last) == (3, None)
    assert same(ledger_log, before)


def test_refused_budget_changes_nothing() -> None:
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(1))
    ledger_log.charge("one", PLANS["1/2"], 1)
    before = LedgerLog.read(list(ledger_log.ledger_entries), Event())
    with pytest.raises(BudgetExceededError):
        ledger_log.declare_budget(Pure("1/4"))
    assert same(ledger_log, before)


def test_a_charge_needs_a_budget_and_a_tick() -> None:
    with pytest.raises(ValueError, match="a budget must be declared before a charge, got none"):
        LedgerLog(Event()).charge("one", PLANS["1/2"], 1)
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(1))
    with pytest.raises(ValueError, match="release one must begin by tick 10, the last one, got 11"):
        ledger_log.charge("one", plan_for(live=True, end="2026-01-05T00:01:40Z"), 11)
    assert [act.kind for act in ledger_log.ledger_entries] == ["budget"]


def test_ends_may_be_reported_in_any_order() -> None:
    """A release may have published less than one that ended before it; ingested ticks stay charged."""
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(2))
    ledger_log.charge("one", PLANS["1/2"], 1)
    ledger_log.charge("two", PLANS["1/2"], 1)
    ledger_log.charge("three", PLANS["1/2"], 60)
    for name, released in (("one", 50), ("two", 20), ("three", 0)):
        ledger_log.end(name, released)
    assert [entry.end_tick for entry in ledger_log.releases.values()] == [50, 50, 50]
    assert ledger_log.releases["three"].charge.active_timeline is None
    assert ledger_log.ledger is not None
    assert (ledger_log.ledger.spent_loss(), ledger_log.ledger.remaining_loss(51)) == (Pure(1), Pure(2))


def test_a_block_is_pinned_once_until_it_changes() -> None:
    ledger_log = LedgerLog(Event())
    assert [act.body["block"] for act in ledger_log.pin({"a": "1", "b": "2"})] == ["a", "b"]
    assert ledger_log.pin({"a": "1"}) == []
    assert [act.body["text"] for act in ledger_log.pin({"a": "3", "b": "2"})] == ["3"]
    assert ledger_log.pins == {"a": hash_block("3"), "b": hash_block("2")}


def test_editions_of_a_release_are_one_name_in_the_file() -> None:
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(1))
    for name in ("r", "r@2"):
        ledger_log.charge(name, PLANS["1/4"], 1)
        ledger_log.end(name, 10)
    ledger_log.charge("r@3", PLANS["1/2"], 1)
    assert base_name("r@3") == base_name("r") == "r"
    assert {name: entry.name for name, entry in ledger_log.latest_releases().items()} == {"r": "r@3"}
    assert list(ledger_log.open_releases()) == ["r@3"]


@pytest.mark.parametrize("loss", [Pure("1/3"), Zcdp("1/7"), Approx(1, "1/1000000")])
def test_losses_survive_json_exactly(loss: object) -> None:
    assert parse_loss(loss_as_json(loss)) == loss


def test_share_is_stored_with_its_charged_loss() -> None:
    made = tables(budget={"epsilon": 3}) | {"release": [{"name": "r", "sql": COUNTS, "share": "1/3"}]}
    file = Pipeline.from_tables(made, Path("v.toml")).file
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(file.stream.budget)
    act = ledger_log.charge("r", plan_release(file, file.releases[0]), 1)
    assert (act.body["loss"], act.body["share"]) == ({"epsilon": "1"}, "1/3")
    read = LedgerLog.read(ledger_log.ledger_entries, Event()).releases["r"]
    assert (read.loss, read.share) == (Pure(1), Fraction(1, 3))


def test_entry_of_later_version_changes_no_ledger() -> None:
    ledger_log = LedgerLog(Event())
    ledger_log.declare_budget(Pure(1))
    ledger_log.charge("one", PLANS["1/2"], 1)
    later = LedgerLog.read([*ledger_log.ledger_entries, LedgerEntry("seen by a later version", {"a": 1})], Event())
    assert str(later.ledger) == str(ledger_log.ledger)
