"""Sensitivity: the most that one unit moves one tick's vector.

    one event counted                          (1)              Sensitivity(1, 1)
    one event replaced, in a histogram         (1, -1)          Sensitivity(2, 2, 2)
    one event in a count, a sum and squares    (1, 3, 9)        Sensitivity(13, 91, 3)

Every mechanism's noise is calibrated to it. Pure losses are charged by L1, zCDP by squared L2. Mechanisms that
round each group by itself use the number of coordinates (see
`streamgauge.continual.factorizations.correlated`).
"""

from dataclasses import dataclass
from fractions import Fraction

from streamgauge.privacy.rationals import Number, format_rational, parse_nonnegative, parse_rational, parse_whole


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sensitivity:
    """Upper bounds on one tick's move v: L1, squared L2, nonzero coordinates.

    Each may be attained by another v. Every v has |v|_2 <= |v|_1, with equality if it has one coordinate. So a
    larger l2_squared is rejected as a mistake, and so is a smaller one with a single coordinate.

    >>> Sensitivity(2, 2, 2).scale(3)
    Sensitivity(l1=6, l2_squared=18, coordinates=6)
    """

    l1: Fraction
    l2_squared: Fraction
    coordinates: int

    def __init__(self, l1: Number, l2_squared: Number, coordinates: int = 1) -> None:
        object.__setattr__(self, "l1", parse_nonnegative(l1, "l1"))
        object.__setattr__(self, "l2_squared", parse_nonnegative(l2_squared, "l2_squared"))
        object.__setattr__(self, "coordinates", parse_whole(coordinates, "coordinates"))
        square = self.l1 * self.l1
        if self.l2_squared > square:
            raise ValueError(f"l2_squared must be at most l1**2 = {format_rational(square)}, got {l2_squared}")
        if self.coordinates == 1 and self.l2_squared < square:
            raise ValueError(
                f"coordinates must be at least 2 where l2_squared is below l1**2 = {format_rational(square)}, got 1"
            )

    def scale(self, factor: int) -> "Sensitivity":
        """Return the sensitivity to `factor` such moves at once.

        They may point in the same direction, or each be in its own coordinates.
        """
        return Sensitivity(self.l1 * factor, self.l2_squared * factor * factor, self.coordinates * factor)

    def __repr__(self) -> str:
        l1, l2_squared = format_rational(self.l1), format_rational(self.l2_squared)
        return f"Sensitivity(l1={l1}, l2_squared={l2_squared}, coordinates={self.coordinates})"


def event_sensitivity(
    lower: Number, upper: Number, *, replace: bool, groups: int = 1, value_decides: bool = True
) -> Sensitivity:
    """Return how far one event with a value in [lower, upper] moves a vector.

    The event adds its value to one of `groups` groups. Present or absent, it moves by max(|lower|, |upper|).
    With `value_decides=False`, neither tick, filter, group nor validity can change with the value. A replacement
    then moves by upper - lower, in its group. Otherwise a replacement is a removal and an addition. In one group
    it moves by the largest of these, since either value may be filtered out. Over several groups it may also
    leave one and enter another: 2 max in L1 and 2 max^2 in squared L2.
    """
    low, high = parse_rational(lower, "lower"), parse_rational(upper, "upper")
    if low > high:
        raise ValueError(f"lower must be at most upper, got {lower} above {upper}")
    peak, span = max(abs(low), abs(high)), high - low
    if not replace:
        return Sensitivity(peak, peak * peak)
    if not value_decides:
        return Sensitivity(span, span * span)
    inside = max(peak, span)
    if parse_whole(groups, "groups") == 1:
        return Sensitivity(inside, inside * inside)
    return Sensitivity(2 * peak, max(inside * inside, 2 * peak * peak), 2)
