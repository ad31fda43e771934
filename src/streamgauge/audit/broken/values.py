"""Noise that does not fit the value: bounded or scaled too late, cut off, in floats, or decided by exact data.

The density of users from a table of coins is as printed: theta is the share of ones among m coins, which are fair for
absent users and show 1 with probability 1/2 + epsilon/4 for the others. The release is
4 (theta - 1/2)/epsilon + Lap(1/(epsilon m)). One coin moves that by 4/(epsilon m), four times as far as the noise
allows. In coins the noise has scale 1/4.

A sum of floats is a multiple of the spacing of floats near its largest part, and lower bits are never set: they reveal
a larger part. Rounding to a grid that the data choose reveals as much.

The sparse vector technique says of many queries which are above a threshold, and charges for one answer. It is right
with one noisy threshold, fresh noise on every query, and an end at the first query that is above. It was published
wrong several times (Lyu, Su, Li: Understanding the sparse vector technique, VLDB 2017).
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from math import exp, log

import numpy as np

from streamgauge.audit.broken.pairs import TwinPair, pair_samples
from streamgauge.audit.subject import ExperimentNoise, Pair
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.privacy import Pure, User

MAX_VALUE = 10  # value of an event
TABLE_EPSILON = Fraction(1, 2)  # of the table, and as much of what is published
ONE_PROBABILITY = Fraction(1, 2) + TABLE_EPSILON / 4  # the chance of a one
USER_COUNT = 4
NOISE_CUTOFF = 3  # that noise is cut off at


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    pair = partial(pair_samples, chance)
    appears = Pair("a user first seen after the intrusion", True, False)
    truth = log(float(ONE_PROBABILITY) * exp(4) + float(1 - ONE_PROBABILITY))
    yield pair("Density, noise added after scaling", sample_density, appears, loss=Pure(2 * TABLE_EPSILON), truth=truth)
    ends = Pair("an event whose value goes from end to end", [MAX_VALUE, 0, 0, 0], [0, 0, 0, 0])
    yield pair("Mean, noise of scale 1/(epsilon n)", sample_mean, ends, truth=float(MAX_VALUE))
    outside = Pair("an event of a value out of bounds", [1, 1, 40], [1, 1])
    yield pair("Sum, clamped after adding up", sample_total, outside, truth=float(MAX_VALUE - 2))
    yield pair("Count, noise cut off", sample_count, Pair("an event", 1, 0))


def sample_density(chance: ExperimentNoise, broken: bool, appears: bool, runs: int) -> Ints:
    """Scale the share of ones by 4/epsilon, but not the noise.

    An intruder saw the coins, and one user may have appeared since.
    """
    coins = chance.coins(Fraction(1, 2), USER_COUNT * runs).reshape(USER_COUNT, runs)
    later = coins.copy()
    if appears:
        later[0] = chance.coins(ONE_PROBABILITY, runs)
    scale = Fraction(1, 4) if broken else 1 / TABLE_EPSILON
    return np.vstack([coins, later.sum(axis=0) + chance.laplace(scale, runs)]).T


def sample_mean(chance: ExperimentNoise, broken: bool, values: list[int], runs: int) -> Floats:
    """Add noise that does not know the range: a value moves the mean by up to its range over n."""
    scale = Fraction(1) if broken else Fraction(MAX_VALUE)
    return np.asarray((sum(values) + chance.laplace(scale, runs)) / len(values), np.float64)


def sample_total(chance: ExperimentNoise, broken: bool, values: list[int], runs: int) -> Ints:
    """Clamp the sum: one event may be worth as much as the bound of the whole."""
    exact = min(sum(values), MAX_VALUE) if broken else sum(min(value, 1) for value in values)
    return exact + chance.laplace(Fraction(1), runs)


def sample_count(chance: ExperimentNoise, broken: bool, events: int, runs: int) -> Ints:
    """Cut off noise: the largest noise on the larger count gives what the smaller one never shows."""
    noise = chance.laplace(Fraction(1), runs)
    return events + (np.clip(noise, -NOISE_CUTOFF, NOISE_CUTOFF) if broken else noise)


def build_presence_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    only = Pair("the only one of a group", [5, 1], [5, 0])
    yield pair_samples(chance, "Groups shown only where there is somebody", sample_shown_groups, only)


def sample_shown_groups(chance: ExperimentNoise, broken: bool, counts: list[int], runs: int) -> Floats:
    """Hide empty groups: a group that is shown, whatever its noisy count, has somebody in it.

    NaN is a group that is not shown.
    """
    noisy = [count + chance.laplace(Fraction(1), runs) for count in counts]
    hidden = [broken and count == 0 for count in counts]
    return np.where(hidden, np.nan, np.array(noisy).T)


RENEWED = User(1, 1, per=3)
RENEWED_TICKS = 24


def build_renewal_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    always = list(range(1, RENEWED_TICKS + 1))
    absent = Pair("a user who is in every tick, and absent from the first", always, always[1:])
    name = "Users who renew after their last ticks"
    yield pair_samples(chance, name, sample_cascade, absent, truth=2 * len(always) / 3 / RENEWED.ticks)


def sample_cascade(chance: ExperimentNoise, broken: bool, ticks: list[int], runs: int) -> Ints:
    """Count a tick if fewer than the allowed ticks before it counted: one that is absent moves all later ones.

    The honest twin counts the first tick of each block.
    """
    counted: list[int] = []
    for tick in ticks:
        start = tick - 2 if broken else tick - (tick - 1) % 3
        if not any(other >= start for other in counted):
            counted.append(tick)
    there = np.isin(np.arange(1, RENEWED_TICKS + 1), counted).astype(np.int64)
    noise = chance.laplace(Fraction(RENEWED.ticks), RENEWED_TICKS * runs)
    return np.asarray(there[:, None] + noise.reshape(RENEWED_TICKS, runs), np.int64).T


QUERY_COUNT = 24
QUERY_STEPS = [1] * (QUERY_COUNT // 2) + [-1] * (QUERY_COUNT // 2)


def build_threshold_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    pair = partial(pair_samples, chance)
    moved = Pair("an event that moves half of the queries up and half down", QUERY_STEPS, [0] * QUERY_COUNT)
    yield pair("Sparse vector, threshold not redrawn", sample_reused_threshold, moved, truth=QUERY_COUNT / 4)
    swapped = Pair("an event that swaps two queries", [0, 1], [1, 0])
    yield pair("Sparse vector, queries without noise", sample_exact_queries, swapped)


def sample_reused_threshold(chance: ExperimentNoise, broken: bool, queries: list[int], runs: int) -> Ints:
    """Continue after a query that was above, under the same noisy threshold, and charge once.

    Answers are 1 for above, 0 for below, -1 after the end.
    """
    above = add_noise(chance, queries, runs) >= chance.laplace(Fraction(2), runs)
    return (above.astype(np.int64) if broken else stop_at_first(above)).T


def sample_exact_queries(chance: ExperimentNoise, broken: bool, queries: list[int], runs: int) -> Ints:
    """Compare exact queries: one below and a larger one above enclose the threshold, so their order is exact."""
    requested = np.array(queries)[:, None] if broken else add_noise(chance, queries, runs)
    return stop_at_first(requested >= chance.laplace(Fraction(2), runs)).T


def add_noise(chance: ExperimentNoise, queries: list[int], runs: int) -> Ints:
    noise = chance.laplace(Fraction(4), len(queries) * runs)
    return np.asarray(np.array(queries)[:, None] + noise.reshape(len(queries), runs), np.int64)


def stop_at_first(above: Bools) -> Ints:
    """Return -1 for all queries after the first that is above."""
    is_ended = np.cumsum(above, axis=0) - above > 0
    return np.where(is_ended, -1, above.astype(np.int64))


LARGE_SUM = 2**60
GRID_SPACING = 2**12  # a fixed grid that floats of this size all have a place on
COARSE_GRID = 8  # the grid of counts of at least FULL
COARSE_COUNT = 128


def build_float_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    pair = partial(pair_samples, chance)
    yield pair("Laplace noise in floats", sample_textbook_laplace, Pair("a count of 1 and of 0", 1.0, 0.0))
    yield pair("Large sums in floats", sample_large_sum, Pair("an event of 2^60 and none", LARGE_SUM, 0))
    counts = COARSE_COUNT, COARSE_COUNT - 1
    full = Pair(f"counts of {counts[0]} and {counts[1]}", *counts, partial(is_on_grid, COARSE_GRID))
    yield pair("Count rounded by its size", sample_rounded_count, full)


def sample_textbook_laplace(chance: ExperimentNoise, broken: bool, value: float, runs: int) -> Floats:
    """Set the lowest bits of 0 + noise, but never those of 1 + noise (Mironov, 2012).

    The broken twin samples by inversion, as textbooks print it, of scale 1. The honest one uses a grid.
    """
    if not broken:
        return np.asarray(value + chance.laplace(Fraction(2**20), runs) / 2**20, np.float64)
    return np.asarray(value + invert_laplace(chance.uniforms(runs)), np.float64)


def sample_large_sum(chance: ExperimentNoise, broken: bool, value: int, runs: int) -> Floats:
    """Round to floats, which are 256 apart near 2^60 and not near 0: spacing shows size (Haney et al., 2022)."""
    if not broken:
        steps = value // GRID_SPACING + chance.laplace(Fraction(LARGE_SUM, GRID_SPACING), runs)
        return np.asarray(steps * float(GRID_SPACING), np.float64)
    return np.asarray(float(value) + LARGE_SUM * invert_laplace(chance.uniforms(runs)), np.float64)


def invert_laplace(uniforms: Floats) -> Floats:
    """Return Laplace draws of scale 1, in floats."""
    centred = uniforms - 0.5
    return np.asarray(-np.sign(centred) * np.log(np.maximum(1 - 2 * np.abs(centred), 2.0**-53)), np.float64)


def sample_rounded_count(chance: ExperimentNoise, broken: bool, count: int, runs: int) -> Ints:
    """Round large counts to a coarse grid: a multiple of it shows that the exact count was large."""
    grid = COARSE_GRID if broken and count >= COARSE_COUNT else 1
    return np.asarray(np.rint((count + chance.laplace(Fraction(1), runs)) / grid) * grid, np.int64)


def is_on_grid(grid: int, views: Floats) -> Floats:
    return np.asarray(views[:, 0] % grid == 0, np.float64)
