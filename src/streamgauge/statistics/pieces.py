"""Work over many ticks, some at a time: NumPy is several times sooner where arrays stay in the cache."""

from collections.abc import Iterable

import numpy as np

from streamgauge.noise.numbers import Floats

PIECE = 2**15  # numbers of an array


def pieces(rows: int, size: int) -> list[slice]:
    """All rows, of `size` numbers each, as many at a time as make a piece.

    >>> pieces(5, PIECE // 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, PIECE // max(1, size))
    return [slice(first, first + step) for first in range(0, max(1, rows), step)]


def both_ends(bounds: Iterable[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The lower and the upper bounds of all pieces."""
    lows, highs = zip(*bounds, strict=True)
    return np.concatenate(lows), np.concatenate(highs)
