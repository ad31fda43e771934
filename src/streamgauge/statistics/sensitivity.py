"""Sensitivity of a tick's vector to one unit, from the increments of one event.

`single` is the reach of an event's presence, over all its possible values. `pair` is that of two values of
one event in one group, with their common count cancelled.
"""

from typing import TYPE_CHECKING, Any

from streamgauge.privacy import Sensitivity, Unit

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic


def unit_sensitivity(unit: Unit, single: Sensitivity, pair: Sensitivity, *, in_place: bool = False) -> Sensitivity:
    """Return the reach of a unit.

    Present or absent, a unit of m events a tick moves m times as far as one. A replaced event that stays in
    its tick and group moves from one value to another (`in_place`). One that may also change its group, or
    cease to count, is removed here and added there: twice as far in L1 and, in other places of the vector,
    twice the squared L2.
    """
    if not unit.replace:
        return single.scale(unit.events)
    if in_place:
        return pair
    return Sensitivity(
        max(2 * single.l1, pair.l1),
        max(2 * single.l2_squared, pair.l2_squared),
        max(2 * single.coordinates, pair.coordinates),
    )


def check_public_counts(statistic: "Statistic[Any]") -> None:
    """Reject public counts unless neighbours share them: events replaced in place."""
    unit: Any = statistic.unit
    if getattr(statistic, "public_counts", False) and (not unit.replace or getattr(unit, "moves", False)):
        asked = "unless units are events replaced in place (unit=Event(replace=True))"
        raise ValueError(f"public_counts must be False {asked}, got True with {unit!r}")
