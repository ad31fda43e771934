"""Upper bounds on tails of a sum S of noise: Chernoff, normal, Fourier inversion.

Chernoff
    P(S >= x) <= exp(K(l) - l x) for every l > 0, with K(l) = log E exp(l S) of the actual noise.

Normal, for sums of discrete Gaussian draws
    Lemma. Let N be normal of variance v >= 16. For every integer k, P(X = k) <= (1 + 1/(12 v)) P(round(N) = k).
    Proof. P(X = k) is at most the normal density at k, since the theta sum is at least sqrt(2 pi v). With
    t = k/sqrt(v), the mean over |u| <= 1/2 of the density at k + u is the density at k times the mean of
    exp(-u^2/(2 v)) cosh(t u/sqrt(v)). That mean is at least the mean of 1 - u^2/(2 v) = 1 - 1/(24 v), and
    1/(1 - 1/(24 v)) <= 1 + 1/(12 v).
    So the probability of any event under n draws is at most exp(sum of 1/(12 v)) times that under rounded
    normals. Also sum w round(N) = sum w N + sum w R with |R| <= 1/2, the R independent and symmetric. By
    Hoeffding P(sum w R >= d) <= exp(-2 d^2 / sum w^2), and it is 0 beyond half the sum of |w|.

Fourier inversion of the exact moment generating function
    Let M(s) = E exp(s S), tilt l > 0 and period p. For S on the integers, with s_j = l + 2 pi i j/p,

    (1/p) sum_j M(s_j) sum_(x <= k < y) exp(-s_j k)  =  sum_(x <= k < y) sum_m exp(l m p) P(S = k + m p)

    over j = -p/2 ... p/2 - 1. The right side has P(x <= S < y) at m = 0, and all other terms are positive.
    So the left side is an upper bound for every p. p is so large that the rest is negligible.
    P(S >= y) is added by Chernoff. Tilting makes rounding errors relative to the tail itself, so that far
    tails are as good as near ones. The sum over k is geometric.
    If weights are not integers, or periods are too long, the same holds for the density of S + W. W is normal
    of small deviation w and independent of S, and integrals replace sums over k. The transform is cut if
    that of W is below e^-40. Since P(S >= x) P(W >= -c w) <= P(S + W >= x - c w), the bound on S costs c w
    and a factor of 1/P(W >= -c w).
    All cutting, dropping and rounding is bounded and added. RELATIVE_SLACK times the sum of magnitudes covers
    the rounding of some hundred operations a factor. Terms below DROP_SHARE of the largest are dropped against
    their magnitudes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil, erfc, exp, inf, log, pi, sqrt

import numpy as np

from streamgauge.noise.distributions import Complex, DiscreteGaussian
from streamgauge.noise.terms import Summands

LogMgf = Callable[[float], float]

CHERNOFF_MARGIN = 1e-10
GOLDEN_RATIO: float = (sqrt(5) - 1) / 2
GOLDEN_SECTION_ROUNDS = 32
MIN_TILT_EXPONENT, MAX_TILT_EXPONENT = -160, 64  # exponents of tilts that are looked at


def golden_section(start: float, stop: float) -> float:
    """Return the golden section between two positive points, on a log scale."""
    return start * exp(GOLDEN_RATIO * log(stop / start))


def find_minimum(function: LogMgf, low: float, high: float) -> float:
    """Return the minimiser of a function with one valley between two points.

    Golden sections on a log scale; both points are positive.
    """
    left, right = golden_section(high, low), golden_section(low, high)
    at_left, at_right = function(left), function(right)
    for _ in range(GOLDEN_SECTION_ROUNDS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = golden_section(high, low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = golden_section(low, high)
            at_right = function(right)
    return left if at_left <= at_right else right


def find_power_of_two(is_enough: Callable[[float], bool], unit: float) -> float:
    """Return the least l among powers of two over `unit` with enough(l).

    `enough` must hold from some l on. The largest l is returned if none has it.
    """
    low, high = MIN_TILT_EXPONENT, MAX_TILT_EXPONENT
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(2.0**middle / unit) else (middle, high)
    return 2.0**high / unit


@lru_cache(maxsize=4)  # a width and its inversion need the same
def find_best_tilt(log_mgf: LogMgf, unit: float, need: float) -> float:
    """Return the l of least (K(l) + need)/l, at which the bound is exp(-need).

    `unit` is the largest weight in S. At the best l, f(l) = l K'(l) - K(l), which grows, is `need`. K is convex:
    K(2 l) - 2 K(l), which grows too, is at least f(l) and at most f(2 l). So if it first reaches `need` at l
    among powers of two, the best is between l/2 and 2 l. None of this needs K(0) = 0.
    """

    def enough(tilt: float) -> bool:
        far = log_mgf(2 * tilt)
        return far == inf or far - 2 * log_mgf(tilt) >= need

    def slope(tilt: float) -> float:
        return (log_mgf(tilt) + need) / tilt

    start = find_power_of_two(enough, unit)
    return find_minimum(slope, start / 2, 2 * start)


def chernoff_width(log_mgf: LogMgf, unit: float, need: float) -> float:
    """Return a point x with P(S >= x) <= exp(-need)."""
    tilt = find_best_tilt(log_mgf, unit, need)
    return (log_mgf(tilt) + need) / tilt * (1 + CHERNOFF_MARGIN)


def chernoff_tail(log_mgf: LogMgf, unit: float, x: float) -> float:
    """Return a bound on P(S >= x).

    The best l has K'(l) = x. The slope of K from l to 2 l is between K'(l) and K'(2 l).
    """
    if x <= 0:
        return 1.0

    def enough(tilt: float) -> bool:
        far = log_mgf(2 * tilt)
        return far == inf or far - log_mgf(tilt) >= tilt * x

    start = find_power_of_two(enough, unit)
    tilt = find_minimum(lambda tilt: log_mgf(tilt) - tilt * x, start / 2, 2 * start)
    value = log_mgf(tilt)
    return exp(min(value - tilt * x + CHERNOFF_MARGIN * (1 + value + tilt * x), 0.0)) if value < inf else 1.0


MIN_PARAMETER = 16
ROUNDING_SHARE = 1e-3  # of the tail that is given to the rounding
NORMAL_FACTOR = 1 + 1e-9
NEWTON_STEPS = 8  # of Newton's, each of which doubles the digits


def normal_width(summands: Summands, need: float) -> float:
    """Return a point x with P(S >= x) <= exp(-need), infinite outside the lemma."""
    bundles, laws = summands.bundles, [bundle.distribution for bundle in summands.bundles]
    parameters = [float(law.parameter) for law in laws if isinstance(law, DiscreteGaussian)]
    if len(parameters) < len(bundles) or min(parameters) < MIN_PARAMETER:
        return inf
    pairs = list(zip(bundles, parameters, strict=True))
    squares = [float(bundle.counts @ bundle.weights**2) for bundle in bundles]
    excess = need + sum(float(bundle.counts.sum()) / (12 * v) for bundle, v in pairs)
    stddev = sqrt(sum(square * v for square, v in zip(squares, parameters, strict=True)))
    worst = sum(float(bundle.counts @ bundle.weights) for bundle in bundles) / 2
    likely = sqrt(sum(squares) * (excess - log(ROUNDING_SHARE)) / 2)
    return (stddev * normal_quantile(excess, ROUNDING_SHARE) + min(worst, likely)) * NORMAL_FACTOR


def normal_quantile(need: float, share: float) -> float:
    """Return z with P(N >= z) <= (1 - share) exp(-need), 0 if that is above 1/2."""
    tail = (1 - share) * exp(-need)
    return normal_point(tail) if 0 < tail < 0.5 else 0.0 if tail >= 0.5 else inf


def normal_point(tail: float) -> float:
    """Return z with P(N >= z) = tail, for a tail below one half.

    Newton's steps for log P(N >= z), which is concave. They start at a point that is not below z: the tail of a
    normal is at most exp(-z^2/2)/2. The result is exact to the last digits.

    >>> round(normal_point(0.025), 12)
    1.95996398454
    """
    z = sqrt(-2 * log(2 * tail))
    for _ in range(NEWTON_STEPS):
        above = erfc(z / sqrt(2)) / 2
        if above <= 0:
            return z
        z += log(above / tail) * above * sqrt(2 * pi) * exp(z * z / 2)
    return z


MAX_FREQUENCIES = 1 << 16
MAX_EVALUATIONS = 1 << 22  # of factors of the transform, at most
LUMPY_DEVIATIONS = 4  # deviations per largest weight below which the transform does not fade, and few are made
SHIFT_DEVIATIONS = 2.5  # c
COVER_PROBABILITY = (1 - erfc(SHIFT_DEVIATIONS / sqrt(2)) / 2) * (1 - 1e-12)
CUT_DEVIATIONS = sqrt(80.0)  # deviations of W's transform: e^-40 is left
SMOOTHING_SHARE = 1 / 512  # least deviation of W, in those of S: a smaller one takes more time than it is worth
NEGLIGIBLE_NEPERS = 14.0  # nepers below the requested tail
TILT_FACTOR = 0.75  # of the best tilt: a milder one makes the period shorter
DROP_SHARE = 1e-20
RELATIVE_SLACK = 1e-13
INVERSION_FACTOR = 1 + 1e-9


@dataclass(frozen=True)
class Inversion:
    """The bound as a sum over frequencies, ready to be evaluated at any x."""

    tilt: float
    height: float  # log M(tilt)
    frequencies: Complex  # s_j
    factors: Complex  # M(s_j)/M(tilt) over period and s_j, or 1 - exp(-s_j) on the integers
    slack: float  # relative to the magnitudes
    dropped_magnitude: float  # magnitude of cut or dropped terms
    end: float  # y
    end_tail: float  # bound on P(S + W >= y)
    shift: float  # c w; 0 on the integers
    cover: float  # P(W >= -c w); 1 on the integers

    @cached_property
    def _end_factors(self) -> Complex:
        """Factors of the part from y on, without the tilt."""
        return np.asarray(self.factors * np.exp(-1j * self.frequencies.imag * self.end), np.complex128)

    def tail(self, x: float) -> float:
        """Return a certified bound on P(S >= x), x an integer if S is."""
        start = x - self.shift
        if start >= self.end:
            return min(1.0, self.end_tail / self.cover * INVERSION_FACTOR)
        begun = self.factors * np.exp(-1j * self.frequencies.imag * start)
        values = begun - self._end_factors * exp(-self.tilt * (self.end - start))
        total = float(values.real.sum()) + self.slack * float(np.abs(values).sum()) + self.dropped_magnitude
        height = exp(min(self.height - self.tilt * start, 600.0))
        return min(1.0, (total * height + self.end_tail) / self.cover * INVERSION_FACTOR)


def invert(summands: Summands, need: float) -> Inversion | None:
    """Return the inversion that is sharp near tail exp(-need), None if too long."""
    log, unit = summands.log_mgf, summands.largest_weight
    tilt = TILT_FACTOR * find_best_tilt(log, unit, need)
    period = find_period(log, unit, tilt, need)
    lumpy = summands.stddev < LUMPY_DEVIATIONS * summands.largest_weight
    frequencies = min(MAX_FREQUENCIES, MAX_EVALUATIONS // (8 if lumpy else 1) // len(summands.terms))
    if period <= frequencies and summands.is_integral:
        return build_integer_inversion(summands, tilt, need, ceil(period))
    deviation = max(CUT_DEVIATIONS * period / (2 * pi * frequencies), SMOOTHING_SHARE * summands.stddev)
    return (
        build_smoothed_inversion(summands, tilt, need, period, deviation) if deviation < summands.stddev / 8 else None
    )


def find_period(log: LogMgf, unit: float, tilt: float, need: float) -> float:
    """Return a period p whose wrapped mass is negligible against exp(-need).

    From below that mass is exp(-l p). From above, for every r > 0, exp(l p) P(S >= p) <= exp(K(l + r) - r p).
    """

    def shifted_log_mgf(more: float) -> float:
        return log(tilt + more)

    enough = need + NEGLIGIBLE_NEPERS
    more = find_best_tilt(shifted_log_mgf, unit, enough)
    return max((shifted_log_mgf(more) + enough) / more, enough / tilt, 8.0)


def build_frequencies(tilt: float, period: float, last: int) -> Complex:
    """Return s_j = l + 2 pi i j/p for j = 0 ... last; negative j are conjugates."""
    return np.asarray(tilt + 2j * pi / period * np.arange(last + 1), np.complex128)


def build_integer_inversion(summands: Summands, tilt: float, need: float, period: int) -> Inversion:
    """Invert S on the integers, without cut or smoothing."""
    s = build_frequencies(tilt, period, period // 2)
    factors = np.asarray(-2 / (np.expm1(-s) * period), np.complex128)
    factors[0] /= 2
    factors[-1] /= 2 - period % 2
    end = float(ceil(chernoff_width(summands.log_mgf, summands.largest_weight, need + NEGLIGIBLE_NEPERS)))
    start = Inversion(tilt, 0.0, s, factors, RELATIVE_SLACK, 0.0, end, exp(-need - NEGLIGIBLE_NEPERS), 0.0, 1.0)
    return apply_transform(start, summands)


def build_smoothed_inversion(
    summands: Summands, tilt: float, need: float, period: float, deviation: float
) -> Inversion:
    """Invert S + W.

    The frequencies cut add up to less than e^-40 / (80 pi) < 1e-19, by the tail of W's transform.
    """

    def log_mgf(x: float) -> float:
        return summands.log_mgf(x) + (deviation * x) ** 2 / 2

    s = build_frequencies(tilt, period, ceil(CUT_DEVIATIONS / deviation * period / (2 * pi)))
    factors = 2 * np.exp(deviation**2 * (s**2 - tilt**2) / 2) / (s * period)
    factors[0] /= 2
    end = chernoff_width(log_mgf, summands.largest_weight, need + NEGLIGIBLE_NEPERS)
    height = (deviation * tilt) ** 2 / 2
    start = Inversion(
        tilt,
        height,
        s,
        factors,
        RELATIVE_SLACK,
        1e-19,
        end,
        exp(-need - NEGLIGIBLE_NEPERS),
        SHIFT_DEVIATIONS * deviation,
        COVER_PROBABILITY,
    )
    return apply_transform(start, summands)


def apply_transform(start: Inversion, summands: Summands) -> Inversion:
    """Multiply the factors by the transform M(s)/M(tilt).

    Each draw has magnitude at most 1. Negligible factors are dropped against twice their magnitude, since a wave
    is at most 2.
    """
    s, factors, dropped = start.frequencies, start.factors, start.dropped_magnitude
    for term in summands.terms:
        weight = float(term.weight)
        factors = factors * term.distribution.tilted_transform(weight * start.tilt, weight * s.imag) ** term.count
        size = np.abs(factors)
        keep = size >= DROP_SHARE * size[0]
        dropped += 2 * float(size[~keep].sum())
        s, factors = s[keep], factors[keep]
    return replace(
        start,
        height=start.height + summands.log_mgf(start.tilt),
        frequencies=s,
        factors=factors,
        slack=start.slack + 4e-16 * summands.draw_count,
        dropped_magnitude=dropped,
    )


def inverted_width(summands: Summands, need: float) -> float:
    """Return a point h with P(S > h) <= exp(-need); infinite if inversion would be too long."""
    inversion = invert(summands, need)
    if inversion is None:
        return inf
    target = exp(-need)
    if inversion.shift == 0:
        return float(_find_least_integer(inversion, target) - 1)
    low, high = 0.0, inversion.end + inversion.shift
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if inversion.tail(middle) <= target else (middle, high)
    return high


def _find_least_integer(inversion: Inversion, target: float) -> int:
    low, high = 0, int(inversion.end)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if inversion.tail(middle) <= target else (middle, high)
    return high


def inverted_tail(summands: Summands, x: float, need: float) -> float:
    """Return a bound on P(S >= x), sharp if `need` is about minus its logarithm."""
    inversion = invert(summands, need)
    if inversion is None:
        return 1.0
    return inversion.tail(float(ceil(x)) if inversion.shift == 0 else x)
