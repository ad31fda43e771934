"""The signs that tell the most: of all laws that keep a loss, the one with the largest gap.

    estimate of the distinct users    (signs that are 1 - slots/2) / gap
    its standard error                sqrt(slots)/(2 gap), at most

So the best law has the largest gap that is left after all announced intrusions: tilt, lean and keep are
found by a grid that is refined, in floats, and what is found is rounded down to whole steps and checked in
exact arithmetic against a bound below e^loss: a search that went wrong would cost accuracy, never privacy.
The paper's law is the line tilt = lean/4.
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, reduce
from math import exp

import numpy as np

from streamgauge.noise.enclosure import exp_minus
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.panprivate.signs import Number, Signs, worst_ratio

STEPS = 2**20  # in which tilt, lean and keep are whole numbers
BITS = 128
GRID, ROUNDS, HALVINGS = 24, 5, 30
LARGEST = 40  # of a loss: beyond it nothing is gained


@lru_cache(maxsize=256)
def best_signs(epsilon: Fraction, intrusions: int, heard: Fraction, paper: bool) -> Signs:
    """The largest gap that loses at most epsilon, with signs that are `heard` so well."""
    kept = min(epsilon, Fraction(LARGEST))
    tilt, lean, keep = searched(float(kept), intrusions, float(heard), paper)
    signs = Signs(whole(tilt), whole(lean), whole(keep))
    less = 0
    while signs.gap * signs.keep > 0:
        if signs.chance(1) > 0 and signs.chance(0) < 1 and within(signs, kept, intrusions, heard):
            return signs
        less = 2 * less + 1  # of a lean, until it is within the loss
        signs = replace(signs, lean=max(signs.lean - Fraction(less, STEPS), Fraction(0)))
    raise ValueError(f"loss must be large enough to tell anything of signs, got {epsilon}")


def within(signs: Signs, epsilon: Fraction, intrusions: int, heard: Fraction) -> bool:
    """Whether the worst ratio is at most e^epsilon, exactly."""
    return bool(worst_ratio(signs, intrusions, heard) * exp_minus(epsilon, BITS).high <= 2**BITS)


def heard_through(epsilon: Fraction) -> Fraction:
    """tanh(epsilon/2) rounded up: how well a sign is heard through a counter that keeps epsilon for it.

    >>> round(float(heard_through(Fraction(1))), 9)
    0.462117157
    """
    low = Fraction(exp_minus(epsilon, 64).low, 2**64)
    return (1 - low) / (1 + low)


def searched(epsilon: float, intrusions: int, heard: float, paper: bool) -> tuple[float, float, float]:
    """Tilt, lean and keep of the largest gap on a grid that closes in on it."""
    tilts, keeps = (1e-6, 0.5), ((1e-3, 1 - 1e-6) if intrusions else (1.0, 1.0))
    for _ in range(ROUNDS):
        tilt = np.geomspace(*tilts, GRID)[:, None]
        keep = np.linspace(*keeps, GRID if intrusions else 1)[None, :]
        lean = 4 * tilt + 0 * keep if paper else longest(tilt, keep, epsilon, intrusions, heard)
        kept = inside(Signs(tilt, lean, keep), epsilon, intrusions, heard)
        gaps = np.where(kept, tilt * keep ** (2 * intrusions) * lean, 0.0)
        row, column = np.unravel_index(np.argmax(gaps), gaps.shape)
        tilts, keeps = around(tilt[:, 0], int(row)), around(keep[0], int(column))
    return float(tilt[row, 0]), float(lean[row, column]), float(keep[0, column])


def longest(tilt: Floats, keep: Floats, epsilon: float, intrusions: int, heard: float) -> Floats:
    """The largest lean of each tilt and keep, from below."""
    low = np.zeros(np.broadcast_shapes(tilt.shape, keep.shape))
    high = 1 / (2 + 4 * tilt) + low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        kept = inside(Signs(tilt, middle, keep), epsilon, intrusions, heard)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low


def inside(signs: Signs, epsilon: float, intrusions: int, heard: float) -> Bools:
    with np.errstate(all="ignore"):
        ratio = worst_ratio(signs, intrusions, heard, largest)
        return np.asarray((ratio <= exp(epsilon)) & (signs.lean + signs.gap < 0.5))


def largest(ratios: Iterable[Number]) -> Number:
    return reduce(np.maximum, ratios)


def around(points: Floats, place: int) -> tuple[float, float]:
    """The neighbours of the best point of a grid."""
    return float(points[max(place - 1, 0)]), float(points[min(place + 1, len(points) - 1)])


def whole(number: float) -> Fraction:
    """Rounded down to whole steps."""
    return Fraction(int(number * STEPS), STEPS)
