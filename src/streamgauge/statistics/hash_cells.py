"""Numbers of distinct values, estimated from noisy counts of occupied hash cells.

A hashed column is known by the cells of its values. Values that share a cell are counted once, so a count of
occupied cells is too low. This module corrects the count, and widens its interval by the chance of the hash.
The law of occupied cells is the one that pan-private tables use (`streamgauge.panprivate.occupancy`).

    count       X = K + N       K occupied cells of n, N the noise of the counter
    mean        E K = n (1 - (1 - 1/n)^m)     if m values were hashed
    estimate    the m with E K = X
    interval    all m with |X - E K| <= h(m), if P(|X - E K| > h(m)) <= 1 - confidence

Post-processing: nothing here reads data, and no loss is spent.

Error
    What is estimated is the number of distinct values. The randomness is that of the hash and of the noise.
    `stddev` is the first-order error at the estimate. The hash is fixed for a stream, so that the errors of
    successive ticks are correlated.
    Where hash and noise together have a standard deviation below NARROW cells, and the noise is on whole
    numbers, h is found from their joint law: the noise exactly, the number of shared cells as a binomial law
    of its mean and variance. Elsewhere h is the root of the sum of squares of both half widths, and up to
    half a cell for the steps of K. Intervals of 95 % hold in 94 to 98 % of runs (`benchmarks/distinct.py`).
    If few cells are shared and there is next to no noise, K has few values, and intervals hold in more.
    A counter that adapts to its data states an interval alone: a quarter of 1 - confidence is for the hash.
    Where fewer than half a cell is expected to be empty, numbers cannot be distinguished. Estimates are cut
    there; an interval that reaches it has no upper end. Below 0, counts are estimates as they are.

Reference
    Whang, Vander-Zanden, Taylor: A linear-time probabilistic counting algorithm, TODS 1990, has the estimate
    and its first-order error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, inf, log

import numpy as np
import numpy.typing as npt

from streamgauge.adaptive import Bar
from streamgauge.noise import NoiseSum
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.occupancy import Occupied
from streamgauge.statistics.estimate import Estimate
from streamgauge.statistics.noises import half_widths, spreads

NARROW = 4.0  # standard deviation in cells below which the joint law is worked out
PERIOD = 128  # cells of that law: 16 standard deviations to either side
DENSE = 2048  # numbers of values up to which each has a half width of its own
RATIO = 1.004  # of the numbers that have one beyond
HASH_SHARE = 0.25  # of the doubt, beside a counter that adapts to its data
TABLES = 64  # acceptance tables that are stored
STEP = 1e-9  # added outwards, so that ends are in order and rounding excludes no number

NEAREST_FIRST = np.array([(-1) ** place * ((place + 1) // 2) for place in range(PERIOD - 1)])  # 0, -1, 1, ...

Complex = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class Acceptance:
    """The counts that each number of values is compatible with: from `lowest` to `highest`."""

    values: Floats
    lowest: Floats
    highest: Floats
    rate: float  # d E K / d m at 0, for counts below 0

    def bounds(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest number of values compatible with counts from low to high."""
        first = np.interp(low, self.highest, self.values)
        last = np.interp(high, self.lowest, self.values, right=inf)
        first = np.where(low < self.highest[0], (low - self.highest[0]) / self.rate, first)
        return first, np.where(high < self.lowest[0], (high - self.lowest[0]) / self.rate, last)


@dataclass(frozen=True)
class HashCells:
    """A hash table of so many cells, and the correction for values that share one.

    >>> table = HashCells(4096)
    >>> float(table.mean(4043).round(1)), float(table.values(2569.7).round())
    (2569.7, 4043.0)
    """

    cells: int

    def __post_init__(self) -> None:
        if self.cells < 2:
            raise ValueError(f"cells must be at least 2, got {self.cells}")

    @cached_property
    def _occupied(self) -> Occupied:
        return Occupied(self.cells, self.cells)

    @property
    def _rate(self) -> float:
        return float(self._occupied.rise(0.0))

    @property
    def most(self) -> float:
        """The number of values at which half a cell is expected to be empty."""
        return self.cells * self._occupied.most

    def mean(self, values: Floats | float) -> Floats:
        """Return the expected number of occupied cells."""
        return np.asarray(self.cells * self._occupied.taken(np.asarray(values) / self.cells))[()]

    def variance(self, values: Floats | float) -> Floats:
        """Return the variance of the number of occupied cells."""
        return np.asarray(self.cells**2 * self._occupied.variance(np.asarray(values) / self.cells))[()]

    def values(self, counts: Floats | float) -> Floats:
        """Return the numbers of values at which so many cells are expected to be occupied."""
        found = self.cells * self._occupied.load(np.asarray(counts) / self.cells)
        return np.asarray(np.where(np.less(counts, 0), np.asarray(counts) / self._rate, found))[()]

    def counts(self, values: Floats) -> Floats:
        """Return the counts whose estimates are these, as far as they were not cut."""
        return np.where(values < 0, values * self._rate, self.mean(values))

    def stddev(self, values: Floats | float, noise: Floats | float) -> Floats:
        """Return the first-order error of an estimate, if `noise` is the spread of the count's noise."""
        load = np.clip(np.asarray(values) / self.cells, 0.0, self._occupied.most)
        spread = np.asarray(noise) / self.cells
        return np.asarray(self.cells * self._occupied.stddev(load, lambda _: spread**2))[()]

    def estimate(self, counts: Estimate, noises: Sequence[NoiseSum] | None) -> Estimate:
        """Return the estimate of distinct values; `noises` is None if the count is of an adaptive counter."""

        def intervals(confidence: float) -> tuple[Floats, Floats]:
            if noises is None:
                return self._around(counts, confidence)
            return self._inverted(counts.value, noises, confidence)

        def rows(part: slice) -> Estimate:
            return self.estimate(counts.of_ticks(part), None if noises is None else noises[part])

        value = self.values(counts.value)
        return Estimate(value, lambda: self.stddev(value, counts.stddev), counts.enough, intervals, rows)

    def _around(self, counts: Estimate, confidence: float) -> tuple[Floats, Floats]:
        """Invert what is certain of a count, at the confidence that the hash leaves of it."""
        doubt = 1 - confidence
        low, high = counts.interval(1 - (1 - HASH_SHARE) * doubt)
        return self._hash_alone(doubt).bounds(low, high)

    def _inverted(
        self, counts: Floats, noises: Sequence[NoiseSum], confidence: float
    ) -> tuple[Floats, Floats]:
        """Invert counts whose noise has a law apart from the data, tick by tick."""
        low, high = np.empty_like(counts), np.empty_like(counts)
        halves, stddevs = half_widths(noises, confidence, 1), spreads(noises, 1)
        for row, (noise, half, stddev) in enumerate(zip(noises, halves, stddevs, strict=True)):
            table = _acceptance(self, noise, float(half), float(stddev), confidence)
            low[row], high[row] = table.bounds(counts[row], counts[row])
        values = self.values(counts)  # rounding must not leave them outside
        return np.minimum(low, values), np.maximum(high, values)

    def predict(self, values: float, bar: Bar, confidence: float = 0.95) -> tuple[float, float]:
        """Return the standard error and the half width to expect, if there are so many values."""
        count, doubt = self.mean(values), 1 - confidence
        if isinstance(bar, NoiseSum):
            table = _acceptance(self, bar, bar.half_width(confidence), bar.stddev, confidence)
            low, high = table.bounds(count, count)
        else:
            half = np.max(bar.half_width(1 - (1 - HASH_SHARE) * doubt))
            low, high = self._hash_alone(doubt).bounds(count - half, count + half)
        return float(self.stddev(values, np.max(bar.stddev))), float(high - low) / 2

    def _hash_alone(self, doubt: float) -> Acceptance:
        """Build the acceptance of counts without noise, at the share of a doubt that is for the hash."""
        return _acceptance(self, NoiseSum(()), 0.0, 0.0, 1 - HASH_SHARE * doubt)


@lru_cache(maxsize=TABLES)
def _acceptance(
    table: HashCells, noise: NoiseSum, half: float, stddev: float, confidence: float
) -> Acceptance:
    """Build the counts that each number of values is compatible with, under a noise of this half width."""
    values, rate = _numbers(table.most), table._rate
    mean, spread = table.mean(values), np.sqrt(table.variance(values))
    z = normal_point((1 - confidence) / 2)
    both = np.hypot(spread, stddev)
    steps = np.divide(spread, both, out=np.zeros_like(both), where=both > 0) / 2
    halves = np.hypot(z * spread, max(half, z * stddev)) + steps
    narrow = np.flatnonzero(both < NARROW)
    if len(narrow) and (transform := _transform(noise)) is not None:
        halves[narrow] = _joint_halves(table, values[narrow], transform, confidence)
    highest = np.maximum.accumulate(mean + halves)
    lowest = np.minimum.accumulate((mean - halves)[::-1])[::-1]
    order = STEP * np.arange(1, len(values) + 1)
    return Acceptance(values, lowest - order[::-1], highest + order, rate)


def _numbers(most: float) -> Floats:
    """Return the numbers of values that have a half width: all up to DENSE, and fewer beyond."""
    dense = np.arange(min(DENSE, ceil(most)), dtype=np.float64)
    beyond = ceil(log(most / DENSE) / log(RATIO)) if most > DENSE else 0
    return np.append(dense, most * RATIO ** -np.arange(beyond, -1.0, -1.0) if beyond else most)


def _transform(noise: NoiseSum) -> Complex | None:
    """Return the transform of a noise on the integers at PERIOD frequencies; None of any other."""
    if noise.bounding or not all(float(term.weight).is_integer() for term in noise.terms):
        return None
    angles = 2 * np.pi * np.arange(PERIOD // 2 + 1) / PERIOD
    product = np.ones(len(angles), np.complex128)
    for term in noise.terms:
        product = product * term.distribution.tilted(0.0, float(term.weight) * angles) ** term.count
    return product


def _joint_halves(table: HashCells, values: Floats, noise: Complex, confidence: float) -> Floats:
    """Return the least h with P(|K + N - E K| > h) <= 1 - confidence, for each number of values.

    K is m or n less a number of coincidences: values that found their cell occupied, or cells that stay
    empty, whichever is fewer. Both are sums of independent coins (`occupancy`).
    """
    mean, variance = table.mean(values), table.variance(values)
    missing = np.minimum(np.maximum(values - mean, 0.0), table.cells - mean)
    chance = np.clip(1 - variance / np.maximum(missing, STEP), STEP, 1.0)
    coins = np.ceil(missing / chance - STEP)  # whole, and rather more: of no less variance
    law = _coin_masses(coins, missing / np.maximum(coins, 1.0))
    coins = np.fft.rfft(law, axis=1).conj()  # of minus the coincidences
    masses = np.maximum(np.fft.irfft(coins * noise, PERIOD, axis=1), 0.0)
    whole = np.round(missing).astype(np.int64)
    above = missing - whole  # of the place nearest to E K
    outwards = np.where(above[:, None] < 0, -NEAREST_FIRST, NEAREST_FIRST)
    reached = np.cumsum(np.take_along_axis(masses, (outwards - whole[:, None]) % PERIOD, axis=1), axis=1)
    last = np.argmax(reached >= np.minimum(confidence, reached[:, -1:]), axis=1)
    return np.asarray(np.abs(np.take_along_axis(outwards, last[:, None], axis=1)[:, 0] + above))


def _coin_masses(coins: Floats, chance: Floats) -> Floats:
    """Return the probabilities of 0 to PERIOD - 1 heads of so many coins, for each chance."""
    chance = np.minimum(chance, 1 - STEP)
    masses = np.empty((len(coins), PERIOD))
    masses[:, 0] = np.exp(coins * np.log1p(-chance))
    odds = chance / (1 - chance)
    for heads in range(PERIOD - 1):
        masses[:, heads + 1] = masses[:, heads] * np.maximum(coins - heads, 0.0) / (heads + 1) * odds
    return masses
