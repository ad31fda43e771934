"""Conversions through Google's dp-accounting, the independent check on our closed form.

Its Renyi accountant minimises the same bound over a fixed grid of orders, so it is never below the true
infimum except by float error, for which `MARGIN` is added. It is heavy, so it is imported when first asked.
"""

from fractions import Fraction
from math import nextafter

from streamgauge.privacy.exact import exact

MARGIN = 1e-9  # relative and absolute; its arithmetic is about ten float operations near 1e-16 each
_EXPONENTS = range(-60, 181)  # orders 1 + 10^(i/30), from 1.01 to 10^6


def epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon, rounded up, such that rho-zCDP implies (epsilon, delta)-DP, by dp-accounting."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    ledger = RdpAccountant([1 + 10 ** (i / 30) for i in _EXPONENTS])
    ledger.compose(ZCDpEvent(nextafter(float(rho), float("inf"))))
    epsilon = ledger.get_epsilon(nextafter(float(delta), 0.0))
    return exact(float(epsilon) * (1 + MARGIN) + MARGIN)
