"""Bounds on rates for choosing by, in closed form: thousands of events are compared where one is counted.

Pratt's approximation of the Clopper-Pearson interval (Blyth, 1986). It is within a few parts in a thousand of
`confidence`, and further off only for a handful of hits, where it is the more cautious. Nothing that is
reported is made of it.
"""

import numpy as np
from scipy.special import ndtri

from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats


def rough_highest(hits: Floats | Ints, runs: Floats | Ints | float, doubt: float) -> Floats:
    """
    >>> rough_highest(np.array([0, 50, 100]), 100, 0.025).round(3)
    array([0.036, 0.602, 1.   ])
    """
    z, more, missed = -float(ndtri(doubt)), hits + 1.0, np.maximum(runs - hits, 0.0)
    spread = np.sqrt(np.maximum(9 * more * missed * (9 * runs + 5 - z * z) + runs + 1, 0.0))
    below = 81 * more * more - 9 * more * (2 + z * z) + 1
    ratio = (81 * more * missed - 9 * runs - 8 - 3 * z * spread) / below
    with np.errstate(divide="ignore", over="ignore"):
        odds = np.square(more / missed) * ratio * ratio * ratio
    rates = np.where(hits <= 0, -np.expm1(np.log(doubt) / runs), np.clip(1 / (1 + odds), 0.0, 1.0))
    return np.asarray(np.where(missed <= 0, 1.0, rates), np.float64)


def rough_lowest(hits: Floats | Ints, runs: Floats | Ints | float, doubt: float) -> Floats:
    """
    >>> rough_lowest(np.array([0, 50, 100]), 100, 0.025).round(3)
    array([0.   , 0.398, 0.964])
    """
    return 1 - rough_highest(np.asarray(runs - hits, np.float64), runs, doubt)
