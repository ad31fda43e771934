"""Chernoff's bound: P(S >= x) <= exp(K(l) - l x) for every l > 0, with K(l) = log E exp(l S) of the actual
noise."""

from collections.abc import Callable
from functools import lru_cache
from math import exp, inf, log, sqrt

Log = Callable[[float], float]

OUTWARDS = 1e-10
GOLDEN: float = (sqrt(5) - 1) / 2
ROUNDS = 32
SMALLEST, LARGEST = -160, 64  # exponents of tilts that are looked at


def between(start: float, stop: float) -> float:
    """The golden section of the way from one positive point to another, on a log scale."""
    return start * exp(GOLDEN * log(stop / start))


def least(function: Log, low: float, high: float) -> float:
    """Where a function with one valley is least between two positive points, by golden sections on a log
    scale."""
    left, right = between(high, low), between(low, high)
    at_left, at_right = function(left), function(right)
    for _ in range(ROUNDS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = between(high, low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = between(low, high)
            at_right = function(right)
    return left if at_left <= at_right else right


def doubled(enough: Callable[[float], bool], unit: float) -> float:
    """The least l among powers of two over `unit` with enough(l), which must hold from some l on; the
    largest, if none has."""
    low, high = SMALLEST, LARGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(2.0**middle / unit) else (middle, high)
    return 2.0**high / unit


@lru_cache(maxsize=4)  # a width and its inversion ask for the same
def best_tilt(log_mgf: Log, unit: float, need: float) -> float:
    """The l with the least (K(l) + need)/l, the point where the bound is exp(-need). `unit` is the largest
    weight in S.

    It is where f(l) = l K'(l) - K(l), which grows, is `need`. K is convex: K(2 l) - 2 K(l), which grows too,
    is at least f(l) and at most f(2 l). So if it first reaches `need` at l among powers of two, the best is
    between l/2 and 2 l. None of this wants K(0) to be 0.
    """

    def enough(tilt: float) -> bool:
        far = log_mgf(2 * tilt)
        return far == inf or far - 2 * log_mgf(tilt) >= need

    def slope(tilt: float) -> float:
        return (log_mgf(tilt) + need) / tilt

    start = doubled(enough, unit)
    return least(slope, start / 2, 2 * start)


def chernoff_width(log_mgf: Log, unit: float, need: float) -> float:
    """A point x with P(S >= x) <= exp(-need)."""
    tilt = best_tilt(log_mgf, unit, need)
    return (log_mgf(tilt) + need) / tilt * (1 + OUTWARDS)


def chernoff_tail(log_mgf: Log, unit: float, x: float) -> float:
    """A bound on P(S >= x). The best l has K'(l) = x, and the slope of K from l to 2 l is between K'(l) and
    K'(2 l)."""
    if x <= 0:
        return 1.0

    def enough(tilt: float) -> bool:
        far = log_mgf(2 * tilt)
        return far == inf or far - log_mgf(tilt) >= tilt * x

    start = doubled(enough, unit)
    tilt = least(lambda tilt: log_mgf(tilt) - tilt * x, start / 2, 2 * start)
    value = log_mgf(tilt)
    return exp(min(value - tilt * x + OUTWARDS * (1 + value + tilt * x), 0.0)) if value < inf else 1.0
