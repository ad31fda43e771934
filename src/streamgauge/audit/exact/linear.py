"""A view of a run that is linear in the data and in the draws: D x + N z, with z whole numbers.

Both maps come from the `Strategy` of a mechanism, or from probing its code (see `probe`). Costs are in `costs`.

Noise comes in steps. If data move a view by a distance that is no sum of steps, no view is of both worlds: noise in
steps of 3 reveals a count modulo 3, however wide it is. `Lattice` is the set of views that whole draws can make.

`LikelihoodRatio` is the best possible score of views, if it is known:

    draws visible one by one    log p(z - s) - log p(z), added up, where s is the shift between the two worlds
    Gaussian noise              the linear score s' S^-1 (view - s/2), with S the covariance of the view
    other noise                 the same linear score: least squares, which is best only under Gaussian noise
    no noise                    the part of the view that no draw moves, which separates the two worlds exactly
    noise in large steps        draws that are whole in one world only, which separate them as well

A run may have several groups, with noise of their own: a view has all numbers of the first group, then all of the
next. Streams may differ from run to run (see `subjects.adversaries`).

Promise
    A point that `Lattice.has_point` denies is not in the lattice. Proof: rational columns are multiplied by a common
    denominator and brought to echelon form by exchanges that keep their whole combinations (Euclid's). A target is a
    combination if and only if it is used up from the top. Columns that are not rational with small denominators have
    no lattice (None).
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import exp, lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.audit.exact.worst_case import is_laplace, price
from streamgauge.continual import Strategy
from streamgauge.noise import Distribution, Ints
from streamgauge.noise.coerce import Floats

MAX_MATRIX_ENTRIES = 4096  # numbers of a matrix for which it is done
MAX_DENOMINATOR = 10**4
MAX_COMMON_DENOMINATOR = 10**9
ROUNDING_TOLERANCE = 1e-9  # relative: what floats may be off
LATTICE_TOLERANCE = 1e-5  # and what a target may, in parts of the denominator

Column = list[int]


@dataclass(frozen=True)
class Lattice:
    """Columns in echelon form, each with the row of its first number that is not 0."""

    denominator: int
    basis: tuple[tuple[int, Column], ...]

    def has_point(self, target: Floats) -> bool:
        """
        >>> steps = build_lattice(np.array([[3.0, 6.0]]))
        >>> steps is not None and (steps.has_point(np.array([9.0])), steps.has_point(np.array([1.0])))
        (True, False)
        """
        scaled = target * self.denominator
        close = LATTICE_TOLERANCE * np.abs(scaled).max(initial=1.0)
        if np.abs(scaled - np.rint(scaled)).max(initial=0.0) > close:
            return False
        left = [int(number) for number in np.rint(scaled)]
        for row, column in self.basis:
            times, rest = divmod(left[row], column[row])
            if rest:
                return False
            left = subtract_multiple(left, times, column)
        return not any(left)


def build_lattice(by_noise: Floats) -> Lattice | None:
    """Build the lattice of the columns, if they are few and rational."""
    if by_noise.size > MAX_MATRIX_ENTRIES:
        return None
    cells = [[Fraction(float(cell)).limit_denominator(MAX_DENOMINATOR) for cell in column] for column in by_noise.T]
    found = np.array([[float(cell) for cell in column] for column in cells]).reshape(by_noise.T.shape)
    if np.abs(found - by_noise.T).max(initial=0.0) > ROUNDING_TOLERANCE * np.abs(by_noise).max(initial=0.0):
        return None
    common = lcm(*(cell.denominator for column in cells for cell in column))
    if common > MAX_COMMON_DENOMINATOR:
        return None
    return Lattice(common, tuple(to_echelon([[int(cell * common) for cell in column] for column in cells])))


def to_echelon(columns: list[Column]) -> list[tuple[int, Column]]:
    """
    >>> to_echelon([[4, 1], [6, 1]])
    [(0, [2, 0]), (1, [0, 1])]
    """
    rest, basis = columns, []
    for row in range(len(columns[0]) if columns else 0):
        while len(live := [column for column in rest if column[row]]) > 1:
            least = min(live, key=lambda column: abs(column[row]))
            rest = [
                column if column is least else subtract_multiple(column, column[row] // least[row], least)
                for column in rest
            ]
        if live:
            basis.append((row, live[0]))
            rest = [column for column in rest if column is not live[0]]
        rest = [column for column in rest if any(column)]
    return basis


def subtract_multiple(column: Column, times: int, other: Column) -> Column:
    return [one - times * two for one, two in zip(column, other, strict=True)] if times else column


VIEW_TOLERANCE = 1e-6  # relative: what rounding may be off in a view that is hidden
RANK_TOLERANCE = 1e-12  # of the largest singular value: below it are rounding errors
MIN_VARIANCE = 1e-30
WHOLE_TOLERANCE = 0.1  # largest rounding error that still separates whole numbers from fractions


@dataclass(frozen=True)
class NoiseTerm:
    """Draws that are visible only in one sum."""

    law: Distribution
    draws: int = 1

    @property
    def variance(self) -> float:
        """Never quite 0, as that of a law may be that hardly ever draws another number."""
        return max(self.law.variance, MIN_VARIANCE) * self.draws

    @property
    def is_laplace(self) -> bool:
        return is_laplace(self.law)


@dataclass(frozen=True, eq=False)
class NonlinearStream:
    """A stream at which the code was not linear."""

    name: str
    stream: Ints


@dataclass(frozen=True, eq=False)
class LinearView:
    """The view of one group's run."""

    by_data: Floats  # D: a row for each number of the view, a column for each tick
    by_noise: Floats  # N: a column for each source
    sources: tuple[NoiseTerm, ...]
    nonlinear_streams: tuple[NonlinearStream, ...] = ()  # where the code that was tried is not this view

    @property
    def is_laplace(self) -> bool:
        """True if all noise is Laplace noise."""
        return bool(self.sources) and all(source.is_laplace for source in self.sources)

    @property
    def is_gaussian(self) -> bool:
        """True if no noise is Laplace noise."""
        return not any(source.is_laplace for source in self.sources)

    @cached_property
    def deviations(self) -> Floats:
        """Of each source."""
        return np.sqrt(np.array([source.variance for source in self.sources], np.float64))

    @cached_property
    def row_sizes(self) -> Floats:
        """The size of each number of the view: that of its noise or, if it has none, of its data.

        Numbers on grids of 2^-40 are beside whole ones. Rows of one size keep small ones from being lost.
        """
        noise, data = np.abs(self.by_noise * self.deviations), np.abs(self.by_data)
        sizes = np.where(noise.any(axis=1), noise.max(axis=1, initial=0.0), data.max(axis=1, initial=0.0))
        return np.where(sizes > 0, sizes, 1.0)

    @cached_property
    def _even_rows(self) -> Floats:
        return self.by_noise * self.deviations / self.row_sizes[:, None]

    @cached_property
    def inverse(self) -> Floats:
        """The least draws, each by its own deviation, that explain a view."""
        return np.asarray(self.deviations[:, None] * np.linalg.pinv(self._even_rows, RANK_TOLERANCE) / self.row_sizes)

    @cached_property
    def is_injective(self) -> bool:
        """True if a view determines all draws, given the data."""
        count = len(self.sources)
        if not count:
            return True
        sizes = np.linalg.svd(self._even_rows, compute_uv=False)
        return bool((sizes > RANK_TOLERANCE * sizes.max(initial=0.0)).sum() == count)

    @cached_property
    def laplace_part(self) -> "LinearView":
        """As if other draws were silent."""
        chosen = [place for place, source in enumerate(self.sources) if source.is_laplace]
        sources = tuple(self.sources[place] for place in chosen)
        return replace(self, by_noise=self.by_noise[:, chosen], sources=sources)

    @cached_property
    def _lattice(self) -> Lattice | None:
        return build_lattice(self.by_noise[self._plain_rows][:, ~self._is_wide])

    @cached_property
    def _is_wide(self) -> np.ndarray:
        """Whether the steps of each source are too small beside its deviation for floats to show."""
        return np.asarray(RANK_TOLERANCE * self.deviations > WHOLE_TOLERANCE)

    @cached_property
    def _plain_rows(self) -> np.ndarray:
        """Whether each number is without wide noise, so that floats show its steps."""
        return np.asarray(~self.by_noise[:, self._is_wide].any(axis=1))

    def can_span(self, target: Floats) -> bool:
        """Return whether real draws could move the view so far."""
        left = (self.by_noise @ (self.inverse @ target) - target) / self.row_sizes
        return bool(np.abs(left).max(initial=0.0) <= VIEW_TOLERANCE * np.abs(target / self.row_sizes).max(initial=0.0))

    def can_reach(self, target: Floats) -> bool:
        """Return whether whole draws could, as far as floats show: if not, the worlds have no view in common."""
        if self.is_injective:
            return bool(are_whole((self.inverse @ target)[~self._is_wide]).all())
        return self._lattice is None or self._lattice.has_point(target[self._plain_rows])

    def is_equivalent(self, other: "LinearView") -> bool:
        """Return whether data move both views alike, and noise has the same law in both.

        Under Gaussian noise covariances say all of it; else draws are compared one by one.
        """
        if not are_alike(self.by_data, other.by_data):
            return False
        if self.is_gaussian and other.is_gaussian:
            wide = [view.by_noise * view.deviations for view in (self, other)]
            return are_alike(wide[0] @ wide[0].T, wide[1] @ wide[1].T)
        unit = float(np.abs(other.by_noise).max(initial=0.0)) or 1.0
        return self._count_draws(unit) == other._count_draws(unit)

    def _count_draws(self, unit: float) -> Counter[tuple[bytes, Distribution]]:
        """Count the draws of each law that move the view alike, rounded to parts of a unit."""
        found: Counter[tuple[bytes, Distribution]] = Counter()
        for column, source in zip(self.by_noise.T, self.sources, strict=True):
            found[np.rint(column / (unit * VIEW_TOLERANCE)).astype(np.int64).tobytes(), source.law] += source.draws
        return found


def are_whole(numbers: Floats) -> np.ndarray:
    """Return which numbers are whole, as far as floats can show; all, if floats show nothing.

    >>> are_whole(np.array([2.0, 1 / 3])), are_whole(np.array([2.0**40, 1 / 3]))
    (array([ True, False]), array([ True,  True]))
    """
    off = VIEW_TOLERANCE * max(1.0, float(np.abs(numbers).max(initial=0.0)))
    return np.asarray((np.abs(numbers - np.rint(numbers)) <= off) | (off > WHOLE_TOLERANCE))


def are_alike(one: Floats, other: Floats) -> bool:
    near = VIEW_TOLERANCE * float(np.abs(other).max(initial=0.0))
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=VIEW_TOLERANCE, atol=near))


def build_view(strategy: Strategy) -> LinearView:
    """Build the view of all releases from a strategy; a row that is never drawn has no noise."""
    drawn = Counter(strategy.draws)
    decoded = [bool(column.any()) for column in strategy.decode.T]
    rows = [row for row in range(len(strategy.distributions)) if decoded[row] and drawn[row]]
    grids = np.array(strategy.grids, np.float64)
    sources = tuple(NoiseTerm(strategy.distributions[row], drawn[row]) for row in rows)
    return LinearView(strategy.workload, (strategy.decode / grids)[:, rows], sources)


EXACT_WEIGHT = 1e8  # of exact numbers, compared with any noise
MAX_SUM_DRAWS = 2  # draws whose sum has a weight that is written down below
SCORE_DIGITS = 9  # of a score: the same number of the lattice is the same score

Array = npt.NDArray[Any]
StreamFunction = Callable[[Floats], tuple[Array, Array]]  # of views: both streams, (runs or 1, groups, ticks)


@dataclass(frozen=True, eq=False)
class LikelihoodRatio:
    """The log-likelihood ratio of a view under two worlds, by its first groups: others are not read."""

    view: LinearView
    groups: int
    streams: StreamFunction

    def __call__(self, views: Floats) -> Floats:
        one, other = self.streams(views)
        shown = views[:, : self.groups * len(self.view.by_data)].reshape(len(views), self.groups, -1)
        without = shown - other @ self.view.by_data.T
        moved = (one - other) @ self.view.by_data.T
        draws, shift = without @ self.view.inverse.T, moved @ self.view.inverse.T
        found = self._score_draws(draws, shift) if self._has_visible_draws else self._score_sums(draws, shift)
        found = found + self._score_steps(draws, shift)
        return np.asarray(np.round(found + EXACT_WEIGHT * self._score_exact(without, moved), SCORE_DIGITS), np.float64)

    @property
    def name(self) -> str:
        """The ratio itself, or the linear score that is best by least squares."""
        known = not self.view.is_laplace or (
            self._has_visible_draws and all(source.draws <= MAX_SUM_DRAWS for source in self.view.sources)
        )
        return "likelihood ratio" if known else "best linear score"

    @property
    def _has_visible_draws(self) -> bool:
        return self.view.is_laplace and self.view.is_injective

    def _score_draws(self, draws: Floats, shift: Floats) -> Floats:
        total = np.zeros(len(draws))
        for place, source in enumerate(self.view.sources):
            z, s = draws[..., place], shift[..., place]
            if are_whole(s).all():
                z, s = np.rint(z), np.rint(s)
            if s.any():
                total += (log_weight(source, z - s) - log_weight(source, z)).sum(axis=1)
        return total

    def _score_sums(self, draws: Floats, shift: Floats) -> Floats:
        variances = self.view.deviations**2
        return np.asarray(((draws - shift / 2) * shift / variances).sum(axis=(1, 2)))

    def _score_steps(self, draws: Floats, shift: Floats) -> Floats | float:
        """Return the draws that are whole in the first world, less those in the other, if a shift is not whole."""
        if not self.view.is_injective or are_whole(shift).all():
            return 0.0
        fits = [are_whole(shown).sum(axis=(1, 2), dtype=np.int64) for shown in (draws - shift, draws)]
        return np.asarray(EXACT_WEIGHT * (fits[0] - fits[1]), np.float64)

    def _score_exact(self, without: Floats, moved: Floats) -> Floats:
        """Return the share of the move to the first world in those numbers that no draw moves."""
        bare = moved - moved @ self.view.inverse.T @ self.view.by_noise.T
        size = np.abs(bare).max(axis=(1, 2), keepdims=True)
        bare = np.where(size > VIEW_TOLERANCE * np.abs(moved).max(axis=(1, 2), keepdims=True), bare, 0.0)
        square = (bare**2).sum(axis=(1, 2))
        return np.asarray((without * bare).sum(axis=(1, 2)) / np.where(square, square, 1.0))


def log_weight(source: NoiseTerm, value: Floats) -> Floats:
    """Return the log-weight of a sum of Laplace draws up to a constant; of many draws, nearly.

    Two draws of q = exp(-1/scale) weigh q^|k| (|k| + (1 + q^2)/(1 - q^2)).
    """
    size, rate = np.abs(value), float(price(source.law))
    if source.draws == 1:
        return -rate * size
    if source.draws == 2:
        q = exp(-2 * rate)
        return np.asarray(np.log(size + (1 + q) / (1 - q)) - rate * size)
    return -(size**2) / (2 * source.variance)


def fix_streams(one: Array, other: Array) -> StreamFunction:
    """Return two streams, (groups, ticks), that are the same in all runs."""
    both = one[None].astype(np.float64), other[None].astype(np.float64)
    return lambda views: both
