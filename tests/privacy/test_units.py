"""A unit reaches exactly as far as the worst pair of neighbouring ticks, enumerated."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgauge.privacy import Event, User, WEvent
from streamgauge.privacy.units import event_reach

law = settings(deadline=None, max_examples=60)
bounds = st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted)
Contribution = tuple[int, ...]


def contributions(lower: int, upper: int, groups: int, dropped: bool) -> list[Contribution]:
    """What one event can add to the vector of a tick: its value in its group, or nothing if it is dropped."""
    placed = [
        tuple(value if g == group else 0 for g in range(groups))
        for value, group in product(range(lower, upper + 1), range(groups))
    ]
    return placed + [(0,) * groups] * dropped


def moves(before: list[Contribution], after: list[Contribution]) -> tuple[int, int]:
    """The farthest of all pairs, in L1 and squared L2."""
    gaps = [[abs(x - y) for x, y in zip(b, a, strict=True)] for b, a in product(before, after)]
    return max(map(sum, gaps)), max(sum(gap**2 for gap in pair) for pair in gaps)


@law
@given(bounds, st.integers(1, 3))
def test_a_present_event_reaches_its_largest_value(bound: list[int], groups: int) -> None:
    reach = Event().reach(*bound, groups=groups)
    present = contributions(*bound, groups, dropped=False)
    assert (reach.l1, reach.l2_squared) == moves(present, [(0,) * groups])


@law
@given(bounds, st.integers(1, 3))
def test_a_replaced_event_whose_value_decides_reaches_the_worst_pair(bound: list[int], groups: int) -> None:
    reach = Event(replace=True).reach(*bound, groups=groups)
    possible = contributions(*bound, groups, dropped=True)
    assert (reach.l1, reach.l2_squared) == moves(possible, possible)


@law
@given(bounds)
def test_a_replaced_event_that_stays_where_it_is_reaches_the_span(bound: list[int]) -> None:
    reach = Event(replace=True).reach(*bound, groups=5, value_decides=False)
    possible = contributions(*bound, 1, dropped=False)
    assert (reach.l1, reach.l2_squared) == moves(possible, possible)


@law
@given(bounds, st.integers(1, 3), st.integers(1, 2))
def test_a_user_reaches_all_events_of_a_tick(bound: list[int], events: int, groups: int) -> None:
    reach = User(events, 7).reach(*bound, groups=groups)
    one = contributions(*bound, groups, dropped=True)
    together = [tuple(map(sum, zip(*chosen, strict=True))) for chosen in product(one, repeat=events)]
    assert (reach.l1, reach.l2_squared) == moves(together, [(0,) * groups])


def test_a_bit_and_a_one_hot_histogram_cost_what_the_conventions_say() -> None:
    assert Event(replace=True).reach(0, 1, value_decides=False).l1 == 1
    assert Event(replace=True).reach(1, 1, groups=10).l1 == 2
    assert Event(replace=True).reach(1, 1, groups=10).l2_squared == 2


def test_units_say_how_many_ticks_they_touch() -> None:
    assert [unit.ticks for unit in (Event(), Event(replace=True), WEvent(5), User(2, 9))] == [1, 1, 5, 9]
    assert Event(replace=True, moves=True).ticks == 2
    assert not Event(replace=True, moves=True).consecutive
    assert [unit.events for unit in (Event(), WEvent(5), User(2, 9))] == [1, 1, 2]
    assert [unit.frees for unit in (Event(), WEvent(5), User(2, 9))] == [True, True, False]


def test_units_are_values_that_print() -> None:
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
        (lambda: Event(moves=True), "moves must be False unless events are replaced, got True"),
        (lambda: Event().reach(3, 2), "lower must be at most upper, got 3 above 2"),
        (lambda: event_reach(0, 1, replace=True, groups=0), "groups must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused_in_the_house_words(build: object, text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{text}$"):
        build()


def test_an_event_that_may_move_pays_its_whole_value_at_the_tick_that_it_leaves() -> None:
    staying, moving = Event(replace=True), Event(replace=True, moves=True)
    assert staying.reach(4, 5, value_decides=False).l1 == 1
    assert moving.reach(4, 5, value_decides=False) == moving.reach(4, 5)
    assert moving.reach(4, 5).l1 >= 5
