"""Columns of different lengths in one array: rows from 0 on, in use as far as each column reaches.

Work on all of them takes little more time than their lengths together. So lengths must be public.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
SHALLOW = 8  # rows of an array and of the first band, at least
AT_ONCE = 2**14  # numbers in the first band, where columns are few


def bands(length: Ints) -> Iterator[tuple[slice, slice | Ints]]:
    """Rows that double in number, each time with the columns that reach them.

    Where columns are few, the first band is deep, so that there are few bands.
    """
    deepest = int(length.max(initial=0))
    first, last = 0, max(SHALLOW, AT_ONCE // max(1, len(length)))
    while first < deepest:
        reach = length > first
        yield slice(first, min(last, deepest)), slice(None) if reach.all() else np.flatnonzero(reach)
        first, last = last, 2 * last


def with_room(array: Ints, rows: int) -> Ints:
    """The array with room for so many rows, a power of two; what is far too roomy is cut."""
    wanted = room_for(rows)
    if wanted <= len(array) <= 4 * wanted:
        return array
    room = np.zeros((wanted, array.shape[-1]), np.int64)
    kept = min(wanted, len(array))
    room[:kept] = array[:kept]
    return room


def room_for(rows: int) -> int:
    return max(SHALLOW, 1 << (rows - 1).bit_length())
