"""The loss of a linear mechanism, computed: the dearest neighbour of its unit is found, nothing is drawn.

From the matrices: a unit that is in ticks p and moves each by at most its bound moves row r of what is
measured by at most the sum of |C[r, t]| over p. Under discrete Laplace noise the loss is the sum of moves
over scales; under discrete Gaussian noise of squared moves over twice the parameters. Both are exact:
rationals from the columns of C, no float in between but for the search of the dearest pattern.

Promise
    The loss lies between `Worst.floor` and `Worst.amount`, to one who sees all that is measured. The two are
    the same number, but where a row of C has both signs, so that the moves of a unit cannot all add up, and
    where there are too many patterns to go through (see `tick_sets`). Where releases do not tell all that is
    measured, nobody sees it: the loss is then less (see `costs`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.tick_sets import Pattern, dearest_set, patterns
from streamgauge.continual import Mechanism, Strategy
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Ints
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Reach, Unit

__all__ = [
    "Pattern",
    "Worst",
    "covered",
    "dearest",
    "exact_loss",
    "patterns",
    "price",
    "worst_neighbour",
    "worst_of",
]

ROUNDING = 1e-9  # relative: what floats may be off
AGREED = 1e-6  # and what rounds on the way, in code that is tried


@dataclass(frozen=True)
class Worst:
    """The dearest neighbour: the ticks that it touches, and what is lost at most, whoever it is.

    Where there are no ticks, `seen` says who it is.
    """

    pattern: Pattern
    amount: Fraction | float
    seen: str = ""  # what is seen besides releases
    least: float | None = None  # what this one loses at least, where that is not the same
    how: str = ""  # it is known
    priced: bool = True  # in the currency of the claim: no other says anything
    part: str = ""  # of what was asked, where that is not all

    @property
    def floor(self) -> float:
        """What is lost at least."""
        return float(self.amount if self.least is None else min(self.least, self.amount))

    @property
    def decided(self) -> bool:
        """Whether both ends are one number."""
        return self.floor == self.amount or float(self.amount) * (1 - AGREED) <= self.floor

    def __str__(self) -> str:
        if not self.pattern:
            return self.seen
        ticks = ", ".join(map(str, self.pattern))
        plain = f"a unit in tick{'s' if len(self.pattern) > 1 else ''} {ticks}"
        return f"{plain}, {self.seen}" if self.seen else plain


def worst_of(found: Iterable[Worst]) -> Worst:
    """The worst of several neighbours: both ends are the largest; who is named surely loses the most.

    >>> ends = worst_of([Worst((1,), 2.0, least=0.5), Worst((2,), 1.5)])
    >>> ends.pattern, ends.floor, ends.amount
    ((2,), 1.5, 2.0)
    """
    every = list(found)
    surely = max(every, key=lambda worst: (worst.floor, worst.amount))
    return replace(surely, amount=max(worst.amount for worst in every), least=surely.floor)


def covered(ticks: int, asked: int | None) -> str:
    """What part of the ticks that were asked for was computed, if it is not all.

    >>> covered(24, 40), covered(24, 24)
    ('24 of 40 ticks', '')
    """
    return f"{ticks} of {asked} ticks" if asked is not None and asked > ticks else ""


def worst_neighbour(mechanism: Mechanism[Any], ticks: int) -> Worst:
    """The unit that loses most over the first ticks; any loss, if laws are not of the claim's currency.

    >>> from streamgauge.continual import Binary
    >>> from streamgauge.privacy import Pure
    >>> print(worst := worst_neighbour(Binary(Pure(1), horizon=4), 4), worst.amount)
    a unit in tick 1 1
    """
    strategy, pure = mechanism.strategy(ticks), mechanism.loss.kept_as.currency == "pure"
    how = f"matrices of {ticks} tick{'s' if ticks > 1 else ''}"
    if any(is_laplace(law) != pure for law in strategy.distributions):
        first = tuple(range(1, min(mechanism.unit.ticks, ticks) + 1))
        return Worst(first, inf, least=0.0, how=f"{how} have laws of another currency", priced=False)
    return replace(dearest(strategy, mechanism.reach, mechanism.unit), how=how)


def dearest(strategy: Strategy, reach: Reach, unit: Unit) -> Worst:
    """Of all patterns of a unit; the search is in floats, what it finds is computed exactly."""
    power = power_of(strategy)
    found = dearest_set(unit, np.abs(strategy.measure), row_costs(strategy), power)
    loss = exact_loss(strategy, reach, found.pattern)
    surely = float(loss) if strategy.measure.min() >= 0 else signed_loss(strategy, reach, found.pattern)
    if found.most > found.least:
        reached = float(reach.l1 if power == 1 else reach.l2_squared)
        return Worst(found.pattern, max(float(loss), found.most * reached), least=surely)
    return Worst(found.pattern, loss, least=None if surely == float(loss) else surely)


def signed_loss(strategy: Strategy, reach: Reach, pattern: Pattern) -> float:
    """What a unit loses that moves all of these ticks the same way."""
    power = power_of(strategy)
    moved = np.abs(strategy.measure[:, [tick - 1 for tick in pattern]].sum(axis=1))
    return float(row_costs(strategy) @ moved**power) * float(reach.l1 if power == 1 else reach.l2_squared)


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
