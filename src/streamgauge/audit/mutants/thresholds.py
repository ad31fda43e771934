"""Sparse vector, which says of many queries which are above a threshold and charges for one answer.

Right: one noisy threshold, fresh noise on every query, and an end at the first query that is above. Why that
is right is subtle, and it was published wrong several times (Lyu, Su, Li: Understanding the sparse vector
technique, VLDB 2017).
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins, twins_of
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools

QUERIES = 24


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield twins_of(
        goes_on,
        chance,
        "Sparse vector, threshold not redrawn",
        "it goes on after a query that was above, under the same noisy threshold, and charges once",
        one=[1] * (QUERIES // 2) + [-1] * (QUERIES // 2),
        other=[0] * QUERIES,
        pair="an event that moves half of the queries up and half down",
        truth=QUERIES / 4,
    )
    yield twins_of(
        bare_queries,
        chance,
        "Sparse vector, queries without noise",
        "a query below and a larger one above enclose the threshold: their order is exact",
        one=[0, 1],
        other=[1, 0],
        pair="an event that swaps two queries",
    )


def goes_on(chance: Chance, broken: bool, queries: list[int], runs: int) -> Ints:
    """1 above, 0 below, -1 after the end."""
    noise = chance.laplace(Fraction(4), len(queries) * runs).reshape(len(queries), runs)
    above = np.array(queries)[:, None] + noise >= chance.laplace(Fraction(2), runs)
    return (above.astype(np.int64) if broken else ended(above)).T


def bare_queries(chance: Chance, broken: bool, queries: list[int], runs: int) -> Ints:
    noise = chance.laplace(Fraction(4), len(queries) * runs).reshape(len(queries), runs)
    exact = np.array(queries)[:, None]
    return ended((exact if broken else exact + noise) >= chance.laplace(Fraction(2), runs)).T


def ended(above: Bools) -> Ints:
    """Nothing is said after the first that is above."""
    over = np.cumsum(above, axis=0) - above > 0
    return np.where(over, -1, above.astype(np.int64))
