"""Multiplicative density: the part of a universe that has come, up to a factor.

The error of a density is about that of the square root of its table's size, for any number of users: hopeless for a
thousand users of ten million. So there are several tables, each `shrink` times smaller than the one before, down to
`smallest` entries, and users are hashed into each. In a small table few users stand out. In a large one many do not
collide. The estimate is the number of users with the largest likelihood under all of them.

A table of n cells estimates the part of them that is occupied. If the part x of a universe of u users came, that is

    occupied       g(x) = 1 - (1 - 1/n)^(x u), or x itself if each user has an entry, with variance V(x)
    estimate x     minimises sum [(reading - g(x))^2/V(x) + log V(x)] over the tables, from 0 to `max_part`

A full table says little, since g rises no more, and so does one that is large for few users. No table has to be
chosen, and none misleads by being chosen.

Privacy
    Neighbours: all appearances of one user. Promise: pure, (intrusions + 1) state_loss + releases
    output_loss.
    Proof: that of `mechanism`. A user has an entry in each of the tables, at entry_epsilon =
    state_loss/tables, and moves the ones of every table by 1 at most. All are released under noise for a
    share of the loss each (see `density`; half of it with `replace`). The estimate is a function of the
    release.

Error
    No estimate is below 0, nor above 1 unless hashed. So if errors are as large as the truth the estimate is
    not quite unbiased. `stddev` is the root mean square error all the same, to a twentieth: it contains bits,
    noise, shared cells and the effect of those ends. It does not contain that tables share a hash: a twelfth,
    for hashed users and losses so large that it matters.
    `first_order_stddev` is that of first order, 1/sqrt(sum g'(x)^2/V(x)). `root_mean_square_error` is that of
    the whole estimate at x, ends and bends included: its mean over the laws of the readings (normal for bits
    and cells, Laplace for noise), at LATTICE_POINTS places of a lattice.
    An interval is the intersection of the intervals of all tables, each at its part of the confidence.
    Tables take universe (1 + 1/shrink + ...) bytes together: at most 2 bytes for each user of the universe.

Reference
    Dwork: Differential privacy in new settings, SODA 2010, section 4, with tables of all powers of two. The
    survey that repeats it forgets that the loss is shared. Fewer tables, each with more of the loss, err
    less. There, the table with the least claimed error is used; all of them together err less.
    Korobov 1959 for the lattice: u_d(i) = (i LATTICE_GENERATOR^d mod LATTICE_POINTS)/LATTICE_POINTS.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache
from math import hypot, inf, sqrt
from typing import Any

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.memory import WipedArrays
from streamgauge.noise import Ints, RandomSource
from streamgauge.noise.coerce import Floats
from streamgauge.noise.tail_bounds import normal_point
from streamgauge.panprivate.density import BitCount, BitTableMechanism, count_noisy_ones, redraw_bits
from streamgauge.panprivate.error_bounds import SymmetricRegion
from streamgauge.panprivate.estimate import ConfidenceRegion, PanPrivateEstimate
from streamgauge.panprivate.occupancy import CellOccupancy
from streamgauge.panprivate.run import NoisyTable
from streamgauge.panprivate.users import (
    LARGE_PIECE_ITEMS,
    Universe,
    derive_public_key,
    hash_names,
    mix_words,
    reduce_words,
    split_batch,
)
from streamgauge.panprivate.validation import HASHED_BEFORE, check_prediction

LATTICE_POINTS, LATTICE_GENERATOR = 4096, 1571
GRID_POINTS, SEARCH_STEPS = 128, 24
MIN_GRID_RATIO = 1e-9  # of the grid, and of a variance in bits
GOLDEN_SECTION = (sqrt(5) - 1) / 2
MAX_USERS_PER_ENTRY = 1000.0  # beyond it all entries are occupied


@dataclass(frozen=True)
class TableReading:
    """One table: its occupied part, if a part of the universe came."""

    count: BitCount
    occupancy: CellOccupancy | None  # none where each user has an entry
    users_per_entry: float  # users of the universe for each entry

    def occupied_part(self, part: Floats) -> Floats:
        return part if self.occupancy is None else np.asarray(self.occupancy.occupied_part(part * self.users_per_entry))

    def slope(self, part: float) -> float:
        """d occupied part / d part."""
        if self.occupancy is None:
            return 1.0
        return self.users_per_entry * float(self.occupancy.occupancy_slope(part * self.users_per_entry))

    def sampling_variance(self, part: Floats) -> Floats:
        """Return the variance of bits, and of the choice of cells, without noise."""
        cells = 0.0 if self.occupancy is None else self.occupancy.variance(part * self.users_per_entry)
        bits = self.count.variance(self.occupied_part(part)) - self.noise_variance
        return np.asarray(np.maximum(bits, 0.0) + cells)

    def variance(self, part: Floats) -> Floats:
        return self.sampling_variance(part) + self.noise_variance + MIN_GRID_RATIO / self.count.entries**2

    def precision(self, part: float) -> float:
        """Return one over the variance of a part from this table alone, to first order."""
        return self.slope(part) ** 2 / float(self.variance(np.array(part)))

    @property
    def noise_variance(self) -> float:
        return self.count.noise.variance / (self.count.entries * float(self.count.laws.gap)) ** 2

    def build_region(self, part: float) -> ConfidenceRegion:
        if self.occupancy is None:
            return SymmetricRegion(part, self.count.deviations())
        return self.count.build_occupancy_region(part, self.occupancy)


@dataclass(frozen=True)
class MaxLikelihood:
    """The joint estimate of all tables; see the module."""

    tables: Sequence[TableReading]
    max_part: float

    def estimate(self, readings: Floats) -> Floats:
        """Return the likeliest parts, for each column of readings, one row for each table."""
        grid = np.concatenate([[0.0], np.geomspace(MIN_GRID_RATIO * self.max_part, self.max_part, GRID_POINTS)])
        rough = np.argmin(self._negative_log_likelihood(grid[:, None], readings[:, None]), axis=0)
        low, high = grid[np.maximum(rough - 1, 0)], grid[np.minimum(rough + 1, GRID_POINTS)]
        for _ in range(SEARCH_STEPS):
            left, right = high - GOLDEN_SECTION * (high - low), low + GOLDEN_SECTION * (high - low)
            below = self._negative_log_likelihood(left, readings) < self._negative_log_likelihood(right, readings)
            low, high = np.where(below, low, left), np.where(below, right, high)
        return np.asarray((low + high) / 2)

    def _negative_log_likelihood(self, part: Floats, readings: Floats) -> Floats:
        total = np.zeros(())
        for table, each in zip(self.tables, readings, strict=True):
            variance = table.variance(part)
            total = total + ((each - table.occupied_part(part)) ** 2 / variance + np.log(variance))
        return np.asarray(total)

    def first_order_stddev(self, part: float) -> float:
        """Return the standard error of first order."""
        with np.errstate(all="ignore"):
            return 1 / sqrt(sum(table.precision(part) for table in self.tables))

    def find_best_table(self, part: float) -> int:
        """Return the table with the most precise estimate, if a part came."""
        return int(np.argmax([table.precision(part) for table in self.tables]))

    def root_mean_square_error(self, part: float) -> float:
        """Return the root mean square error if `part` is the truth."""
        at = np.array(min(part, MAX_USERS_PER_ENTRY))
        readings = [
            table.occupied_part(at) + np.sqrt(table.sampling_variance(at)) * bits + sqrt(table.noise_variance) * noise
            for table, (bits, noise) in zip(self.tables, build_lattice(len(self.tables)), strict=True)
        ]
        found = self.estimate(np.stack(readings))
        return hypot(float(np.std(found)), float(np.mean(found)) - part)


@lru_cache(maxsize=1)
def noise_quantiles() -> tuple[Floats, Floats]:
    """Return LATTICE_POINTS quantiles of the normal law, and of a Laplace law.

    Both have variance 1.
    """
    upper = (np.arange(LATTICE_POINTS // 2) + 0.5) / LATTICE_POINTS
    normal = np.array([normal_point(float(each)) for each in upper])
    laplace = -np.log(2 * upper) / sqrt(2)
    return np.append(-normal, normal[::-1]), np.append(-laplace, laplace[::-1])


@lru_cache(maxsize=32)
def build_lattice(tables: int) -> list[tuple[Floats, Floats]]:
    """Return normal and Laplace values for each table, jointly spread evenly."""
    places = [
        np.arange(LATTICE_POINTS) * pow(LATTICE_GENERATOR, row, LATTICE_POINTS) % LATTICE_POINTS
        for row in range(2 * tables)
    ]
    normal, laplace = noise_quantiles()
    return [(normal[bits], laplace[noise]) for bits, noise in zip(places[::2], places[1::2], strict=True)]


@dataclass(frozen=True)
class MultiplicativeDensity(BitTableMechanism):
    """The part of the universe that has come, however small; see the module's claim."""

    _: KW_ONLY
    shrink: int = 16
    smallest: int = 256

    def __post_init__(self) -> None:
        check_whole("shrink", self.shrink, 2)
        check_whole("smallest", self.smallest)
        if self.sample is not None:
            raise ValueError(f"sample must be None for tables of all users, got {self.sample}")
        if self.hashed == HASHED_BEFORE:
            raise ValueError("hashed must be True or False for tables that hash by themselves, got 'before'")
        super().__post_init__()

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of entries of the tables, the largest first."""
        sizes = [self.universe]
        while sizes[-1] // self.shrink >= self.smallest:
            sizes.append(sizes[-1] // self.shrink)
        return tuple(sizes)

    @property
    def entries_per_user(self) -> int:
        return len(self.sizes)

    @property
    def entries(self) -> int:
        return sum(self.sizes)

    def rough_stddev(self, intrusions: int) -> float:
        """Return the error of first order.

        It is for as many users as the middle table has entries.
        """
        value = self.sizes[len(self.sizes) // 2] / self.universe
        return self.build_likelihood(intrusions).first_order_stddev(value)

    def add_users(self, state: NoisyTable, users: Any, intrusions: int, noise: RandomSource) -> None:
        present = self.laws_after(intrusions).present
        for piece in split_batch(users, LARGE_PIECE_ITEMS):
            with WipedArrays() as secret:
                for bits, places in zip(self._split_tables(state), self._places(piece, secret), strict=True):
                    redraw_bits(bits, places, present, noise)

    def _places(self, piece: Any, secret: WipedArrays) -> Iterator[Ints]:
        """Yield the cells of the users among the items, table by table, from one mixing."""
        if self.hashed:
            words = hash_names(piece, secret)
        else:
            known = Universe(self.universe, self.universe, self.seed).find_places(piece, secret)
            yield known
            words = secret(known.copy()).view(np.uint64)
        room, cells = secret(np.empty_like(words)), secret(np.empty_like(words))
        mix_words(words, derive_public_key("streamgauge cells", self.seed), room)
        for size in self.sizes[0 if self.hashed else 1 :]:
            np.copyto(cells, words)
            reduce_words(cells, size, room)
            yield cells.view(np.int64)

    def _split_tables(self, state: NoisyTable) -> list[Any]:
        """Return the tables, the largest first."""
        return np.split(state.entries, np.cumsum(self.sizes)[:-1])

    def release(self, state: NoisyTable, noise: RandomSource) -> Ints:
        return count_noisy_ones(self._split_tables(state), self.noise, noise)

    def build_estimate(self, released: Ints, intrusions: int) -> PanPrivateEstimate:
        together = self.build_likelihood(intrusions)
        parts = [table.count.estimate_part(int(ones)) for table, ones in zip(together.tables, released, strict=True)]
        value = float(together.estimate(np.array(parts)[:, None])[0])
        regions = [table.build_region(part) for table, part in zip(together.tables, parts, strict=True)]
        common = IntersectionRegion(value, regions, together.find_best_table(value), self.sizes, self.universe)
        most = inf if self.hashed else 1.0
        return PanPrivateEstimate(value, together.root_mean_square_error(value), self.universe, common, highest=most)

    def build_likelihood(self, intrusions: int) -> MaxLikelihood:
        """Return the likelihood of all tables, after so many announced intrusions."""
        tables, laws = [], self.laws_after(intrusions)
        for size in self.sizes:
            shared = bool(self.hashed) or size < self.universe
            cells = CellOccupancy(size, size) if shared else None
            tables.append(TableReading(BitCount(size, laws, self.noise), cells, self.universe / size))
        most = CellOccupancy(self.universe, self.universe).max_load if self.hashed else 1.0
        return MaxLikelihood(tables, most)

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """Return the root mean square error if `value` is the truth.

        The default is that half of the universe came, for hashed users a load of 1.
        """
        check_prediction(self, value, intrusions)
        usual = 1.0 if self.hashed else 0.5
        return self.build_likelihood(intrusions).root_mean_square_error(usual if value is None else value)


@dataclass(frozen=True)
class IntersectionRegion:
    """The intersection of the intervals of several tables; that of the best, if empty.

    It is widened to the value, which the joint estimate may have put a little outside.
    """

    value: float
    regions: Sequence[ConfidenceRegion]
    best_table: int
    sizes: Sequence[int]
    universe: int

    def interval(self, confidence: float) -> tuple[float, float]:
        each = 1 - (1 - confidence) / len(self.regions)
        scaled = [
            (low * size / self.universe, high * size / self.universe)
            for (low, high), size in zip((w.interval(each) for w in self.regions), self.sizes, strict=True)
        ]
        low, high = max(low for low, _ in scaled), min(high for _, high in scaled)
        low, high = (low, high) if low <= high else scaled[self.best_table]
        return min(low, self.value), max(high, self.value)
