"""A view of a run that is linear in the data and in the draws: D x + N z, with z whole numbers.

Both maps are either what a mechanism writes down (its `Strategy`), or found by trying (see `trying`). What it
costs to hide data behind draws is in `costs`.
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamgauge.audit.exact import is_laplace
from streamgauge.audit.lattices import Lattice, lattice_of
from streamgauge.continual import Strategy
from streamgauge.noise import Distribution, Ints
from streamgauge.noise.numbers import Floats

NEAR = 1e-6  # relative: what rounding may be off in a view that is hidden
TINY = 1e-30
WHOLE = 0.1  # how far off a whole number rounding may be, for a fraction to be told from it


@dataclass(frozen=True)
class Source:
    """Draws that are seen only in one sum."""

    law: Distribution
    draws: int = 1

    @property
    def variance(self) -> float:
        """Never quite 0, as that of a law may be that hardly ever draws another number."""
        return max(self.law.variance, TINY) * self.draws

    @property
    def laplace(self) -> bool:
        return is_laplace(self.law)


@dataclass(frozen=True, eq=False)
class Odd:
    """A stream at which code was seen not to be linear."""

    name: str
    stream: Ints


@dataclass(frozen=True, eq=False)
class LinearView:
    """What is seen of one group's run."""

    by_data: Floats  # D: a row for each number of the view, a column for each tick
    by_noise: Floats  # N: a column for each source
    sources: tuple[Source, ...]
    odd: tuple[Odd, ...] = ()  # where the code that was tried is not this view

    @property
    def laplace(self) -> bool:
        """Whether all noise is Laplace noise."""
        return bool(self.sources) and all(source.laplace for source in self.sources)

    @property
    def gaussian(self) -> bool:
        """Whether none is."""
        return not any(source.laplace for source in self.sources)

    @cached_property
    def deviations(self) -> Floats:
        """Of each source."""
        return np.sqrt(np.array([source.variance for source in self.sources], np.float64))

    @cached_property
    def inverse(self) -> Floats:
        """The least draws, each by its own deviation, that explain a view."""
        return np.asarray(self.deviations[:, None] * np.linalg.pinv(self.by_noise * self.deviations))

    @cached_property
    def injective(self) -> bool:
        """Whether a view tells all draws, if the data are known."""
        count = len(self.sources)
        return not count or bool(np.linalg.matrix_rank(self.by_noise * self.deviations) == count)

    @cached_property
    def laplace_alone(self) -> "LinearView":
        """As if other draws were silent."""
        kept = [place for place, source in enumerate(self.sources) if source.laplace]
        sources = tuple(self.sources[place] for place in kept)
        return replace(self, by_noise=self.by_noise[:, kept], sources=sources)

    @cached_property
    def _lattice(self) -> Lattice | None:
        return lattice_of(self.by_noise)

    def spans(self, target: Floats) -> bool:
        """Whether draws, were they real numbers, could move the view so far."""
        left = self.by_noise @ (self.inverse @ target) - target
        return bool(np.abs(left).max(initial=0.0) <= NEAR * np.abs(target).max(initial=0.0))

    def reaches(self, target: Floats) -> bool:
        """Whether whole draws could, as far as floats tell: else no view is of both worlds."""
        if self.injective:
            return bool(are_whole(self.inverse @ target).all())
        return self._lattice is None or self._lattice.holds(target)

    def agrees(self, other: "LinearView") -> bool:
        """Whether data move both views alike, and noise has the same law in both.

        Under Gaussian noise covariances say all of it; else draws are compared one by one.
        """
        if not alike(self.by_data, other.by_data):
            return False
        if self.gaussian and other.gaussian:
            wide = [view.by_noise * view.deviations for view in (self, other)]
            return alike(wide[0] @ wide[0].T, wide[1] @ wide[1].T)
        unit = float(np.abs(other.by_noise).max(initial=0.0)) or 1.0
        return self._draws(unit) == other._draws(unit)

    def _draws(self, unit: float) -> Counter[tuple[bytes, Distribution]]:
        """How many draws of each law move the view in each way, to so many parts of a unit."""
        found: Counter[tuple[bytes, Distribution]] = Counter()
        for column, source in zip(self.by_noise.T, self.sources, strict=True):
            found[np.rint(column / (unit * NEAR)).astype(np.int64).tobytes(), source.law] += source.draws
        return found


def are_whole(numbers: Floats) -> np.ndarray:
    """Which of them are whole numbers, as far as floats can tell; all, if they can tell nothing.

    >>> are_whole(np.array([2.0, 1 / 3])), are_whole(np.array([2.0**40, 1 / 3]))
    (array([ True, False]), array([ True,  True]))
    """
    off = NEAR * max(1.0, float(np.abs(numbers).max(initial=0.0)))
    return np.asarray((np.abs(numbers - np.rint(numbers)) <= off) | (off > WHOLE))


def alike(one: Floats, other: Floats) -> bool:
    near = NEAR * float(np.abs(other).max(initial=0.0))
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=NEAR, atol=near))


def written(strategy: Strategy) -> LinearView:
    """All releases, as a mechanism writes them down; a row that is never drawn has no noise."""
    drawn = Counter(strategy.draws)
    decoded = [bool(column.any()) for column in strategy.decode.T]
    rows = [row for row in range(len(strategy.distributions)) if decoded[row] and drawn[row]]
    grids = np.array(strategy.grids, np.float64)
    sources = tuple(Source(strategy.distributions[row], drawn[row]) for row in rows)
    return LinearView(strategy.workload, (strategy.decode / grids)[:, rows], sources)
