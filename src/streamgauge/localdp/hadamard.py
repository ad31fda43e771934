"""The Hadamard transform of rows: H[l, c] = (-1)^(number of ones in l & c), of a width that is a power of 2.

H of width 2^(s+t) is the Kronecker product of those of widths 2^s and 2^t, so that a row, seen as a matrix
R, is transformed into H R H: two products with small matrices. Exact: all sums are of whole numbers below
2^53.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise.numbers import Floats


@lru_cache(maxsize=32)
def matrix(width: int) -> Floats:
    """H, 1 and -1.

    >>> matrix(2)
    array([[ 1.,  1.],
           [ 1., -1.]])
    """
    numbers = np.arange(width)
    return np.asarray(1.0 - 2.0 * minus(numbers[:, None], numbers), np.float64)


def minus(
    lines: npt.NDArray[np.integer[Any]], columns: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.uint8]:
    """1 where H is -1."""
    return np.asarray(np.bitwise_count(lines & columns) & 1, np.uint8)


def transformed(rows: npt.NDArray[Any]) -> Floats:
    """H times every row."""
    count, width = rows.shape
    low = 1 << (width.bit_length() - 1) // 2
    cells = rows.astype(np.float64).reshape(count * (width // low), low) @ matrix(low)
    return np.asarray(matrix(width // low) @ cells.reshape(count, width // low, low)).reshape(count, width)
