"""Parallel composition: what one unit loses to releases over disjoint groups, one release a group.

An event is in one group, so its presence is seen by one release: the dearest. Replaced, it may leave one
group and enter another: the two dearest add. Other units have many events, which may be in as many groups, so
all groups add up; unless their bounds are enforced across groups and before filters, and then a unit gains
nothing by spreading: pure losses are linear in where its events are, zCDP losses convex, so the worst unit
sits in the dearest group.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TypeVar

from streamgauge.privacy.losses import Pure, Zcdp
from streamgauge.privacy.units import Unit

Additive = TypeVar("Additive", Pure, Zcdp)


def across_groups(losses: Sequence[Additive], unit: Unit, *, bounded_across: bool = False) -> Additive:
    """The loss of one event to all groups together, to be charged once.

    Each of `losses` must cover whatever one event can do inside its group (a replacement within it too, if
    the unit is replaced). `bounded_across` promises that the unit's bounds hold over all groups together.

    >>> from streamgauge.privacy import Event, User
    >>> parts = [Pure(1), Pure(2), Pure(3)]
    >>> [across_groups(parts, unit) for unit in (Event(), Event(replace=True), User(1, 5))]
    [Pure(epsilon=3), Pure(epsilon=5), Pure(epsilon=6)]
    """
    if not losses:
        raise ValueError("losses must be at least one, got none")
    if unit.spans_groups and not bounded_across:
        return reduce(add, losses)
    return reduce(add, sorted(losses)[-2 if unit.replace else -1 :])
