"""Numbers of distinct values, estimated from noisy counts of occupied hash cells.

A hashed column has the cells of its values. Values that share a cell are counted once, so a count of
occupied cells is too low. This module corrects the count, and widens its interval by the chance of the hash.
The law of occupied cells is the one that pan-private tables use (`streamgauge.panprivate.occupancy`).

    count       X = K + N       K occupied cells of n, N the noise of the counter
    mean        E K = n (1 - (1 - 1/n)^m)     if m values were hashed
    estimate    the m with E K = X
    interval    all m with |X - E K| <= h(m), if P(|X - E K| > h(m)) <= 1 - confidence

Post-processing: nothing here reads data, and no loss is spent.

Error
    The estimate is of the number of distinct values. The randomness is that of the hash and of the noise.
    `stddev` is the first-order error at the estimate. The hash is fixed for a stream, so that the errors of
    successive ticks are correlated.

    If hash and noise together have a standard deviation below MAX_JOINT_LAW_STDDEV cells, and the noise is on whole
    numbers, h comes from their joint law. That law has the noise exactly, and the number of shared cells as a binomial
    law of its mean and variance. Otherwise h is the root of the sum of squares of both half widths, plus up to
    half a cell for the steps of K. Intervals of 95 % cover in 94 to 98 % of runs (`benchmarks/distinct.py`).
    If few cells are shared and there is next to no noise, K has few values, and intervals cover more often.
    A counter that adapts to its data states an interval alone: a quarter of 1 - confidence is for the hash.

    If fewer than half a cell is expected to be empty, numbers cannot be distinguished. Estimates are cut
    there, and an interval that reaches it has no upper end. Below 0, counts are unchanged as estimates.

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

from streamgauge.adaptive import ErrorBound
from streamgauge.noise import NoiseSum
from streamgauge.noise.coerce import Floats
from streamgauge.noise.tail_bounds import normal_point
from streamgauge.panprivate.occupancy import CellOccupancy
from streamgauge.statistics.estimate import Estimate, noise_half_widths, noise_stddevs

MAX_JOINT_LAW_STDDEV = 4.0  # standard deviation in cells below which the joint law is computed
JOINT_LAW_CELLS = 128  # cells of that law: 16 standard deviations to either side
MAX_DENSE_VALUES = 2048  # up to it, each number of values has its own half width
SPARSE_VALUES_RATIO = 1.004  # between the numbers that have one beyond
HASH_DOUBT_SHARE = 0.25  # of the doubt, if the counter adapts to its data
MAX_CACHED_TABLES = 64  # acceptance tables in the cache
OUTWARD_STEP = 1e-9  # added outwards, so that ends are in order and rounding excludes no number

NEAREST_FIRST_OFFSETS = np.array(
    [(-1) ** place * ((place + 1) // 2) for place in range(JOINT_LAW_CELLS - 1)]
)  # 0, -1, 1, ...

Complex = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class AcceptanceTable:
    """Counts compatible with each number of values: from `lowest` to `highest`."""

    values: Floats
    lowest: Floats
    highest: Floats
    rate: float  # d E K / d m at 0, for counts below 0

    def bounds(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest number of values compatible with these counts."""
        first = np.interp(low, self.highest, self.values)
        last = np.interp(high, self.lowest, self.values, right=inf)
        first = np.where(low < self.highest[0], (low - self.highest[0]) / self.rate, first)
        return first, np.where(high < self.lowest[0], (high - self.lowest[0]) / self.rate, last)


@dataclass(frozen=True)
class HashCells:
    """Hash table with a number of cells, and the correction for shared cells.

    >>> table = HashCells(4096)
    >>> float(table.mean_occupied(4043).round(1)), float(table.values(2569.7).round())
    (2569.7, 4043.0)
    """

    cells: int

    def __post_init__(self) -> None:
        if self.cells < 2:
            raise ValueError(f"cells must be at least 2, got {self.cells}")

    @cached_property
    def _occupancy(self) -> CellOccupancy:
        return CellOccupancy(self.cells, self.cells)

    @property
    def _rate(self) -> float:
        return float(self._occupancy.occupancy_slope(0.0))

    @property
    def max_values(self) -> float:
        """Number of values at which half a cell is expected to be empty."""
        return self.cells * self._occupancy.max_load

    def mean_occupied(self, values: Floats | float) -> Floats:
        """Return the expected number of occupied cells."""
        return np.asarray(self.cells * self._occupancy.occupied_part(np.asarray(values) / self.cells))[()]

    def variance(self, values: Floats | float) -> Floats:
        """Return the variance of the number of occupied cells."""
        return np.asarray(self.cells**2 * self._occupancy.variance(np.asarray(values) / self.cells))[()]

    def values(self, counts: Floats | float) -> Floats:
        """Return the numbers of values with these expected numbers of occupied cells."""
        found = self.cells * self._occupancy.estimate_load(np.asarray(counts) / self.cells)
        return np.asarray(np.where(np.less(counts, 0), np.asarray(counts) / self._rate, found))[()]

    def counts(self, values: Floats) -> Floats:
        """Return the counts with these estimates, if the estimates were not cut."""
        return np.where(values < 0, values * self._rate, self.mean_occupied(values))

    def stddev(self, values: Floats | float, noise: Floats | float) -> Floats:
        """Return the first-order error of an estimate; `noise` is the count's stddev."""
        load = np.clip(np.asarray(values) / self.cells, 0.0, self._occupancy.max_load)
        spread = np.asarray(noise) / self.cells
        return np.asarray(self.cells * self._occupancy.stddev(load, lambda _: spread**2))[()]

    def estimate(self, counts: Estimate, noises: Sequence[NoiseSum] | None) -> Estimate:
        """Return the estimate of distinct values.

        `noises` is None if the count comes from an adaptive counter.
        """

        def intervals(confidence: float) -> tuple[Floats, Floats]:
            if noises is None:
                return self._invert_adaptive(counts, confidence)
            return self._invert_linear(counts.value, noises, confidence)

        def rows(part: slice) -> Estimate:
            return self.estimate(counts.select_ticks(part), None if noises is None else noises[part])

        value = self.values(counts.value)
        return Estimate(value, lambda: self.stddev(value, counts.stddev), counts.reliable, intervals, rows)

    def _invert_adaptive(self, counts: Estimate, confidence: float) -> tuple[Floats, Floats]:
        """Invert the interval of a count, at the confidence that the hash leaves for it."""
        doubt = 1 - confidence
        low, high = counts.interval(1 - (1 - HASH_DOUBT_SHARE) * doubt)
        return self._build_noiseless_acceptance(doubt).bounds(low, high)

    def _invert_linear(self, counts: Floats, noises: Sequence[NoiseSum], confidence: float) -> tuple[Floats, Floats]:
        """Invert counts whose noise has a law independent of the data, tick by tick."""
        low, high = np.empty_like(counts), np.empty_like(counts)
        halves, stddevs = noise_half_widths(noises, confidence, 1), noise_stddevs(noises, 1)
        for row, (noise, half, stddev) in enumerate(zip(noises, halves, stddevs, strict=True)):
            table = _build_acceptance(self, noise, float(half), float(stddev), confidence)
            low[row], high[row] = table.bounds(counts[row], counts[row])
        values = self.values(counts)  # rounding must not exclude them
        return np.minimum(low, values), np.maximum(high, values)

    def predict(self, values: float, error_bound: ErrorBound, confidence: float = 0.95) -> tuple[float, float]:
        """Return the standard error and the half width to expect for so many values."""
        count, doubt = self.mean_occupied(values), 1 - confidence
        if isinstance(error_bound, NoiseSum):
            table = _build_acceptance(
                self, error_bound, error_bound.half_width(confidence), error_bound.stddev, confidence
            )
            low, high = table.bounds(count, count)
        else:
            half = np.max(error_bound.half_width(1 - (1 - HASH_DOUBT_SHARE) * doubt))
            low, high = self._build_noiseless_acceptance(doubt).bounds(count - half, count + half)
        return float(self.stddev(values, np.max(error_bound.stddev))), float(high - low) / 2

    def _build_noiseless_acceptance(self, doubt: float) -> AcceptanceTable:
        """Build the acceptance of noiseless counts, at the hash's share of a doubt."""
        return _build_acceptance(self, NoiseSum(()), 0.0, 0.0, 1 - HASH_DOUBT_SHARE * doubt)


@lru_cache(maxsize=MAX_CACHED_TABLES)
def _build_acceptance(
    table: HashCells, noise: NoiseSum, half: float, stddev: float, confidence: float
) -> AcceptanceTable:
    """Build the acceptance table under a noise of this half width."""
    values, rate = _list_value_counts(table.max_values), table._rate
    mean, spread = table.mean_occupied(values), np.sqrt(table.variance(values))
    z = normal_point((1 - confidence) / 2)
    both = np.hypot(spread, stddev)
    steps = np.divide(spread, both, out=np.zeros_like(both), where=both > 0) / 2
    halves = np.hypot(z * spread, max(half, z * stddev)) + steps
    narrow = np.flatnonzero(both < MAX_JOINT_LAW_STDDEV)
    if len(narrow) and (transform := _fourier_transform(noise)) is not None:
        halves[narrow] = _joint_half_widths(table, values[narrow], transform, confidence)
    highest = np.maximum.accumulate(mean + halves)
    lowest = np.minimum.accumulate((mean - halves)[::-1])[::-1]
    order = OUTWARD_STEP * np.arange(1, len(values) + 1)
    return AcceptanceTable(values, lowest - order[::-1], highest + order, rate)


def _list_value_counts(most: float) -> Floats:
    """Return the numbers of values that have a half width.

    These are all up to MAX_DENSE_VALUES, and fewer beyond.
    """
    dense = np.arange(min(MAX_DENSE_VALUES, ceil(most)), dtype=np.float64)
    beyond = ceil(log(most / MAX_DENSE_VALUES) / log(SPARSE_VALUES_RATIO)) if most > MAX_DENSE_VALUES else 0
    return np.append(dense, most * SPARSE_VALUES_RATIO ** -np.arange(beyond, -1.0, -1.0) if beyond else most)


def _fourier_transform(noise: NoiseSum) -> Complex | None:
    """Return the transform of integer noise at JOINT_LAW_CELLS frequencies, else None."""
    if noise.is_bound or not all(float(term.weight).is_integer() for term in noise.terms):
        return None
    angles = 2 * np.pi * np.arange(JOINT_LAW_CELLS // 2 + 1) / JOINT_LAW_CELLS
    product = np.ones(len(angles), np.complex128)
    for term in noise.terms:
        product = product * term.distribution.tilted_transform(0.0, float(term.weight) * angles) ** term.count
    return product


def _joint_half_widths(table: HashCells, values: Floats, noise: Complex, confidence: float) -> Floats:
    """Return the least h with P(|K + N - E K| > h) <= 1 - confidence, by values.

    K is m or n minus a number of coincidences. Those are values that found their cell occupied, or cells that stay
    empty, the smaller of the two. Both are sums of independent coins (`occupancy`).
    """
    mean, variance = table.mean_occupied(values), table.variance(values)
    missing = np.minimum(np.maximum(values - mean, 0.0), table.cells - mean)
    chance = np.clip(1 - variance / np.maximum(missing, OUTWARD_STEP), OUTWARD_STEP, 1.0)
    coins = np.ceil(missing / chance - OUTWARD_STEP)  # whole, and rather too many: the variance is no less
    law = _binomial_probabilities(coins, missing / np.maximum(coins, 1.0))
    coins = np.fft.rfft(law, axis=1).conj()  # of minus the coincidences
    masses = np.maximum(np.fft.irfft(coins * noise, JOINT_LAW_CELLS, axis=1), 0.0)
    whole = np.round(missing).astype(np.int64)
    above = missing - whole  # distance of E K to its nearest whole number
    outwards = np.where(above[:, None] < 0, -NEAREST_FIRST_OFFSETS, NEAREST_FIRST_OFFSETS)
    reached = np.cumsum(np.take_along_axis(masses, (outwards - whole[:, None]) % JOINT_LAW_CELLS, axis=1), axis=1)
    last = np.argmax(reached >= np.minimum(confidence, reached[:, -1:]), axis=1)
    return np.asarray(np.abs(np.take_along_axis(outwards, last[:, None], axis=1)[:, 0] + above))


def _binomial_probabilities(coins: Floats, chance: Floats) -> Floats:
    """Return the probabilities of 0 to JOINT_LAW_CELLS - 1 heads, for each chance."""
    chance = np.minimum(chance, 1 - OUTWARD_STEP)
    masses = np.empty((len(coins), JOINT_LAW_CELLS))
    masses[:, 0] = np.exp(coins * np.log1p(-chance))
    odds = chance / (1 - chance)
    for heads in range(JOINT_LAW_CELLS - 1):
        masses[:, heads + 1] = masses[:, heads] * np.maximum(coins - heads, 0.0) / (heads + 1) * odds
    return masses
