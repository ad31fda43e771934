"""What one currency of loss is worth in another, in closed form and rounded towards more loss.

rho-zCDP implies (epsilon, delta)-DP whenever, for some alpha > 1,

    epsilon >= alpha rho + ln(1 - 1/alpha) - ln(alpha delta) / (alpha - 1)

(Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020, Corollary 13, solved for
epsilon). *Every* alpha gives a valid bound, so alpha is sought in floats and the bound is evaluated once, at
that alpha, in decimals. The best alpha is where the derivative, rho + ln(alpha delta) / (alpha - 1)^2, is
zero.

Rounding
    Decimal `ln` and `exp` are correctly rounded. At 60 digits, fewer than ten operations on terms of which
    none exceeds `size` = the sum of their magnitudes, err by less than 10^-55 size (cancellation included);
    that much is added (or taken away) before the result is cut outwards to few digits.

eps-DP implies (eps^2 / 2)-zCDP (Bun, Steinke: Concentrated Differential Privacy, 2016, Proposition 1.4).
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DIGITS = 60
SLACK = Decimal("1e-55")
SMALLEST = Fraction(1, 10**15)  # the least epsilon reported: a bound at or below zero is reported as this
LARGEST_EXPONENT = 10**6  # e to this is within a decimal's range
UP_DIGITS, DOWN_DIGITS = 15, 12  # outward cuts


def rho_of_epsilon(epsilon: Fraction) -> Fraction:
    """The zCDP loss that an epsilon-DP mechanism has, exactly epsilon^2 / 2."""
    return epsilon * epsilon / 2


@lru_cache(maxsize=1024)
def epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon, rounded up, such that rho-zCDP implies (epsilon, delta)-DP."""
    alpha = _decimal_order(best_order(float(rho), delta))
    with localcontext(Context(prec=DIGITS)):
        terms = (alpha * _decimal(rho), *_slack_terms(alpha, _decimal(delta)))
        bound = sum(terms) + SLACK * sum(map(abs, terms))
    return max(_cut(bound, UP_DIGITS, ROUND_CEILING), SMALLEST)


@lru_cache(maxsize=1024)
def rho_of_approx(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, rounded down, such that rho-zCDP implies (epsilon, delta)-DP.

    Cut once more where the way back, which rounds up, would else come out above epsilon.
    """
    alpha = _decimal_order(_order_of_epsilon(float(epsilon), delta))
    with localcontext(Context(prec=DIGITS)):
        terms = (_decimal(epsilon), *(-term for term in _slack_terms(alpha, _decimal(delta))))
        bound = (sum(terms) - SLACK * sum(map(abs, terms))) / alpha
    rho = max(_cut(bound, DOWN_DIGITS, ROUND_FLOOR), Fraction(0))
    while rho and epsilon_of_rho(rho, delta) > epsilon:
        rho = _cut(_decimal(rho) * (1 - Decimal(10) ** (1 - DOWN_DIGITS)), DOWN_DIGITS, ROUND_FLOOR)
    return rho


def group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """delta (e^(k epsilon) - 1) / (e^epsilon - 1) for a group of k, rounded up; 1 where it is 1 or more.

    It is delta times the sum of e^(i epsilon) over i < k: the chain of k neighbours, each paying its delta
    under the epsilons of those before it. The margin covers the cancellation in e^epsilon - 1.
    """
    if size == 1:
        return delta
    if size * epsilon > LARGEST_EXPONENT:
        return Fraction(1)
    with localcontext(Context(prec=DIGITS)):
        step = _decimal(epsilon)
        bound = _decimal(delta) * ((step * size).exp() - 1) / (step.exp() - 1) * (1 + Decimal("1e-30"))
        return _cut(bound, UP_DIGITS, ROUND_CEILING) if bound < 1 else Fraction(1)


def best_order(rho: float, delta: Fraction) -> float:
    """alpha - 1 at the root of rho (alpha-1)^2 = ln(1 / (alpha delta)): left side rises, right side falls."""
    log_delta = log_fraction(delta)
    low, high = 1e-12, min(exp(min(-log_delta, 700)), 1e12)
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if rho * middle**2 < -log_delta - log1p(middle) else (low, middle)
    return high


def _order_of_epsilon(epsilon: float, delta: Fraction) -> float:
    """alpha - 1 at which the best bound is the given epsilon, by bisection: epsilon falls as alpha rises."""
    log_delta = log_fraction(delta)
    low, high = 1e-12, min(exp(min(-log_delta, 700)), 1e12)
    for _ in range(60):
        order = (low * high) ** 0.5
        slack = log_delta + log1p(order)
        found = -(order + 1) * slack / order**2 - log1p(1 / order) - slack / order
        low, high = (order, high) if found > epsilon else (low, order)
    return high


def estimate_epsilons(rhos: Floats, log_deltas: Floats) -> Floats:
    """Return the epsilon of each rho at its delta, in floats: to choose by, never to decide by."""
    orders = _bisect(rhos, log_deltas, _rho_at)
    return (orders + 1) * rhos - np.log1p(1 / orders) - (log_deltas + np.log1p(orders)) / orders


def estimate_rhos(epsilons: Floats, log_deltas: Floats) -> Floats:
    """Return the rho of each epsilon at its delta, in floats: the way back."""
    return np.maximum(_rho_at(_bisect(epsilons, log_deltas, _epsilon_at), log_deltas), 0.0)


def _rho_at(orders: Floats, log_deltas: Floats) -> Floats:
    """Return the rho of which each order alpha - 1 is the best one."""
    return -(log_deltas + np.log1p(orders)) / orders**2


def _epsilon_at(orders: Floats, log_deltas: Floats) -> Floats:
    """Return the epsilon at the rho of which each order is the best one."""
    rhos = _rho_at(orders, log_deltas)
    return (orders + 1) * rhos - np.log1p(1 / orders) - (log_deltas + np.log1p(orders)) / orders


def _bisect(targets: Floats, log_deltas: Floats, falling: Callable[[Floats, Floats], Floats]) -> Floats:
    """Return the orders at which a falling function has its targets."""
    low = np.full(targets.shape, log(1e-12))
    high = np.minimum(np.minimum(-log_deltas, 700.0), log(1e12))
    for _ in range(45):
        middle = (low + high) / 2
        above = falling(np.exp(middle), log_deltas) > targets
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.exp(high)


def log_fraction(value: Fraction) -> float:
    """Return the logarithm of a fraction, which may be smaller than any float."""
    return log(value.numerator) - log(value.denominator)


def _slack_terms(alpha: Decimal, delta: Decimal) -> tuple[Decimal, Decimal]:
    """ln(1 - 1/alpha) and -ln(alpha delta) / (alpha - 1)."""
    return ((alpha - 1) / alpha).ln(), -(alpha * delta).ln() / (alpha - 1)


def _decimal_order(beta: float) -> Decimal:
    """alpha = 1 + beta, exactly, at few digits: any nearby order is as good."""
    return 1 + Decimal(f"{beta:.12e}")


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _cut(value: Decimal, digits: int, rounding: str) -> Fraction:
    return Fraction(Context(prec=digits, rounding=rounding).plus(value))
