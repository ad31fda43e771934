"""Approximate zCDP, and split bounds of an (epsilon, delta) budget.

Definition
    Discovered keys need a delta for their thresholds, apart from the loss of their counters. Write P, Q for the
    law of a release on neighbours x, x'. It is *delta-approximately rho-zCDP* if in either order of the two
    there are measures p, q of mass at most 1 with

    P(S) <= p(S) + delta for all S        q(S) <= Q(S) for all S        D_a(p, q) <= a rho for all a > 1

    D_a is the Renyi divergence, ln of the sum of p^a q^(1-a), divided by a - 1.

Composition (adaptive): rhos and deltas add
    Sums of p^a q^(1-a) multiply, as for zCDP, and q1 q2 <= Q1 Q2. For any S, P1 P2(S) is the mean under P1 of
    P2(S | first), which is at most delta_2 + p2(S | first). Since p2 is in [0, 1], its mean under P1 is at
    most delta_1 more than under p1.
Conversion: (epsilon, delta + delta') if rho-zCDP implies (epsilon, delta')
    P(S) <= p(S) + delta <= e^epsilon q(S) + delta' + delta. The second step rests on an inequality between
    densities, p - e^epsilon q <= c p^a q^(1-a), which needs no mass of 1. So under a budget of
    (epsilon, delta), deltas of sum d are allowed if rhos sum to at most
    `rho_from_approx(epsilon, delta - d)`: converted once, at the remaining delta.

Discovered keys (the names are those of `streamgauge.statistics.keys.discovery`)
    The release is f_x(C(x)). C are the counters, and f_x is post-processing that depends on x by the times at
    which keys are eligible. On C(x) itself, f_x and f_x' differ with probability at most delta_2. So
    p = f_x'(C(x)) differs from P = f_x(C(x)) by at most delta_2, q = Q = f_x'(C(x')), and
    D_a(p, q) <= D_a(C(x), C(x')) <= a rho. This is delta_2-approximately rho-zCDP. rho is the loss of the
    counters to the unit over the whole stream, epsilon^2/2 if they are pure.
    Interleaved releases, each step in view of all others: use the same noise under f_x and under f_x'. All
    outputs are the same until one of them differs. To each release, the others and the author of the data
    are one adversary, with noise that is not its own. So some release differs with probability at most the
    sum of the deltas. Counters remain, and their zCDP composes concurrently.

Units
    A unit loses the whole delta of every release that reads any of it, and none of others. On ticks that a
    release never ingests, x and x' are the same to it. So deltas add up as native charges do, over ticks W
    that the unit touches, and ticks that were never ingested are free again. Thresholds are calibrated to the
    unit itself. Group privacy has no such theorem here (p of one step is not P of the next). So a delta in
    addition to the loss of one event is rejected if units have several events.

Reference
    Bun, Steinke 2016, Definition 8.1: their p and q are 1 - delta times P and Q given events at least that
    likely, which is a special case. It is not enough here: given that no key fails, the divergence of the
    counters may exceed rho.

Split bounds: some pure charges add up in epsilon, all others compose as zCDP and convert once
    Under a budget of (epsilon, delta) a unit loses e_1, ..., e_n to pure releases, rho to zCDP releases and d
    in deltas. For every set S of the pure releases, with f(rho) the conversion at delta - d,

    sum of e_i over S  +  f(rho + sum of e_i^2 / 2 over the others)                                        (1)

    bounds the epsilon that it loses at this delta. The ledger uses the least of them. Without a zCDP part (S
    has all releases, rho = 0) f is 0, and deltas may use all of delta.

Proof of (1), for releases that are adaptive and interleaved
    Fix the adversary, who chooses every input, and neighbours x, x'. Write M for the releases in S, N for all
    others, and M(x), N(x) for their runs. First replace the eligible keys of discovered groups by those of
    x'. All outputs are the same but with probability d (see above), and only counters remain. To the releases
    N, the adversary and M(x) together are one adversary. N composes concurrently to zCDP. So for every set T
    of outputs

        P[M(x), N(x) in T]  <=  e^f P[M(x), N(x') in T] + delta - d.

    With N(x') fixed, the probability of a transcript is a product: the answers of M, and everything else. The
    first factor changes by at most e^(sum of e_i over S), so that

        P[M(x), N(x') in T]  <=  e^(sum of e_i over S) P[M(x'), N(x') in T].

    Together they are (1) at delta. In this order no delta is multiplied by an e^epsilon.

The best S is a threshold
    f is the least of functions alpha rho + c(alpha) over the orders alpha > 1 (conversions.py). So the least
    (1) is

        min over alpha of    c(alpha) + alpha rho + sum over i of min(e_i, alpha e_i^2 / 2),

    and at the best alpha, S has the releases with e_i > 2 / alpha: the largest ones. (It is the Renyi bound
    in which a pure release counts min(e, alpha e^2 / 2).) So n + 1 sets are enough, fewer if amounts repeat.
    An f below 0 counts as 0. The best threshold is then at most -ln(1 - delta) above the best
    set: a conversion that holds for equal outputs is at least ln(1 - delta).

Profiles
    The least of (1) is computed for each profile of a unit (loss_profiles.py), and the largest of these counts.
    If there are too many profiles, one S is chosen for all units of a part, and both sums are the largest over
    units. This is a bound for each S. With an empty S it is the bound of zCDP alone.

Rounding
    Floats choose the sets that are tried. Fractions, and conversions that are rounded up, decide.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np

from streamgauge.privacy.conversions import (
    Floats,
    epsilon_from_rho,
    estimate_epsilons,
    estimate_rhos,
    log_fraction,
    rho_from_approx,
    rho_from_epsilon,
)
from streamgauge.privacy.errors import PrivacyError
from streamgauge.privacy.loss_profiles import ChargeTerms, LossProfile, find_profiles
from streamgauge.privacy.rationals import format_rational
from streamgauge.privacy.timeline import ALL_TICKS, LossTerm, Span, Timeline
from streamgauge.privacy.units import Unit, WEvent
from streamgauge.privacy.worst_case import cut_terms


def check_whole_unit(delta: Fraction, unit: Unit, timeline: Timeline, *, native: bool, per_tick: bool) -> None:
    """Reject a delta, or bounds at integer orders, next to a loss that has to be scaled to the unit.

    Group privacy of zCDP passes through orders that are not integers.
    """
    if native or (unit.ticks == 1 and (per_tick or unit.events == 1)):
        return
    rule = "unless the loss is of the whole unit (native=True)"
    if delta:
        raise PrivacyError(f"delta must be 0 {rule}, got {format_rational(delta)} with a loss of part of {unit}")
    if timeline.needs_integer_orders:
        raise PrivacyError(f"loss must be one of all orders {rule}, got {timeline.losses} of part of {unit}")


def partition_by_delta(slacks: Sequence[LossTerm], unit: Unit, touching: Span) -> list[tuple[Fraction, Span]]:
    """Return parts of the units that touch an interval, each with its delta.

    If units are windows of w ticks, parts are exact. A window that starts from a to b touches, as
    `worst_case_window` defines it, the interval from a + w - 1 to b. The deltas it loses change at starts
    first - w + 1 and last + 1 of a charge. Other units are one part, at the most that any of them loses.
    """
    if not slacks:
        return [(Fraction(0), touching)]
    if not unit.consecutive:
        return [(unit.worst_case_loss(slacks, 1, touching), touching)]
    w, (first, last) = unit.ticks, touching
    low = first - w + 1
    ends = [term.weights[-1].last for term in slacks]
    jumps = {term.first - w + 1 for term in slacks} | {end + 1 for end in ends if end is not None}
    starts = sorted({low} | {start for start in jumps if start > low and (last is None or start <= last)})
    until = [start - 1 for start in starts[1:]]
    parts = []
    for a, b in zip(starts, [*until, last], strict=True):
        delta = sum((term.peak for term in slacks if term.first < a + w and a <= term.end), Fraction(0))
        parts.append((delta, (a + w - 1, b)))
    return parts


ZERO = Fraction(0)
MAX_EXACT_SPLITS = 3  # sets whose bounds are worked out exactly
THRESHOLD_COUNT = 3  # none, half and all add up, if both sums are over all units


@dataclass(frozen=True, slots=True)
class LossSplit:
    """The sum of the epsilons that add up, and the rho of everything else."""

    epsilon: Fraction
    rho: Fraction


@dataclass(frozen=True, slots=True)
class LossBound:
    """A bound on the loss of some units: every split is one, at the same delta."""

    splits: tuple[LossSplit, ...]
    delta: Fraction = ZERO


def build_loss_bounds(terms: ChargeTerms, unit: Unit, touching: Span) -> list[LossBound]:
    """Return loads of which every unit that touches the interval has at most one.

    Ticks of a unit that lie in a window touch no native charge that the window does not touch.
    """
    span = getattr(unit, "span", None)
    if unit.consecutive or span is None:
        return _build_loss_bounds(terms, unit, touching)
    if all(term.is_native for term in terms.all_terms):
        return _build_loss_bounds(terms, WEvent(span), touching)
    parts = cut_terms((terms.pure, terms.zcdp, terms.delta_terms), span, touching)
    cut = (ChargeTerms(*map(tuple, part)) for part in parts)
    return [bound for part in cut for bound in _build_loss_bounds(part, unit, ALL_TICKS)]


def _build_loss_bounds(terms: ChargeTerms, unit: Unit, touching: Span) -> list[LossBound]:
    profiles = None
    if terms.pure or not unit.consecutive:  # without pure charges a sweep over windows is exact
        profiles = find_profiles(terms, unit, touching)
    if profiles is None:
        parts = partition_by_delta(terms.delta_terms, unit, touching)
        return [LossBound(tuple(_split_terms(terms, unit, where)), delta) for delta, where in parts]
    return [LossBound(tuple(split_profile(profile)), profile.delta) for profile in profiles]


def split_profile(profile: LossProfile) -> list[LossSplit]:
    """Return the threshold splits of one unit.

    The largest pure amounts add up, from none of them to all.
    """
    rho = profile.rho + sum((n * rho_from_epsilon(e) for e, n in profile.pure.items()), ZERO)
    splits = [LossSplit(ZERO, rho)]
    for amount in sorted(profile.pure, reverse=True):
        count, last = profile.pure[amount], splits[-1]
        splits.append(LossSplit(last.epsilon + count * amount, last.rho - count * rho_from_epsilon(amount)))
    return splits


def _split_terms(terms: ChargeTerms, unit: Unit, touching: Span) -> Iterable[LossSplit]:
    """Yield thresholds for all units at once: both sums are the largest over units."""
    ordered = sorted(terms.pure, key=lambda term: unit.worst_case_loss((term,), 1, touching), reverse=True)
    cuts = np.unique(np.linspace(0, len(ordered), THRESHOLD_COUNT).astype(int)) if ordered else [0]
    for cut in map(int, cuts):
        rest = [*terms.zcdp, *(replace(term, peak=rho_from_epsilon(term.peak)) for term in ordered[cut:])]
        yield LossSplit(unit.worst_case_loss(ordered[:cut], 1, touching), unit.worst_case_loss(rest, 2, touching))


@dataclass(frozen=True, slots=True)
class SplitBudget:
    """A budget of (epsilon, delta), against which loads are weighed.

    With `integer_orders`, rhos are bounds at integer orders (see conversions.py).
    """

    epsilon: Fraction
    delta: Fraction
    integer_orders: bool = False

    def allows(self, load: LossBound) -> bool:
        """Return whether the budget covers some split of the load."""
        return any(self._rho_margin(split, load.delta) >= 0 for split in self._find_largest_margin(load))

    def least_loss(self, load: LossBound) -> Fraction:
        """Return the least epsilon of all splits.

        It is more than the budget's if deltas leave nothing.
        """
        splits = _choose_splits(load.splits, lambda: self._estimate_losses(load))
        return min(self._total_epsilon(split, load.delta) for split in splits)

    def largest_loss(self, loads: Sequence[LossBound]) -> Fraction:
        """Return the largest loss of several loads, of which most are weighed in floats only."""
        if self.integer_orders:
            return max(map(self.least_loss, loads))
        sizes = [min(self._estimate_losses(load)) for load in loads]
        near = max(sizes) - 1e-9 * (1 + abs(max(sizes)))
        return max(self.least_loss(load) for load, size in zip(loads, sizes, strict=True) if size >= near)

    def remaining_rho(self, load: LossBound) -> Fraction:
        """Return the largest rho that fits in addition to the load."""
        return max(ZERO, *(self._rho_margin(split, load.delta) for split in self._find_largest_margin(load)))

    def remaining_epsilon(self, load: LossBound) -> Fraction:
        """Return an epsilon that fits in addition to the load: by itself or as its rho."""
        added = self._remaining_added_epsilon(load)
        rho = 2 * self.remaining_rho(load)
        return max(added, Fraction(isqrt(rho.numerator * rho.denominator), rho.denominator))

    def _remaining_added_epsilon(self, load: LossBound) -> Fraction:
        """Return the epsilon left to add, cut until the conversion back allows it."""
        left = self.epsilon - self.least_loss(load)
        step = self.epsilon / 10**12
        while left > 0 and not self.allows(_add_epsilon(load, left)):
            left, step = left - step, 2 * step
        return max(left, ZERO)

    def _total_epsilon(self, split: LossSplit, delta: Fraction) -> Fraction:
        if delta > self.delta or (split.rho and delta == self.delta):
            return split.epsilon + self.epsilon + 1
        if not split.rho:
            return split.epsilon
        return split.epsilon + epsilon_from_rho(split.rho, self.delta - delta, integer_orders=self.integer_orders)

    def _rho_margin(self, split: LossSplit, delta: Fraction) -> Fraction:
        """Return the rho that is left after a split, negative above the budget."""
        if delta > self.delta or split.epsilon > self.epsilon:
            return Fraction(-1)
        if delta == self.delta or split.epsilon == self.epsilon:
            return -split.rho
        left = self.epsilon - split.epsilon, self.delta - delta
        return rho_from_approx(*left, integer_orders=self.integer_orders) - split.rho

    def _find_largest_margin(self, load: LossBound) -> Sequence[LossSplit]:
        """Return the splits of largest margin of rho by floats, and the full sum."""
        return _choose_splits(load.splits, lambda: -self._estimate_margins(load))

    def _estimate_losses(self, load: LossBound) -> Floats:
        added, rhos = _to_arrays(load.splits)
        if load.delta >= self.delta:
            return added + np.where(rhos > 0, float(self.epsilon) + 1, 0.0)
        found = estimate_epsilons(np.maximum(rhos, 1e-300), self._log_deltas(load))
        return added + np.where(rhos > 0, np.maximum(found, 0.0), 0.0)

    def _estimate_margins(self, load: LossBound) -> Floats:
        added, rhos = _to_arrays(load.splits)
        left = float(self.epsilon) - added
        if load.delta >= self.delta:
            return np.minimum(left, 0.0) - rhos
        found = estimate_rhos(np.maximum(left, 1e-300), self._log_deltas(load))
        return np.where(left > 0, found, left) - rhos

    def _log_deltas(self, load: LossBound) -> Floats:
        return np.full(len(load.splits), log_fraction(self.delta - load.delta))


def _to_arrays(splits: Sequence[LossSplit]) -> tuple[Floats, Floats]:
    return np.array([float(s.epsilon) for s in splits]), np.array([float(s.rho) for s in splits])


def _choose_splits(splits: Sequence[LossSplit], costs: Callable[[], Floats]) -> Sequence[LossSplit]:
    """Return the splits of least cost, and the last one: all that is pure adds up, exactly."""
    if len(splits) <= MAX_EXACT_SPLITS + 1:
        return splits
    return [splits[-1], *(splits[i] for i in np.argsort(costs(), kind="stable")[:MAX_EXACT_SPLITS])]


def _add_epsilon(load: LossBound, epsilon: Fraction) -> LossBound:
    return LossBound(tuple(LossSplit(s.epsilon + epsilon, s.rho) for s in load.splits), load.delta)
