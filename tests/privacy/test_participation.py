"""Native calibration never charges more than the group bound and never less than enumeration."""

from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.privacy import Event, Unit, User, WEvent, worst_case_participation

law = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
Matrix = npt.NDArray[np.int64]


def matrices(least: int) -> st.SearchStrategy[Matrix]:
    shapes = st.tuples(st.integers(1, 4), st.integers(1, 5))
    return shapes.flatmap(
        lambda shape: st.lists(
            st.lists(st.integers(least, 4), min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
        ).map(lambda rows: np.array(rows, np.int64))
    )


units = st.one_of(
    st.just(Event()), st.builds(WEvent, st.integers(1, 4)), st.builds(User, st.integers(1, 2), st.integers(1, 4))
)


def patterns(unit: Unit, ticks: int) -> list[tuple[int, ...]]:
    k = min(unit.ticks, ticks)
    if unit.consecutive:
        return [tuple(range(s, s + k)) for s in range(ticks - k + 1)]
    return list(combinations(range(ticks), k))


def enumerated(C: Matrix, unit: Unit) -> tuple[int, int]:
    """Return the worst L1 and squared L2 of all allowed ticks and signs, with full events."""
    l1 = l2_squared = 0
    for chosen in patterns(unit, C.shape[1]):
        for signs in product((-1, 1), repeat=len(chosen)):
            moved = C[:, chosen] @ (np.array(signs) * unit.events)
            l1, l2_squared = max(l1, int(abs(moved).sum())), max(l2_squared, int((moved**2).sum()))
    return l1, l2_squared


@law
@given(matrices(-4), units)
def test_participation_is_between_enumeration_and_group_bound(C: Matrix, unit: Unit) -> None:
    reach = worst_case_participation(C, unit)
    l1, l2_squared = enumerated(C, unit)
    k = min(unit.ticks, C.shape[1]) * unit.events
    assert l1 <= reach.l1 <= k * int(abs(C).sum(axis=0).max())
    assert l2_squared <= reach.l2_squared <= k**2 * int((C**2).sum(axis=0).max())


@law
@given(matrices(0), units)
def test_windows_of_a_strategy_without_minus_signs_are_exact(C: Matrix, unit: Unit) -> None:
    reach = worst_case_participation(C, unit)
    l1, l2_squared = enumerated(C, unit)
    assert reach.l1 == l1
    if unit.consecutive:
        assert reach.l2_squared == l2_squared


def test_nothing_overflows() -> None:
    huge = np.full((1, 2), 2**62, np.int64)
    assert worst_case_participation(huge, WEvent(2)).l2_squared == 2**126
    assert worst_case_participation(huge, User(1, 2)).l2_squared == 2**126


def test_a_tree_charges_far_less_than_the_group_bound() -> None:
    tree = np.array([[(t >> level) == j for t in range(16)] for level in range(5) for j in range(16 >> level)], int)
    native, grouped = worst_case_participation(tree, WEvent(4)).l2_squared, 4**2 * 5
    assert (native, grouped) == (60, 80)


@pytest.mark.parametrize("columns", [[1, 2], [[]], 3])
def test_columns_form_a_matrix(columns: object) -> None:
    with pytest.raises(ValueError, match=r"^columns must be a matrix with rows and ticks, got shape "):
        worst_case_participation(columns, Event())


@pytest.mark.parametrize("columns", [[[0.5]], [[1.0]], [["a"]], [[True]]])
def test_columns_are_integers(columns: object) -> None:
    with pytest.raises(ValueError, match=r"^columns must be integers, got "):
        worst_case_participation(columns, Event())
