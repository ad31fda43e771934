"""How a loss is divided between the table and the releases: where the predicted error is least.

The share of the releases is looked for among 2^-k and 1 - 2^-k, and then between the neighbours of the best.
"""

from collections.abc import Callable
from fractions import Fraction
from math import inf

LEAST = 20
COARSE = [Fraction(1, 2**k) for k in range(LEAST, 0, -1)] + [1 - Fraction(1, 2**k) for k in range(2, LEAST)]
FINE = 16


def best_split(stddev: Callable[[Fraction], float]) -> Fraction:
    """The table's share with the least error; what `stddev` refuses, or cannot work out, is no choice."""

    def tried(released: Fraction) -> float:
        try:
            return stddev(1 - released)
        except (ValueError, ArithmeticError):
            return inf

    place = min(range(len(COARSE)), key=lambda place: tried(COARSE[place]))
    low, high = COARSE[max(place - 1, 0)], COARSE[min(place + 1, len(COARSE) - 1)]
    near = [low + (high - low) * Fraction(i, FINE) for i in range(FINE + 1)]
    return 1 - min([COARSE[place], *near], key=tried)
