"""Split bounds: some pure charges add up in epsilon, all others compose as zCDP and convert once.

Under a budget of (epsilon, delta) a unit loses e_1, ..., e_n to pure releases, rho to zCDP releases and d to
deltas beside them. For every set S of the pure releases, with f(rho) the conversion at delta - d,

    sum of e_i over S  +  f(rho + sum of e_i^2 / 2 over the others)                                        (1)

bounds the epsilon that it loses at this delta. The ledger takes the least of them. Without a zCDP part (S has
all releases, rho = 0) f is 0, and deltas may take all of delta.

Proof of (1), for releases that are adaptive and interleaved in any way
    Fix the adversary, who chooses every input, and neighbours x, x'. Write M for the releases in S, N for all
    others, and M(x), N(x) for their runs. First replace the eligible keys of discovered groups by those of
    x'. All outputs are the same but with probability d (slack.py), and only counters remain. To the releases
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
    Where f is below 0 it is counted as 0, and the best threshold is at most -ln(1 - delta) above the best
    set: a conversion that holds for equal outputs is at least ln(1 - delta).

Units
    The least of (1) is taken for each profile of a unit (profiles.py), and the largest of these counts. If
    there are too many profiles, one S is chosen for all units of a part (slack.py), and both sums are the
    largest over units. This is a bound for each S. With an empty S it is the bound of zCDP alone.

Rounding
    Floats choose which sets are tried. Fractions, and conversions that are rounded up, decide.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np

from streamgauge.privacy.conversions import (
    Floats,
    epsilon_of_rho,
    estimate_epsilons,
    estimate_rhos,
    log_fraction,
    rho_of_approx,
    rho_of_epsilon,
)
from streamgauge.privacy.profiles import Profile, Terms, find_profiles
from streamgauge.privacy.slack import by_delta
from streamgauge.privacy.terms import Span
from streamgauge.privacy.units import Unit

ZERO = Fraction(0)
TRIED = 3  # sets whose bounds are worked out exactly
THRESHOLDS = 3  # none, half and all add up, if both sums are taken over all units


@dataclass(frozen=True, slots=True)
class Split:
    """What adds up in epsilon, and the rho of everything else."""

    epsilon: Fraction
    rho: Fraction


@dataclass(frozen=True, slots=True)
class Load:
    """A bound on the loss of some units: every split is one, beside the delta."""

    splits: tuple[Split, ...]
    delta: Fraction = ZERO


def split_loads(terms: Terms, unit: Unit, touching: Span) -> list[Load]:
    """Return loads of which every unit that touches the interval has at most one."""
    profiles = None
    if terms.pure or not unit.consecutive:  # without pure charges a sweep over windows is exact
        profiles = find_profiles(terms, unit, touching)
    if profiles is None:
        parts = by_delta(terms.slacks, unit, touching)
        return [Load(tuple(_split_terms(terms, unit, where)), delta) for delta, where in parts]
    return [Load(tuple(split_profile(profile)), profile.delta) for profile in profiles]


def split_profile(profile: Profile) -> list[Split]:
    """Return the thresholds of one unit: the largest pure amounts add up, from none of them to all."""
    rho = profile.rho + sum((n * rho_of_epsilon(e) for e, n in profile.pure.items()), ZERO)
    splits = [Split(ZERO, rho)]
    for amount in sorted(profile.pure, reverse=True):
        count, last = profile.pure[amount], splits[-1]
        splits.append(Split(last.epsilon + count * amount, last.rho - count * rho_of_epsilon(amount)))
    return splits


def _split_terms(terms: Terms, unit: Unit, touching: Span) -> Iterable[Split]:
    """Yield thresholds for all units at once: both sums are the largest over units."""
    ordered = sorted(terms.pure, key=lambda term: unit.dearest((term,), 1, touching), reverse=True)
    cuts = np.unique(np.linspace(0, len(ordered), THRESHOLDS).astype(int)) if ordered else [0]
    for cut in map(int, cuts):
        rest = [*terms.zcdp, *(replace(term, peak=rho_of_epsilon(term.peak)) for term in ordered[cut:])]
        yield Split(unit.dearest(ordered[:cut], 1, touching), unit.dearest(rest, 2, touching))


@dataclass(frozen=True, slots=True)
class SplitBudget:
    """A budget of (epsilon, delta), against which loads are weighed."""

    epsilon: Fraction
    delta: Fraction

    def allows(self, load: Load) -> bool:
        """Return whether some split of the load is within the budget."""
        return any(self._margin(split, load.delta) >= 0 for split in self._find_largest_margin(load))

    def loss(self, load: Load) -> Fraction:
        """Return the least epsilon of all splits, and more than the budget's if deltas leave nothing."""
        return min(self._total(split, load.delta) for split in self._least_loss(load))

    def largest_loss(self, loads: Sequence[Load]) -> Fraction:
        """Return the largest loss of several loads, of which most are weighed in floats only."""
        sizes = [min(self._estimates(load)) for load in loads]
        near = max(sizes) - 1e-9 * (1 + abs(max(sizes)))
        return max(self.loss(load) for load, size in zip(loads, sizes, strict=True) if size >= near)

    def rho_left(self, load: Load) -> Fraction:
        """Return the largest rho that fits beside the load."""
        return max(ZERO, *(self._margin(split, load.delta) for split in self._find_largest_margin(load)))

    def epsilon_left(self, load: Load) -> Fraction:
        """Return an epsilon that fits beside the load if it is pure: by itself, or as its rho."""
        added = self._epsilon_beside(load)
        rho = 2 * self.rho_left(load)
        return max(added, Fraction(isqrt(rho.numerator * rho.denominator), rho.denominator))

    def _epsilon_beside(self, load: Load) -> Fraction:
        """Return what is left to add, cut until the way back, which rounds too, allows it."""
        left = self.epsilon - self.loss(load)
        step = self.epsilon / 10**12
        while left > 0 and not self.allows(_add_epsilon(load, left)):
            left, step = left - step, 2 * step
        return max(left, ZERO)

    def _total(self, split: Split, delta: Fraction) -> Fraction:
        if delta > self.delta or (split.rho and delta == self.delta):
            return split.epsilon + self.epsilon + 1
        if not split.rho:
            return split.epsilon
        return split.epsilon + epsilon_of_rho(split.rho, self.delta - delta)

    def _margin(self, split: Split, delta: Fraction) -> Fraction:
        """Return the rho that is left beside a split, below zero if it is over the budget."""
        if delta > self.delta or split.epsilon > self.epsilon:
            return Fraction(-1)
        if delta == self.delta or split.epsilon == self.epsilon:
            return -split.rho
        return rho_of_approx(self.epsilon - split.epsilon, self.delta - delta) - split.rho

    def _least_loss(self, load: Load) -> Sequence[Split]:
        return _choose(load.splits, lambda: self._estimates(load))

    def _find_largest_margin(self, load: Load) -> Sequence[Split]:
        """Return the splits with the largest margin of rho by floats, and the one that adds up everything."""
        return _choose(load.splits, lambda: -self._estimate_margins(load))

    def _estimates(self, load: Load) -> Floats:
        added, rhos = _arrays(load.splits)
        if load.delta >= self.delta:
            return added + np.where(rhos > 0, float(self.epsilon) + 1, 0.0)
        found = estimate_epsilons(np.maximum(rhos, 1e-300), self._log_deltas(load))
        return added + np.where(rhos > 0, np.maximum(found, 0.0), 0.0)

    def _estimate_margins(self, load: Load) -> Floats:
        added, rhos = _arrays(load.splits)
        left = float(self.epsilon) - added
        if load.delta >= self.delta:
            return np.minimum(left, 0.0) - rhos
        found = estimate_rhos(np.maximum(left, 1e-300), self._log_deltas(load))
        return np.where(left > 0, found, left) - rhos

    def _log_deltas(self, load: Load) -> Floats:
        return np.full(len(load.splits), log_fraction(self.delta - load.delta))


def _arrays(splits: Sequence[Split]) -> tuple[Floats, Floats]:
    return np.array([float(s.epsilon) for s in splits]), np.array([float(s.rho) for s in splits])


def _choose(splits: Sequence[Split], costs: Callable[[], Floats]) -> Sequence[Split]:
    """Return the splits of least cost, and the last one: all that is pure adds up, exactly."""
    if len(splits) <= TRIED + 1:
        return splits
    return [splits[-1], *(splits[i] for i in np.argsort(costs(), kind="stable")[:TRIED])]


def _add_epsilon(load: Load, epsilon: Fraction) -> Load:
    return Load(tuple(Split(s.epsilon + epsilon, s.rho) for s in load.splits), load.delta)
