"""Chernoff's bound: P(S >= x) <= exp(K(l) - l x) for every l > 0, with K(l) = log E exp(l S) of the actual
noise."""

from collections.abc import Callable
from math import exp, inf, log, sqrt

Log = Callable[[float], float]

OUTWARDS = 1e-12
GOLDEN: float = (sqrt(5) - 1) / 2
ROUNDS = 48


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


def best_tilt(log_mgf: Log, unit: float, need: float) -> float:
    """The l with the least (K(l) + need)/l, the point where the bound is exp(-need). `unit` is about the
    deviation of S."""
    return least(lambda tilt: (log_mgf(tilt) + need) / tilt, 1e-4 / unit, 1e3 * (1 + need) / unit)


def chernoff_width(log_mgf: Log, unit: float, need: float) -> float:
    """A point x with P(S >= x) <= exp(-need)."""
    tilt = best_tilt(log_mgf, unit, need)
    return (log_mgf(tilt) + need) / tilt * (1 + OUTWARDS)


def chernoff_tail(log_mgf: Log, unit: float, x: float) -> float:
    """A bound on P(S >= x)."""
    if x <= 0:
        return 1.0

    def log_bound(tilt: float) -> float:
        value = log_mgf(tilt)
        return value - tilt * x if value < inf else inf

    tilt = least(log_bound, 1e-6 / unit, 1e3 * (1 + x / unit) / unit)
    return exp(min(log_bound(tilt) + OUTWARDS * (1 + tilt * x), 0.0))
