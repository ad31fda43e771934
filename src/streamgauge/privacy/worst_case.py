"""The worst-case set of any k ticks, and window of w consecutive ticks.

Sets: the loss of user-level units
    The timeline is cut into segments of constant weights. n_s of the unit's k ticks lie in segment s, at most
    as many as it has. Pure losses are linear in n: the k largest ticks are the worst, exactly. zCDP losses are
    n'Gn with G_st = sum_r peak_r q_r(s) q_r(t) >= 0:

    1. If the segment of largest G_ss has k ticks, the answer is k^2 G_ss. By Minkowski's inequality
       sqrt(n'Gn) <= sum_s n_s sqrt(G_ss), which is at most that, and it is attained there. So it is exact
       if the largest tick lasts, as under every open-ended charge.
    2. Else n'Gn = sum_s n_s (Gn)_s <= max_n sum_s n_s h_s with h_s = max_n (Gn)_s, two linear problems, solved
       greedily. This upper bound is never above Minkowski's since G_st <= sqrt(G_ss G_tt). It is exact if
       the ticks of all releases together are at most k. (On small random timelines it is at most 25 %
       above the truth, 2 % on average.)
    3. With more than MAX_FINE_SEGMENTS segments, Minkowski's bound itself, square roots rounded up.

    Native charges add the most that k ticks can touch of them. The two maxima are added, which can only be more.

Windows, exactly: the loss of event and w-event units
    Let the window start at s and slide. Its overlap with the interval [f, l] is

    R(s + w - f) - R(s - f) - R(s + w - l - 1) + R(s - l - 1)        R(x) = max(x, 0)

    So every Q (see timeline.py) is linear in s but for *bends* at f - w, f, l + 1 - w and l + 1. Between two
    bends the sum of all losses is convex in s, and so largest at one of them. A native charge jumps instead: up
    at f - w + 1, down at l + 1. A convex piece that ends before a jump is evaluated at its last place too.
    One sweep over the sorted bends updates the total as level + slope d + curve d^2, d ticks on, in integers.
    n charges cost O(n log n), for any number of ticks.

Sets of k ticks in a window of w: the loss of users whose contributions renew
    The starts of windows are cut into stretches. The windows of a stretch lie in one interval, and charges are cut
    off there (`cut_terms`). The worst set of the interval bounds that of each of them. Any stretches would do. They
    change where a charge comes into reach or leaves it, so charges that no window touches together never add up.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import ceil, inf, lcm

from streamgauge.privacy.rationals import sqrt_up
from streamgauge.privacy.timeline import ALL_TICKS, LossTerm, Span, TickWeight

MAX_STRETCHES = 64  # of starts of windows, each with a worst set of its own
MAX_FINE_SEGMENTS = 64  # segments, or native charges, up to which the finer answer is worked out


@dataclass(frozen=True, slots=True)
class _CostSegment:
    """A maximal stretch of ticks with the same charges."""

    start: int
    length: float
    cost: Fraction  # of one event at one of its ticks


def worst_case_set(
    terms: Sequence[LossTerm], power: int, k: int, max_fine_segments: int = MAX_FINE_SEGMENTS
) -> Fraction:
    """Return the most that a unit of any k ticks loses, or a bound above it."""
    rates = [term for term in terms if not term.is_native]
    native = _native_cost([term for term in terms if term.is_native], k, max_fine_segments)
    if power == 1:
        return native + _sum_greedily([(each.cost, each.length) for each in _build_segments(rates, 1)], k)
    return native + _quadratic_cost(rates, k, max_fine_segments)


def _quadratic_cost(terms: Sequence[LossTerm], k: int, max_fine_segments: int) -> Fraction:
    segments = _build_segments(terms, 2)
    if not segments:
        return Fraction(0)
    costliest = max(segments, key=lambda segment: (segment.cost, segment.length))
    if costliest.length >= k:
        return k * k * costliest.cost
    if len(segments) <= max_fine_segments:
        return _gram_bound(terms, segments, k)
    return costliest.cost * _sum_greedily([(sqrt_up(s.cost / costliest.cost), s.length) for s in segments], k) ** 2


def _build_segments(terms: Sequence[LossTerm], power: int) -> list[_CostSegment]:
    """Return the stretches at which one event loses anything, in order."""
    changes: defaultdict[int, Fraction] = defaultdict(Fraction)
    for term in terms:
        for weight in term.weights:
            cost = term.peak * weight.q**power
            changes[weight.first] += cost
            if weight.last is not None:
                changes[weight.last + 1] -= cost
    total, found = Fraction(0), []
    for start, end in pairwise([*sorted(changes), inf]):
        total += changes[int(start)]
        if total:
            found.append(_CostSegment(int(start), end - start, total))
    return found


def _sum_greedily(worth: Sequence[tuple[Fraction, float]], k: int) -> Fraction:
    """Return the most that k ticks are worth, where only so many have each worth."""
    total, left = Fraction(0), k
    for value, length in sorted(worth, reverse=True):
        ticks = int(min(length, left))
        total, left = total + ticks * value, left - ticks
    return total


def _gram_bound(terms: Sequence[LossTerm], segments: Sequence[_CostSegment], k: int) -> Fraction:
    """max_n sum_s n_s max_n (Gn)_s."""
    columns = [[term.weight_at(segment.start) for term in terms] for segment in segments]
    lengths = [segment.length for segment in segments]
    rows = []
    for column in columns:
        charged = [(i, term.peak * column[i]) for i, term in enumerate(terms) if column[i]]
        gram = [sum((cost * other[i] for i, cost in charged), Fraction(0)) for other in columns]
        rows.append(_sum_greedily(list(zip(gram, lengths, strict=True)), k))
    return _sum_greedily(list(zip(rows, lengths, strict=True)), k)


def _native_cost(terms: Sequence[LossTerm], k: int, max_fine_segments: int) -> Fraction:
    """Return the most that native charges cost a unit that touches any k ticks.

    Exact up to `max_fine_segments` charges. Some best set has its ticks at first ticks of charges: move each tick back
    to the latest first tick of the charges it touches. After a tick p the next, p', adds the charges that start after
    p, by p' at the latest, and have not ended at p'. With more charges the bound is k times the largest tick, or all.
    """
    everything = sum((term.peak for term in terms), Fraction(0))
    if len(terms) <= k:
        return everything
    if len(terms) > max_fine_segments:
        return min(everything, k * max(segment.cost for segment in _build_segments(terms, 1)))
    points = sorted({term.first for term in terms})
    added = {(p, q): _added_cost(terms, p, q) for q in points for p in [0, *points] if p < q}
    best = {0: Fraction(0)}
    for _ in range(min(k, len(points))):
        best = {0: Fraction(0)} | {q: max(best[p] + added[p, q] for p in best if p < q) for q in points}
    return max(best.values())


def _added_cost(terms: Sequence[LossTerm], before: int, point: int) -> Fraction:
    """Return the cost of the charges that a tick touches and the last does not."""
    return sum((term.peak for term in terms if before < term.first <= point <= term.end), Fraction(0))


def worst_case_window(terms: Sequence[LossTerm], power: int, w: int, touching: Span = ALL_TICKS) -> Fraction:
    """Return the most that w consecutive ticks lose, if they touch `touching`.

    A window touches it if it ends at its first tick or later and starts at its last tick or earlier. So an
    interval whose first tick comes after its last is touched by the windows that reach from one to the other.
    """
    first, last = touching
    low, high = first - w + 1, inf if last is None else last
    near = [term for term in terms if term.first < high + w and term.end > first - w]
    sweep = _Sweep(power, w, lcm(*(term.peak.denominator * term.grain**power for term in near)))
    for term in near:
        (sweep.add_jump if term.is_native else sweep.add_ramp)(term)
    sweep.add_start(low)
    if last is not None:
        sweep.add_start(last)
    return Fraction(sweep.max_total(low, high), sweep.unit)


@dataclass(slots=True)
class _Ramp:
    """One term's Q while the window slides: its value at `start`, and its slope from there."""

    peak: int
    power: int
    start: int = 0
    value: int = 0
    slope: int = 0

    def bend(self, start: int, change: int) -> tuple[int, int]:
        """Slide to `start` and bend; return the changes of slope and curve there."""
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

    def add_start(self, start: int) -> None:
        """Make sure that the window from `start` is weighed."""
        self.bends[start] = self.bends[start]

    def add_ramp(self, term: LossTerm) -> None:
        grain = term.grain
        ramp = _Ramp(int(term.peak * self.unit / grain**self.power), self.power)
        for weight in term.weights:
            q = int(weight.q * grain)
            self.bends[weight.first - self.w].append((ramp, q))
            self.bends[weight.first].append((ramp, -q))
            if weight.last is not None:
                self.bends[weight.last + 1 - self.w].append((ramp, -q))
                self.bends[weight.last + 1].append((ramp, q))

    def add_jump(self, term: LossTerm) -> None:
        height, last = int(term.peak * self.unit), term.weights[-1].last
        self._add_step(term.first - self.w + 1, height)
        if last is not None:
            self._add_step(last + 1, -height)

    def _add_step(self, start: int, height: int) -> None:
        self.jumps[start] += height
        self.add_start(start - 1)
        self.add_start(start)

    def max_total(self, low: int, high: float) -> int:
        """Return the largest total over starts from `low` to `high`."""
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


def cut_terms(groups: Sequence[Sequence[LossTerm]], w: int, touching: Span = ALL_TICKS) -> list[list[list[LossTerm]]]:
    """Return groups of charges, cut off at intervals that hold every window of w ticks that touches `touching`."""
    low, high = touching[0] - w + 1, inf if touching[1] is None else touching[1]
    every = [term for group in groups for term in group]
    changes = {low, *(term.first - w + 1 for term in every), *(int(term.end) + 1 for term in every if term.end < inf)}
    starts = sorted(start for start in changes if low <= start <= high)
    together = max(1, ceil(len(starts) / MAX_STRETCHES))
    bounds: list[float] = [*starts[::together], high + 1]
    return [
        [[part for term in group if (part := _cut_term(term, first, after + w - 2)) is not None] for group in groups]
        for first, after in pairwise(bounds)
    ]


def _cut_term(term: LossTerm, first: float, last: float) -> LossTerm | None:
    """Return the part of a charge at these ticks, or None."""
    weights = tuple(
        TickWeight(int(max(weight.first, first)), int(end) if (end := min(weight.end, last)) < inf else None, weight.q)
        for weight in term.weights
        if weight.first <= last and first <= weight.end
    )
    return LossTerm(term.peak, weights, term.is_native) if weights else None
