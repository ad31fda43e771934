"""A view of a run that is linear in the data and in the draws: D x + N z, and the least cost of hiding x.

Both maps are either what a mechanism writes down (its `Strategy`), or found by trying: one event at a time,
one draw at a time, without any help of the mechanism, so that a register without noise has nowhere to hide.

    an event moves the view by D e        a shift s of the draws hides it if N s = D e

Promise
    Under discrete Laplace noise the loss of an event is at least `Cost.least` and at most `Cost.most`. Proof:
    a whole shift maps the draws of one world to those of the other, view by view, and moves their weight by
    at most its cost. And far out along D e a view has weight exp(-|v|) but for a polynomial, where |v| is the
    least cost over real shifts, a norm: |k De| - |(k - 1) De| = |De|, so that no less holds for all k.
    Under discrete Gaussian noise both are the least squares, which are the rho of continuous noise.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, log2

import numpy as np
from scipy.optimize import LinearConstraint, milp

from streamgauge.audit.exact import is_laplace, price
from streamgauge.continual import Strategy
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import CountedNoise, ImpulseNoise, SilentNoise

NEAR = 1e-6  # relative: what rounding may be off in a view that is hidden
CLOSE = 1e-9  # and what floats may
TINY = 1e-30
View = Callable[[Ints, Noise], Floats]  # of the values of all ticks: all that is seen, in one row


@dataclass(frozen=True)
class Source:
    """Draws that are seen only in one sum."""

    law: Distribution
    draws: int = 1

    @property
    def variance(self) -> float:
        """Never quite 0, as that of a law may be that hardly ever draws another number."""
        return max(self.law.variance, TINY) * self.draws


@dataclass(frozen=True)
class Cost:
    """Between which numbers the loss of an event is; infinite if no shift hides it."""

    least: float
    most: float


@dataclass(frozen=True, eq=False)
class LinearView:
    """What is seen of one group's run."""

    by_data: Floats  # D: a row for each number of the view, a column for each tick
    by_noise: Floats  # N: a column for each source
    sources: tuple[Source, ...]

    @property
    def laplace(self) -> bool:
        return bool(self.sources) and is_laplace(self.sources[0].law)

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

    @property
    def prices(self) -> Floats:
        """What a shift of each source costs, or its square: less for a sum of several Gaussian draws."""
        found = ((float(price(source.law)), 1 if self.laplace else source.draws) for source in self.sources)
        return np.array([cost / draws for cost, draws in found])

    @property
    def gram(self) -> Floats:
        """What two ticks cost together under Gaussian noise, where they can be hidden at all."""
        shifts = self.inverse @ self.by_data
        return np.asarray((shifts.T * self.prices) @ shifts)

    @property
    def quick(self) -> bool:
        """Whether costs are had without a linear program."""
        return not self.laplace or self.injective

    def agrees(self, other: "LinearView") -> bool:
        """Whether data move both views alike, and noise makes both as wide."""
        wide = [view.by_noise * view.deviations for view in (self, other)]
        both = [(self.by_data, other.by_data), (wide[0] @ wide[0].T, wide[1] @ wide[1].T)]
        return all(
            one.shape == two.shape and np.allclose(one, two, rtol=NEAR, atol=NEAR * np.abs(two).max())
            for one, two in both
        )

    def cost(self, move: Floats) -> Cost:
        """What it costs to hide data that move so far, tick by tick."""
        target = self.by_data @ move
        shift = self.inverse @ target
        if np.abs(self.by_noise @ shift - target).max(initial=0.0) > NEAR * np.abs(target).max(initial=0.0):
            return Cost(inf, inf)
        if not self.laplace:
            return Cost(*[float(self.prices @ shift**2)] * 2)
        prices = self.prices
        if self.injective:
            return Cost(*[float(prices @ np.abs(shift))] * 2)
        return Cost(*(cheapest(self.by_noise, target, prices, whole=whole) for whole in (False, True)))


def cheapest(by_noise: Floats, target: Floats, prices: Floats, *, whole: bool) -> float:
    """The least sum of |shift| prices over real or whole shifts that move the view to `target`."""
    both = np.hstack([by_noise, -by_noise])
    close = CLOSE * max(1.0, float(np.abs(target).max()))
    limits = LinearConstraint(both, target - close, target + close)
    costs = np.concatenate([prices, prices])
    found = milp(costs, constraints=limits, integrality=np.full(len(costs), int(whole)))
    return float(found.fun) if found.success else inf


def written(strategy: Strategy) -> LinearView:
    """All releases, as a mechanism writes them down."""
    drawn = Counter(strategy.draws)
    rows = [row for row in range(len(strategy.distributions)) if strategy.decode[:, row].any()]
    grids = np.array(strategy.grids, np.float64)
    sources = tuple(Source(strategy.distributions[row], drawn[row]) for row in rows)
    return LinearView(strategy.workload, (strategy.decode / grids)[:, rows], sources)


def tried(view: View, ticks: int) -> LinearView:
    """Any view, by trying: nothing, then one event at a time, then one draw at a time."""
    nothing = np.zeros(ticks, np.int64)
    counted = CountedNoise(SilentNoise())
    silent = view(nothing, counted)
    events = [view(one, SilentNoise()) - silent for one in np.eye(ticks, dtype=np.int64)]
    laws = [law_of(kind, value) for kind, value, size in counted.requests for _ in range(size)]
    pushes = [pushed(law) for law in laws]
    draws = [
        (view(nothing, ImpulseNoise(number, push)) - silent) / push for number, push in enumerate(pushes)
    ]
    return summed(np.array(events).T, draws, laws)


def pushed(law: Distribution) -> int:
    """How far a draw is pushed that is tried: large enough for what rounds to pass it on."""
    return 1 << max(0, int(log2(max(1.0, law.variance))) // 2)


def law_of(kind: str, value: Fraction) -> Distribution:
    laws: dict[str, type[DiscreteLaplace] | type[DiscreteGaussian]] = {
        "laplace": DiscreteLaplace,
        "gaussian": DiscreteGaussian,
    }
    return laws[kind](value)


def summed(by_data: Floats, draws: list[Floats], laws: list[Distribution]) -> LinearView:
    """With draws that are seen alike as one source, and those that are not seen left out."""
    alike: dict[tuple[bytes, Distribution], int] = {}
    columns: dict[tuple[bytes, Distribution], Floats] = {}
    for column, law in zip(draws, laws, strict=True):
        if column.any():
            key = (column + 0.0).tobytes(), law
            alike[key] = alike.get(key, 0) + 1
            columns[key] = column
    sources = tuple(Source(law, count) for (_, law), count in alike.items())
    return LinearView(by_data, np.array(list(columns.values())).T.reshape(len(by_data), -1), sources)
