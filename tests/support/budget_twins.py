"""Broken twins of the mechanisms that share a window's budget: each spends too much."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BUDGET_PARTS, BudgetDistribution
from streamgauge.adaptive.w_event.republish import State
from streamgauge.noise import DiscreteLaplace, Ints


@dataclass(frozen=True)
class Forgetful(BudgetDistribution):
    """It leaves the oldest tick of the window out."""

    def max_parts(self, history: Ints, tick: int) -> int:
        return (BUDGET_PARTS - int(history[self.w + 2 :].sum())) // 2


@dataclass(frozen=True)
class Rounding(BudgetDistribution):
    """Its budgets are floats, and a thousandth is forgiven."""

    def max_parts(self, history: Ints, tick: int) -> int:
        left = 1 - float(history[self.w + 1 :].sum()) / BUDGET_PARTS
        return round((left + 0.001) / 2 * BUDGET_PARTS)


@dataclass(frozen=True)
class Greedy(BudgetAbsorption):
    """It takes the budgets of skipped ticks and skips none afterwards."""

    def max_parts(self, history: Ints, tick: int) -> int:
        places = np.flatnonzero(history)
        return min(len(history) - int(places[-1]), self.w) if len(places) else 1


@dataclass(frozen=True)
class Loud(BudgetAbsorption):
    """A twin whose distances take all of epsilon, as if they were all that is published. It even says so."""

    @property
    def distance_noise(self) -> DiscreteLaplace:
        return self.build_law(self.epsilon / self.w)

    def spent_budget(self, state: State) -> Fraction:
        return super().spent_budget(state) + self.epsilon * min(state.tick, self.w) / (2 * self.w)
