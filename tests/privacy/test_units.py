"""A unit's sensitivity equals the worst pair of neighbouring ticks, enumerated."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.privacy import Event, Ledger, Pure, Sensitivity, Tick, User, WEvent, Zcdp, compose_groups
from streamgauge.privacy.sensitivity import event_sensitivity

law = settings(deadline=None, max_examples=60)
bounds = st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted)
Contribution = tuple[int, ...]


def contributions(lower: int, upper: int, groups: int, dropped: bool) -> list[Contribution]:
    """Return all vectors that one event can add to a tick, or zero if it is dropped."""
    placed = [
        tuple(value if g == group else 0 for g in range(groups))
        for value, group in product(range(lower, upper + 1), range(groups))
    ]
    return placed + [(0,) * groups] * dropped


def moves(before: list[Contribution], after: list[Contribution]) -> tuple[int, int]:
    """Return the largest distance of all pairs, in L1 and squared L2."""
    gaps = [[abs(x - y) for x, y in zip(b, a, strict=True)] for b, a in product(before, after)]
    return max(map(sum, gaps)), max(sum(gap**2 for gap in pair) for pair in gaps)


def coordinates(before: list[Contribution], after: list[Contribution]) -> int:
    """Return the largest number of differing coordinates of a pair."""
    return max(sum(x != y for x, y in zip(b, a, strict=True)) for b, a in product(before, after))


@law
@given(bounds, st.integers(1, 3))
def test_a_present_event_reaches_its_largest_value(bound: list[int], groups: int) -> None:
    reach = Event().sensitivity(*bound, groups=groups)
    present = contributions(*bound, groups, dropped=False)
    assert (reach.l1, reach.l2_squared) == moves(present, [(0,) * groups])
    assert reach.coordinates == 1


@law
@given(bounds, st.integers(1, 3))
def test_replaced_event_with_deciding_value_has_worst_pair_sensitivity(bound: list[int], groups: int) -> None:
    reach = Event(replace=True).sensitivity(*bound, groups=groups)
    possible = contributions(*bound, groups, dropped=True)
    assert (reach.l1, reach.l2_squared) == moves(possible, possible)
    assert reach.coordinates == max(1, coordinates(possible, possible)) or bound == [0, 0]


@law
@given(bounds)
def test_replaced_event_in_its_group_has_span_sensitivity(bound: list[int]) -> None:
    reach = Event(replace=True).sensitivity(*bound, groups=5, value_decides=False)
    possible = contributions(*bound, 1, dropped=False)
    assert (reach.l1, reach.l2_squared) == moves(possible, possible)


@law
@given(bounds, st.integers(1, 3), st.integers(1, 2))
def test_user_and_tick_sensitivity_covers_all_events_of_tick(bound: list[int], events: int, groups: int) -> None:
    one = contributions(*bound, groups, dropped=True)
    together = [tuple(map(sum, zip(*chosen, strict=True))) for chosen in product(one, repeat=events)]
    for unit in (User(events, 7), Tick(events)):
        reach = unit.sensitivity(*bound, groups=groups)
        assert (reach.l1, reach.l2_squared) == moves(together, [(0,) * groups])
        assert reach.coordinates >= coordinates(together, [(0,) * groups])


def test_bit_and_one_hot_histogram_have_conventional_sensitivity() -> None:
    assert Event(replace=True).sensitivity(0, 1, value_decides=False).l1 == 1
    assert Event(replace=True).sensitivity(1, 1, groups=10).l1 == 2
    assert Event(replace=True).sensitivity(1, 1, groups=10).l2_squared == 2


def test_units_report_their_ticks_and_events() -> None:
    assert [unit.ticks for unit in (Event(), Event(replace=True), WEvent(5), User(2, 9))] == [1, 1, 5, 9]
    assert Event(replace=True, moves=True).ticks == 2
    assert not Event(replace=True, moves=True).consecutive
    assert [unit.events for unit in (Event(), WEvent(5), User(2, 9))] == [1, 1, 2]
    assert [unit.frees_unused_ticks for unit in (Event(), WEvent(5), User(2, 9))] == [True, True, False]


def test_tick_unit_pays_for_all_its_events() -> None:
    unit = Tick(3)
    assert (unit.ticks, unit.events, unit.consecutive, unit.frees_unused_ticks) == (1, 3, True, True)
    assert unit.spans_groups
    assert not unit.replace
    assert compose_groups([Pure(1), Pure(2)], unit) == Pure(3)
    pure, zcdp = Ledger(Pure(6), unit), Ledger(Zcdp(9), unit)
    pure.charge("first", Pure(1), first=1, last=5)
    pure.charge("second", Pure(2), first=6)
    zcdp.charge("first", Zcdp(1))
    assert pure.spent_loss(1, 5) == Pure(3)
    assert pure.spent_loss() == Pure(6)
    assert zcdp.spent_loss() == Zcdp(9)
    counter = pure.charge("per tick", Pure(3), last=5, per_tick=True)
    assert pure.remaining_loss(1, 5).epsilon == 0
    pure.end(counter, ingested=2)
    assert pure.remaining_loss(3, 5) == Pure(3)


def test_sensitivity_is_exact_comparable_and_printable() -> None:
    assert Sensitivity(0.1, "1/100") == Sensitivity("1/10", "0.01", np.int64(1))
    assert hash(Sensitivity(2, 2, 2)) == hash(Sensitivity(2, 2, 2))
    assert Sensitivity(6, 14, 3).scale(2) == Sensitivity(12, 56, 6)
    assert repr(Sensitivity("1/3", "1/9")) == "Sensitivity(l1=1/3, l2_squared=1/9, coordinates=1)"


def test_units_are_values_that_print() -> None:
    assert repr(Tick(np.int64(3))) == "Tick(max_events=3)"
    assert len({User(1, 2), User(1, 2), WEvent(2), Event(), Event(False)}) == 3
    assert type(WEvent(np.int64(3)).w) is type(User(np.int8(1), np.int8(2)).max_ticks) is int
    assert repr(User(1, 2)) == "User(max_events_per_tick=1, max_ticks=2)"
    assert repr(WEvent(3)) == "WEvent(w=3, replace=False)"


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: WEvent(0), "w must be at least 1, got 0"),
        (lambda: WEvent(1.5), "w must be a whole number, got 1.5"),
        (lambda: User(0, 1), "max_events_per_tick must be at least 1, got 0"),
        (lambda: User(1, -2), "max_ticks must be at least 1, got -2"),
        (lambda: Tick(0), "max_events must be at least 1, got 0"),
        (lambda: Tick(2.5), "max_events must be a whole number, got 2.5"),
        (lambda: Sensitivity(-1, 1), "l1 must not be negative, got -1"),
        (lambda: Sensitivity(1, -1), "l2_squared must not be negative, got -1"),
        (lambda: Sensitivity(2, 5), r"l2_squared must be at most l1\*\*2 = 4, got 5"),
        (lambda: Sensitivity(2, 2, 0), "coordinates must be at least 1, got 0"),
        (lambda: Sensitivity(2, 2), r"coordinates must be at least 2 where l2_squared is below l1\*\*2 = 4, got 1"),
        (lambda: Event(moves=True), "moves must be False unless events are replaced, got True"),
        (lambda: Event().sensitivity(3, 2), "lower must be at most upper, got 3 above 2"),
        (lambda: event_sensitivity(0, 1, replace=True, groups=0), "groups must be at least 1, got 0"),
    ],
)
def test_invalid_settings_are_refused(build: object, text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{text}$"):
        build()


def test_moving_event_pays_its_whole_value() -> None:
    staying, moving = Event(replace=True), Event(replace=True, moves=True)
    assert staying.sensitivity(4, 5, value_decides=False).l1 == 1
    assert moving.sensitivity(4, 5, value_decides=False) == moving.sensitivity(4, 5)
    assert moving.sensitivity(4, 5).l1 >= 5
