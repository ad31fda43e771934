"""Disjoint groups compose in parallel for events, and for users only with joint bounds."""

import pytest

from streamgauge.privacy import Approx, Event, Pure, User, WEvent, Zcdp, compose_groups

PARTS = [Pure(2), Pure(5), Pure(3)]


@pytest.mark.parametrize(
    ("unit", "bounded", "paid"),
    [
        (Event(), False, 5),
        (Event(replace=True), False, 8),
        (Event(replace=True, moves=True), False, 8),
        (WEvent(4), False, 10),
        (User(2, 3), False, 10),
        (WEvent(4), True, 5),
        (WEvent(4, replace=True), True, 8),
        (User(2, 3), True, 5),
    ],
)
def test_composition_of_groups_depends_on_the_unit(unit: Event, bounded: bool, paid: int) -> None:
    assert compose_groups(PARTS, unit, bounded_across=bounded) == Pure(paid)
    zcdp = [Zcdp(loss.epsilon) for loss in PARTS]
    assert compose_groups(zcdp, unit, bounded_across=bounded) == Zcdp(paid)


def test_one_group_is_itself() -> None:
    assert compose_groups([Pure(1)], Event(replace=True)) == Pure(1)


def test_no_group_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^losses must be at least one, got none$"):
        compose_groups([], Event())


def test_mixed_currencies_are_refused() -> None:
    with pytest.raises(TypeError):
        compose_groups([Pure(1), Zcdp(1)], User(1, 1))
    assert compose_groups([Approx(1, 0.1).additive_loss], Event()) == Approx(1, 0.1).additive_loss
