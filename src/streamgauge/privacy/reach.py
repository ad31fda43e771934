"""How far one unit moves one tick's vector: what every mechanism's noise is calibrated to.

    one event counted                          (1)              Reach(1, 1)
    one event replaced, in a histogram         (1, -1)          Reach(2, 2, 2)
    one event in a count, a sum and squares    (1, 3, 9)        Reach(13, 91, 3)

Pure losses are charged by L1, zCDP by squared L2. The number of coordinates serves mechanisms that round
each group by itself (see `streamgauge.continual.correlated`).
"""

from dataclasses import dataclass
from fractions import Fraction

from streamgauge.privacy.exact import Number, exact, not_negative, shown, whole


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Reach:
    """Upper bounds on one tick's move v: |v| in L1, in squared L2, and how many numbers of it are not 0.

    Each may be attained by another v. Every v has |v|_2 <= |v|_1, with equality if it has one coordinate: a
    larger l2_squared is refused as a mistake, and so is a smaller one under a single coordinate.

    >>> Reach(2, 2, 2).times(3)
    Reach(l1=6, l2_squared=18, coordinates=6)
    """

    l1: Fraction
    l2_squared: Fraction
    coordinates: int

    def __init__(self, l1: Number, l2_squared: Number, coordinates: int = 1) -> None:
        object.__setattr__(self, "l1", not_negative(l1, "l1"))
        object.__setattr__(self, "l2_squared", not_negative(l2_squared, "l2_squared"))
        object.__setattr__(self, "coordinates", whole(coordinates, "coordinates"))
        square = self.l1 * self.l1
        if self.l2_squared > square:
            raise ValueError(f"l2_squared must be at most l1**2 = {shown(square)}, got {l2_squared}")
        if self.coordinates == 1 and self.l2_squared < square:
            raise ValueError(
                f"coordinates must be at least 2 where l2_squared is below l1**2 = {shown(square)}, got 1"
            )

    def times(self, factor: int) -> "Reach":
        """`factor` such moves at once: all in the same direction, or each in coordinates of its own."""
        return Reach(self.l1 * factor, self.l2_squared * factor * factor, self.coordinates * factor)

    def __repr__(self) -> str:
        l1, l2_squared = shown(self.l1), shown(self.l2_squared)
        return f"Reach(l1={l1}, l2_squared={l2_squared}, coordinates={self.coordinates})"


def event_reach(
    lower: Number, upper: Number, *, replace: bool, groups: int = 1, value_decides: bool = True
) -> Reach:
    """How far one event, worth a value in [lower, upper] to one group, moves the vector of `groups` groups.

    Present or absent: by max(|lower|, |upper|). Replaced, if neither tick, filter, group nor validity can
    change with the value (`value_decides=False`): by upper - lower, in its group. If they can, a replacement
    is a removal and an addition: in one group it moves by the largest of these (either value may be filtered
    out); over several, it may also leave one group and enter another, 2 max in L1 and 2 max^2 in squared L2.
    """
    low, high = exact(lower, "lower"), exact(upper, "upper")
    if low > high:
        raise ValueError(f"lower must be at most upper, got {lower} above {upper}")
    peak, span = max(abs(low), abs(high)), high - low
    if not replace:
        return Reach(peak, peak * peak)
    if not value_decides:
        return Reach(span, span * span)
    within = max(peak, span)
    if whole(groups, "groups") == 1:
        return Reach(within, within * within)
    return Reach(2 * peak, max(within * within, 2 * peak * peak), 2)
