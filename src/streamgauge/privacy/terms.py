"""What a release costs one unit, as the ledger reckons it.

A release r charges a weight q_r(t) for one event at tick t, relative to its peak loss. A unit that touches
the ticks W loses through it, by the triangle inequality of its currency,

    pure:  peak_r * Q        zCDP:  peak_r * Q^2        with Q = sum of q_r(t) over t in W

so q is a ratio of epsilons, or the square root of a ratio of rhos. (If two steps of a chain of neighbours
lose rho and rho', both lose at most (1 + 1/s) rho + (1 + s) rho' for every s > 0: Bun, Steinke 2016, Lemma
5.2; the best s gives (sqrt rho + sqrt rho')^2.) Releases add up: grouping each and then adding is, by
Minkowski's inequality, never more than adding and then grouping. A *native* charge is calibrated to the whole
unit: it costs its peak, once, to every unit that touches it.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, lcm

from streamgauge.privacy.exact import whole

Span = tuple[int, int | None]  # first and last tick, both included; None: it never ends
EVERYWHERE: Span = (1, None)


def span(first: int, last: int | None) -> Span:
    """An interval of ticks, checked."""
    start = whole(first, "first")
    end = None if last is None else whole(last, "last")
    if end is not None and end < start:
        raise ValueError(f"last must be at least first = {start}, got {last}")
    return start, end


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant weight over an interval of ticks; `last` None: it never ends."""

    first: int
    last: int | None
    q: Fraction

    @property
    def end(self) -> float:
        return inf if self.last is None else self.last


@dataclass(frozen=True, slots=True)
class Term:
    """One release's timeline: a peak loss, in the currency of the ledger, and weights in order of time.

    A native one has a single weight of 1: its peak is what matters, and that it is touched.
    """

    peak: Fraction
    weights: tuple[Weight, ...]
    native: bool = False

    @property
    def first(self) -> int:
        return self.weights[0].first

    @property
    def end(self) -> float:
        return self.weights[-1].end

    @property
    def grain(self) -> int:
        """All weights are multiples of one over this."""
        return lcm(*(weight.q.denominator for weight in self.weights))

    def weight(self, tick: int) -> Fraction:
        """Its weight at a tick, zero outside its intervals."""
        return next((w.q for w in self.weights if w.first <= tick <= w.end), Fraction(0))
