"""Budgets of windows that are added up wrong: by little, so that computation must condemn them."""

from collections.abc import Iterator
from functools import cached_property

from streamgauge.adaptive.budget_distribution import PARTS, BudgetDistribution
from streamgauge.audit.adapting import SpendingSubject
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.privacy import WEvent

W = 3
TICKS = 5
FEW = 100


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


def watched(chance: Chance, title: str, kind: type[BudgetDistribution]) -> SpendingSubject:
    return SpendingSubject(kind(ONE, unit=WEvent(W)), TICKS, noise=chance, title=title, most=1)
