"""The bound of a claim: how far one unit moves one tick's vector.

A whole number b is for vectors of one kind of number, counts or sums: at most b in L1 where the loss is pure,
at most b in L2 where it is zCDP. A `Reach` says both, and is what vectors of several kinds need: an event
that moves (count, sum, squares) by (1, 3, 9) has Reach(13, 91, 3), where b would have to be 13.

Wherever a claim is proved in terms of b in L1 and b^2 in squared L2, a Reach has its l1 and its l2_squared.
Proof: every coordinate is measured by the same C. With m_t the move of tick t, what is measured moves by at
most sum_t |c_t|_1 |m_t|_1 in L1 and by sum_st (C'C)_st <m_s, m_t> in squared L2. The moves of several ticks
may all point the same way; then that is l2_squared times what one number moved by 1 does.
"""

from streamgauge.privacy import Reach, Unit

Bound = int | Reach
GROUPS = 2**10  # that one event may be in; only of weight where a whole bound is above 32


def reach_of(bound: Bound, unit: Unit) -> Reach:
    """The Reach of either kind of bound.

    Moves are whole numbers, so that b^2 in squared L2 are at most b^2 groups, and no more than GROUPS for
    each of the unit's events, or twice as many if one is replaced by another.
    """
    if isinstance(bound, Reach):
        return bound
    moved = GROUPS * unit.events * (2 if unit.replace else 1)
    return Reach(bound, bound * bound, min(bound * bound, moved))
