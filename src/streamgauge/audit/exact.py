"""The loss of a linear mechanism, computed: every neighbour of its unit is enumerated, nothing is drawn.

From the matrices: a unit that is in ticks p and moves each by at most its bound moves row r of what is
measured by at most the sum of |C[r, t]| over p. Under discrete Laplace noise the loss is the sum of moves
over scales; under discrete Gaussian noise of squared moves over twice the parameters. Both are exact:
rationals from the columns of C, no float in between but for the search of the dearest pattern.

Where a row of C has both signs the moves of a unit cannot all add up, and where releases do not tell all that
is measured nobody sees it: the number is then an upper bound (see `linear` for one from below).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from streamgauge.continual import Mechanism, Strategy
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Ints
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Reach, Unit

PATTERNS = 200_000  # of ticks that one unit is in: more are refused, not sampled

Pattern = tuple[int, ...]  # ticks, from 1


@dataclass(frozen=True)
class Worst:
    """The dearest neighbour: the ticks that it touches, and what it loses at most."""

    pattern: Pattern
    amount: Fraction | float
    seen: str = ""  # what is seen besides releases
    least: float | None = None  # what it loses at least, where that is not the same

    def against(self, claimed: float) -> float:
        """What to hold against a claim: the most that is lost, unless that alone would condemn."""
        most = float(self.amount)
        return most if most <= claimed or self.least is None else self.least

    def __str__(self) -> str:
        ticks = ", ".join(map(str, self.pattern))
        plain = f"a unit in tick{'s' if len(self.pattern) > 1 else ''} {ticks}"
        return f"{plain}, {self.seen}" if self.seen else plain


def worst_neighbour(mechanism: Mechanism[Any], ticks: int) -> Worst:
    """The unit that loses most over the first ticks.

    >>> from streamgauge.continual import Binary
    >>> from streamgauge.privacy import Pure
    >>> print(worst := worst_neighbour(Binary(Pure(1), horizon=4), 4), worst.amount)
    a unit in tick 1 1
    """
    return dearest(mechanism.strategy(ticks), mechanism.reach, mechanism.unit)


def dearest(strategy: Strategy, reach: Reach, unit: Unit) -> Worst:
    """Of all patterns of a unit; the search is in floats, what it finds is computed exactly."""
    found = list(patterns(unit, strategy.measure.shape[1]))
    moves, costs, power = np.abs(strategy.measure), row_costs(strategy), power_of(strategy)
    totals = [float(costs @ moves[:, [t - 1 for t in p]].sum(axis=1) ** power) for p in found]
    pattern = found[int(np.argmax(totals))]
    return Worst(pattern, exact_loss(strategy, reach, pattern))


def exact_loss(strategy: Strategy, reach: Reach, pattern: Pattern) -> Fraction:
    """What a unit in these ticks loses."""
    columns = [strategy.column(tick) for tick in pattern]
    moved = [sum(map(abs, row), Fraction(0)) for row in zip(*columns, strict=True)]
    power = power_of(strategy)
    reached = reach.l1 if power == 1 else reach.l2_squared
    prices = map(price, strategy.distributions)
    return sum((move**power * cost * reached for move, cost in zip(moved, prices, strict=True)), Fraction(0))


def loss_of(strategy: Strategy, move: Ints) -> float:
    """What a move of the data loses, (places, ticks), if all that is measured is seen."""
    moved = np.abs(strategy.measure @ move.T.astype(np.float64))
    return float(row_costs(strategy) @ (moved ** power_of(strategy)).sum(axis=1))


def row_costs(strategy: Strategy) -> Floats:
    """What a move of one unit of the data, or its square, costs in each row."""
    grids, power = strategy.grids, power_of(strategy)
    prices = zip(strategy.distributions, grids, strict=True)
    return np.array([float(price(law) * grid**power) for law, grid in prices])


def price(law: Distribution) -> Fraction:
    """What a move by one grid point costs; under Gaussian noise, the square of a move."""
    if isinstance(law, DiscreteLaplace):
        return 1 / law.scale
    if isinstance(law, DiscreteGaussian):
        return 1 / (2 * law.parameter)
    raise TypeError(f"law must be DiscreteLaplace or DiscreteGaussian, got {type(law).__name__}")


def power_of(strategy: Strategy) -> int:
    """1 where moves add up, 2 where their squares do."""
    return 1 if is_laplace(strategy.distributions[0]) else 2


def is_laplace(law: Distribution) -> bool:
    return isinstance(law, DiscreteLaplace)


def patterns(unit: Unit, ticks: int) -> Iterator[Pattern]:
    """All sets of ticks that one unit may be in, no smaller ones: they lose no more."""
    size = min(unit.ticks, ticks)
    if unit.consecutive:
        yield from (tuple(range(first, first + size)) for first in range(1, ticks - size + 2))
        return
    if comb(ticks, size) > PATTERNS:
        rule = f"ticks must leave at most {PATTERNS:,} sets of {size} ticks"
        raise ValueError(f"{rule}, got {comb(ticks, size):,} of {ticks}")
    yield from combinations(range(1, ticks + 1), size)
