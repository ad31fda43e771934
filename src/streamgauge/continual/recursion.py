"""Correlated noise in fixed point: u with C u = z up to a rounding that is bounded and charged.

For an encoder C of exponentials (see `exponentials`) and draws z_t on the integers, each group keeps
one buffer V_i per exponential, in fixed point with rate_bits binary places, and does in integers only

    r_t = round(sum_i weight_i floor(V_i))     rounded as below
    u_t = z_t - r_t
    V_i <- V_i - rate_i floor(V_i) + u_t       exactly: rate_i times an integer has rate_bits places

The noisy item is y_t = x_t + u_t, in the units of the grid; all that is released is computed from the
y's. Silent noise makes all u_t zero, so that the release is the truth.

Privacy (causal, adaptive, discrete Gaussian noise of parameter v in grid units)
    Take two streams and one sequence of releases y. Where the streams differ by D_t (in grid units),
    u'_t - u_t = -D_t; elsewhere u' = u. By induction z_t = u_t + r_t, where r_t is an *integer* function
    of u_1..u_(t-1): given the past, releasing y_t is releasing an integer under discrete Gaussian noise,
    and both worlds' answers differ by (z' - z)_t. Adaptive composition of zCDP gives
    rho = |z' - z|^2 / (2 v). If r_t were sum_i weight_i B_i for the ideal real buffers
    B_i <- (1 - rate_i) B_i + u_t, then z' - z would be -C D. It is not, so that

        |z' - z| <= |C D| + W sqrt(T g)

    over T ticks and the g groups in which the streams differ, if r_t is off by an amount that lies in an
    interval of length W (both worlds' amounts do, so their difference is at most W).
Rounding
    V_i - B_i gains rate_i (V_i - floor(V_i)) in [0, rate_i) a tick and loses the share rate_i of itself:
    it stays in [0, 1), so that floor(V_i) - B_i is in (-1, 1). Each product is rounded down to POINT
    binary places, their sum to an integer. So W = 1 + sum_i (2 weight_i + 2^-POINT).
Overflow
    With n the sums of u that are released (running, or decaying no faster than the buffers, which gives the
    factor), |B_i| <= 2 max |n|. While |V_i| < 2^52 every product below fits 63 bits
    (numerators are below 2^10, weights sum to at most 1). The claim bounds the probability that this
    ever fails (`Correlated.overflow`) and is refused unless it is below that of guessing the
    keystream's key; on that event the proof does not hold.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamgauge.continual.exponentials import Encoder
from streamgauge.noise import Ints

POINT = 10  # binary places of a product before the last rounding
HALF = 1 << (POINT - 1)
ROOM = 52  # buffers stay below 2^ROOM
COLUMNS = 1 << 17  # so many groups at once stay near the cache, and are worth a thread
NARROW = 16  # so few groups are done one by one in Python's integers, the same numbers in less time


@dataclass(slots=True)
class Buffers:
    """V, one row per exponential and one column per group: whole part and rest in 2^-rate_bits."""

    whole: Ints = field(repr=False)  # secret: noise only, which with the releases tells the data
    rest: Ints = field(repr=False)  # secret: the same

    @classmethod
    def empty(cls, encoder: Encoder, width: int) -> "Buffers":
        shape = len(encoder.terms), width
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def of(self, columns: slice) -> "Buffers":
        """The same memory, for some of the groups."""
        return Buffers(self.whole[:, columns], self.rest[:, columns])


def rounding(encoder: Encoder) -> Fraction:
    """W: the length of an interval that holds the rounding error of every r_t."""
    return sum((2 * term.weight + Fraction(1, 1 << POINT) for term in encoder.terms), Fraction(1))


def correlate(encoder: Encoder, buffers: Buffers, draws: Ints) -> None:
    """Turns draws z, one row per tick and one column per group, into u, in place; moves `buffers` on."""
    if draws.shape[1] > NARROW:
        _many_groups(encoder, buffers, draws)
        return
    for group in range(draws.shape[1]):
        _one_group(encoder, buffers, draws, group)


def _many_groups(encoder: Encoder, buffers: Buffers, draws: Ints) -> None:
    total, product = np.empty((2, draws.shape[1]), np.int64)
    terms = list(zip(encoder.terms, buffers.whole, buffers.rest, strict=True))
    for u in draws:
        total[:] = HALF
        for term, whole, _ in terms:
            np.multiply(whole, term.weight_top, out=product)
            np.right_shift(product, term.weight_bits - POINT, out=product)
            np.add(total, product, out=total)
        np.right_shift(total, POINT, out=total)
        np.subtract(u, total, out=u)
        for term, whole, rest in terms:
            lost = whole if term.rate_top == 1 else np.multiply(whole, term.rate_top, out=product)
            np.subtract(rest, lost, out=product)
            np.bitwise_and(product, (1 << term.rate_bits) - 1, out=rest)
            np.right_shift(product, term.rate_bits, out=product)
            np.add(whole, product, out=whole)
            np.add(whole, u, out=whole)


def _one_group(encoder: Encoder, buffers: Buffers, draws: Ints, group: int) -> None:
    terms = encoder.terms
    whole, rest = buffers.whole[:, group].tolist(), buffers.rest[:, group].tolist()
    fixed = [(v << term.rate_bits) + f for term, v, f in zip(terms, whole, rest, strict=True)]
    plain = all(term.rate_top == 1 for term in terms)
    turn = _turns if plain else _turns_with_rates
    draws[:, group] = turn(encoder, fixed, whole, draws[:, group].tolist())
    buffers.whole[:, group] = whole
    buffers.rest[:, group] = [f - (v << t.rate_bits) for f, v, t in zip(fixed, whole, terms, strict=True)]


def _turns(encoder: Encoder, fixed: list[int], whole: list[int], draws: list[int]) -> list[int]:
    """The u of every draw, for rates that are powers of 1/2; the inner loop of narrow runs."""
    numbers = [(i, t.rate_bits, t.weight_top, t.weight_bits - POINT) for i, t in enumerate(encoder.terms)]
    total = HALF + sum(n * whole[i] >> shift for i, _, n, shift in numbers)
    result = []
    for z in draws:
        u = z - (total >> POINT)
        result.append(u)
        total = HALF
        for i, bits, n, shift in numbers:
            fixed[i] = value = fixed[i] - whole[i] + (u << bits)
            whole[i] = v = value >> bits
            total += n * v >> shift
    return result


def _turns_with_rates(encoder: Encoder, fixed: list[int], whole: list[int], draws: list[int]) -> list[int]:
    """The same for any rates."""
    numbers = [
        (i, t.rate_top, t.rate_bits, t.weight_top, t.weight_bits - POINT) for i, t in enumerate(encoder.terms)
    ]
    total = HALF + sum(n * whole[i] >> shift for i, *_, n, shift in numbers)
    result = []
    for z in draws:
        u = z - (total >> POINT)
        result.append(u)
        total = HALF
        for i, m, bits, n, shift in numbers:
            fixed[i] = value = fixed[i] - m * whole[i] + (u << bits)
            whole[i] = v = value >> bits
            total += n * v >> shift
    return result
