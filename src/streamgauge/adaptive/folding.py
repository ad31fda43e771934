"""Counts that private tests may add up: within bounds, and neighbours even where 64 bits wrap around.

All integers of this house live on the circle of 64 bits, where 2^63 - 1 and -2^63 are neighbours. A clip
would take them to opposite ends, and one event would show. Folding goes back to 0 where the circle closes:

    limit      .------------.               up to the limit as they are, then the limit,
             .'              '.             the last ones before 2^63 down to 0 again
        0  .'                  '.           and below 0 the same
"""

import numpy as np

from streamgauge.noise import Ints

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def folded(values: Ints, limit: int) -> Ints:
    """Counts within +-limit as they are, beyond it the limit; near the ends of 64 bits back to 0, so that
    neighbours are neighbours even where one has wrapped around.

    >>> folded(np.array([-3, 7, 2**62 - 1, 2**63 - 1, -(2**63)]), 5).tolist()
    [-3, 5, 5, 0, 0]
    """
    up, down = np.maximum(values, 0), np.minimum(values, 0)
    turned = np.minimum(up, MOST - up) + np.maximum(down, LEAST - down)
    return np.asarray(np.clip(turned, -limit, limit))
