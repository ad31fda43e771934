"""The ledger never lets any unit lose more than the budget: against enumeration, threads and broken twins."""

import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise
from threading import Barrier
from time import sleep

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.continual import Kary, TwoPart
from streamgauge.privacy import (
    Approx,
    BudgetExceededError,
    Event,
    IntegerZcdp,
    Ledger,
    Loss,
    PrivacyError,
    Pure,
    Step,
    Timeline,
    Unit,
    User,
    WEvent,
    Zcdp,
)
from streamgauge.privacy.conversions import epsilon_from_rho
from streamgauge.privacy.loss_profiles import ChargeTerms
from streamgauge.privacy.split_bounds import LossBound, LossSplit
from streamgauge.privacy.timeline import LossTerm, Span

law = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
LAST = 7
HUGE = 10**9
amounts = st.fractions(min_value=Fraction(1, 8), max_value=3, max_denominator=8)
units = st.one_of(
    st.just(Event()),
    st.just(Event(replace=True, moves=True)),
    st.builds(WEvent, st.integers(1, 4)),
    st.builds(User, st.integers(1, 3), st.integers(1, 3)),
)
Kind = type[Pure] | type[Zcdp]


@st.composite
def timelines(draw: st.DrawFn, kind: Kind) -> Timeline:
    cuts = draw(st.lists(st.integers(1, LAST), min_size=2, max_size=4, unique=True).map(sorted))
    ends: list[int | None] = [cut - draw(st.integers(1, cut - before)) for before, cut in pairwise(cuts)]
    if draw(st.booleans()):
        ends[-1] = None
    return Timeline(tuple(Step(f, e, kind(draw(amounts))) for f, e in zip(cuts, ends, strict=False)))


def charges(kind: Kind) -> st.SearchStrategy[list[tuple[Timeline, str]]]:
    return st.lists(st.tuples(timelines(kind), st.sampled_from(["", "native", "per_tick"])), max_size=3)


def tick_sets(unit: Unit) -> Iterable[Iterable[int]]:
    """Yield all sets of ticks that one unit may touch; open-ended charges repeat after LAST."""
    end = LAST + unit.ticks
    if unit.consecutive:
        return [range(s, s + unit.ticks) for s in range(1 - unit.ticks, end + 1)]
    return combinations(range(1, end + 1), unit.ticks)


def loss_at(timeline: Timeline, tick: int) -> Fraction:
    losses = (s.loss for s in timeline.steps if s.first <= tick and (s.last is None or tick <= s.last))
    return next((loss.amount for loss in losses), Fraction(0))


def unit_loss(timeline: Timeline, how: str, unit: Unit, ticks: Iterable[int], power: int) -> Decimal:
    """Compute the definition in 60 digits: m sum of epsilons, or (m sum of sqrt rho)^2."""
    at = [loss_at(timeline, tick) for tick in ticks]
    if how == "native":
        first, last = timeline.span
        return decimal(max(s.loss.amount for s in timeline.steps)) if touches(ticks, first, last) else Decimal(0)
    events = 1 if how == "per_tick" else unit.events
    if power == 1:
        return events * sum(map(decimal, at), Decimal(0))
    return (events * sum((decimal(x).sqrt() for x in at), Decimal(0))) ** 2


def touches(ticks: Iterable[int], first: int, last: int | None) -> bool:
    return any(first <= tick and (last is None or tick <= last) for tick in ticks)


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def enumerated(charged: list[tuple[Timeline, str]], unit: Unit, power: int) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        worst = max(
            sum((unit_loss(timeline, how, unit, tuple(ticks), power) for timeline, how in charged), Decimal(0))
            for ticks in tick_sets(unit)
        )
        return Fraction(worst)


def filled(ledger: Ledger, charged: list[tuple[Timeline, str]]) -> Ledger:
    for timeline, how in charged:
        ledger.charge_timeline("r", timeline, native=how == "native", per_tick=how == "per_tick")
    return ledger


def refused(ledger: Ledger, timeline: Timeline, how: str) -> BudgetExceededError | None:
    try:
        filled(ledger, [(timeline, how)])
    except BudgetExceededError as refusal:
        return refusal
    return None


SLACK = Fraction(1, 10**50)  # of the 60-digit enumeration
ROUNDING = 1 + Fraction(1, 2**50)  # of square roots


@law
@given(st.data(), units, st.sampled_from([Pure, Zcdp]))
def test_spent_loss_matches_enumeration(data: st.DataObject, unit: Unit, kind: Kind) -> None:
    charged = data.draw(charges(kind))
    spent = filled(Ledger(kind(HUGE), unit), charged).spent_loss().amount
    truth = enumerated(charged, unit, kind.power)
    assert spent >= truth - SLACK
    if unit.consecutive or (kind is Pure and not any(how == "native" for _, how in charged)):
        assert spent <= truth * ROUNDING + SLACK


@law
@given(st.data(), units, st.sampled_from([Pure, Zcdp]), amounts)
def test_charge_is_refused_exactly_if_it_exceeds_budget(
    data: st.DataObject, unit: Unit, kind: Kind, budget: Fraction
) -> None:
    ledger, accepted = Ledger(kind(budget * 8), unit), []
    for timeline, how in data.draw(charges(kind)):
        truth = enumerated([*accepted, (timeline, how)], unit, kind.power)
        before = ledger.entries, ledger.spent_loss(), str(ledger)
        refusal = refused(ledger, timeline, how)
        if refusal is None:
            accepted.append((timeline, how))
            assert truth <= budget * 8 + SLACK
        else:
            assert (ledger.entries, ledger.spent_loss(), str(ledger)) == before
            assert (refusal.allowed, refusal.first, refusal.last) == (ledger.budget, *timeline.span)
            assert truth * ROUNDING + SLACK > budget * 8 or not unit.consecutive


@law
@given(st.data(), st.one_of(st.just(Event()), st.builds(WEvent, st.integers(1, 4))), st.integers(0, LAST + 2))
def test_ended_charge_counts_up_to_last_ingested_tick(data: st.DataObject, unit: Unit, ingested: int) -> None:
    charged = data.draw(charges(Zcdp).filter(bool))
    ledger = filled(Ledger(Zcdp(HUGE), unit), charged)
    ledger.end(ledger.entries[0], ingested=ingested)
    rest = [(charged[0][0].truncate(ingested), charged[0][1]), *charged[1:]]
    remaining_items = [(timeline, how) for timeline, how in rest if timeline is not None]
    truth = enumerated(remaining_items, unit, 2)
    assert truth - SLACK <= ledger.spent_loss().amount <= truth * ROUNDING + SLACK


def check_user_level_frees_nothing(unit: Unit) -> None:
    for budget, loss in ((Pure(6), Pure(1)), (Zcdp(36), Zcdp(1))):
        ledger = Ledger(budget, unit)
        ended = ledger.end(ledger.charge("r", loss), ingested=1)
        assert ended.end_tick == 1
        assert ledger.remaining_loss(first=2).amount == 0
        with pytest.raises(BudgetExceededError):
            ledger.charge("s", loss, first=2)


def test_a_user_level_charge_that_ends_frees_nothing() -> None:
    check_user_level_frees_nothing(User(2, 3))


def check_zcdp_adds_by_square_roots(make: Callable[[Loss, Unit], Ledger]) -> None:
    ledger = make(Zcdp(HUGE), WEvent(30))
    ledger.charge("r", Zcdp("1/2"))
    assert ledger.spent_loss() == Zcdp("1/2").group(30)


def check_every_tick_of_an_interval_counts(make: Callable[[Loss, Unit], Ledger]) -> None:
    for unit in (Event(), WEvent(2), User(1, 2)):
        ledger = make(Pure(unit.ticks), unit)
        ledger.charge("r", Pure(1), first=3, last=5)
        for tick in (3, 4, 5):
            assert (
                ledger.remaining_loss(tick, tick).amount < ledger.remaining_loss(900, 900).amount
                or not unit.frees_unused_ticks
            )
    only = make(Pure(1), Event())
    only.charge("r", Pure(1), first=3, last=5)
    with pytest.raises(BudgetExceededError):
        only.charge("s", Pure(1), first=5, last=5)
    only.charge("s", Pure(1), first=6)
    only.charge("t", Pure(1), first=1, last=2)


def test_zcdp_adds_by_square_roots_in_a_window() -> None:
    check_zcdp_adds_by_square_roots(Ledger)


def test_every_tick_of_an_interval_counts_and_no_other() -> None:
    check_every_tick_of_an_interval_counts(Ledger)


class SumsRho(Ledger):
    """A broken twin: a unit that touches n ticks pays n rho."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        return [LossBound((LossSplit(Fraction(0), self.unit.worst_case_loss(terms.zcdp, 1, touching)),))]


class ForgetsTheLastTick(Ledger):
    """A broken twin: intervals are half open."""

    def charge_timeline(self, name: str, timeline: Timeline, **how: bool) -> object:
        final = timeline.steps[-1]
        short = final if final.last is None else Step(final.first, max(final.first, final.last - 1), final.loss)
        return super().charge_timeline(name, Timeline((*timeline.steps[:-1], short)), **how)


class FreesUsers(User):
    """A broken twin: ended charges free loss of users."""

    frees_unused_ticks = True


def test_broken_twins_are_caught() -> None:
    for check, twin in (
        (check_zcdp_adds_by_square_roots, SumsRho),
        (check_every_tick_of_an_interval_counts, ForgetsTheLastTick),
        (check_user_level_frees_nothing, FreesUsers(2, 3)),
    ):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(twin)


def test_w_event_holds_for_every_window_no_more_no_less() -> None:
    ledger = Ledger(Pure(1), WEvent(3))
    ledger.charge("early", Pure(1), first=1, last=1)
    with pytest.raises(BudgetExceededError):
        ledger.charge("too soon", Pure("1/100"), first=3, last=3)
    ledger.charge("in time", Pure(1), first=4, last=4)
    ledger.charge("steady", Pure("1/3"), first=7)
    assert ledger.spent_loss() == Pure(1)


@law
@given(st.data(), units.filter(lambda unit: unit.consecutive), st.integers(1, LAST))
def test_remaining_loss_can_be_charged_natively_but_no_more(data: st.DataObject, unit: Unit, first: int) -> None:
    ledger = filled(Ledger(Zcdp(HUGE), unit), data.draw(charges(Zcdp)))
    left = ledger.remaining_loss(first, first + 1)
    with pytest.raises(BudgetExceededError):
        ledger.charge("too much", left + Zcdp("1e-30"), first, first + 1, native=True)
    ledger.charge("all of it", left, first, first + 1, native=True)
    assert ledger.remaining_loss(first, first + 1) == Zcdp.zero()


def test_an_interval_runs_forwards() -> None:
    ledger = Ledger(Pure(1), Event())
    for ask in (ledger.spent_loss, ledger.remaining_loss):
        with pytest.raises(ValueError, match=r"^last must be at least first = 3, got 2$"):
            ask(3, 2)
        with pytest.raises(ValueError, match=r"^first must be at least 1, got 0$"):
            ask(0)


def test_a_refusal_states_requested_spent_and_allowed() -> None:
    ledger = Ledger(Pure(1), Event())
    ledger.charge("visits", Pure("3/4"), first=5)
    text = (
        r"charge must be at most what is left of Pure\(epsilon=1\) from tick 2 to 9, "
        r"got Pure\(epsilon=1/2\) on top of Pure\(epsilon=3/4\)"
    )
    with pytest.raises(BudgetExceededError, match=rf"^{text}$") as caught:
        ledger.charge("quantiles", Pure("1/2"), first=2, last=9)
    refusal = caught.value
    assert (refusal.requested, refusal.spent, refusal.allowed) == (Pure("1/2"), Pure("3/4"), Pure(1))
    assert isinstance(refusal, PrivacyError)
    copy = pickle.loads(pickle.dumps(refusal))
    assert (str(copy), copy.first, copy.last) == (str(refusal), 2, 9)


def test_freed_ticks_start_after_the_last_one_ingested() -> None:
    ledger = Ledger(Pure(1), Event())
    first = ledger.charge("first", Pure(1))
    ledger.end(first, ingested=10)
    with pytest.raises(BudgetExceededError):
        ledger.charge("second", Pure(1), first=10)
    ledger.charge("second", Pure(1), first=11)


def test_charge_ended_before_its_first_tick_is_fully_refunded() -> None:
    ledger = Ledger(Pure(1), Event())
    ended = ledger.end(ledger.charge("r", Pure(1), first=5), ingested=4)
    assert ended.active_timeline is None
    assert ledger.remaining_loss() == Pure(1)
    assert "given back" in str(ledger)


@pytest.mark.parametrize("native", [True, False])
def test_time_never_runs_back(native: bool) -> None:
    ledger = Ledger(Pure(2), Event())
    one, two = (ledger.charge(name, Pure(1), native=native) for name in ("one", "two"))
    ended = ledger.end(one, ingested=10)
    with pytest.raises(ValueError, match=r"^ingested must be at least 10, the last ingested tick, got 9$"):
        ledger.end(two, ingested=9)
    for stale in (one, ended):
        with pytest.raises(ValueError, match=r"^charge must be an open charge of this ledger, got one$"):
            ledger.end(stale, ingested=11)


class Pausing(WEvent):
    """A unit that lets other threads run between the check and the entry."""

    def worst_case_loss(self, terms: Iterable[LossTerm], power: int, touching: Span) -> Fraction:
        worst = WEvent.worst_case_loss(self, tuple(terms), power, touching)
        sleep(0.0005)
        return worst


def check_concurrent_charges_never_overspend(ledger: Ledger) -> None:
    threads, each = 8, 10
    ready = Barrier(threads)

    def spend(_: int) -> int:
        ready.wait()
        timeline = Timeline((Step(1, None, Pure("1/100")),))
        return sum(refused(ledger, timeline, "") is None for _ in range(each))

    with ThreadPoolExecutor(threads) as pool:
        accepted = sum(pool.map(spend, range(threads)))
    assert accepted == len(ledger.entries) == 50
    assert ledger.spent_loss() == Pure(1)
    assert [charge.number for charge in ledger.entries] == list(range(50))


def test_concurrent_charges_never_overspend() -> None:
    check_concurrent_charges_never_overspend(Ledger(Pure(1), Pausing(2)))


def test_a_ledger_without_its_lock_is_caught() -> None:
    twin = Ledger(Pure(1), Pausing(2))
    twin._lock = nullcontext()
    with pytest.raises(AssertionError):
        check_concurrent_charges_never_overspend(twin)


def test_a_thousand_charges_are_fine() -> None:
    ledger = Ledger(Zcdp(1), WEvent(7))
    for i in range(1000):
        ledger.charge("daily", Zcdp("1/98"), first=1 + 2**30 * i, last=2**30 * (i + 1))
    assert ledger.spent_loss() == Zcdp("1/2")


def test_the_ledger_prints_as_a_table() -> None:
    ledger = Ledger(Pure(1), Event())
    ledger.end(ledger.charge("visits", Pure("1/4")), ingested=4)
    ledger.charge("quantiles", Pure("1/2"), first=3, native=True)
    assert str(ledger).splitlines() == [
        "Pure(epsilon=1) for each Event(replace=False, moves=False), Pure(epsilon=3/4) spent",
        "charge     from  to  loss of one event",
        "visits     1     4   Pure(epsilon=1/4)  ended after 4",
        "quantiles  3     on  Pure(epsilon=1/2)  of the whole unit",
    ]


@pytest.mark.parametrize("loss", [Pure.zero(), Zcdp.zero()], ids=repr)
def test_zero_or_negative_charges_are_refused(loss: Pure | Zcdp) -> None:
    ledger = Ledger(type(loss)(1), Event())
    with pytest.raises(ValueError, match=r"^loss must be positive, got"):
        ledger.charge("nothing", loss)
    with pytest.raises(ValueError, match=r"must not be negative, got -5$"):
        type(loss).from_amount(Fraction(-5))
    ledger.charge("all", type(loss)(1))
    with pytest.raises(BudgetExceededError):
        ledger.charge("more", type(loss)("1/1000"))


def test_ledger_arguments_of_wrong_type_are_refused() -> None:
    for budget, unit in ((None, Event()), (1.0, Event()), (Pure(1), 7), (Pure(1), Event)):
        with pytest.raises(ValueError, match=r"^(budget|unit) must be"):
            Ledger(budget, unit)
    with pytest.raises(ValueError, match=r"^loss must be Pure, Zcdp or Approx, got 1.0$"):
        Ledger(Pure(1), Event()).charge("a", 1.0)


def test_sums_with_integer_order_charges_convert_at_integer_orders() -> None:
    budget = Approx(6, 1e-6)
    ledger, other = Ledger(budget, Event()), Ledger(budget, Event())
    rho = budget.integer_order_loss.rho
    ledger.charge("memory", IntegerZcdp(rho / 2), native=True)
    other.charge("all orders", Zcdp(rho / 2), native=True)
    assert ledger.spent_loss().epsilon == epsilon_from_rho(rho / 2, budget.delta, integer_orders=True)
    assert ledger.spent_loss().epsilon > other.spent_loss().epsilon
    assert ledger.remaining_loss() == Zcdp(rho - rho / 2)
    assert ledger.copy().remaining_loss() == ledger.remaining_loss()
    ledger.charge("rest", Zcdp(rho / 2))
    assert ledger.spent_loss() <= budget
    with pytest.raises(BudgetExceededError):
        ledger.charge("more", IntegerZcdp(rho / 10**6))
    assert Ledger(budget, Event(), integer_orders=True).remaining_loss() == Zcdp(rho)


def test_first_integer_order_charge_is_weighed_against_all_ticks() -> None:
    budget = Approx(20, 1e-6)
    ledger = Ledger(budget, Event())
    ledger.charge("all orders", budget.additive_loss, first=1, last=9)
    with pytest.raises(BudgetExceededError):
        ledger.charge("memory", IntegerZcdp("1/10"), first=20)
    assert ledger.spent_loss() <= budget
    assert ledger.charge("all orders", budget.additive_loss, first=20).number == 1


def test_integer_order_charges_need_the_whole_unit_and_a_delta() -> None:
    rule = r"^loss must be one of all orders under a budget of Zcdp\(rho=1\), got IntegerZcdp\(rho=1/2\)$"
    with pytest.raises(PrivacyError, match=rule):
        Ledger(Zcdp(1), Event()).charge("r", IntegerZcdp("1/2"))
    with pytest.raises(PrivacyError, match=r"^loss must be one of all orders under a budget of Pure"):
        Ledger(Pure(1), Event()).charge("r", IntegerZcdp("1/2"))
    with pytest.raises(ValueError, match=r"^budget must be Pure, Zcdp or Approx, got IntegerZcdp"):
        Ledger(IntegerZcdp(1), Event())
    week = Ledger(Approx(6, 1e-6), WEvent(7))
    rule = (
        r"^loss must be one of all orders unless the loss is of the whole unit \(native=True\), got IntegerZcdp\(rho="
    )
    with pytest.raises(PrivacyError, match=rule):
        week.charge("r", IntegerZcdp("1/100"))
    charge = week.charge("r", IntegerZcdp("1/100"), native=True)
    assert charge.timeline.needs_integer_orders
    assert week.end(charge, ingested=3).active_timeline.needs_integer_orders


def test_integer_orders_stay_after_their_charge_was_freed() -> None:
    ledger = Ledger(Approx(6, 1e-6), Event())
    ledger.end(ledger.charge("memory", IntegerZcdp("1/100"), first=5), ingested=0)
    ledger.charge("all orders", Zcdp("1/4"))
    assert ledger.spent_loss().epsilon == epsilon_from_rho(Fraction(1, 4), Fraction("1e-6"), integer_orders=True)


def test_mechanisms_name_the_loss_that_the_ledger_charges() -> None:
    """The accounting follows from the claim: no caller says it, and none can forget it."""
    budget = Approx(3, 1e-6)
    claim = TwoPart(budget, horizon=64)
    assert claim.charged_loss == budget.integer_order_loss
    assert Kary(budget, horizon=64, pan_private=True).charged_loss == budget.additive_loss
    assert TwoPart(Pure(1), horizon=64).charged_loss == Pure(1)
    ledger = Ledger(budget, Event())
    ledger.charge("memory", claim.charged_loss)
    assert ledger.spent_loss() <= budget
    assert ledger.remaining_loss().amount == 0
    with pytest.raises(PrivacyError, match="charge the charged_loss of a mechanism"):
        Ledger(budget, Event()).charge("memory", claim.loss)
    with pytest.raises(BudgetExceededError):
        Ledger(budget, Event()).charge("memory", IntegerZcdp(budget.additive_loss.rho))
