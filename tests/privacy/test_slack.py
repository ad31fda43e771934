"""Deltas beside losses: both add for every unit, and rho is converted once, at what is left of delta."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import exp, inf, log, log1p
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.privacy import (
    Approx,
    BudgetExceeded,
    Event,
    Ledger,
    Loss,
    Pure,
    Tick,
    Unit,
    User,
    WEvent,
    WrongCurrency,
    Zcdp,
)
from streamgauge.privacy.conversions import epsilon_of_rho, rho_of_approx
from streamgauge.privacy.terms import Span, Term
from streamgauge.statistics import TopK

law = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
BUDGET = Approx(1, 1e-6)
DELTA = BUDGET.delta
LAST = 6
Asked = tuple[Zcdp, Fraction, int, int | None]
windows = st.one_of(st.just(Event()), st.just(Tick(3)), st.builds(WEvent, st.integers(1, 4)))
sets = st.one_of(
    st.just(Event(replace=True, moves=True)), st.builds(User, st.integers(1, 2), st.integers(1, 3))
)


@st.composite
def asked(draw: st.DrawFn) -> Asked:
    """A native charge of some of the budget, some of its delta, over some ticks."""
    first = draw(st.integers(1, LAST))
    last = draw(st.one_of(st.none(), st.integers(first, LAST)))
    rho = BUDGET.part(Fraction(draw(st.integers(1, 20)), 30))
    return (
        rho,
        DELTA * draw(st.sampled_from([0, 0, Fraction(1, 10), Fraction(1, 3), Fraction(1, 2)])),
        first,
        last,
    )


def tick_sets(unit: Unit) -> Iterable[Iterable[int]]:
    """Every set of ticks that one unit may touch."""
    if unit.consecutive:
        return [range(s, s + unit.ticks) for s in range(1 - unit.ticks, LAST + 3)]
    return combinations(range(1, LAST + unit.ticks + 1), unit.ticks)


def composed(charges: Sequence[Asked], unit: Unit) -> Iterator[tuple[Fraction, Fraction]]:
    """The rho and the delta of every unit, by the definition."""
    for ticks in map(tuple, tick_sets(unit)):
        seen = [c for c in charges if any(c[2] <= tick <= (c[3] or inf) for tick in ticks)]
        yield sum((c[0].rho for c in seen), Fraction(0)), sum((c[1] for c in seen), Fraction(0))


def epsilon(rho: Fraction, delta: Fraction) -> float:
    """The best of many orders, in floats: the conversion once more."""
    if not rho:
        return 0.0
    orders = (1 + 1.02**i for i in range(-400, 800))
    return min(a * float(rho) + log1p(-1 / a) - (log(delta) + log(a)) / (a - 1) for a in orders)


def refusal_of(ledger: Ledger, charge: Asked) -> BudgetExceeded | None:
    loss, delta, first, last = charge
    try:
        ledger.charge("r", loss, first, last, native=True, delta=delta)
    except BudgetExceeded as refusal:
        return refusal
    return None


def seen(ledger: Ledger) -> tuple[object, ...]:
    return ledger.entries, ledger.spent(), ledger.left(), ledger.delta_spent(), str(ledger)


def accepted(ledger: Ledger, charges: Iterable[Asked]) -> list[Asked]:
    """The charges that were not refused; those that were leave no trace."""
    entered = []
    for charge in charges:
        before = seen(ledger)
        refusal = refusal_of(ledger, charge)
        if refusal is None:
            entered.append(charge)
            continue
        assert (refusal.asked, refusal.delta, refusal.allowed) == (charge[0], charge[1], ledger.budget)
        assert seen(ledger) == before
    return entered


def check_no_unit_loses_more_than_the_budget(
    make: type[Ledger], charges: Sequence[Asked], unit: Unit
) -> None:
    for rho, delta in composed(accepted(make(BUDGET, unit), charges), unit):
        assert delta < DELTA
        assert epsilon(rho, DELTA - delta) <= float(BUDGET.epsilon) * (1 + 1e-4)


@law
@given(st.lists(asked(), max_size=6), st.one_of(windows, sets))
def test_no_unit_loses_more_than_the_budget_in_whatever_order_charges_come(
    charges: list[Asked], unit: Unit
) -> None:
    check_no_unit_loses_more_than_the_budget(Ledger, charges, unit)


@law
@given(st.lists(asked(), max_size=6), windows)
def test_a_charge_is_refused_exactly_if_a_window_could_not_afford_it(
    charges: list[Asked], unit: Unit
) -> None:
    ledger, entered = Ledger(BUDGET, unit), list[Asked]()
    for charge in charges:
        affordable = all(
            rho == 0 or (delta < DELTA and rho <= rho_of_approx(BUDGET.epsilon, DELTA - delta))
            for rho, delta in composed([*entered, charge], unit)
        )
        assert accepted(ledger, [charge]) == ([charge] if affordable else [])
        entered += [charge] if affordable else []
    found = list(composed(entered, unit))
    assert ledger.delta_spent() == max(delta for _, delta in found)
    spent = [epsilon_of_rho(rho, DELTA - delta) for rho, delta in found if rho]
    assert ledger.spent() == (Approx(max(spent), DELTA) if spent else Approx.nothing())
    assert ledger.spent() <= BUDGET


@law
@given(st.lists(asked(), max_size=5), windows, st.integers(1, LAST), st.sampled_from([0, 1, 4]))
def test_whatever_is_left_beside_a_delta_can_be_charged_with_it_and_nothing_more(
    charges: list[Asked], unit: Unit, first: int, tenths: int
) -> None:
    ledger, delta = Ledger(BUDGET, unit), DELTA * tenths / 10
    accepted(ledger, charges)
    left = ledger.left(first, first + 1, delta=delta)
    with pytest.raises(BudgetExceeded):
        ledger.charge("too much", left + Zcdp("1e-30"), first, first + 1, native=True, delta=delta)
    if left.rho:
        ledger.charge("all of it", left, first, first + 1, native=True, delta=delta)
        assert ledger.left(first, first + 1) == Zcdp.nothing()


@law
@given(st.lists(asked(), min_size=1, max_size=4), windows, st.integers(0, LAST + 2))
def test_an_ended_charge_takes_its_delta_only_from_whom_it_saw(
    charges: list[Asked], unit: Unit, ingested: int
) -> None:
    ledger = Ledger(BUDGET, unit)
    entered = accepted(ledger, charges)
    if not entered:
        return
    ledger.end(ledger.entries[0], ingested=ingested)
    loss, delta, first, last = entered[0]
    seen = [(loss, delta, first, min(last or ingested, ingested))] if first <= ingested else []
    assert ledger.delta_spent() == max(delta for _, delta in composed([*seen, *entered[1:]], unit))
    for tick in range(1, LAST + 2):
        here = [
            c for c in [*seen, *entered[1:]] if c[2] < tick + unit.ticks and (c[3] or inf) > tick - unit.ticks
        ]
        assert ledger.delta_spent(tick, tick) <= sum(c[1] for c in here)


def test_a_user_gets_no_delta_back() -> None:
    ledger = Ledger(BUDGET, User(2, 3))
    ledger.end(ledger.charge("r", BUDGET.part("1/10"), native=True, delta=9e-7), ingested=1)
    assert ledger.delta_spent(first=2) == Fraction(9, 10**7)
    with pytest.raises(BudgetExceeded):
        ledger.charge("s", BUDGET.part("1/10"), first=2, native=True, delta=1e-7)


def check_half_of_delta_leaves_what_the_other_half_keeps(make: type[Ledger]) -> None:
    half = Approx(1, 5e-7)
    ledger = make(BUDGET, Event())
    ledger.charge("keys", half.kept_as, delta=5e-7)
    assert ledger.left() == Zcdp.nothing()
    assert ledger.spent().delta == DELTA
    assert Fraction(999_999, 1_000_000) <= ledger.spent().epsilon <= 1
    with pytest.raises(BudgetExceeded):
        ledger.charge("more", Zcdp("1e-12"))


def check_deltas_add(make: type[Ledger]) -> None:
    ledger = make(BUDGET, WEvent(2))
    for first in (1, 2, 4):
        ledger.charge("keys", Zcdp("1/1000"), first, first, native=True, delta=4e-7)
    assert (ledger.delta_spent(), ledger.delta_spent(4, 4)) == (Fraction(8, 10**7), Fraction(4, 10**7))
    assert ledger.left(2, 2).rho == Approx(1, 2e-7).kept_as.rho - Fraction(2, 1000)
    assert ledger.left(6).rho == BUDGET.kept_as.rho
    with pytest.raises(BudgetExceeded):
        ledger.charge("all of delta", Zcdp("1/1000000"), 1, 1, native=True, delta=2e-7)
    ledger.charge("other windows", Zcdp("1/1000000"), 5, 6, native=True, delta=2e-7)


def test_half_of_delta_leaves_what_the_other_half_keeps() -> None:
    check_half_of_delta_leaves_what_the_other_half_keeps(Ledger)


def test_deltas_add_for_units_that_touch_them_and_no_other() -> None:
    check_deltas_add(Ledger)


@pytest.mark.parametrize("unit", [Event(), WEvent(3)], ids=repr)
def test_units_on_either_side_of_a_delta_are_told_apart_to_the_tick(unit: Unit) -> None:
    ledger, apart = Ledger(BUDGET, unit), unit.ticks
    ledger.charge("before", BUDGET.kept_as, 4, 4, native=True)
    ledger.charge("keys", Zcdp("1e-9"), 4 + apart, 9, native=True, delta=5e-7)
    ledger.charge("after", BUDGET.kept_as, 9 + apart, native=True)
    assert ledger.spent() <= BUDGET
    for tick, taken in ((4, 0), (4 + apart, 5e-7), (9, 5e-7), (9 + 2 * apart, 0)):
        assert ledger.delta_spent(tick, tick) == (taken and Fraction(5, 10**7))
    for tick in (4, 9 + apart):
        with pytest.raises(BudgetExceeded):
            ledger.charge("too near", Zcdp("1e-9"), tick, tick, native=True, delta=1e-9)


def test_pure_counters_beside_a_delta_count_as_half_their_square() -> None:
    ledger = Ledger(BUDGET, Event())
    ledger.charge("keys", Pure("1/10"), delta=5e-7)
    assert ledger.left().rho == Approx(1, 5e-7).kept_as.rho - Fraction(1, 200)


class ForgetsDeltas(Ledger):
    """A broken twin: rhos add up, deltas are not looked at."""

    def _loads(self, terms: Iterable[Term], slacks: Sequence[Term], touching: Span) -> Any:
        return super()._loads(terms, (), touching)


class ConvertsAtAllOfDelta(Ledger):
    """A broken twin: deltas must fit, but rho is converted as if none of delta were taken."""

    def _affordable(self, loads: Iterable[Any]) -> bool:
        return all(load.amount <= self._limit.amount and load.delta < DELTA for load in loads)


class TakesTheLargestDelta(Ledger):
    """A broken twin: deltas are shared, as if all releases failed together."""

    def _loads(self, terms: Iterable[Term], slacks: Sequence[Term], touching: Span) -> Any:
        return super()._loads(terms, sorted(slacks, key=lambda term: term.peak)[-1:], touching)


@pytest.mark.parametrize("twin", [ForgetsDeltas, ConvertsAtAllOfDelta, TakesTheLargestDelta])
def test_broken_twins_are_caught(twin: type[Ledger]) -> None:
    tenth = BUDGET.part("1/10")
    greedy: list[Asked] = [(tenth, DELTA * 2 / 5, 1, None)] * 3 + [(tenth, Fraction(0), 1, None)] * 9
    check_no_unit_loses_more_than_the_budget(Ledger, greedy, Event())
    with pytest.raises(AssertionError):
        check_no_unit_loses_more_than_the_budget(twin, greedy, Event())


@pytest.mark.parametrize("budget", [Pure(1), Zcdp(1)], ids=repr)
def test_a_budget_without_a_delta_refuses_any(budget: Loss) -> None:
    ledger = Ledger(budget, Event())
    with pytest.raises(
        WrongCurrency, match=r"^delta must be 0 under a budget of .*, which has none, got 1e-09$"
    ):
        ledger.charge("keys", Pure("1/10"), delta=1e-9)
    with pytest.raises(WrongCurrency):
        ledger.left(delta=1e-9)
    assert ledger.entries == ()
    assert ledger.delta_spent() == 0


@pytest.mark.parametrize(
    "unit", [WEvent(2), User(1, 2), User(2, 1), Tick(2), Event(replace=True, moves=True)], ids=repr
)
def test_a_delta_is_refused_beside_the_loss_of_a_part_of_a_unit(unit: Unit) -> None:
    ledger = Ledger(BUDGET, unit)
    with pytest.raises(WrongCurrency, match=r"^delta must be 0 unless the loss is of the whole unit"):
        ledger.charge("keys", Zcdp("1/1000"), delta=1e-7)
    if unit.ticks > 1:
        with pytest.raises(WrongCurrency):
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
        with pytest.raises(BudgetExceeded):
            ledger.charge("keys", Zcdp("1e-30"), delta=all_of_it)
    with pytest.raises(WrongCurrency):
        ledger.charge("keys", Approx(1, 1e-7), delta=1e-7)
    assert ledger.entries == ()


def test_a_refusal_says_which_deltas_were_asked_and_taken() -> None:
    ledger = Ledger(BUDGET, Event())
    ledger.charge("keys", Zcdp("1/100"), delta=4e-7)
    with pytest.raises(
        BudgetExceeded, match=r", got Zcdp\(rho=1/100\) and delta 7e-07 on top of .*, delta 4e-07 taken$"
    ) as caught:
        ledger.charge("more keys", Zcdp("1/100"), delta=7e-7)
    refusal = caught.value
    assert (refusal.delta, refusal.delta_spent) == (Fraction(7, 10**7), Fraction(4, 10**7))
    assert refusal.spent == Approx(epsilon_of_rho(Fraction(1, 100), Fraction(6, 10**7)), DELTA)
    copy = pickle.loads(pickle.dumps(refusal))
    assert (str(copy), copy.delta, copy.delta_spent) == (str(refusal), refusal.delta, refusal.delta_spent)


def test_the_ledger_prints_deltas_and_keeps_them_in_its_entries() -> None:
    ledger = Ledger(BUDGET, WEvent(2))
    ledger.end(ledger.charge("keys", Zcdp("1/100"), native=True, delta=4e-7), ingested=4)
    ledger.charge("visits", Zcdp("1/1000"), first=3)
    assert [charge.delta for charge in ledger.entries] == [Fraction(4, 10**7), 0]
    assert str(ledger).splitlines()[1:] == [
        "charge  from  to  loss of one event",
        "keys    1     4   Zcdp(rho=1/100) and delta 4e-07  of the whole unit, ended after 4",
        "visits  3     on  Zcdp(rho=1/1000)",
    ]


# Against enumeration: every pair of laws is a table {outcome: (P, Q)} of exact or float probabilities.

Laws = dict[object, tuple[float, float]]


def leaky(step: float, leak: float) -> Laws:
    """A bit kept by randomised response at epsilon = step, and told with probability `leak`."""
    lie = 1 / (1 + exp(step))
    kept = {("no", 1): (1 - lie, lie), ("no", 0): (lie, 1 - lie)}
    failed = {("leaks", 1): (leak, 0.0), ("leaks", 0): (0.0, leak)}
    return {o: (p * (1 - leak), q * (1 - leak)) for o, (p, q) in kept.items()} | (failed if leak else {})


def hockey_stick(laws: Iterable[tuple[float, float]], epsilon: float) -> float:
    """The least delta at this epsilon, the worse of both directions."""
    pairs = list(laws)
    one = sum(max(p - exp(epsilon) * q, 0.0) for p, q in pairs)
    other = sum(max(q - exp(epsilon) * p, 0.0) for p, q in pairs)
    return max(one, other)


def adaptively(
    rounds: int, choose: Callable[[tuple[object, ...]], Laws], seen: tuple[object, ...] = ()
) -> Iterator[tuple[float, float]]:
    """The law of several releases, each chosen in view of those before."""
    if not rounds:
        yield 1.0, 1.0
        return
    for outcome, (p, q) in choose(seen).items():
        for rest_p, rest_q in adaptively(rounds - 1, choose, (*seen, outcome)):
            yield p * rest_p, q * rest_q


@pytest.mark.parametrize("converted", ["1/1000", "1/50"])
def test_composed_releases_that_may_fail_keep_the_converted_loss_and_the_sum_of_deltas(
    converted: str,
) -> None:
    """Six rounds at epsilon 1/2, or at 1/4 and leaking with 1/100 if the bit told before was 1."""
    step, leak, rounds, left = 0.5, 0.01, 6, Fraction(converted)

    def choose(seen: tuple[object, ...]) -> Laws:
        return leaky(step / 2, leak) if seen and seen[-1] == ("no", 1) else leaky(step, leak)

    rho = rounds * Pure("1/2").as_zcdp().rho
    claimed = float(epsilon_of_rho(rho, left))
    true = hockey_stick(adaptively(rounds, choose), claimed)
    assert true <= float(left) + rounds * leak
    assert true > float(left), "a check that forgets deltas would be wrong here"


@pytest.mark.parametrize(("scale", "threshold"), [(2, 6), (3, 9), (4, 5)])
def test_discovered_keys_keep_what_they_charge(scale: int, threshold: int) -> None:
    """Key A has two events of others, B none; the unit may add one to each.

    What is told: each noisy count above the threshold, B's only if B is eligible. The counters are pure at
    2/scale; the threshold takes P(noise > threshold - 1), without which no epsilon would do.
    """
    reach, ratio = 40 * scale, exp(-1 / scale)
    noise = {n: (1 - ratio) / (1 + ratio) * ratio ** abs(n) for n in range(-reach, reach + 1)}
    told: dict[tuple[int | None, int | None], list[float]] = {}
    for world, (a, b) in enumerate(((3, 1), (2, 0))):
        for (n, p), (m, q) in product(noise.items(), noise.items()):
            key_a = a + n if a + n > threshold else None
            key_b = b + m if b and b + m > threshold else None
            told.setdefault((key_a, key_b), [0.0, 0.0])[world] += p * q
    fails = sum(p for n, p in noise.items() if 1 + n > threshold)
    rho, left = Pure(Fraction(2, scale)).as_zcdp().rho, Fraction(1, 100)
    claimed = float(epsilon_of_rho(rho, left))
    assert hockey_stick(((p, q) for p, q in told.values()), claimed) <= float(left) + fails
    assert hockey_stick(((p, q) for p, q in told.values()), 50.0) == pytest.approx(fails)


UNITS = [Event(), WEvent(3), User(2, 3), Event(replace=True, moves=True), Tick(4)]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("epsilon", ["1/10", 2])
def test_top_k_charges_what_its_counters_lose_and_what_its_thresholds_take(
    unit: Unit, epsilon: str | int
) -> None:
    claim = TopK(Approx(epsilon, 1e-6), k=2, horizon=30, unit=unit)
    loss, delta = claim.charged
    assert delta == claim.selection.delta
    assert (loss, delta) in [
        (Pure(epsilon), DELTA),
        (Approx(epsilon, 5e-7).kept_as, DELTA / 2),
        (Pure(epsilon), DELTA / 2),
    ]
    assert loss == claim.counter.loss.kept_as
    budget = Approx(loss.as_zcdp().as_approx(1e-6).epsilon + Fraction(1, 10**9), delta + DELTA)
    ledger = Ledger(budget, unit)
    ledger.charge("keys", loss, last=30, native=True, delta=delta)
    assert ledger.spent() <= budget


def test_top_k_of_a_declared_domain_takes_no_delta() -> None:
    assert TopK(Pure(1), k=1, domain=["a", "b"], horizon=9).charged == (Pure(1), 0)
    assert TopK(Zcdp("1/8"), k=1, domain=["a", "b"], horizon=9).charged[1] == 0
