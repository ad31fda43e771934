"""The tail of a sum by Fourier inversion of its exact moment generating function, from above.

Let M(s) = E exp(s S), tilt l > 0 and period p. For S on the integers, with s_j = l + 2 pi i j/p,

    (1/p) sum_j M(s_j) sum_(x <= k < y) exp(-s_j k)  =  sum_(x <= k < y) sum_m exp(l m p) P(S = k + m p)

over j = -p/2 ... p/2 - 1. The right side has the wanted P(x <= S < y) at m = 0 and only positive terms
besides: the left side is an upper bound, whatever p; p is taken so large that the rest is negligible. P(S
>= y) is added by Chernoff. Tilting makes rounding errors relative to the tail itself, so that far tails are
as good as near ones. The sum over k is geometric.

Weights that are not integers, or periods that are too long: the same for the density of S + W, W normal of
small deviation w and independent of S, with integrals for sums over k; its transform is cut where that of W
is below e^-40. Since P(S >= x) P(W >= -c w) <= P(S + W >= x - c w), the bound on S costs c w and a factor
of 1/P(W >= -c w).

What is cut, dropped or rounded is bounded and added: SLACK times the sum of magnitudes covers the rounding
of some hundred operations a factor, and terms below DROP of the largest are dropped against their
magnitudes.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, erfc, exp, inf, pi, sqrt

import numpy as np

from streamgauge.noise.chernoff import Log, best_tilt, chernoff_width
from streamgauge.noise.distributions import Complex
from streamgauge.noise.terms import Summands

LONGEST = 1 << 16
EVALUATIONS = 1 << 22  # of factors of the transform, at most
LUMPY = 4  # deviations per largest weight below which the transform does not fade, and few are made
SHIFT = 2.5  # c
COVER = (1 - erfc(SHIFT / sqrt(2)) / 2) * (1 - 1e-12)
CUT = sqrt(80.0)  # deviations of W's transform: e^-40 is left
NEGLIGIBLE = 14.0  # nepers below the tail asked for
TEMPER = 0.75  # of the best tilt: a milder one makes the period shorter
DROP = 1e-20
SLACK = 1e-13
OUTWARDS = 1 + 1e-9


@dataclass(frozen=True)
class Inversion:
    """The bound as a sum over frequencies, ready to be evaluated at any x."""

    tilt: float
    height: float  # log M(tilt)
    frequencies: Complex  # s_j
    factors: Complex  # M(s_j)/M(tilt) over period and s_j, or 1 - exp(-s_j) on the integers
    slack: float  # relative to the magnitudes
    dropped: float  # magnitude of what was cut or dropped
    end: float  # y
    beyond: float  # bound on P(S + W >= y)
    shift: float  # c w; 0 on the integers
    cover: float  # P(W >= -c w); 1 on the integers

    @cached_property
    def _ended(self) -> Complex:
        """What is taken off for all that is from y on, but for the tilt."""
        return np.asarray(self.factors * np.exp(-1j * self.frequencies.imag * self.end), np.complex128)

    def tail(self, x: float) -> float:
        """A certified bound on P(S >= x), x an integer if S is."""
        start = x - self.shift
        if start >= self.end:
            return min(1.0, self.beyond / self.cover * OUTWARDS)
        begun = self.factors * np.exp(-1j * self.frequencies.imag * start)
        values = begun - self._ended * exp(-self.tilt * (self.end - start))
        total = float(values.real.sum()) + self.slack * float(np.abs(values).sum()) + self.dropped
        height = exp(min(self.height - self.tilt * start, 600.0))
        return min(1.0, (total * height + self.beyond) / self.cover * OUTWARDS)


def invert(summands: Summands, need: float) -> Inversion | None:
    """The inversion that is sharp where the tail is about exp(-need); None if it would be too long."""
    log, unit = summands.log_mgf, summands.largest
    tilt = TEMPER * best_tilt(log, unit, need)
    period = long_period(log, unit, tilt, need)
    lumpy = summands.stddev < LUMPY * summands.largest
    frequencies = min(LONGEST, EVALUATIONS // (8 if lumpy else 1) // len(summands.terms))
    if period <= frequencies and summands.integral:
        return on_integers(summands, tilt, need, ceil(period))
    deviation = CUT * period / (2 * pi * frequencies)
    return smoothed(summands, tilt, need, period, deviation) if deviation < summands.stddev / 8 else None


def long_period(log: Log, unit: float, tilt: float, need: float) -> float:
    """A period p whose wrapped mass is negligible beside exp(-need): exp(-l p) from below, and from above,
    for every r > 0, exp(l p) P(S >= p) <= exp(K(l + r) - r p)."""

    def above(more: float) -> float:
        return log(tilt + more)

    enough = need + NEGLIGIBLE
    more = best_tilt(above, unit, enough)
    return max((above(more) + enough) / more, enough / tilt, 8.0)


def waves(tilt: float, period: float, last: int) -> Complex:
    """s_j = l + 2 pi i j/p for j = 0 ... last; negative j are their conjugates."""
    return np.asarray(tilt + 2j * pi / period * np.arange(last + 1), np.complex128)


def on_integers(summands: Summands, tilt: float, need: float, period: int) -> Inversion:
    """S on the integers: nothing is cut and nothing smoothed."""
    s = waves(tilt, period, period // 2)
    factors = np.asarray(-2 / (np.expm1(-s) * period), np.complex128)
    factors[0] /= 2
    factors[-1] /= 2 - period % 2
    end = float(ceil(chernoff_width(summands.log_mgf, summands.largest, need + NEGLIGIBLE)))
    start = Inversion(tilt, 0.0, s, factors, SLACK, 0.0, end, exp(-need - NEGLIGIBLE), 0.0, 1.0)
    return transformed(start, summands)


def smoothed(summands: Summands, tilt: float, need: float, period: float, deviation: float) -> Inversion:
    """S + W. The frequencies cut add up to less than e^-40 / (80 pi) < 1e-19, by the tail of W's
    transform."""

    def log(x: float) -> float:
        return summands.log_mgf(x) + (deviation * x) ** 2 / 2

    s = waves(tilt, period, ceil(CUT / deviation * period / (2 * pi)))
    factors = 2 * np.exp(deviation**2 * (s**2 - tilt**2) / 2) / (s * period)
    factors[0] /= 2
    end = chernoff_width(log, summands.largest, need + NEGLIGIBLE)
    height = (deviation * tilt) ** 2 / 2
    start = Inversion(
        tilt, height, s, factors, SLACK, 1e-19, end, exp(-need - NEGLIGIBLE), SHIFT * deviation, COVER
    )
    return transformed(start, summands)


def transformed(start: Inversion, summands: Summands) -> Inversion:
    """Multiplies in the transform M(s)/M(tilt), draw by draw at most 1 in magnitude; what becomes
    negligible is dropped against that magnitude, twice, since a wave is at most 2."""
    s, factors, dropped = start.frequencies, start.factors, start.dropped
    for term in summands.terms:
        weight = float(term.weight)
        factors = factors * term.distribution.tilted(weight * start.tilt, weight * s.imag) ** term.count
        size = np.abs(factors)
        keep = size >= DROP * size[0]
        dropped += 2 * float(size[~keep].sum())
        s, factors = s[keep], factors[keep]
    return replace(
        start,
        height=start.height + summands.log_mgf(start.tilt),
        frequencies=s,
        factors=factors,
        slack=start.slack + 4e-16 * summands.draws,
        dropped=dropped,
    )


def inverted_width(summands: Summands, need: float) -> float:
    """A point h with P(S > h) <= exp(-need); infinite if inversion would be too long."""
    inversion = invert(summands, need)
    if inversion is None:
        return inf
    target = exp(-need)
    if inversion.shift == 0:
        return float(_least_integer(inversion, target) - 1)
    low, high = 0.0, inversion.end + inversion.shift
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if inversion.tail(middle) <= target else (middle, high)
    return high


def _least_integer(inversion: Inversion, target: float) -> int:
    low, high = 0, int(inversion.end)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if inversion.tail(middle) <= target else (middle, high)
    return high


def inverted_tail(summands: Summands, x: float, need: float) -> float:
    """A bound on P(S >= x), sharp if `need` is about minus its logarithm."""
    inversion = invert(summands, need)
    if inversion is None:
        return 1.0
    return inversion.tail(float(ceil(x)) if inversion.shift == 0 else x)
