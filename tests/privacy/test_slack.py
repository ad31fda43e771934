"""Deltas of charges: both parts add for every unit, and rho converts at the remaining delta."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import inf, log, log1p

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.privacy import (
    Approx,
    BudgetExceededError,
    Event,
    Ledger,
    Loss,
    PrivacyError,
    Pure,
    Tick,
    Unit,
    User,
    WEvent,
    Zcdp,
)
from streamgauge.privacy.conversions import epsilon_from_rho, rho_from_approx
from streamgauge.privacy.loss_profiles import ChargeTerms
from streamgauge.privacy.split_bounds import LossBound
from streamgauge.privacy.timeline import Span

law = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
BUDGET = Approx(1, 1e-6)
DELTA = BUDGET.delta
LAST = 6
ChargeRequest = tuple[Zcdp, Fraction, int, int | None]
windows = st.one_of(st.just(Event()), st.just(Tick(3)), st.builds(WEvent, st.integers(1, 4)))
sets = st.one_of(st.just(Event(replace=True, moves=True)), st.builds(User, st.integers(1, 2), st.integers(1, 3)))


@st.composite
def request(draw: st.DrawFn) -> ChargeRequest:
    """Draw a native charge of a part of the budget and of its delta, for some ticks."""
    first = draw(st.integers(1, LAST))
    last = draw(st.one_of(st.none(), st.integers(first, LAST)))
    rho = BUDGET.part(Fraction(draw(st.integers(1, 20)), 30))
    return (rho, DELTA * draw(st.sampled_from([0, 0, Fraction(1, 10), Fraction(1, 3), Fraction(1, 2)])), first, last)


def tick_sets(unit: Unit) -> Iterable[Iterable[int]]:
    """Yield all sets of ticks that one unit may touch."""
    if unit.consecutive:
        return [range(s, s + unit.ticks) for s in range(1 - unit.ticks, LAST + 3)]
    return combinations(range(1, LAST + unit.ticks + 1), unit.ticks)


def composed(charges: Sequence[ChargeRequest], unit: Unit) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the rho and the delta of every unit, by the definition."""
    for ticks in map(tuple, tick_sets(unit)):
        release = [c for c in charges if any(c[2] <= tick <= (c[3] or inf) for tick in ticks)]
        yield sum((c[0].rho for c in release), Fraction(0)), sum((c[1] for c in release), Fraction(0))


def epsilon(rho: Fraction, delta: Fraction) -> float:
    """Return the best epsilon of many orders, in floats."""
    if not rho:
        return 0.0
    orders = (1 + 1.02**i for i in range(-400, 800))
    return min(a * float(rho) + log1p(-1 / a) - (log(delta) + log(a)) / (a - 1) for a in orders)


def refusal_of(ledger: Ledger, charge: ChargeRequest) -> BudgetExceededError | None:
    loss, delta, first, last = charge
    try:
        ledger.charge("r", loss, first, last, native=True, delta=delta)
    except BudgetExceededError as refusal:
        return refusal
    return None


def release(ledger: Ledger) -> tuple[object, ...]:
    return ledger.entries, ledger.spent_loss(), ledger.remaining_loss(), ledger.spent_delta(), str(ledger)


def accepted(ledger: Ledger, charges: Iterable[ChargeRequest]) -> list[ChargeRequest]:
    """Return the accepted charges. Refused ones must not change the ledger."""
    entered = []
    for charge in charges:
        before = release(ledger)
        refusal = refusal_of(ledger, charge)
        if refusal is None:
            entered.append(charge)
            continue
        assert (refusal.requested, refusal.delta, refusal.allowed) == (charge[0], charge[1], ledger.budget)
        assert release(ledger) == before
    return entered


def check_no_unit_loses_more_than_the_budget(make: type[Ledger], charges: Sequence[ChargeRequest], unit: Unit) -> None:
    for rho, delta in composed(accepted(make(BUDGET, unit), charges), unit):
        assert delta < DELTA
        assert epsilon(rho, DELTA - delta) <= float(BUDGET.epsilon) * (1 + 1e-4)


@law
@given(st.lists(request(), max_size=6), st.one_of(windows, sets))
def test_no_unit_exceeds_budget_for_any_charge_order(charges: list[ChargeRequest], unit: Unit) -> None:
    check_no_unit_loses_more_than_the_budget(Ledger, charges, unit)


@law
@given(st.lists(request(), max_size=6), windows)
def test_charge_is_refused_exactly_if_a_window_exceeds_budget(charges: list[ChargeRequest], unit: Unit) -> None:
    ledger, entered = Ledger(BUDGET, unit), list[ChargeRequest]()
    for charge in charges:
        affordable = all(
            rho == 0 or (delta < DELTA and rho <= rho_from_approx(BUDGET.epsilon, DELTA - delta))
            for rho, delta in composed([*entered, charge], unit)
        )
        assert accepted(ledger, [charge]) == ([charge] if affordable else [])
        entered += [charge] if affordable else []
    found = list(composed(entered, unit))
    assert ledger.spent_delta() == max(delta for _, delta in found)
    spent = [epsilon_from_rho(rho, DELTA - delta) for rho, delta in found if rho]
    assert ledger.spent_loss() == (Approx(max(spent), DELTA) if spent else Approx.zero())
    assert ledger.spent_loss() <= BUDGET


@law
@given(st.lists(request(), max_size=5), windows, st.integers(1, LAST), st.sampled_from([0, 1, 4]))
def test_remaining_loss_with_a_delta_can_be_charged_exactly(
    charges: list[ChargeRequest], unit: Unit, first: int, tenths: int
) -> None:
    ledger, delta = Ledger(BUDGET, unit), DELTA * tenths / 10
    accepted(ledger, charges)
    left = ledger.remaining_loss(first, first + 1, delta=delta)
    with pytest.raises(BudgetExceededError):
        ledger.charge("too much", left + Zcdp("1e-30"), first, first + 1, native=True, delta=delta)
    if left.rho:
        ledger.charge("all of it", left, first, first + 1, native=True, delta=delta)
        assert ledger.remaining_loss(first, first + 1) == Zcdp.zero()


@law
@given(st.lists(request(), min_size=1, max_size=4), windows, st.integers(0, LAST + 2))
def test_ended_charge_costs_delta_only_for_touched_units(
    charges: list[ChargeRequest], unit: Unit, ingested: int
) -> None:
    ledger = Ledger(BUDGET, unit)
    entered = accepted(ledger, charges)
    if not entered:
        return
    ledger.end(ledger.entries[0], ingested=ingested)
    loss, delta, first, last = entered[0]
    release = [(loss, delta, first, min(last or ingested, ingested))] if first <= ingested else []
    assert ledger.spent_delta() == max(delta for _, delta in composed([*release, *entered[1:]], unit))
    for tick in range(1, LAST + 2):
        here = [c for c in [*release, *entered[1:]] if c[2] < tick + unit.ticks and (c[3] or inf) > tick - unit.ticks]
        assert ledger.spent_delta(tick, tick) <= sum(c[1] for c in here)


def test_a_user_gets_no_delta_back() -> None:
    ledger = Ledger(BUDGET, User(2, 3))
    ledger.end(ledger.charge("r", BUDGET.part("1/10"), native=True, delta=9e-7), ingested=1)
    assert ledger.spent_delta(first=2) == Fraction(9, 10**7)
    with pytest.raises(BudgetExceededError):
        ledger.charge("s", BUDGET.part("1/10"), first=2, native=True, delta=1e-7)


def check_half_of_delta_leaves_what_the_other_half_keeps(make: type[Ledger]) -> None:
    half = Approx(1, 5e-7)
    ledger = make(BUDGET, Event())
    ledger.charge("keys", half.additive_loss, delta=5e-7)
    assert ledger.remaining_loss() == Zcdp.zero()
    assert ledger.spent_loss().delta == DELTA
    assert Fraction(999_999, 1_000_000) <= ledger.spent_loss().epsilon <= 1
    with pytest.raises(BudgetExceededError):
        ledger.charge("more", Zcdp("1e-12"))


def check_deltas_add(make: type[Ledger]) -> None:
    ledger = make(BUDGET, WEvent(2))
    for first in (1, 2, 4):
        ledger.charge("keys", Zcdp("1/1000"), first, first, native=True, delta=4e-7)
    assert (ledger.spent_delta(), ledger.spent_delta(4, 4)) == (Fraction(8, 10**7), Fraction(4, 10**7))
    assert ledger.remaining_loss(2, 2).rho == Approx(1, 2e-7).additive_loss.rho - Fraction(2, 1000)
    assert ledger.remaining_loss(6).rho == BUDGET.additive_loss.rho
    with pytest.raises(BudgetExceededError):
        ledger.charge("all of delta", Zcdp("1/1000000"), 1, 1, native=True, delta=2e-7)
    ledger.charge("other windows", Zcdp("1/1000000"), 5, 6, native=True, delta=2e-7)


def test_half_of_delta_leaves_the_loss_of_other_half() -> None:
    check_half_of_delta_leaves_what_the_other_half_keeps(Ledger)


def test_deltas_add_for_units_that_touch_them_and_no_other() -> None:
    check_deltas_add(Ledger)


@pytest.mark.parametrize("unit", [Event(), WEvent(3)], ids=repr)
def test_units_before_and_after_a_delta_are_distinguished(unit: Unit) -> None:
    ledger, apart = Ledger(BUDGET, unit), unit.ticks
    ledger.charge("before", BUDGET.additive_loss, 4, 4, native=True)
    ledger.charge("keys", Zcdp("1e-9"), 4 + apart, 9, native=True, delta=5e-7)
    ledger.charge("after", BUDGET.additive_loss, 9 + apart, native=True)
    assert ledger.spent_loss() <= BUDGET
    for tick, chosen_part in ((4, 0), (4 + apart, 5e-7), (9, 5e-7), (9 + 2 * apart, 0)):
        assert ledger.spent_delta(tick, tick) == (chosen_part and Fraction(5, 10**7))
    for tick in (4, 9 + apart):
        with pytest.raises(BudgetExceededError):
            ledger.charge("too near", Zcdp("1e-9"), tick, tick, native=True, delta=1e-9)


def test_pure_charges_with_a_delta_add_up_or_convert() -> None:
    ledger = Ledger(BUDGET, Event())
    ledger.charge("keys", Pure("1/10"), delta=5e-7)
    assert ledger.remaining_loss().rho == Approx("9/10", 5e-7).additive_loss.rho
    small = Ledger(BUDGET, Event())
    small.charge("keys", Pure("1/1000"), delta=5e-7)
    assert small.remaining_loss().rho == Approx(1, 5e-7).additive_loss.rho - Fraction(1, 2_000_000)


class ForgetsDeltas(Ledger):
    """A broken twin: it adds rhos and ignores deltas."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        return super().build_loads(replace(terms, delta_terms=()), touching)


class ConvertsAtAllOfDelta(Ledger):
    """A broken twin: it checks deltas, but converts rho at the whole delta."""

    def can_afford(self, loads: Iterable[LossBound]) -> bool:
        found = list(loads)
        whole = [replace(load, delta=Fraction(0)) for load in found]
        return super().can_afford(whole) and all(load.delta < DELTA for load in found)


class TakesTheLargestDelta(Ledger):
    """A broken twin: deltas are shared, as if all releases failed together."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        largest = sorted(terms.delta_terms, key=lambda term: term.peak)[-1:]
        return super().build_loads(replace(terms, delta_terms=tuple(largest)), touching)


@pytest.mark.parametrize("twin", [ForgetsDeltas, ConvertsAtAllOfDelta, TakesTheLargestDelta])
def test_broken_twins_are_caught(twin: type[Ledger]) -> None:
    tenth = BUDGET.part("1/10")
    greedy: list[ChargeRequest] = [(tenth, DELTA * 2 / 5, 1, None)] * 3 + [(tenth, Fraction(0), 1, None)] * 9
    check_no_unit_loses_more_than_the_budget(Ledger, greedy, Event())
    with pytest.raises(AssertionError):
        check_no_unit_loses_more_than_the_budget(twin, greedy, Event())


@pytest.mark.parametrize("budget", [Pure(1), Zcdp(1)], ids=repr)
def test_a_budget_without_a_delta_refuses_any(budget: Loss) -> None:
    ledger = Ledger(budget, Event())
    with pytest.raises(PrivacyError, match=r"^delta must be 0 under a budget of .*, which has none, got 1e-09$"):
        ledger.charge("keys", Pure("1/10"), delta=1e-9)
    with pytest.raises(PrivacyError, match=r"^delta must be 0 under a budget of"):
        ledger.remaining_loss(delta=1e-9)
    assert ledger.entries == ()
    assert ledger.spent_delta() == 0


@pytest.mark.parametrize(
    "unit", [WEvent(2), User(1, 2), User(2, 1), Tick(2), Event(replace=True, moves=True)], ids=repr
)
def test_a_delta_is_refused_with_the_loss_of_partial_units(unit: Unit) -> None:
    ledger = Ledger(BUDGET, unit)
    with pytest.raises(PrivacyError, match=r"^delta must be 0 unless the loss is of the whole unit"):
        ledger.charge("keys", Zcdp("1/1000"), delta=1e-7)
    if unit.ticks > 1:
        with pytest.raises(PrivacyError, match=r"^delta must be 0 unless"):
            ledger.charge("keys", Zcdp("1/1000"), delta=1e-7, per_tick=True)
    else:
        ledger.charge("keys", Zcdp("1/1000"), delta=1e-7, per_tick=True)
    ledger.charge("keys", Zcdp("1/1000"), delta=1e-7, native=True)


def test_a_delta_is_a_number_that_is_not_negative() -> None:
    ledger = Ledger(BUDGET, Event())
    for wrong in (-1e-9, None, True, float("nan")):
        with pytest.raises(ValueError, match=r"^delta must"):
            ledger.charge("keys", Zcdp("1/1000"), delta=wrong)
    for all_of_it in (1e-6, 1, 7):
        with pytest.raises(BudgetExceededError):
            ledger.charge("keys", Zcdp("1e-30"), delta=all_of_it)
    with pytest.raises(BudgetExceededError):
        ledger.charge("keys", Pure("1/10"), delta=1.1e-6)
    with pytest.raises(PrivacyError, match=r"^loss must be pure or zCDP"):
        ledger.charge("keys", Approx(1, 1e-7), delta=1e-7)
    assert ledger.entries == ()


def test_a_refusal_states_requested_and_spent_deltas() -> None:
    ledger = Ledger(BUDGET, Event())
    ledger.charge("keys", Zcdp("1/100"), delta=4e-7)
    with pytest.raises(
        BudgetExceededError, match=r", got Zcdp\(rho=1/100\) and delta 7e-07 on top of .*, delta 4e-07 taken$"
    ) as caught:
        ledger.charge("more keys", Zcdp("1/100"), delta=7e-7)
    refusal = caught.value
    assert (refusal.delta, refusal.delta_spent) == (Fraction(7, 10**7), Fraction(4, 10**7))
    assert refusal.spent == Approx(epsilon_from_rho(Fraction(1, 100), Fraction(6, 10**7)), DELTA)
    copy = pickle.loads(pickle.dumps(refusal))
    assert (str(copy), copy.delta, copy.delta_spent) == (str(refusal), refusal.delta, refusal.delta_spent)


def test_ledger_prints_deltas_and_stores_them_in_entries() -> None:
    ledger = Ledger(BUDGET, WEvent(2))
    ledger.end(ledger.charge("keys", Zcdp("1/100"), native=True, delta=4e-7), ingested=4)
    ledger.charge("visits", Zcdp("1/1000"), first=3)
    assert [charge.delta for charge in ledger.entries] == [Fraction(4, 10**7), 0]
    assert str(ledger).splitlines()[1:] == [
        "charge  from  to  loss of one event",
        "keys    1     4   Zcdp(rho=1/100) and delta 4e-07  of the whole unit, ended after 4",
        "visits  3     on  Zcdp(rho=1/1000)",
    ]
