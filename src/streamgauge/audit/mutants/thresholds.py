"""Sparse vector, which says of many queries which are above a threshold and charges for one answer.

Right: one noisy threshold, fresh noise on every query, and an end at the first query that is above. Why that
is right is subtle, and it was published wrong several times (Lyu, Su, Li: Understanding the sparse vector
technique, VLDB 2017). No mechanism of the package uses it yet; these are of the paper.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins, mistake
from streamgauge.audit.subject import Pair
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools

QUERIES = 24
HALVES = [1] * (QUERIES // 2) + [-1] * (QUERIES // 2)


def every_twin(chance: Chance) -> Iterator[Twins]:
    moved = Pair("an event that moves half of the queries up and half down", HALVES, [0] * QUERIES)
    yield goes_on.twins(chance, moved, truth=QUERIES / 4)
    yield bare_queries.twins(chance, Pair("an event that swaps two queries", [0, 1], [1, 0]))


@mistake(
    "Sparse vector, threshold not redrawn",
    "it goes on after a query that was above, under the same noisy threshold, and charges once",
)
def goes_on(chance: Chance, broken: bool, queries: list[int], runs: int) -> Ints:
    """1 above, 0 below, -1 after the end."""
    above = noisy(chance, queries, runs) >= chance.laplace(Fraction(2), runs)
    return (above.astype(np.int64) if broken else ended(above)).T


@mistake(
    "Sparse vector, queries without noise",
    "a query below and a larger one above enclose the threshold: their order is exact",
)
def bare_queries(chance: Chance, broken: bool, queries: list[int], runs: int) -> Ints:
    asked = np.array(queries)[:, None] if broken else noisy(chance, queries, runs)
    return ended(asked >= chance.laplace(Fraction(2), runs)).T


def noisy(chance: Chance, queries: list[int], runs: int) -> Ints:
    noise = chance.laplace(Fraction(4), len(queries) * runs)
    return np.asarray(np.array(queries)[:, None] + noise.reshape(len(queries), runs), np.int64)


def ended(above: Bools) -> Ints:
    """Nothing is said after the first that is above."""
    over = np.cumsum(above, axis=0) - above > 0
    return np.where(over, -1, above.astype(np.int64))
