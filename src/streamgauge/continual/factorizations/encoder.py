"""Encoders that a few numbers describe, their noise in fixed point, their error.

Encoders
    An encoder is a lower-triangular Toeplitz matrix C with c_0 = 1, c_k = sum_i weight_i (1 - rate_i)^(k-1).
    Rates and weights are rationals m/2^e of small integers. So a run can multiply by them in 64 bits, and
    everything that a claim rests on is exact. Weights are positive and sum to at most 1, rates lie in (0, 1].
    So the coefficients are positive and never grow. Of all units that touch n ticks, the first n consecutive
    ones move the encoded stream most: their columns are the longest and overlap the most.

Correlated noise: u with C u = z up to a rounding that is bounded and charged
    For draws z_t on the integers, each group has one buffer V_i per exponential, in fixed point with rate_bits
    binary places. Each tick computes in integers only

    r_t = round(sum_i weight_i floor(V_i))     rounded as below
    u_t = z_t - r_t
    V_i <- V_i - rate_i floor(V_i) + u_t       exactly: rate_i times an integer has rate_bits places

    The noisy item is y_t = x_t + u_t, in the units of the grid. All releases are computed from the
    y's. Silent noise makes all u_t zero, so that the release is the truth.

Privacy (causal, adaptive, discrete Gaussian noise of parameter v in grid units)
    Consider two streams and one sequence of releases y. If the streams differ by D_t (in grid units) at t,
    u'_t - u_t = -D_t; elsewhere u' = u. By induction z_t = u_t + r_t, and r_t is an *integer* function
    of u_1..u_(t-1). Given the past, releasing y_t is releasing an integer under discrete Gaussian noise,
    and both worlds' answers differ by (z' - z)_t. Adaptive composition of zCDP gives
    rho = |z' - z|^2 / (2 v). If r_t were sum_i weight_i B_i for the ideal real buffers
    B_i <- (1 - rate_i) B_i + u_t, then z' - z would be -C D. It is not, so that

        |z' - z| <= |C D| + W sqrt(T g)

    over T ticks and the g groups in which the streams differ, if r_t is off by an amount that lies in an
    interval of length W (both worlds' amounts do, so their difference is at most W).
Rounding
    V_i - B_i gains rate_i (V_i - floor(V_i)) in [0, rate_i) a tick and loses the share rate_i of itself.
    It stays in [0, 1), so that floor(V_i) - B_i is in (-1, 1). Each product is rounded down to POINT
    binary places, their sum to an integer. So W = 1 + sum_i (2 weight_i + 2^-POINT).
Overflow
    With n the sums of u that are released (running, or decaying no faster than the buffers, which gives the
    factor), |B_i| <= 2 max |n|. While |V_i| < 2^52 every product below fits 63 bits
    (numerators are below 2^10, weights sum to at most 1). The claim bounds the probability that this
    ever fails (`CorrelatedMechanism.overflow`). It is rejected unless that is below the probability of guessing
    the keystream's key. On that event the proof does not hold.

Error
    Let A be the workload, with generating functions c(x) of C and 1/(1 - a x) of A: running sums
    have a = 1, decayed sums a < 1. The noise of a release is L z with L = A C^-1, whose coefficients

    l_k = sum_p amplitude_p (1 - pole_p)^k

    come from the partial fractions of 1/((1 - a x) c(x)). One pole is 1 - a. The others are the roots of
    1 = sum_i weight_i / (pole - rate_i): one between each pair of neighbouring rates, and one above all.
    If 1 - a is below all rates, all amplitudes are positive, so that nothing cancels.
    Variances are those of draws of variance 1. These numbers are floats of deterministic quantities,
    and no privacy promise rests on them.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, frexp
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints

NUMERATOR_LIMIT = 1 << 10  # numerators are below it
MAX_DENOMINATOR_BITS = 61  # the largest exponent of a denominator
NORM_BITS = 320  # binary places in which norms are bounded; rounding is towards the larger norm


@dataclass(frozen=True)
class Exponential:
    """One term: rate = rate_top/2^rate_bits, weight = weight_top/2^weight_bits."""

    rate_top: int
    rate_bits: int
    weight_top: int
    weight_bits: int

    def __post_init__(self) -> None:
        if not (
            0 < self.rate_top < NUMERATOR_LIMIT and self.rate_top <= 1 << self.rate_bits <= 1 << MAX_DENOMINATOR_BITS
        ):
            raise ValueError(f"rate must be a small rational in (0, 1], got {self}")
        if not (0 < self.weight_top < NUMERATOR_LIMIT <= 1 << self.weight_bits <= 1 << MAX_DENOMINATOR_BITS):
            raise ValueError(f"weight must be a small rational in (0, 1), got {self}")

    @classmethod
    def from_floats(cls, rate: float, weight: float) -> "Exponential":
        """Return the term nearest to two floats."""
        return cls(*_round_dyadic(rate), *_round_dyadic(weight))

    @property
    def rate(self) -> Fraction:
        return Fraction(self.rate_top, 1 << self.rate_bits)

    @property
    def weight(self) -> Fraction:
        return Fraction(self.weight_top, 1 << self.weight_bits)


@dataclass(frozen=True)
class Encoder:
    """The matrix C of these terms, slowest first."""

    terms: tuple[Exponential, ...]

    def __post_init__(self) -> None:
        if sum(term.weight for term in self.terms) > 1:
            raise ValueError(f"weights must sum to at most 1, got {self.terms}")

    @property
    def rates(self) -> npt.NDArray[np.float64]:
        return np.array([float(term.rate) for term in self.terms])

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        return np.array([float(term.weight) for term in self.terms])

    def coefficients(self, ticks: int) -> npt.NDArray[np.float64]:
        """Return c_0 to c_(ticks - 1)."""
        powers = np.exp(np.arange(ticks - 1)[:, None] * np.log1p(-np.minimum(self.rates, 1 - 2.0**-53)))
        return np.concatenate([[1.0], powers @ self.weights])[:ticks]

    def norm_squared(self, ticks: int, horizon: int) -> Fraction:
        """Return an upper bound on the squared norm of the first `ticks` columns' sum.

        It is off by less than 2^-60.
        With a_i = weight_i/rate_i, theta_i = 1 - rate_i and A = 1 + sum a_i, row k of that sum is
            A - sum_i a_i theta_i^k                        for k < ticks
            sum_i a_i (1 - theta_i^ticks) theta_i^(k - ticks)    for ticks <= k < horizon
        and squares of sums of powers sum in closed form. Powers are bounded from the side that makes
        the norm larger.
        """
        reach = [term.weight / term.rate for term in self.terms]
        theta = [1 - term.rate for term in self.terms]
        low = [power_bound(t, ticks, up=False) for t in theta]
        high = [power_bound(t, ticks, up=True) for t in theta]
        all_ = 1 + sum(reach)
        total = ticks * all_**2
        falls = (2 * all_ * a * (1 - p) / (1 - t) for a, p, t in zip(reach, high, theta, strict=True))
        total += sum((round_up(-fall) for fall in falls), Fraction(0))  # each fall is rounded down
        late = [a * (1 - p) for a, p in zip(reach, low, strict=True)]
        for i, t in enumerate(theta):
            for j, s in enumerate(theta):
                early = reach[i] * reach[j] * (1 - power_bound(t * s, ticks, up=False))
                after = late[i] * late[j] * (1 - power_bound(t * s, horizon - ticks, up=False))
                total += round_up((early + after) / (1 - t * s))
        return round_up(total, 64)


def round_up(value: Fraction, places: int = NORM_BITS) -> Fraction:
    return Fraction(ceil(value * (1 << places)), 1 << places)


def power_bound(base: Fraction, exponent: int, *, up: bool) -> Fraction:
    """Return base^exponent, base in [0, 1], rounded up or down to NORM_BITS places."""
    scaled = base * (1 << NORM_BITS)
    result, square = 1 << NORM_BITS, ceil(scaled) if up else int(scaled)
    while exponent:
        if exponent & 1:
            result = _multiply_fixed(result, square, up)
        square = _multiply_fixed(square, square, up)
        exponent >>= 1
    return Fraction(result, 1 << NORM_BITS)


def _multiply_fixed(a: int, b: int, up: bool) -> int:
    return -(-a * b >> NORM_BITS) if up else a * b >> NORM_BITS


def _round_dyadic(value: float) -> tuple[int, int]:
    """Return the nearest m/2^e with m < SMALL and e from 10 to FINEST."""
    bits = min(max(10 - frexp(value)[1], 10), MAX_DENOMINATOR_BITS)
    top = round(value * 2.0**bits)
    if top == NUMERATOR_LIMIT and bits > 10:
        top, bits = NUMERATOR_LIMIT // 2, bits - 1
    return max(1, min(top, NUMERATOR_LIMIT - 1)), bits


PRODUCT_BITS = 10  # binary places of a product before the last rounding
PRODUCT_HALF = 1 << (PRODUCT_BITS - 1)
MAX_BUFFER_BITS = 52  # buffers stay below 2^ROOM
BATCH_GROUPS = 1 << 17  # so many groups at once stay near the cache, and are worth a thread
MAX_NARROW_GROUPS = 16  # so few groups are done one by one in Python's integers, the same numbers in less time


@dataclass(slots=True)
class NoiseBuffers:
    """V, a row per exponential and a column per group: whole part and fraction.

    The fraction is in units of 2^-rate_bits.
    """

    whole: Ints = field(repr=False)  # secret: noise only, which together with the releases reveals the data
    rest: Ints = field(repr=False)  # secret: the same

    @classmethod
    def empty(cls, encoder: Encoder, width: int) -> "NoiseBuffers":
        shape = len(encoder.terms), width
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def select(self, columns: slice) -> "NoiseBuffers":
        """Return the same memory, for some of the groups."""
        return NoiseBuffers(self.whole[:, columns], self.rest[:, columns])


def rounding_width(encoder: Encoder) -> Fraction:
    """Return W, the length of an interval that has the rounding error of every r_t."""
    return sum((2 * term.weight + Fraction(1, 1 << PRODUCT_BITS) for term in encoder.terms), Fraction(1))


def correlate(encoder: Encoder, buffers: NoiseBuffers, draws: Ints) -> None:
    """Turn draws z into u in place, and advance `buffers`.

    z has one row per tick and one column per group.
    """
    if draws.shape[1] > MAX_NARROW_GROUPS:
        _correlate_groups(encoder, buffers, draws)
        return
    for group in range(draws.shape[1]):
        _correlate_group(encoder, buffers, draws, group)


def _correlate_groups(encoder: Encoder, buffers: NoiseBuffers, draws: Ints) -> None:
    total, product = np.empty((2, draws.shape[1]), np.int64)
    terms = list(zip(encoder.terms, buffers.whole, buffers.rest, strict=True))
    for u in draws:
        total[:] = PRODUCT_HALF
        for term, whole, _ in terms:
            np.multiply(whole, term.weight_top, out=product)
            np.right_shift(product, term.weight_bits - PRODUCT_BITS, out=product)
            np.add(total, product, out=total)
        np.right_shift(total, PRODUCT_BITS, out=total)
        np.subtract(u, total, out=u)
        for term, whole, rest in terms:
            lost = whole if term.rate_top == 1 else np.multiply(whole, term.rate_top, out=product)
            np.subtract(rest, lost, out=product)
            np.bitwise_and(product, (1 << term.rate_bits) - 1, out=rest)
            np.right_shift(product, term.rate_bits, out=product)
            np.add(whole, product, out=whole)
            np.add(whole, u, out=whole)


def _correlate_group(encoder: Encoder, buffers: NoiseBuffers, draws: Ints, group: int) -> None:
    terms = encoder.terms
    whole, rest = buffers.whole[:, group].tolist(), buffers.rest[:, group].tolist()
    fixed = [(v << term.rate_bits) + f for term, v, f in zip(terms, whole, rest, strict=True)]
    plain = all(term.rate_top == 1 for term in terms)
    correlate_draws = _correlate_draws if plain else _correlate_draws_with_rates
    draws[:, group] = correlate_draws(encoder, fixed, whole, draws[:, group].tolist())
    buffers.whole[:, group] = whole
    buffers.rest[:, group] = [f - (v << t.rate_bits) for f, v, t in zip(fixed, whole, terms, strict=True)]


def _correlate_draws(encoder: Encoder, fixed: list[int], whole: list[int], draws: list[int]) -> list[int]:
    """Return the u of every draw, for rates that are powers of 1/2.

    This is the inner loop of narrow runs.
    """
    numbers = [(i, t.rate_bits, t.weight_top, t.weight_bits - PRODUCT_BITS) for i, t in enumerate(encoder.terms)]
    total = PRODUCT_HALF + sum(n * whole[i] >> shift for i, _, n, shift in numbers)
    result = []
    for z in draws:
        u = z - (total >> PRODUCT_BITS)
        result.append(u)
        total = PRODUCT_HALF
        for i, bits, n, shift in numbers:
            fixed[i] = value = fixed[i] - whole[i] + (u << bits)
            whole[i] = v = value >> bits
            total += n * v >> shift
    return result


def _correlate_draws_with_rates(encoder: Encoder, fixed: list[int], whole: list[int], draws: list[int]) -> list[int]:
    """Return the same for any rates."""
    numbers = [
        (i, t.rate_top, t.rate_bits, t.weight_top, t.weight_bits - PRODUCT_BITS) for i, t in enumerate(encoder.terms)
    ]
    total = PRODUCT_HALF + sum(n * whole[i] >> shift for i, *_, n, shift in numbers)
    result = []
    for z in draws:
        u = z - (total >> PRODUCT_BITS)
        result.append(u)
        total = PRODUCT_HALF
        for i, m, bits, n, shift in numbers:
            fixed[i] = value = fixed[i] - m * whole[i] + (u << bits)
            whole[i] = v = value >> bits
            total += n * v >> shift
    return result


Floats = npt.NDArray[np.float64]
SERIES_THRESHOLD = 1e-2  # below it, a series instead of a difference that cancels


class ExponentialTerms(Protocol):
    """The rates and weights of an encoder, for its error."""

    @property
    def rates(self) -> Floats: ...

    @property
    def weights(self) -> Floats: ...


class NoiseResponse:
    """The weights of a run's draws in its releases."""

    def __init__(self, encoder: ExponentialTerms, rate: float = 0.0) -> None:
        order = np.argsort(encoder.rates)
        self.rates = encoder.rates[order]
        self.weights = encoder.weights[order]
        self.rate = rate  # 1 - a

    @cached_property
    def poles(self) -> Floats:
        """The roots, by bisection in the logit of their place in the gap."""
        rates, weights = self.rates, self.weights
        gaps = np.append(rates[1:], rates[-1:] + weights.sum() * (1 + 1e-9)) - rates
        low, high = np.full(len(rates), -36.0), np.full(len(rates), 36.0)
        offsets = gaps / 2
        for _ in range(64):
            middle = (low + high) / 2
            offsets = gaps / (1 + np.exp(-middle))
            above = (weights / (rates[:, None] - rates + offsets[:, None])).sum(axis=1) < 1
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return rates + offsets

    @cached_property
    def amplitudes(self) -> Floats:
        """First that of the pole 1 - a."""
        poles, rates = self.poles, self.rates
        others = poles - poles[:, None] + np.eye(len(poles))
        inner = np.prod((rates - poles[:, None]) / others, axis=1) / (self.rate - poles)
        outer = np.prod((rates - self.rate) / (poles - self.rate))
        return np.append(outer, inner)

    @cached_property
    def _pairs(self) -> tuple[Floats, Floats]:
        """Products of amplitudes, and 1 minus products of two poles' rests.

        The rest of a pole is its factor after a tick.
        """
        poles = np.append(self.rate, self.poles)
        return np.outer(self.amplitudes, self.amplitudes), poles[:, None] + poles - np.outer(poles, poles)

    def coefficients(self, ticks: int) -> Floats:
        """Return l_0 to l_(ticks - 1)."""
        poles = np.append(self.rate, self.poles)
        return np.asarray((1 - decayed_share(poles, np.arange(float(ticks))[:, None])) @ self.amplitudes)

    def variance(self, tick: int) -> float:
        """sum_(k < tick) l_k^2."""
        products, lost = self._pairs
        still = lost == 0
        sums = decayed_share(lost, float(tick)) / np.where(still, 1.0, lost)
        return float((products * np.where(still, float(tick), sums)).sum())

    def mean_variance(self, ticks: int) -> float:
        """Return the mean of `variance` over ticks 1 to `ticks`."""
        products, lost = self._pairs
        return float((products * mean_power_sum(lost, float(ticks))).sum())


def decayed_share(lost: Floats, ticks: Floats | float) -> Floats:
    """Return 1 - (1 - lost)^ticks, even if `lost` is tiny or above 1."""
    near = -np.expm1(ticks * np.log1p(-np.minimum(lost, 0.5)))
    far = 1 - np.power(np.where(lost > 0.5, 1 - lost, 1.0), ticks)
    return np.asarray(np.where(lost > 0.5, far, near))


def mean_power_sum(lost: Floats, ticks: float) -> Floats:
    """Return the mean over t = 1..ticks of sum_(k < t) q^k, q = 1 - lost.

    That is (1 - q (1 - q^T)/(T lost))/lost. If T lost is small, its series is used:
    (T + 1)/2 (1 - (T - 1) lost/3 (1 - (T - 2) lost/4 (1 - ...))).
    """
    flat = lost * ticks < SERIES_THRESHOLD
    series = np.ones_like(lost)
    for j in range(7, 0, -1):
        series = 1 - (ticks - j) * lost / (j + 2) * series
    x = np.where(flat, 1.0, lost)
    return np.asarray(
        np.where(flat, (ticks + 1) / 2 * series, (1 - (1 - x) * decayed_share(x, ticks) / (ticks * x)) / x)
    )
