"""A timeline: the loss of one event at each input tick to one release.

    loss of one event
      rho  |   .--------.
    rho/4  |---'        '----------- ...       Step(1, 4, rho/4), Step(5, 14, rho), Step(15, None, rho/4)
           +---------------------------> tick

It covers *input* ticks: a release that looks back pays for those ticks. One run of one mechanism is one
timeline. Cut into two charges, it would count as two releases with independent noise. Their losses to one unit
add, while the loss to a single release grows with the square of the ticks that the unit touches.

Cost to one unit
    A release r charges a weight q_r(t) for one event at tick t, relative to its peak loss. A unit that touches
    the ticks W loses through it, by the triangle inequality of its currency,

    pure:  peak_r * Q        zCDP:  peak_r * Q^2        with Q = sum of q_r(t) over t in W

    So q is a ratio of epsilons, or the square root of a ratio of rhos. (If two steps of a chain of neighbours
    lose rho and rho', both lose at most (1 + 1/s) rho + (1 + s) rho' for every s > 0: Bun, Steinke 2016, Lemma
    5.2. The best s gives (sqrt rho + sqrt rho')^2.) Releases add up: grouping each and then adding is, by
    Minkowski's inequality, never more than adding and then grouping. A *native* charge is calibrated to the
    whole unit: it costs its peak, once, to every unit that touches it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import inf, lcm

from streamgauge.privacy.losses import AdditiveLoss, Approx, IntegerZcdp, Loss, Pure, Zcdp
from streamgauge.privacy.rationals import parse_whole, sqrt_up

Span = tuple[int, int | None]  # first and last tick, both included; None: it never ends
ALL_TICKS: Span = (1, None)


def check_span(first: int, last: int | None) -> Span:
    """Return an interval of ticks, checked."""
    start = parse_whole(first, "first")
    end = None if last is None else parse_whole(last, "last")
    if end is not None and end < start:
        raise ValueError(f"last must be at least first = {start}, got {last}")
    return start, end


@dataclass(frozen=True, slots=True)
class TickWeight:
    """A constant weight over an interval of ticks; `last` None: it never ends."""

    first: int
    last: int | None
    q: Fraction

    @property
    def end(self) -> float:
        return inf if self.last is None else self.last


@dataclass(frozen=True, slots=True)
class LossTerm:
    """One release's timeline: a peak loss and weights in order of time.

    The peak is in the currency of the ledger. A native term has a single weight of 1.
    """

    peak: Fraction
    weights: tuple[TickWeight, ...]
    is_native: bool = False
    first: int = field(init=False, repr=False)
    end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.weights[0].first)
        object.__setattr__(self, "end", self.weights[-1].end)

    @property
    def grain(self) -> int:
        """All weights are multiples of one over this."""
        return lcm(*(weight.q.denominator for weight in self.weights))

    def weight_at(self, tick: int) -> Fraction:
        """Return the weight at a tick, zero outside the intervals."""
        return next((w.q for w in self.weights if w.first <= tick <= w.end), Fraction(0))


@dataclass(frozen=True, slots=True)
class Step:
    """The same loss at any tick from `first` to `last` included, or for ever."""

    first: int
    last: int | None
    loss: Loss

    def __post_init__(self) -> None:
        for name, tick in zip(("first", "last"), check_span(self.first, self.last), strict=True):
            object.__setattr__(self, name, tick)
        check_loss(self.loss, "loss")


def check_loss(loss: Loss, name: str) -> None:
    """Reject all but positive losses: zero would be a credit or divide by zero."""
    if not isinstance(loss, Pure | Zcdp | IntegerZcdp | Approx):
        raise ValueError(f"{name} must be Pure, Zcdp or Approx, got {loss!r}")
    if loss.additive_loss.amount <= 0:
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

    @property
    def losses(self) -> str:
        """The different losses of its steps, as text."""
        return ", ".join(dict.fromkeys(repr(step.loss) for step in self.steps))

    def truncate(self, tick: int) -> "Timeline | None":
        """Return the timeline up to this tick; None if it had not begun."""
        remaining = [step for step in self.steps if step.first <= tick]
        if not remaining:
            return None
        final = remaining[-1]
        if final.last is None or final.last > tick:
            remaining[-1] = Step(final.first, tick, final.loss)
        return Timeline(tuple(remaining))

    @property
    def needs_integer_orders(self) -> bool:
        """True if a step bounds integer orders only."""
        return any(isinstance(step.loss, IntegerZcdp) for step in self.steps)

    def to_term(self, limit: AdditiveLoss, *, events: int, native: bool) -> LossTerm:
        """Return the timeline in the currency of `limit`, for so many events a tick.

        Pure weights are ratios of epsilons, zCDP weights square roots of ratios of rhos, rounded up if irrational.
        A pure step in zCDP counts as epsilon^2 / 2, before or after grouping: both give (sum of epsilons)^2 / 2.
        """
        amounts = [limit.restate(step.loss).amount for step in self.steps]
        peak = max(amounts)
        if native:
            return LossTerm(peak, (TickWeight(*self.span, Fraction(1)),), is_native=True)
        root: Callable[[Fraction], Fraction] = sqrt_up if limit.power == 2 else Fraction
        weights = (
            TickWeight(step.first, step.last, root(amount / peak))
            for step, amount in zip(self.steps, amounts, strict=True)
        )
        return LossTerm(peak * events**limit.power, tuple(weights))
