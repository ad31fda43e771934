"""Noise that does not fit the value: bounded too late, scaled too late, or cut off.

The density of users seen, out of a table of coins, is as printed: theta is the share of ones among m coins,
which are fair for users never seen and show 1 with probability 1/2 + epsilon/4 for the others; published is
4 (theta - 1/2)/epsilon + Lap(1/(epsilon m)). One coin moves that by 4/(epsilon m), four times as far as the
noise was made for. In coins the noise has scale 1/4.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import exp, log

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins, mistake
from streamgauge.audit.subject import Pair
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Pure

LARGEST = 10  # value of an event
EPSILON = Fraction(1, 2)  # of the table, and as much of what is published
SEEN = float(Fraction(1, 2) + EPSILON / 4)  # the chance of a one
USERS = 4
REACH = 3  # that noise is cut off at


def every_twin(chance: Chance) -> Iterator[Twins]:
    appears = Pair("a user first seen after the intrusion", True, False)
    yield density.twins(chance, appears, loss=Pure(2 * EPSILON), truth=log(SEEN * exp(4) + 1 - SEEN))
    ends = Pair("an event whose value goes from end to end", [LARGEST, 0, 0, 0], [0, 0, 0, 0])
    yield mean.twins(chance, ends, truth=float(LARGEST))
    outside = Pair("an event of a value out of bounds", [1, 1, 40], [1, 1])
    yield total.twins(chance, outside, truth=float(LARGEST - 2))
    yield count.twins(chance, Pair("an event", 1, 0))


@mistake("Density, noise added after scaling", "the share of ones is scaled by 4/epsilon, the noise is not")
def density(chance: Chance, broken: bool, appears: bool, runs: int) -> Ints:
    """An intruder has seen the coins; then one user may appear, and the density is published."""
    coins = chance.coins(0.5, USERS * runs).reshape(USERS, runs)
    later = coins.copy()
    if appears:
        later[0] = chance.coins(SEEN, runs)
    scale = Fraction(1, 4) if broken else 1 / EPSILON
    return np.vstack([coins, later.sum(axis=0) + chance.laplace(scale, runs)]).T


@mistake(
    "Mean, noise of scale 1/(epsilon n)",
    "a value moves the mean by up to its range over n: the noise does not know the range",
)
def mean(chance: Chance, broken: bool, values: list[int], runs: int) -> Floats:
    """n times as much, in whole numbers, over n."""
    scale = Fraction(1) if broken else Fraction(LARGEST)
    return np.asarray((sum(values) + chance.laplace(scale, runs)) / len(values), np.float64)


@mistake("Sum, clamped after adding up", "one event may be worth as much as the bound of the whole sum")
def total(chance: Chance, broken: bool, values: list[int], runs: int) -> Ints:
    exact = min(sum(values), LARGEST) if broken else sum(min(value, 1) for value in values)
    return exact + chance.laplace(Fraction(1), runs)


@mistake(
    "Count, noise cut off", "the largest noise on the larger count gives what the smaller one never shows"
)
def count(chance: Chance, broken: bool, events: int, runs: int) -> Ints:
    noise = chance.laplace(Fraction(1), runs)
    return events + (np.clip(noise, -REACH, REACH) if broken else noise)
