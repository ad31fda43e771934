"""The dearest window of w consecutive ticks, exactly: what event and w-event units lose.

Let the window start at s and slide. Its overlap with the interval [f, l] is

    R(s + w - f) - R(s - f) - R(s + w - l - 1) + R(s - l - 1)        R(x) = max(x, 0)

so every Q (see terms.py) is linear in s but for *bends* at f - w, f, l + 1 - w and l + 1. Between two bends
the sum of all losses is convex in s, and so largest at one of them. A native charge jumps instead: up at
f - w + 1, down at l + 1; a convex piece that ends before a jump is looked at in its last place too.

One sweep over the sorted bends keeps the total as level + slope d + curve d^2, d ticks on, in integers: n
charges cost O(n log n), whatever the number of ticks.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, lcm

from streamgauge.privacy.terms import EVERYWHERE, Span, Term


def dearest_window(terms: Sequence[Term], power: int, w: int, touching: Span = EVERYWHERE) -> Fraction:
    """The most that a unit of w consecutive ticks loses, over all windows that touch `touching`.

    A window touches it if it ends at its first tick or later and starts at its last tick or earlier. So an
    interval whose first tick comes after its last is touched by the windows that reach from one to the other.
    """
    first, last = touching
    low, high = first - w + 1, inf if last is None else last
    near = [term for term in terms if term.first < high + w and term.end > first - w]
    sweep = _Sweep(power, w, lcm(*(term.peak.denominator * term.grain**power for term in near)))
    for term in near:
        (sweep.jump if term.native else sweep.ramp)(term)
    sweep.look(low)
    if last is not None:
        sweep.look(last)
    return Fraction(sweep.highest(low, high), sweep.unit)


@dataclass(slots=True)
class _Ramp:
    """One term's Q while the window slides: its value at `start`, and its slope from there."""

    peak: int
    power: int
    start: int = 0
    value: int = 0
    slope: int = 0

    def bend(self, start: int, change: int) -> tuple[int, int]:
        """Slides to `start` and bends; returns how slope and curve of its loss change there."""
        self.value += self.slope * (start - self.start)
        old, self.start, self.slope = self.slope, start, self.slope + change
        if self.power == 1:
            return self.peak * change, 0
        return 2 * self.peak * self.value * change, self.peak * (self.slope**2 - old**2)


@dataclass(slots=True)
class _Sweep:
    """All bends and jumps by the start of the window; losses are counted in units of 1/unit."""

    power: int
    w: int
    unit: int
    bends: defaultdict[int, list[tuple[_Ramp, int]]] = field(default_factory=lambda: defaultdict(list))
    jumps: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def look(self, start: int) -> None:
        """Makes sure that the window from `start` is weighed."""
        self.bends[start] = self.bends[start]

    def ramp(self, term: Term) -> None:
        grain = term.grain
        ramp = _Ramp(int(term.peak * self.unit / grain**self.power), self.power)
        for weight in term.weights:
            q = int(weight.q * grain)
            self.bends[weight.first - self.w].append((ramp, q))
            self.bends[weight.first].append((ramp, -q))
            if weight.last is not None:
                self.bends[weight.last + 1 - self.w].append((ramp, -q))
                self.bends[weight.last + 1].append((ramp, q))

    def jump(self, term: Term) -> None:
        height, last = int(term.peak * self.unit), term.weights[-1].last
        self._step(term.first - self.w + 1, height)
        if last is not None:
            self._step(last + 1, -height)

    def _step(self, start: int, height: int) -> None:
        self.jumps[start] += height
        self.look(start - 1)
        self.look(start)

    def highest(self, low: int, high: float) -> int:
        """The largest total over starts from `low` to `high`."""
        at = level = slope = curve = worst = 0
        for start in sorted(self.bends):
            if start > high:
                break
            ahead, at = start - at, start
            level += slope * ahead + curve * ahead**2 + self.jumps[start]
            slope += 2 * curve * ahead
            for ramp, change in self.bends[start]:
                steeper, rounder = ramp.bend(start, change)
                slope, curve = slope + steeper, curve + rounder
            worst = max(worst, level) if start >= low else worst
        return worst
