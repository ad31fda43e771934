"""The dearest neighbour under a view that was found by trying, in the currency of the claim."""

from dataclasses import replace
from math import inf, isqrt
from typing import Any

import numpy as np

from streamgauge.audit.costs import cost_of, gram, is_quick
from streamgauge.audit.exact import Pattern, Worst, patterns, worst_of
from streamgauge.audit.linear import LinearView
from streamgauge.audit.neighbours import at_first, landmarks
from streamgauge.audit.tick_sets import DearestSet, by_squares, can_be_listed, largest
from streamgauge.audit.trying import View, tried
from streamgauge.continual import Mechanism

__all__ = ["is_quick", "not_linear", "unknown", "worst_in", "worst_of_view", "worst_tried"]

MANY, FEW = 20_000, 300  # patterns that are gone through, and where each is a linear program


def worst_tried(mechanism: Mechanism[Any], view: View, ticks: int, seen: str = "") -> Worst:
    """The dearest neighbour under any view."""
    return worst_of_view(mechanism, tried(view, ticks), seen)


def worst_of_view(mechanism: Mechanism[Any], linear: LinearView, seen: str) -> Worst:
    """Compute the worst neighbour under a view that was found by trying."""
    ticks = linear.by_data.shape[1]
    if linear.odd:
        return replace(not_linear(linear, at_first(mechanism.unit, ticks)), seen=seen)
    return replace(worst_in(linear, mechanism, seen), how=f"the code of {ticks} ticks was tried")


def not_linear(linear: LinearView, pattern: Pattern) -> Worst:
    """Of code that was seen not to be."""
    return unknown(
        pattern, f"not computed: the code is not linear, as a stream of {linear.odd[0].name} shows"
    )


def unknown(pattern: Pattern, how: str) -> Worst:
    """Where nothing can be computed: any loss."""
    return Worst(pattern, inf, least=0.0, how=how)


def worst_in(linear: LinearView, mechanism: Mechanism[Any], seen: str = "") -> Worst:
    """Of all patterns, if there are not too many; else of some, with an upper end that no other exceeds."""
    unit, ticks = mechanism.unit, linear.by_data.shape[1]
    if can_be_listed(unit, ticks, MANY if is_quick(linear) else FEW):
        return worst_of(costly(linear, mechanism, pattern, seen) for pattern in patterns(unit, ticks))
    dear = dearest_unlisted(linear, min(unit.ticks, ticks), currency_of(mechanism))
    tried_out = {*landmarks(unit, ticks), dear.pattern}
    worst = worst_of(costly(linear, mechanism, pattern, seen) for pattern in tried_out)
    return replace(worst, amount=max(float(worst.amount), scale_of(mechanism) * dear.most))


def costly(linear: LinearView, mechanism: Mechanism[Any], pattern: Pattern, seen: str) -> Worst:
    """What one unit costs to hide: upper ends grow with the reach, or with its square, and so do lower ones
    but for the rho of Laplace noise, whose lower end is that of a move in one number."""
    move, currency = np.zeros(linear.by_data.shape[1]), currency_of(mechanism)
    move[[tick - 1 for tick in pattern]] = 1
    cost, scale = cost_of(linear, move, currency), scale_of(mechanism)
    if currency == "pure" or linear.gaussian:
        return Worst(pattern, scale * cost.most, seen, scale * cost.least)
    far = isqrt(int(mechanism.reach.l2_squared))
    return Worst(pattern, scale * cost.most, seen, cost_of(linear, far * move, currency).least)


def currency_of(mechanism: Mechanism[Any]) -> str:
    """In which the claim is kept."""
    return mechanism.loss.kept_as.currency


def scale_of(mechanism: Mechanism[Any]) -> float:
    """How far a unit moves a tick, in the norm that counts."""
    return float(mechanism.reach.l1 if currency_of(mechanism) == "pure" else mechanism.reach.l2_squared)


def dearest_unlisted(linear: LinearView, size: int, currency: str) -> DearestSet:
    """Of sets that are too many to go through: the cost of hiding is a norm, and so at most adds up.

    Rho is the square of one, of which more is known under Gaussian noise (see `tick_sets`).
    """
    alone = np.array([cost_of(linear, move, currency).most for move in np.eye(linear.by_data.shape[1])])
    power = 1 if currency == "pure" else 2
    if power == 2 and linear.gaussian and np.isfinite(alone).all():
        return by_squares(np.abs(gram(linear)), size)
    dear = largest(alone, size)
    most = float((alone[dear] ** (1 / power)).sum()) ** power
    return DearestSet(tuple(int(place) + 1 for place in dear), 0.0, most)
