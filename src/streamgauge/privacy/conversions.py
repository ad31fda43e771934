"""Conversions between losses in closed form, rounded towards more loss.

rho-zCDP implies (epsilon, delta)-DP whenever, for some alpha > 1,

    epsilon >= alpha rho + ln(1 - 1/alpha) - ln(alpha delta) / (alpha - 1)

(Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy, 2020, Corollary 13, solved for
epsilon). *Every* alpha gives a valid bound. So floats search alpha, and decimals evaluate the bound once, at that
alpha. At the best alpha the derivative, rho + ln(alpha delta) / (alpha - 1)^2, is zero.

Integer orders
    Discrete Gaussian noise that looks ahead (`continual.trees.two_part`) has D_alpha <= alpha rho at alpha = 2, 3, ...
    only. These bounds add under adaptive composition, order by order, also to those of zCDP. The conversion above
    holds at each single order. So with `integer_orders` it is evaluated at the best integer. Its right side has one
    minimum, so that is an integer next to the best order. (alpha - 1) D_alpha is convex, so D_alpha <= rho + alpha rho
    at all orders: the closed form. It costs rho more, the best integer at most .0009 more at rho = 1/2, delta = 10^-6.

eps-DP implies (eps^2 / 2)-zCDP (Bun, Steinke: Concentrated Differential Privacy, 2016, Proposition 1.4).

Rounding
    Decimal `ln` and `exp` are correctly rounded. Let `size` be the sum of the magnitudes of all terms. At 60
    digits, fewer than ten operations err by less than 10^-55 size, cancellation included. That much is added
    (or subtracted) before the result is rounded outwards to few digits.

Independent check
    Google's dp-accounting minimises the same bound over a fixed grid of orders. So it is below the true
    infimum by float error only, for which `ACCOUNTANT_MARGIN` is added. It is imported at first use.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, floor, log, log1p, nextafter

import numpy as np
import numpy.typing as npt

from streamgauge.privacy.rationals import parse_rational

Floats = npt.NDArray[np.float64]

PRECISION_DIGITS = 60
ROUNDING_SLACK = Decimal("1e-55")
MIN_EPSILON = Fraction(1, 10**15)  # the least epsilon reported: a bound at or below zero is reported as this
MAX_EXPONENT = 10**6  # e to this is within a decimal's range
UP_DIGITS, DOWN_DIGITS = 15, 12  # outward cuts


def rho_from_epsilon(epsilon: Fraction) -> Fraction:
    """Return the zCDP loss that an epsilon-DP mechanism has, exactly epsilon^2 / 2."""
    return epsilon * epsilon / 2


@lru_cache(maxsize=1024)
def epsilon_from_rho(rho: Fraction, delta: Fraction, *, integer_orders: bool = False) -> Fraction:
    """Return an epsilon, rounded up, such that rho-zCDP implies (epsilon, delta)-DP.

    With `integer_orders`, the bounds of zCDP at integer orders suffice.
    """
    bounds = []
    with localcontext(Context(prec=PRECISION_DIGITS)):
        for alpha in _list_orders(find_best_order(float(rho), delta), integer_orders):
            terms = (alpha * _to_decimal(rho), *_slack_terms(alpha, _to_decimal(delta)))
            bounds.append(sum(terms) + ROUNDING_SLACK * sum(map(abs, terms)))
    return max(_round_digits(min(bounds), UP_DIGITS, ROUND_CEILING), MIN_EPSILON)


@lru_cache(maxsize=1024)
def rho_from_approx(epsilon: Fraction, delta: Fraction, *, integer_orders: bool = False) -> Fraction:
    """Return the largest rho, rounded down, such that rho-zCDP implies (epsilon, delta)-DP.

    It is cut once more if the conversion back, which rounds up, would exceed epsilon. With `integer_orders`, the bounds
    of zCDP at integer orders suffice.
    """
    bounds = []
    with localcontext(Context(prec=PRECISION_DIGITS)):
        for alpha in _list_orders(_order_from_epsilon(float(epsilon), delta), integer_orders):
            terms = (_to_decimal(epsilon), *(-term for term in _slack_terms(alpha, _to_decimal(delta))))
            bounds.append((sum(terms) - ROUNDING_SLACK * sum(map(abs, terms))) / alpha)
    rho = max(_round_digits(max(bounds), DOWN_DIGITS, ROUND_FLOOR), Fraction(0))
    while rho and epsilon_from_rho(rho, delta, integer_orders=integer_orders) > epsilon:
        rho = _round_digits(_to_decimal(rho) * (1 - Decimal(10) ** (1 - DOWN_DIGITS)), DOWN_DIGITS, ROUND_FLOOR)
    return rho


def group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """Return delta (e^(k epsilon) - 1) / (e^epsilon - 1), rounded up, at most 1.

    It is delta times the sum of e^(i epsilon) over i < k: the chain of k neighbours, each paying its delta
    under the epsilons of those before it. The margin covers the cancellation in e^epsilon - 1.
    """
    if size == 1:
        return delta
    if size * epsilon > MAX_EXPONENT:
        return Fraction(1)
    with localcontext(Context(prec=PRECISION_DIGITS)):
        step = _to_decimal(epsilon)
        bound = _to_decimal(delta) * ((step * size).exp() - 1) / (step.exp() - 1) * (1 + Decimal("1e-30"))
        return _round_digits(bound, UP_DIGITS, ROUND_CEILING) if bound < 1 else Fraction(1)


def find_best_order(rho: float, delta: Fraction) -> float:
    """Return alpha - 1 at the root of rho (alpha-1)^2 = ln(1 / (alpha delta)).

    The left side rises and the right side falls.
    """
    log_delta = log_fraction(delta)
    return _bisect_order(log_delta, lambda order: rho * order**2 < -log_delta - log1p(order))


def _order_from_epsilon(epsilon: float, delta: Fraction) -> float:
    """Return alpha - 1 at which the best bound is epsilon, by bisection.

    Epsilon falls as alpha rises.
    """
    log_delta = log_fraction(delta)

    def is_too_low(order: float) -> bool:
        slack = log_delta + log1p(order)
        return -(order + 1) * slack / order**2 - log1p(1 / order) - slack / order > epsilon

    return _bisect_order(log_delta, is_too_low)


def _bisect_order(log_delta: float, is_too_low: Callable[[float], bool]) -> float:
    low, high = 1e-12, min(exp(min(-log_delta, 700)), 1e12)
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if is_too_low(middle) else (low, middle)
    return high


def estimate_epsilons(rhos: Floats, log_deltas: Floats) -> Floats:
    """Return the epsilon of each rho at its delta, in floats.

    The result serves choices between bounds only.
    """
    orders = _bisect(rhos, log_deltas, _rho_at)
    return (orders + 1) * rhos - np.log1p(1 / orders) - (log_deltas + np.log1p(orders)) / orders


def estimate_rhos(epsilons: Floats, log_deltas: Floats) -> Floats:
    """Return the rho of each epsilon at its delta, in floats."""
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
    """Return ln(1 - 1/alpha) and -ln(alpha delta) / (alpha - 1)."""
    return ((alpha - 1) / alpha).ln(), -(alpha * delta).ln() / (alpha - 1)


def _list_orders(beta: float, integer_orders: bool) -> list[Decimal]:
    """Return the order 1 + beta or, of integer orders, those next to it."""
    if not integer_orders:
        return [_to_decimal_order(beta)]
    below = max(2, 1 + floor(beta))
    return [Decimal(below), Decimal(below + 1)]


def _to_decimal_order(beta: float) -> Decimal:
    """Return alpha = 1 + beta, exactly, at few digits; nearby orders are as good."""
    return 1 + Decimal(f"{beta:.12e}")


def _to_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _round_digits(value: Decimal, digits: int, rounding: str) -> Fraction:
    return Fraction(Context(prec=digits, rounding=rounding).plus(value))


ACCOUNTANT_MARGIN = 1e-9  # relative and absolute; its arithmetic is about ten float operations near 1e-16 each
_ORDERS = [1 + 10 ** (i / 30) for i in range(-60, 181)]  # from 1.01 to 10^6
_INTEGER_ORDERS = [*range(2, 2000), *(2**i for i in range(11, 24))]


def epsilon_from_rho_by_accountant(rho: Fraction, delta: Fraction, *, integer_orders: bool = False) -> Fraction:
    """Return the epsilon of rho-zCDP at delta by dp-accounting, rounded up.

    With `integer_orders`, the bounds of zCDP at integer orders suffice.
    """
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    ledger = RdpAccountant(_INTEGER_ORDERS if integer_orders else _ORDERS)
    ledger.compose(ZCDpEvent(nextafter(float(rho), float("inf"))))
    epsilon = ledger.get_epsilon(nextafter(float(delta), 0.0))
    return parse_rational(float(epsilon) * (1 + ACCOUNTANT_MARGIN) + ACCOUNTANT_MARGIN)
