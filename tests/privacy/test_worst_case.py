"""The worst-case window and set match enumeration, or are never below it."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.privacy.timeline import ALL_TICKS, LossTerm, TickWeight
from streamgauge.privacy.worst_case import worst_case_set, worst_case_window

law = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
LAST = 9  # of any interval that ends
costs = st.fractions(min_value=Fraction(1, 8), max_value=4, max_denominator=8)
weights = st.fractions(min_value=Fraction(1, 4), max_value=1, max_denominator=4)


@st.composite
def terms(draw: st.DrawFn, native: bool | None = None) -> LossTerm:
    if draw(st.booleans()) if native is None else native:
        first, last = draw(st.integers(1, LAST)), draw(st.none() | st.integers(0, LAST))
        return LossTerm(
            draw(costs), (TickWeight(first, None if last is None else max(first, last), Fraction(1)),), is_native=True
        )
    cuts = draw(st.lists(st.integers(1, LAST), min_size=2, max_size=4, unique=True).map(sorted))
    ends: list[int | None] = [cut - 1 for cut in cuts[1:]]
    if draw(st.booleans()):
        ends[-1] = None
    steps = [TickWeight(f, e, draw(weights)) for f, e in zip(cuts, ends, strict=False)]
    return LossTerm(draw(costs), tuple(steps))


timelines = st.lists(terms(), min_size=0, max_size=4)


def loss(term: LossTerm, ticks: Iterable[int], power: int) -> Fraction:
    """Compute the definition, tick by tick."""
    touched = [w.q for t in ticks for w in term.weights if w.first <= t and (w.last is None or t <= w.last)]
    if term.is_native:
        return term.peak if touched else Fraction(0)
    return term.peak * sum(touched, Fraction(0)) ** power


def total(charged: list[LossTerm], ticks: Iterable[int], power: int) -> Fraction:
    chosen = tuple(ticks)
    return sum((loss(term, chosen, power) for term in charged), Fraction(0))


def every_window(w: int, touching: tuple[int, int | None]) -> list[range]:
    first, last = touching
    starts = range(first - w + 1, (last if last is not None else LAST + first + 2) + 1)
    return [range(s, s + w) for s in starts]


@law
@given(timelines, st.sampled_from([1, 2]), st.integers(1, 6), st.integers(1, 6), st.none() | st.integers(0, 6))
def test_worst_case_window_equals_enumeration(
    charged: list[LossTerm], power: int, w: int, first: int, more: int | None
) -> None:
    touching = (first, None if more is None else first + more)
    enumerated = max(total(charged, window, power) for window in every_window(w, touching))
    assert worst_case_window(charged, power, w, touching) == enumerated


@law
@given(timelines, st.sampled_from([1, 2]))
def test_a_window_of_one_tick_is_a_tick(charged: list[LossTerm], power: int) -> None:
    ticks = [total(charged, [tick], power) for tick in range(1, LAST + 2)]
    assert worst_case_window(charged, power, 1) == max(ticks)


@law
@given(st.lists(terms(native=False), max_size=4), st.integers(1, 4))
def test_worst_case_set_of_pure_charges_equals_enumeration(charged: list[LossTerm], k: int) -> None:
    enumerated = max(total(charged, chosen, 1) for chosen in combinations(range(1, LAST + k + 1), k))
    assert worst_case_set(charged, 1, k) == enumerated


@law
@given(st.lists(terms(native=True), max_size=6), st.integers(1, 4))
def test_native_charges_cost_each_touching_unit_once(charged: list[LossTerm], k: int) -> None:
    enumerated = max(total(charged, chosen, 2) for chosen in combinations(range(1, LAST + k + 1), k))
    assert worst_case_set(charged, 2, k) == enumerated


@law
@given(timelines, st.sampled_from([1, 2]), st.integers(1, 3), st.sampled_from([0, 64]))
def test_worst_case_set_lies_between_enumeration_and_group_bound(
    charged: list[LossTerm], power: int, k: int, limit: int
) -> None:
    enumerated = max(total(charged, chosen, power) for chosen in combinations(range(1, LAST + k + 1), k))
    rated = [term for term in charged if not term.is_native]
    grouped = k**power * max(total(rated, [tick], power) for tick in range(1, LAST + 2))
    native = sum((term.peak for term in charged if term.is_native), Fraction(0))
    bound = worst_case_set(charged, power, k, limit)
    assert enumerated <= bound <= (grouped + native) * (1 + Fraction(1, 2**50))


@law
@given(costs, st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 5))
def test_worst_case_set_is_exact_for_one_or_all_releases(peak: Fraction, lengths: list[int], k: int) -> None:
    charged, start = [], 1
    for length in lengths:
        charged.append(LossTerm(peak, (TickWeight(start, start + length - 1, Fraction(1)),)))
        start += length
    enumerated = max(total(charged, chosen, 2) for chosen in combinations(range(1, start + k), k))
    assert worst_case_set(charged, 2, k) >= enumerated
    if k >= start - 1 or max(lengths) >= k:
        assert worst_case_set(charged, 2, k) == enumerated


@law
@given(st.lists(terms(native=False), min_size=1, max_size=4), st.integers(1, 4))
def test_worst_case_set_is_exact_if_the_worst_tick_lasts(charged: list[LossTerm], k: int) -> None:
    everywhere = LossTerm(Fraction(5), (TickWeight(1, 100, Fraction(1)),))
    for_ever = [LossTerm(t.peak, (TickWeight(t.first, None, Fraction(1)),)) for t in charged]
    assert worst_case_set([everywhere, *for_ever], 2, k) == k * k * total([everywhere, *for_ever], [LAST], 2)


def test_the_last_window_that_touches_a_native_charge_is_weighed() -> None:
    native = LossTerm(Fraction(1), (TickWeight(1, 4, Fraction(1)),), is_native=True)
    later = LossTerm(Fraction(1, 10), (TickWeight(5, None, Fraction(1)),))
    assert worst_case_window([native, later], 1, 3) == 1 + Fraction(2, 10)
    assert worst_case_window([native, later], 2, 3) == 1 + Fraction(4, 10)


def test_the_first_window_that_touches_a_native_charge_is_weighed() -> None:
    native = LossTerm(Fraction(1), (TickWeight(10, 19, Fraction(1)),), is_native=True)
    earlier = LossTerm(Fraction(1, 10), (TickWeight(1, 9, Fraction(1)),))
    assert worst_case_window([native, earlier], 1, 3) == 1 + Fraction(2, 10)
    assert worst_case_window([native, earlier], 2, 3, (1, 7)) == Fraction(9, 10)


def test_ticks_may_be_astronomical() -> None:
    far = 2**48
    release = LossTerm(Fraction(1, 3), (TickWeight(1, far, Fraction(1)),))
    again = LossTerm(Fraction(1, 3), (TickWeight(far, None, Fraction(1)),))
    assert worst_case_window([release, again], 2, far) == far**2 * Fraction(1, 3) + Fraction(1, 3)
    assert worst_case_window([release, again], 1, 1, (far, far)) == Fraction(2, 3)
    assert worst_case_set([release, again], 2, far) >= Fraction(far**2, 3)


def test_an_empty_timeline_costs_nothing() -> None:
    assert worst_case_window([], 2, 5, ALL_TICKS) == 0
    assert worst_case_set([], 2, 5) == 0
