"""Channels from power sums: a database's sums by tick and group give all moments.

    n = count(i),  s1 = sum(i),  s2 = sum(i * i)        i = floor(x/step + 1/2), cut off at the grid's ends

An event's increment of a channel is a polynomial of i with whole coefficients. So a channel of all events is
the same combination of n, s1 and s2. Everything is modulo 2^64, as counters are: sums that wrapped around
give the same vector as those that did not.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamgauge.continual.run import parse_integers
from streamgauge.noise import Ints

Weights = tuple[tuple[int, ...], ...]  # of n, s1, ..., for each channel
POWER_SUM_NAMES = ("n", "s1", "s2")


def combine_power_sums(weights: Weights, sums: Sequence[npt.ArrayLike]) -> Ints:
    """Return the channels, (channels, ...), of sums that have one shape.

    >>> combine_power_sums(((1, 0), (3, -2)), ([2**62, 1], [2**62, 1])).tolist()
    [[4611686018427387904, 1], [4611686018427387904, 1]]
    """
    powers = len(weights[0])
    if len(sums) < powers:
        raise ValueError(f"sums must be {', '.join(POWER_SUM_NAMES[:powers])}, got {len(sums)} of them")
    known = [parse_integers(name, numbers) for name, numbers in zip(POWER_SUM_NAMES, sums[:powers], strict=False)]
    if len({numbers.shape for numbers in known}) > 1:
        raise ValueError(f"sums must be of one shape, got {[numbers.shape for numbers in known]}")
    rows = [numbers.reshape(-1).view(np.uint64) for numbers in known]
    made = np.zeros((len(weights), rows[0].size), np.uint64)
    for channel, row in enumerate(weights):
        for weight, numbers in zip(row, rows, strict=True):
            made[channel] += np.uint64(weight % 2**64) * numbers
    return made.view(np.int64).reshape(len(weights), *known[0].shape)
