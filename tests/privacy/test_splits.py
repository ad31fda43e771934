"""Budgets with a delta use the best split into pure charges that add and zCDP charges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.privacy import (
    Approx,
    BudgetExceededError,
    Event,
    Ledger,
    Loss,
    Pure,
    Step,
    Tick,
    Timeline,
    Unit,
    User,
    WEvent,
    XAdjacent,
    Zcdp,
)
from streamgauge.privacy import loss_profiles as profiles
from streamgauge.privacy.conversions import (
    epsilon_from_rho,
    estimate_epsilons,
    estimate_rhos,
    log_fraction,
    rho_from_approx,
)
from streamgauge.privacy.loss_profiles import ChargeTerms
from streamgauge.privacy.split_bounds import LossBound, SplitBudget
from streamgauge.privacy.timeline import Span

law = settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
BUDGET = Approx(1, 1e-6)
DELTA = BUDGET.delta
LAST = 5
NEAR = Fraction(1, 10**11)  # relative: conversions are rounded to 12 digits and more
ZERO = Fraction(0)

windows = st.one_of(st.just(Event()), st.just(Tick(2)), st.builds(WEvent, st.integers(1, 4)))
moving = st.just(Event(replace=True, moves=True))
users = st.one_of(moving, st.just(XAdjacent()), st.builds(User, st.integers(1, 2), st.integers(1, 3)))


class ChargeRequest(tuple[Timeline, bool, Fraction]):
    """A charge: its timeline, its native flag, and its delta."""

    __slots__ = ()


@st.composite
def request(draw: st.DrawFn, native: bool | None = None) -> ChargeRequest:
    """Draw a pure or zCDP charge of one or two steps, sometimes native with a delta."""
    whole = draw(st.booleans()) if native is None else native
    first = draw(st.integers(1, LAST))
    last = draw(st.one_of(st.none(), st.integers(first, LAST)))
    loss = draw(losses)
    steps = [Step(first, last, loss)]
    if not whole and last is not None and draw(st.booleans()):
        steps.append(Step(last + 1, draw(st.sampled_from([None, LAST + 1])), draw(losses)))
    chosen_part = draw(st.sampled_from([0, 0, 1, 3])) if whole else 0
    return ChargeRequest((Timeline(tuple(steps)), whole, DELTA * chosen_part / 10))


losses: st.SearchStrategy[Loss] = st.one_of(
    st.integers(1, 40).map(lambda n: Pure(Fraction(n, 200))),
    st.sampled_from(["1/10", "1/100", "1/1000"]).map(Pure),
    st.integers(1, 20).map(lambda n: BUDGET.part(Fraction(n, 100))),
)


def amounts(charge: ChargeRequest, unit: Unit, ticks: Iterable[int]) -> tuple[Fraction | None, Fraction, Fraction]:
    """Return the pure loss, rho and delta of a unit that touches these ticks, by definition."""
    timeline, native, delta = charge
    met = [s.loss for t in ticks for s in timeline.steps if s.first <= t and (s.last is None or t <= s.last)]
    every = [step.loss for step in timeline.steps]
    if not met:
        return None, ZERO, ZERO
    times = 1 if native else unit.events
    if all(isinstance(loss, Pure) for loss in every):
        pure = max(loss.amount for loss in every) if native else sum(loss.amount for loss in met)
        return times * pure, (times * pure) ** 2 / 2, delta
    rhos = [loss.as_zcdp().rho for loss in (every if native else met)]
    if native:
        return None, max(rhos), delta
    return None, Fraction(sum(float(rho) ** 0.5 for rho in rhos) * times) ** 2, delta


def tick_sets(unit: Unit) -> Iterable[Iterable[int]]:
    """Yield all sets of ticks that one unit may touch, or all ticks if unbounded."""
    if unit.consecutive:
        return [range(s, s + unit.ticks) for s in range(1 - unit.ticks, LAST + 4)]
    if unit.ticks > LAST + 4:
        return [range(1, LAST + 4)]
    return combinations(range(1, LAST + unit.ticks + 3), unit.ticks)


def best_split(found: Sequence[tuple[Fraction | None, Fraction, Fraction]]) -> Fraction | float:
    """Return the least bound of all subsets of the pure releases."""
    left = DELTA - sum((delta for _, _, delta in found), ZERO)
    pure = [i for i, (epsilon, _, _) in enumerate(found) if epsilon is not None]
    bounds: list[Fraction | float] = []
    for size in range(len(pure) + 1):
        for added in combinations(pure, size):
            epsilon = sum((found[i][0] or ZERO for i in added), ZERO)
            rho = sum((found[i][1] for i in range(len(found)) if i not in added), ZERO)
            if left >= 0 and not rho:
                bounds.append(epsilon)
            elif left > 0:
                bounds.append(epsilon + epsilon_from_rho(rho, left))
    return min(bounds, default=inf)


def brute_force(charges: Sequence[ChargeRequest], unit: Unit) -> Fraction | float:
    """Return the largest best split of all units."""
    found = []
    for ticks in map(tuple, tick_sets(unit)):
        all_amounts = [amounts(charge, unit, ticks) for charge in charges]
        found.append(best_split([each for each in all_amounts if each[1]]))
    return max(found, default=ZERO)


def accepted(ledger: Ledger, charges: Iterable[ChargeRequest]) -> list[ChargeRequest]:
    """Return the charges that the ledger accepted."""
    entered = []
    for charge in charges:
        try:
            ledger.charge_timeline("r", charge[0], native=charge[1], delta=charge[2])
        except BudgetExceededError:
            continue
        entered.append(charge)
    return entered


def is_bounded(charge: ChargeRequest, unit: Unit) -> bool:
    """Return True if a unit loses a finite amount for any number of ticks, as native charges do."""
    return charge[1] or unit.ticks <= LAST


def check_spent_is_the_best_split(make: type[Ledger], charges: Sequence[ChargeRequest], unit: Unit) -> None:
    ledger = make(BUDGET, unit)
    entered = accepted(ledger, [charge for charge in charges if is_bounded(charge, unit)])
    expected, spent = brute_force(entered, unit), ledger.spent_loss().amount
    assert abs(spent - Fraction(expected)) <= NEAR * (1 + Fraction(expected))
    assert spent <= BUDGET.epsilon


@law
@given(st.lists(request(), max_size=6), st.one_of(windows, users))
def test_spent_is_the_best_split_of_the_worst_unit(charges: list[ChargeRequest], unit: Unit) -> None:
    check_spent_is_the_best_split(Ledger, charges, unit)


@law
@given(st.lists(request(), max_size=6), st.one_of(windows, users))
def test_charge_is_refused_exactly_if_no_split_fits(charges: list[ChargeRequest], unit: Unit) -> None:
    ledger, entered = Ledger(BUDGET, unit), list[ChargeRequest]()
    for charge in charges:
        if not is_bounded(charge, unit):
            continue
        needed = brute_force([*entered, charge], unit)
        if abs(needed - 1) > NEAR:
            assert accepted(ledger, [charge]) == ([charge] if needed < 1 else [])
            entered += [charge] if needed < 1 else []


@law
@given(st.lists(request(native=True), max_size=5), windows, st.integers(1, LAST))
def test_remaining_loss_can_be_charged_but_no_more(charges: list[ChargeRequest], unit: Unit, first: int) -> None:
    ledger = Ledger(BUDGET, unit)
    accepted(ledger, charges)
    left = [ledger.remaining_loss(first, first), ledger.remaining_epsilon(first, first)]
    for loss, more in zip(left, (Zcdp("1e-30"), Pure("1e-9")), strict=True):
        with pytest.raises(BudgetExceededError):
            ledger.copy().charge("too much", loss + more, first, first, native=True)
        if loss.amount:
            copy = ledger.copy()
            copy.charge("all of it", loss, first, first, native=True)
            assert copy.remaining_loss(first, first).amount <= NEAR
            assert copy.remaining_epsilon(first, first).epsilon <= 1e-5  # of a rho that is below NEAR


@law
@given(st.lists(request(), min_size=1, max_size=5), st.one_of(windows, users), st.integers(0, LAST + 2))
def test_charges_never_lower_total_and_ends_never_raise_it(
    charges: list[ChargeRequest], unit: Unit, ingested: int
) -> None:
    ledger, before = Ledger(Approx(5, 1e-6), unit), ZERO
    for charge in charges:
        if accepted(ledger, [charge] if is_bounded(charge, unit) else []):
            assert ledger.spent_loss().amount >= before * (1 - NEAR)
            before = ledger.spent_loss().amount
    for entry in ledger.entries:
        ledger.end(entry, ingested=ingested)
        assert ledger.spent_loss().amount <= before * (1 + NEAR)
        before = ledger.spent_loss().amount


@law
@given(st.lists(request(), max_size=5), st.one_of(windows, users))
def test_bound_without_listed_units_is_valid_and_beats_zcdp(charges: list[ChargeRequest], unit: Unit) -> None:
    ledger = Ledger(Approx(50, 1e-6), unit)
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("MAX_PROFILES", "MAX_TERMS"):
            patch.setattr(profiles, limit, 0)
        entered = accepted(ledger, [charge for charge in charges if is_bounded(charge, unit)])
        spent = ledger.spent_loss().amount
    assert spent >= brute_force(entered, unit) * (1 - NEAR)
    rhos = Ledger(Zcdp(10**9), unit)
    for charge in entered:
        rhos.charge_timeline("r", charge[0], native=charge[1])
    rho, chosen_part = rhos.spent_loss().amount, ledger.spent_delta()
    assert spent <= (epsilon_from_rho(rho, DELTA - chosen_part) if rho else 0) * (1 + NEAR)


@law
@given(
    st.lists(st.integers(1, 10**4).map(lambda n: Fraction(n, 10**4)), min_size=1, max_size=9),
    st.fractions(min_value=0, max_value=2, max_denominator=10**4),
    st.sampled_from([1e-12, 1e-6, 1e-2, 0.5]),
)
def test_best_subset_is_found_by_a_size_threshold(pure: list[Fraction], rho: Fraction, delta: float) -> None:
    ledger = Ledger(Approx(100, delta), Event())
    for amount in pure:
        ledger.charge("pure", Pure(amount))
    if rho:
        ledger.charge("gaussian", Zcdp(rho))
    exact = Fraction(str(delta))
    totals = np.array([[float(e), float(e) ** 2 / 2] for e in pure])
    added = np.array(list(product((0, 1), repeat=len(pure))), dtype=float)
    rhos = float(rho) + (1 - added) @ totals[:, 1]
    logs = np.full(len(rhos), log_fraction(exact))
    converted = np.where(rhos > 1e-12, np.maximum(0, estimate_epsilons(np.maximum(rhos, 1e-12), logs)), 0)
    least = float((added @ totals[:, 0] + converted).min())
    spent = float(ledger.spent_loss().amount)
    assert spent >= least - 1e-9 * (1 + least)
    assert spent <= least - log(1 - delta) + 1e-9 * (1 + least)
    if delta <= 1e-6:
        assert spent <= least + 1e-6 * (1 + least)


@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-6, 0.5])
@pytest.mark.parametrize("unit", [Event(), Tick(3), WEvent(4), User(2, 3), XAdjacent()], ids=repr)
def test_five_pure_releases_that_sum_to_budget_fit(delta: float, unit: Unit) -> None:
    ledger = Ledger(Approx(1, delta), unit)
    for number in range(5):
        ledger.charge(f"r{number}", Pure("1/5"), native=True)
    assert ledger.spent_loss() <= Approx(1, delta)
    if delta < 0.5:  # at which their rhos convert to less
        assert ledger.spent_loss() == Approx(1, delta)
        assert (ledger.remaining_loss(), ledger.remaining_epsilon()) == (Zcdp.zero(), Pure.zero())
        for more in (Pure("1e-30"), Zcdp("1e-30")):
            with pytest.raises(BudgetExceededError):
                ledger.charge("one more", more, native=True)


def test_one_release_of_a_quarter_fits_and_leaves_the_rest() -> None:
    ledger = Ledger(BUDGET, Event())
    ledger.charge("visits", Pure("1/4"))
    assert ledger.spent_loss() == Approx("1/4", DELTA)
    assert (ledger.remaining_epsilon(), ledger.remaining_loss()) == (Pure("3/4"), Approx("3/4", DELTA).additive_loss)
    ledger.charge("gaussian", Approx("3/4", DELTA).additive_loss)
    assert ledger.remaining_loss() == Zcdp.zero()


def test_discovered_groups_with_pure_counters_may_take_all_of_delta() -> None:
    ledger = Ledger(BUDGET, WEvent(7))
    ledger.charge("keys", Pure(1), native=True, delta=DELTA)
    assert (ledger.spent_loss(), ledger.spent_delta()) == (BUDGET, DELTA)
    smaller = Ledger(BUDGET, WEvent(7))
    smaller.charge("keys", Pure("1/2"), native=True, delta=DELTA)
    assert (smaller.remaining_loss(), smaller.remaining_epsilon()) == (Zcdp.zero(), Pure("1/2"))
    with pytest.raises(BudgetExceededError):
        smaller.charge("gaussian", Zcdp("1e-30"), native=True)


def test_each_window_has_its_own_split() -> None:
    """Before tick 50 many small releases compose. After it one large release adds up."""
    ledger = Ledger(BUDGET, Event())
    for _ in range(400):
        ledger.charge("small", Pure("1/200"), last=49)
    ledger.charge("large", Pure("9/10"), first=50)
    small = epsilon_from_rho(400 * Fraction(1, 200) ** 2 / 2, DELTA)
    assert ledger.spent_loss(last=49).amount == small < 1
    assert ledger.spent_loss(first=50).amount == ledger.spent_loss().amount == Fraction(9, 10)
    with pytest.raises(BudgetExceededError):
        ledger.charge("both", Pure("1/2"), first=49, last=50)


def test_pure_and_zcdp_budgets_have_a_single_composition() -> None:
    pure, zcdp = Ledger(Pure(1), Event()), Ledger(Zcdp(1), Event())
    pure.charge("r", Pure("1/4"))
    zcdp.charge("r", Pure("1/4"))
    assert (pure.remaining_loss(), pure.remaining_epsilon()) == (Pure("3/4"), Pure("3/4"))
    assert (zcdp.remaining_loss(), zcdp.remaining_epsilon()) == (Zcdp("31/32"), None)


def test_estimates_in_floats_are_near_the_conversions() -> None:
    for epsilon, delta in product((0.01, 1.0, 20.0), (1e-12, 1e-6, 1e-2)):
        logs = np.array([log_fraction(Fraction(str(delta)))])
        rho = rho_from_approx(Fraction(str(epsilon)), Fraction(str(delta)))
        assert estimate_rhos(np.array([epsilon]), logs)[0] == pytest.approx(float(rho), rel=1e-9)
        assert estimate_epsilons(np.array([float(rho)]), logs)[0] == pytest.approx(epsilon, rel=1e-9)


# Never below the truth: exact laws of composed releases. Randomised response is the worst pure mechanism.


def responses(epsilons: Sequence[Fraction]) -> Iterator[tuple[float, float]]:
    """Yield the joint probabilities of randomised responses for a bit of 1 and of 0."""
    yes = [exp(float(e)) / (1 + exp(float(e))) for e in epsilons]
    for answers in product((0, 1), repeat=len(yes)):
        p = np.prod([y if a else 1 - y for y, a in zip(yes, answers, strict=True)])
        q = np.prod([1 - y if a else y for y, a in zip(yes, answers, strict=True)])
        yield float(p), float(q)


def gaussians(rho: float, width: int = 40) -> Iterator[tuple[float, float]]:
    """Yield the probabilities of a discrete Gaussian of variance 1 / (2 rho) at 0 and at 1."""
    spread = int(width / (2 * rho) ** 0.5) + 2
    weights = {n: exp(-rho * n * n) for n in range(-spread, spread + 1)}
    whole = sum(weights.values())
    for n in range(-spread + 1, spread + 1):
        yield weights[n] / whole, weights[n - 1] / whole


def true_delta(epsilons: Sequence[Fraction], rho: float, epsilon: float, leaks: Sequence[float]) -> float:
    """Return the delta at this epsilon of all releases, with leaks of the bit."""
    answer = 1 - float(np.prod([1 - leak for leak in leaks]))
    rest = [(p * r, q * s) for p, q in responses(epsilons) for r, s in (gaussians(rho) if rho else [(1.0, 1.0)])]
    return answer + (1 - answer) * sum(max(p - exp(epsilon) * q, 0.0) for p, q in rest)


LEDGERS = [
    ([Fraction(1, 5)] * 4, 0.0, []),
    ([Fraction(1, 4)], 0.01, []),
    ([Fraction(1, 2), Fraction(1, 10), Fraction(1, 10)], 0.003, []),
    ([Fraction(1, 20)] * 8, 0.02, []),
    ([Fraction(1, 5)] * 2, 0.005, [4e-4, 5e-4]),
    ([Fraction(9, 10)], 0.0, [1e-3]),
]


def check_spent_is_not_below_the_truth(make: type[Ledger], case: int) -> Fraction:
    epsilons, rho, leaks = LEDGERS[case]
    ledger = make(Approx(2, 1e-3), Event())
    for number, epsilon in enumerate(epsilons):
        ledger.charge("pure", Pure(epsilon), delta=leaks[number] if number < len(leaks) else 0)
    if rho:
        ledger.charge("gaussian", Zcdp(rho))
    spent = ledger.spent_loss().amount
    assert true_delta(epsilons, rho, float(spent), leaks) <= 1e-3 * (1 + 1e-9)
    return spent


@pytest.mark.parametrize("case", range(len(LEDGERS)))
def test_spent_is_not_below_the_truth(case: int) -> None:
    spent = check_spent_is_not_below_the_truth(Ledger, case)
    assert spent <= sum(LEDGERS[case][0]) + epsilon_from_rho(Fraction(1, 10), Fraction(1, 10**4))


@law
@given(st.lists(st.integers(1, 30).map(lambda n: Fraction(n, 40)), min_size=1, max_size=6), st.integers(3, 12))
def test_pure_releases_alone_are_not_below_their_exact_composition(epsilons: list[Fraction], digits: int) -> None:
    delta = 10.0**-digits
    ledger = Ledger(Approx(10, delta), Event())
    for epsilon in epsilons:
        ledger.charge("pure", Pure(epsilon))
    assert true_delta(epsilons, 0.0, float(ledger.spent_loss().amount), []) <= delta * (1 + 1e-9) + 1e-15


# Broken twins


class ConvertsAtAllOfDelta(Ledger):
    """A broken twin: it converts zCDP at the whole delta, despite charged deltas."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        return [replace(load, delta=ZERO) for load in super().build_loads(terms, touching)]


class ForgetsTheLargestOfTheRest(Ledger):
    """A broken twin: it omits the release next to the threshold."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        loads = super().build_loads(terms, touching)
        return [replace(load, splits=tuple(map(_drop_step, load.splits, load.splits[1:]))) for load in loads]


def _drop_step(before: object, after: object) -> object:
    return replace(before, rho=after.rho)  # type: ignore[attr-defined, type-var]


class AddsHalf(Ledger):
    """A broken twin: a pure release counts half in each part."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        half = tuple(replace(term, peak=term.peak / 2) for term in terms.pure)
        return super().build_loads(replace(terms, pure=half), touching)


class OnlyZcdp(Ledger):
    """A broken twin: it converts every charge to rho, and refuses allowed charges."""

    def build_loads(self, terms: ChargeTerms, touching: Span) -> list[LossBound]:
        return [replace(load, splits=load.splits[:1]) for load in super().build_loads(terms, touching)]


TWINS: dict[type[Ledger], Callable[[type[Ledger]], object]] = {
    ConvertsAtAllOfDelta: lambda make: check_spent_is_not_below_the_truth(make, 4),
    ForgetsTheLargestOfTheRest: lambda make: check_spent_is_not_below_the_truth(make, 2),
    AddsHalf: lambda make: check_spent_is_not_below_the_truth(make, 0),
    OnlyZcdp: lambda make: check_spent_is_the_best_split(make, TWO, Event()),
}
ALWAYS = Timeline((Step(1, None, Pure("1/10")),))
TWO = [ChargeRequest((ALWAYS, True, ZERO)), ChargeRequest((ALWAYS, True, DELTA / 2))]


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_caught(twin: type[Ledger]) -> None:
    TWINS[twin](Ledger)
    with pytest.raises(AssertionError):
        TWINS[twin](twin)


def test_loads_above_the_budget_delta_are_not_allowed() -> None:
    weighed = SplitBudget(Fraction(1), DELTA)
    ledger = Ledger(BUDGET, Event())
    ledger.charge("r", Pure("1/2"))
    (load,) = ledger.build_loads(ledger.build_terms(), (1, None))
    over = replace(load, delta=2 * DELTA)
    assert (weighed.remaining_rho(over), weighed.remaining_epsilon(over)) == (0, 0)
    assert not weighed.allows(over)
    assert ledger.remaining_epsilon(delta=DELTA) == Pure("1/2")
    assert ledger.remaining_epsilon(delta=2 * DELTA) == Pure.zero()


def test_the_bounds_of_many_overlapping_charges_are_few() -> None:
    """Analysts decide the number and ends of charges, so neither may stall the ledger."""
    ledger = Ledger(Approx(50, 1e-6), User(1, 3))
    for number in range(24):
        loss = Pure(Fraction(200 + number, 10**4)) if number % 2 else Zcdp(Fraction(1, 3000 + number))
        ledger.charge("r", loss, 1 + 7 * number, 60 + 11 * number, native=True)
    assert len(ledger.find_loads((1, None))) <= profiles.MAX_PROFILES <= 200
    assert ledger.find_loads((1, None)) is ledger.find_loads((1, None)), "until the next charge"


def test_stored_bounds_are_of_the_charges_as_they_are_now() -> None:
    ledger = Ledger(BUDGET, Event())
    for first in range(1, 100):
        assert ledger.remaining_loss(first) == BUDGET.additive_loss
    assert len(ledger._cached_loads) <= 16
    charge = ledger.charge("r", Pure("1/4"))
    assert (ledger.spent_loss().amount, ledger.copy().spent_loss().amount) == (Fraction(1, 4), Fraction(1, 4))
    ledger.end(charge, ingested=9)
    assert (ledger.spent_loss(10).amount, ledger.spent_loss(9).amount) == (0, Fraction(1, 4))
