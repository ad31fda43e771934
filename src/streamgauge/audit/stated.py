"""A claim of (epsilon, delta), attacked as it is stated: with it, the way by which its noise was found.

An (epsilon, delta) claim is kept through a rho, and `MechanismSubject` attacks that rho. Here the claim
itself is: epsilon at its delta is computed from the laws of the noise (see `loss_curve`), and measured. So a
conversion that gives away too much is condemned, whatever the rho is.

Promise
    Epsilon at the delta lies between the two ends, for every unit. Proof: what is priced are moves and laws
    that were tried, or that are written down where the code agrees with them. Of two units under the same
    laws, the one that moves no row as far as the other does loses no more: noise whose logarithm is concave
    tells larger shifts better. The others are priced one by one or, if they are many, by the rho that none of
    them exceeds. Where the code is not linear, or not known to be, nothing is priced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from math import inf, isqrt, sqrt
from typing import Any

import numpy as np

from streamgauge.audit.exact import Pattern, Worst, patterns
from streamgauge.audit.linear import LinearView, written
from streamgauge.audit.loss_curve import Row, epsilon_between
from streamgauge.audit.mechanisms import LONG, MechanismSubject
from streamgauge.audit.subject import Pair
from streamgauge.audit.tick_sets import can_be_listed
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Approx, Zcdp

LISTED = 2000  # units that are compared
PRICED = 3  # units none of which moves all rows as far as another, and that are priced one by one

Moves = dict[float, tuple[float, ...]]  # how far rows are moved, largest first, by the parameter of the noise


@dataclass(frozen=True)
class StatedSubject:
    """All releases of the first ticks, held against an (epsilon, delta): the mechanism's own unless given."""

    mechanism: Mechanism[Any]
    ticks: int
    claim: Approx | None = None
    noise: Noise | None = field(default=None, repr=False)
    run: int | None = None  # ticks, of these, that are run in experiments

    def __post_init__(self) -> None:
        if not isinstance(self.claim or self.mechanism.loss, Approx):
            raise ValueError(f"claim must be an epsilon and a delta, got {self.mechanism.loss}")

    @property
    def name(self) -> str:
        return f"{self.mechanism!r} as stated"

    @property
    def loss(self) -> Approx:
        stated: Any = self.claim or self.mechanism.loss
        return stated  # type: ignore[no-any-return]

    @cached_property
    def kept(self) -> MechanismSubject:
        """The same releases, held against what is kept."""
        return MechanismSubject(self.mechanism, self.ticks, self.noise, self.run)

    def worst(self) -> Worst:
        """Between what the unit that loses most rho surely loses, and what no unit exceeds."""
        known = self.kept.worst()
        if known.floor == inf:  # no view of the two worlds is the same
            return known
        least = self._least(known.pattern)
        return replace(known, amount=max(least, self._most(known)), least=least)

    @property
    def _delta(self) -> float:
        return float(self.loss.delta)

    @cached_property
    def _priced(self) -> LinearView | None:
        """The view whose moves and laws are those of the code, if it tells all draws of Gaussian noise."""
        subject = self.kept
        tried = subject.tried if not subject.unlike and self.ticks <= LONG else None
        view = written(self.mechanism.strategy(self.ticks)) if subject.agrees else tried
        if view is None or view.odd or not (view.gaussian and view.injective):
            return None
        return view if all(source.draws == 1 for source in view.sources) else None

    def _least(self, pattern: Pattern) -> float:
        """Of one unit, that moves one number all ticks the same way."""
        if self._priced is None:
            return 0.0
        view, reach = self._priced, isqrt(int(self.mechanism.reach.l2_squared))
        moved = np.abs((view.inverse @ view.by_data)[:, at(pattern)].sum(axis=1)) * reach
        found = moves_of(rows(moved, [source.law for source in view.sources]))
        return between(tuple(rows_of(found)), self._delta)[0]

    def _most(self, known: Worst) -> float:
        """Over all units."""
        rho, unit = float(known.amount), self.mechanism.unit
        if not rho < inf:
            return inf
        bound = float(Zcdp(rho).as_approx(self._delta).epsilon) if rho else 0.0
        if self._measured is None or not can_be_listed(unit, self.ticks, LISTED):
            return bound
        moved, laws = self._measured
        sums = (moved[:, at(pattern)].sum(axis=1) for pattern in patterns(unit, self.ticks))
        found = undominated(moves_of(rows(each, laws)) for each in sums)
        if len(found) > PRICED:
            return bound
        return min(bound, max(between(tuple(rows_of(moves)), self._delta)[1] for moves in found))

    @cached_property
    def _measured(self) -> tuple[Floats, Sequence[Any]] | None:
        """How far each tick moves each row at most, and the laws: to one who sees all that is measured."""
        reach = sqrt(self.mechanism.reach.l2_squared)
        if self.kept.agrees:
            strategy = self.mechanism.strategy(self.ticks)
            grids = np.array(strategy.grids, np.float64)[:, None]
            return np.abs(strategy.measure) * grids * reach, strategy.distributions
        if (view := self._priced) is None:
            return None
        return np.abs(view.inverse @ view.by_data) * reach, [source.law for source in view.sources]

    def pairs(self) -> Sequence[Pair]:
        return self.kept.pairs()

    def views(self, data: Ints, runs: int) -> Floats:
        return self.kept.views(data, runs)


between = lru_cache(maxsize=16)(epsilon_between)  # of the same moves, from below and from above


def at(pattern: Pattern) -> list[int]:
    return [tick - 1 for tick in pattern]


def rows(moved: Floats, laws: Sequence[Any]) -> list[Row]:
    """But for what floats are off."""
    return [(round(float(m), 6), float(law.parameter)) for m, law in zip(moved, laws, strict=True)]


def moves_of(rows: Sequence[Row]) -> Moves:
    """
    >>> moves_of([(1, 20.0), (3, 20.0), (0, 5.0)])
    {20.0: (3, 1)}
    """
    ordered = sorted(((width, -move) for move, width in rows if move))
    groups = groupby(ordered, key=lambda row: row[0])
    return {width: tuple(-move for _, move in group) for width, group in groups}


def rows_of(moves: Moves) -> list[Row]:
    return [(move, width) for width, every in moves.items() for move in every]


def undominated(found: Iterator[Moves]) -> list[Moves]:
    """Those that no other one of them exceeds everywhere."""
    kept: list[Moves] = []
    for moves in found:
        if not any(exceeds(other, moves) for other in kept):
            kept = [other for other in kept if not exceeds(moves, other)] + [moves]
    return kept


def exceeds(one: Moves, other: Moves) -> bool:
    """
    >>> exceeds({20.0: (3, 1)}, {20.0: (2,)}), exceeds({20.0: (3, 1)}, {5.0: (1,)})
    (True, False)
    """
    return all(
        len(moves) <= len(one.get(width, ()))
        and all(most >= move for most, move in zip(one[width], moves, strict=False))
        for width, moves in other.items()
    )
