"""The ends of an interval: the least and the largest count that would be estimated as this one is, but for a
tail.

    least      count f with f + above(f) >= estimate      above: how far above f estimates are, but for a tail
    largest    count f with f - below(f) <= estimate

Errors are those of the count that is asked about, not of the estimate: an estimate that is small by chance
would have its own error too small as well. Where no items collide a variance is linear in f, its square root
concave, and f -+ errors cross the estimate once on the way from it to an end: bisection finds where. Where
collisions are large they may cross it three times, so that some places on the way are looked at first.

Reference
    Wilson: Probable inference, the law of succession, and statistical inference, JASA 22, 1927.
"""

from collections.abc import Callable

import numpy as np

from streamgauge.localdp.collisions import Errors
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Bools, Floats

PARTS = np.linspace(0, 1, 13)[1:]  # of the way out, all of which are looked at
STEPS = 32  # of bisection


def least(errors: Errors, estimate: Floats, tail: float) -> Floats:
    """The least count whose estimate is this or larger with chance `tail` at least."""

    def likely(count: Floats) -> Bools:
        return np.asarray(count + errors.above(count, tail) >= estimate)

    inside = np.clip(estimate, 0, errors.reports)
    return _edge(likely, np.zeros_like(inside), inside)


def largest(errors: Errors, estimate: Floats, tail: float) -> Floats:
    """The largest count whose estimate is this or smaller with chance `tail` at least."""

    def likely(count: Floats) -> Bools:
        return np.asarray(count - errors.below(count, tail) <= estimate)

    inside = np.clip(np.maximum(estimate, _lowest(errors, tail)), 0, errors.reports)
    return _edge(likely, np.full_like(inside, errors.reports), inside)


def _lowest(errors: Errors, tail: float) -> float:
    """Of all counts the one whose estimates, but for a tail, begin lowest: not 0 where errors grow fast."""
    growth = errors.copies * (errors.spread.own - errors.spread.other)
    return float(normal_point(tail) ** 2 * growth / 4 - errors.variance(0.0) / growth) if growth > 0 else 0.0


def _edge(likely: Callable[[Floats], Bools], outer: Floats, inner: Floats) -> Floats:
    """Where it begins to be likely on the way from an outer end; the inner end, if it never does."""
    begin = inner
    for place in (begin + part * (outer - begin) for part in PARTS):
        inner = np.where(likely(place), place, inner)
    for _ in range(STEPS):
        middle = (outer + inner) / 2
        there = likely(middle)
        outer, inner = np.where(there, outer, middle), np.where(there, middle, inner)
    return outer
