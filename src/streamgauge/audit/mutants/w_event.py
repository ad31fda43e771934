"""Budgets of windows that are added up wrong, by little: computation must condemn them. And a decision.

What is decided by the exact distance tells something only where the data are at its edge. A stream that was
fixed beforehand is there in few runs; who sees what was published, and chooses then, is there in all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from streamgauge.adaptive.budget_distribution import PARTS, BudgetDistribution
from streamgauge.adaptive.dissimilarity import Stale, distance
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.republishing import State
from streamgauge.audit.adapting import SpendingSubject
from streamgauge.audit.chasing import ChasedSubject
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.privacy import WEvent

W = 3
TICKS = 5
FEW, ENOUGH = 100, 1000


class ShortWindow(BudgetDistribution):
    """Budgets come back a tick too early."""

    def offered(self, history: Ints, tick: int) -> int:
        return (PARTS - int(history[self.w + 2 :].sum())) // 2


class LooksForAll(BudgetDistribution):
    """Half of epsilon is for looking; each look has the noise of all of it."""

    @cached_property
    def looking(self) -> DiscreteLaplace:
        return self.law(self.epsilon / self.w)


BROKEN: tuple[tuple[str, str, type[BudgetDistribution]], ...] = (
    (
        "Budget distribution, a window of w - 1",
        "what the first of w ticks has spent is offered again to the last",
        ShortWindow,
    ),
    (
        "Budget distribution, distances at twice their budget",
        "the noise of a distance must be for epsilon/(2 w), since publications have the other half",
        LooksForAll,
    ),
)


def every_twin(chance: Chance) -> Iterator[Twins]:
    for name, why, kind in BROKEN:
        broken, honest = (
            watched(chance, title, of)
            for title, of in ((name, kind), (f"{name}: honest", BudgetDistribution))
        )
        yield Twins(broken, honest, why, runs=FEW, counted=False)
    yield decided(chance)


def watched(chance: Chance, title: str, kind: type[BudgetDistribution]) -> SpendingSubject:
    return SpendingSubject(kind(ONE, unit=WEvent(W)), TICKS, noise=chance, title=title, most=1)


@dataclass
class Hushed:
    """Noise whose first draw is 0."""

    noise: Noise
    first: bool = True

    def laplace(self, scale: Fraction, size: int) -> Ints:
        drawn = self.noise.laplace(scale, size)
        silent, self.first = self.first, False
        return np.zeros_like(drawn) if silent else drawn

    gaussian = laplace


class DecidesExactly(BudgetDistribution):
    """The distance that is told is noisy; the one that decides is not."""

    def step(self, state: State, values: Ints, noise: Noise) -> Released:
        told = distance(state.last, values) + int(self.looking.draw(noise, 1)[0])
        release = super().step(state, values, Hushed(noise))
        bars = tuple(replace(bar, moved=told) if isinstance(bar, Stale) else bar for bar in release.bars)
        return replace(release, bars=bars)


def decided(chance: Chance) -> Twins:
    name = "Budget distribution, decided by the exact distance"
    broken, honest = (
        ChasedSubject(kind(ONE), 2, noise=chance, title=title)
        for title, kind in ((name, DecidesExactly), (f"{name}: honest", BudgetDistribution))
    )
    return Twins(broken, honest, "who has seen a publication can put the next count at the edge", runs=ENOUGH)
