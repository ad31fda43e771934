"""Reports of users who trust nobody: a vector of signs, each turned over by a coin (count mean sketch).

Two values differ in two signs, so that each sign may lose epsilon/2: it is turned over with probability
1/(1 + e^(epsilon/2)). The sketch of Hadamard signs sends one sign, which may lose all of epsilon. Each under
the other's constant: sent by the first it loses 2 epsilon; by the second only epsilon/2, which is no breach
but wastes half of the budget.
"""

from collections.abc import Iterator
from math import exp

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins, mistake
from streamgauge.audit.subject import Pair
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats

PLACES = 8
HERE, THERE = 3, 5
EPSILON = float(ONE.epsilon)


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield report.twins(chance, Pair("a user of another value", HERE, THERE, sign_of_here), truth=2 * EPSILON)


@mistake(
    "Count mean sketch, epsilon for epsilon/2",
    "two values differ in two signs, each of which was given the whole epsilon",
)
def report(chance: Chance, broken: bool, value: int, runs: int) -> Ints:
    signs = np.where(np.arange(PLACES) == value, 1, -1)[:, None]
    turned = chance.coins(1 / (1 + exp(EPSILON if broken else EPSILON / 2)), PLACES * runs)
    return np.asarray(np.where(turned.reshape(PLACES, runs), -signs, signs).T)


def sign_of_here(views: Floats) -> Floats:
    return np.asarray(views[:, HERE] - views[:, THERE], np.float64)
