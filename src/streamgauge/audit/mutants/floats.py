"""Floats that give the data away although the noise is as large as it should be.

A sum of floats is a multiple of the spacing of floats near its largest part, and lower bits than those are
never set: they tell whether there was a larger part. Rounding to a grid that the data choose tells as much.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins, mistake
from streamgauge.audit.subject import Pair
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats

LARGE = 2**60
SPACING = 2**12  # a fixed grid that floats of this size all have a place on
COARSE = 8  # the grid of counts of at least FULL
FULL = 128


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield textbook.twins(chance, Pair("a count of 1 and of 0", 1.0, 0.0))
    yield large.twins(chance, Pair("an event of 2^60 and none", LARGE, 0))
    full = Pair(f"counts of {FULL} and {FULL - 1}", FULL, FULL - 1, partial(on_grid, COARSE))
    yield rounded.twins(chance, full)


@mistake(
    "Laplace noise in floats",
    "the lowest bits of 1 + noise are never set, those of 0 + noise are (Mironov, 2012)",
)
def textbook(chance: Chance, broken: bool, value: float, runs: int) -> Floats:
    """Inversion, as it is printed: scale 1; or discrete noise on a grid, which is honest."""
    if not broken:
        return np.asarray(value + chance.laplace(Fraction(2**20), runs) / 2**20, np.float64)
    return np.asarray(value + inverted(chance.uniforms(runs)), np.float64)


@mistake(
    "Large sums in floats",
    "floats near 2^60 are 256 apart, near 0 they are not: spacing tells size (Haney et al., 2022)",
)
def large(chance: Chance, broken: bool, value: int, runs: int) -> Floats:
    if not broken:
        steps = value // SPACING + chance.laplace(Fraction(LARGE, SPACING), runs)
        return np.asarray(steps * float(SPACING), np.float64)
    return np.asarray(float(value) + LARGE * inverted(chance.uniforms(runs)), np.float64)


def inverted(uniforms: Floats) -> Floats:
    """Laplace draws of scale 1, in floats."""
    centred = uniforms - 0.5
    return np.asarray(-np.sign(centred) * np.log(np.maximum(1 - 2 * np.abs(centred), 2.0**-53)), np.float64)


@mistake(
    "Count rounded by its size",
    "whether a release is a multiple of the coarse grid tells whether the exact count was large",
)
def rounded(chance: Chance, broken: bool, count: int, runs: int) -> Ints:
    grid = COARSE if broken and count >= FULL else 1
    return np.asarray(np.rint((count + chance.laplace(Fraction(1), runs)) / grid) * grid, np.int64)


def on_grid(grid: int, views: Floats) -> Floats:
    return np.asarray(views[:, 0] % grid == 0, np.float64)
