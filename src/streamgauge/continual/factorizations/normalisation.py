"""Column normalisation: late items are scaled up until all columns are equally long.

Column t of C ends at the horizon T, so that late columns are short:

    |C e_t|^2 = S_d = c_0^2 + ... + c_(d-1)^2    for the d = T - t + 1 ticks from t to the end

The noise hides the longest column, which is the first. So a run can measure C (m_t x_t) with
m_t = sqrt(S_T / S_d) >= 1 under the same noise. It divides by m_t later, which makes the noise of
late ticks smaller.

    m_t     1 |____          ___/       rises with t, a constant over each piece
                   \\________/          pieces: distances to the end with few significant bits

Scales
    m_t = M/2^bits with an integer M. The ticks of a piece have the M of its first tick, the longest column:
    M^2 S_d <= 4^bits S_T in integers, from an S_d that is rounded up. So M is rounded down, and no column is longer
    than sqrt(S_T).

Privacy of units of n ticks
    Scaling makes late columns as long as early ones, so that the first n columns are no longer the worst. Let
    R_l be at least every entry (s, s + l) of the Gram matrix of the scaled columns. That entry is m_s m_t G_l(T - t)
    for t = s + l, with G_l(k) = c_0 c_l + ... + c_k c_(k+l). It falls as l grows and t stays, since each factor does.
    So R_l never grows. The i-th and the j-th of n ticks are at least |i - j| apart. All entries are positive,
    so that any n ticks, with any signs, move the measurements by at most

        n R_0 + 2 sum_(0 < l < n) (n - l) R_l    in squared L2.

    R_l is bounded over each piece of t by G_l at its start and the scales at its end, and R_l <= R_0.
    All in integers, rounded up. Lags of few significant bits stand for those up to the next.

Error
    Let N_t be the noise of the plain sums (see `encoder`) and f_t = 1/m_t. The release at t has the noise
    sum_s f_s (N_s - N_(s-1)) = f_t N_t + sum of (f_s - f_(s+1)) N_s over the ends s < t of pieces. Its variance
    follows from covariances of sums of exponentials, piece by piece, in closed form. All terms are positive.

Reference
    Henzinger, Kalinin, Upadhyay: normalized square root factorization, FORC 2026 (arXiv 2509.14334). Theirs scales
    the columns of the square root by real numbers. Here they are those of fitted exponentials, scales are integers,
    and units of several ticks are charged.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from math import ceil, isqrt
from typing import Protocol

import numpy as np

from streamgauge.continual.factorizations.encoder import (
    MAX_NARROW_GROUPS,
    Encoder,
    Floats,
    NoiseResponse,
    decayed_share,
    power_bound,
    round_up,
)
from streamgauge.noise import Ints

MAX_SCALE_BITS = 20  # the finest scales: any two divisions fit 63 bits
DISTANCE_BITS = 5  # significant bits of the distances at which pieces begin
LAG_BITS = 7  # significant bits of the lags that are computed
GRAM_BITS = 128  # binary places of the entries of the Gram matrix, rounded up


@dataclass(frozen=True)
class ColumnScales:
    """The scales of the columns of an encoder; see the module's claim."""

    encoder: Encoder
    horizon: int
    bits: int
    starts: tuple[int, ...]  # ticks before each piece
    tops: tuple[int, ...] = field(repr=False)  # M of each piece

    def norm_squared(self, ticks: int) -> Fraction:
        """Return a bound on the squared norm of the sum of any `ticks` scaled columns, rounded up."""
        longest = self.encoder.norm_squared(1, self.horizon)
        if ticks == 1:
            return longest
        lags = [lag for lag in list_short_numbers(ticks - 1, LAG_BITS) if lag]
        ends = [*lags[1:], ticks]
        total = ticks * longest
        for lag, end in zip(lags, ends, strict=True):
            pairs = (end - lag) * (2 * ticks - lag - end + 1)  # twice the sum of ticks - l over lag <= l < end
            total += pairs * min(longest, self.bound_entry(lag))
        return round_up(total, 64)

    def bound_entry(self, lag: int) -> Fraction:
        """Return R_l, a bound on the entries of the Gram matrix at this distance."""
        powers = [ceil(power_bound(1 - term.rate, lag, up=True) * 2**GRAM_BITS) for term in self.encoder.terms]
        first = sum(term.weight * power_bound(1 - term.rate, lag - 1, up=True) for term in self.encoder.terms)
        fixed = ceil(first * 2**GRAM_BITS)
        largest = 0
        for piece, end in enumerate((*self.starts[1:], self.horizon)):
            if end > lag:  # else no tick of the piece has one so far before it
                entry = fixed + (sum(p * h for p, h in zip(powers, self._tails[piece], strict=True)) >> GRAM_BITS) + 1
                largest = max(largest, entry * self.tops[piece] * self.tops[self.find_piece(end - lag)])
        return Fraction(largest, 1 << GRAM_BITS + 2 * self.bits)

    @cached_property
    def _tails(self) -> list[tuple[int, ...]]:
        """sum_j weight_i weight_j (1 - (theta_i theta_j)^k)/(1 - theta_i theta_j), k = T - t, at each piece's start.

        Fixed point with GRAM_BITS places, rounded up, one number per exponential i.
        """
        ends = [self.horizon - 1 - start for start in self.starts]
        return [tuple(ceil(sum(row) * 2**GRAM_BITS) for row in build_tails(self.encoder, end)) for end in ends]

    def find_piece(self, tick: int) -> int:
        """Return the piece of a tick, the first of which is 1."""
        return bisect_right(self.starts, tick - 1) - 1

    @cached_property
    def factors(self) -> Floats:
        """f of each piece."""
        return 2.0**self.bits / np.array(self.tops, float)

    @cached_property
    def _start_ticks(self) -> Ints:
        return np.array(self.starts)

    def list_tops(self, before: int, ticks: int) -> Ints:
        """Return M of the `ticks` ticks after the first `before`."""
        pieces = np.searchsorted(self._start_ticks, np.arange(before, before + ticks), side="right") - 1
        return np.array(self.tops, np.int64)[pieces]

    def divide(self, before: int, correlated: Ints) -> None:
        """Divide the noise u of some ticks by m_t in place, to the nearest grid point.

        One row per tick. u = q M + r turns into q 2^bits + round(r 2^bits/M), so that a u that is larger by
        M 2^(G - bits), that of an item more, gives a whole unit more.
        """
        tops = self.list_tops(before, len(correlated))
        narrow = correlated.shape[1] <= MAX_NARROW_GROUPS  # else a row at a time stays near the cache
        begins = np.flatnonzero(np.diff(tops, prepend=0)) if narrow else np.arange(len(tops))
        for begin, end in pairwise([*begins.tolist(), len(tops)]):
            if tops[begin] != 1 << self.bits:
                divide_rows(correlated[begin:end], int(tops[begin]), self.bits)


def divide_rows(rows: Ints, top: int, bits: int) -> None:
    """Divide by top/2^bits in place, to the nearest whole number."""
    quotients = rows // top
    rows -= quotients * top
    rows <<= bits
    rows += top >> 1
    np.floor_divide(rows, top, out=rows)
    quotients <<= bits
    rows += quotients


@lru_cache(maxsize=64)
def build_scales(encoder: Encoder, horizon: int, bits: int) -> ColumnScales:
    """Return the largest scales under which no column is longer than the first."""
    distances = [horizon, *(n for n in reversed(list_short_numbers(horizon - 1, DISTANCE_BITS)) if n)]
    longest = encoder.norm_squared(1, horizon)
    tops = (isqrt(int(longest * 4**bits / (1 + sum_tails(encoder, distance - 1)))) for distance in distances)
    return ColumnScales(encoder, horizon, bits, tuple(horizon - distance for distance in distances), tuple(tops))


def sum_tails(encoder: Encoder, last: int) -> Fraction:
    """Return c_1^2 + ... + c_last^2, rounded up."""
    return sum((each for row in build_tails(encoder, last) for each in row), Fraction(0))


def build_tails(encoder: Encoder, last: int) -> list[list[Fraction]]:
    """Return sum_(1 <= k <= last) of weight_i weight_j (theta_i theta_j)^(k-1) for all i and j, rounded up."""
    theta = [1 - term.rate for term in encoder.terms]
    sums = {}
    for i, a in enumerate(encoder.terms):
        for j, b in enumerate(encoder.terms[: i + 1]):
            product = theta[i] * theta[j]
            share = a.weight * b.weight * (1 - power_bound(product, last, up=False)) / (1 - product)
            sums[i, j] = sums[j, i] = round_up(share, GRAM_BITS)
    return [[sums[i, j] for j in range(len(theta))] for i in range(len(theta))]


def list_short_numbers(most: int, bits: int) -> list[int]:
    """Return the numbers from 0 to `most` of at most so many significant bits, in order.

    >>> list_short_numbers(13, 2)
    [0, 1, 2, 3, 4, 6, 8, 12]
    """
    found = list(range(min(most + 1, 1 << bits)))
    step = 2
    while step << bits - 1 <= most:
        found += range(step << bits - 1, min(most + 1, step << bits), step)
        step *= 2
    return found


class PieceFactors(Protocol):
    """The factors f of scales, a constant over each piece."""

    @property
    def starts(self) -> tuple[int, ...]: ...

    @property
    def factors(self) -> Floats: ...

    def find_piece(self, tick: int) -> int: ...


class NormalisedResponse:
    """The variance of releases under scaled columns, for draws of variance 1."""

    def __init__(self, plain: NoiseResponse, scales: PieceFactors) -> None:
        self.plain, self.scales = plain, scales
        self.lost = np.append(plain.rate, plain.poles)
        products = self.lost[:, None] + self.lost - np.outer(self.lost, self.lost)
        self._products = np.where(products == 0, 1.0, products), products == 0

    @cached_property
    def _fixed(self) -> list[tuple[float, Floats]]:
        """For each piece, the noise that is fixed before it: variance, and covariances with the sums of each pole."""
        fixed, factors = [(0.0, np.zeros(len(self.lost)))], self.scales.factors
        for piece, (before, start) in enumerate(pairwise(self.scales.starts)):
            variance, joint = fixed[-1]
            joint = joint * (1 - decayed_share(self.lost, float(start - before)))
            fall = factors[piece] - factors[piece + 1]
            variance += 2 * fall * (self.plain.amplitudes @ joint) + fall**2 * self.plain.variance(start)
            fixed.append((float(variance), joint + fall * self._covariances(start)))
        return fixed

    def _covariances(self, tick: int) -> Floats:
        """The covariances of the plain noise N at a tick with the sum of each pole."""
        divisors, still = self._products
        sums = np.where(still, float(tick), decayed_share(np.where(still, 0.0, divisors), float(tick)) / divisors)
        return np.asarray(sums @ self.plain.amplitudes)

    def variance(self, tick: int) -> float:
        piece = self.scales.find_piece(tick)
        variance, joint = self._fixed[piece]
        rest = 1 - decayed_share(self.lost, float(tick - self.scales.starts[piece]))
        factor = self.scales.factors[piece]
        both = 2 * factor * (self.plain.amplitudes @ (joint * rest))
        return float(variance + both + factor**2 * self.plain.variance(tick))

    def mean_variance(self, ticks: int) -> float:
        """Return the mean of `variance` over ticks 1 to `ticks`."""
        total, still = 0.0, self.lost == 0
        starts = [start for start in self.scales.starts if start < ticks]
        for piece, (start, end) in enumerate(pairwise([*starts, ticks])):
            variance, joint = self._fixed[piece]
            many = float(end - start)
            lost = np.where(still, 1.0, self.lost)
            powers = np.where(still, many, (1 - lost) * decayed_share(lost, many) / lost)
            plain = end * self.plain.mean_variance(end) - (start * self.plain.mean_variance(start) if start else 0.0)
            factor = self.scales.factors[piece]
            total += many * variance + 2 * factor * (self.plain.amplitudes @ (joint * powers)) + factor**2 * plain
        return float(total / ticks)
