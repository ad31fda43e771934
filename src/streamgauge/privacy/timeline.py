"""A timeline: what one event at each input tick would lose to one release.

    loss of one event
      rho  |   .--------.
    rho/4  |---'        '----------- ...       Step(1, 4, rho/4), Step(5, 14, rho), Step(15, None, rho/4)
           +---------------------------> tick

It covers *input* ticks: a release that looks back pays for the ticks it looks back on. One run of one
mechanism is one timeline. Cut into two charges it would be taken for two releases with independent noise,
whose losses to one unit add, where those of a single one grow with the square of what the unit touches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from streamgauge.privacy.exact import sqrt_up
from streamgauge.privacy.losses import Approx, Loss, Pure, Zcdp
from streamgauge.privacy.terms import Span, Term, Weight, span


@dataclass(frozen=True, slots=True)
class Step:
    """The same loss for one event at any tick from `first` to `last`, both included, or for ever."""

    first: int
    last: int | None
    loss: Loss

    def __post_init__(self) -> None:
        for name, tick in zip(("first", "last"), span(self.first, self.last), strict=True):
            object.__setattr__(self, name, tick)
        check_loss(self.loss, "loss")


def check_loss(loss: Loss, name: str) -> None:
    """Refuses what is no loss, and a loss of nothing, which would be a credit or a division by zero."""
    if not isinstance(loss, Pure | Zcdp | Approx):
        raise ValueError(f"{name} must be Pure, Zcdp or Approx, got {loss!r}")
    if loss.kept_as.amount <= 0:
        raise ValueError(f"{name} must be positive, got {loss!r}")


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps in order of time that do not overlap; ticks between them lose nothing."""

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("steps must be at least one, got none")
        for before, after in pairwise(self.steps):
            if before.last is None or after.first <= before.last:
                raise ValueError(f"steps must follow each other, got {after} after {before}")

    @property
    def span(self) -> Span:
        return self.steps[0].first, self.steps[-1].last

    def until(self, tick: int) -> "Timeline | None":
        """What is left if it ends with this tick; None if it had not begun."""
        kept = [step for step in self.steps if step.first <= tick]
        if not kept:
            return None
        final = kept[-1]
        if final.last is None or final.last > tick:
            kept[-1] = Step(final.first, tick, final.loss)
        return Timeline(tuple(kept))

    def term(self, limit: Pure | Zcdp, *, events: int, native: bool) -> Term:
        """This timeline in the currency of `limit`, for units of so many events a tick.

        Pure weights are ratios of epsilons, zCDP weights square roots of ratios of rhos, rounded up where
        they are irrational. A pure step in zCDP counts as epsilon^2 / 2, before or after grouping: both give
        (sum of epsilons)^2 / 2.
        """
        amounts = [limit.restate(step.loss).amount for step in self.steps]
        peak = max(amounts)
        if native:
            return Term(peak, (Weight(*self.span, Fraction(1)),), native=True)
        root: Callable[[Fraction], Fraction] = sqrt_up if limit.power == 2 else Fraction
        weights = (
            Weight(step.first, step.last, root(amount / peak))
            for step, amount in zip(self.steps, amounts, strict=True)
        )
        return Term(peak * events**limit.power, tuple(weights))
