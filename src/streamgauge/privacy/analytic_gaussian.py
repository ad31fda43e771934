"""The analytic Gaussian condition, for *continuous* noise and its rounding only.

Adding N(0, sigma^2) to a vector that moves by at most 1 in L2 is (epsilon, delta)-DP if and only if

    Phi(1/(2 sigma) - epsilon sigma) - e^epsilon Phi(-1/(2 sigma) - epsilon sigma) <= delta

(Balle, Wang: Improving the Gaussian Mechanism for Differential Privacy, 2018, Theorem 8). It also holds for
integers under *rounded* continuous noise, since x + round(N) = round(x + N).

It is no theorem for the discrete Gaussian. There the true delta of a move by 1 falls on either side of the
claimed one, depending on the position of the lattice. At delta = 1e-6 it is 1.02 times the claim for
epsilon = 1 and 3.01 times for epsilon = 8. At delta = 1e-7 and epsilon = 8 it is 0.34 times, as the tests
show. No mechanism here calibrates by it. It serves comparison with figures that others report.
"""

from math import erfc, exp, inf, log, sqrt

from streamgauge.privacy.losses import Approx
from streamgauge.privacy.rationals import Number

SIGMA_MARGIN = 1e-9  # relative, upwards: far above the float error of erfc and of the bisection


def analytic_gaussian_sigma(epsilon: Number, delta: Number) -> float:
    """Return the least standard deviation of continuous noise for a move of 1, rounded up.

    >>> round(analytic_gaussian_sigma(1, 1e-6), 4), round(analytic_gaussian_sigma(1, 1e-9), 4)
    (4.2247, 5.4953)
    """
    loss = Approx(epsilon, delta)
    target, slack = float(loss.epsilon), float(loss.delta)
    low, high = 1e-6, 1.0
    while analytic_gaussian_delta(target, high) > slack:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if analytic_gaussian_delta(target, middle) > slack else (low, middle)
    return high * (1 + SIGMA_MARGIN)


def analytic_gaussian_delta(epsilon: float, sigma: float) -> float:
    """Return the delta of continuous Gaussian noise at this epsilon, for a move of 1."""
    shift = 1 / (2 * sigma)
    return _normal_cdf(shift - epsilon * sigma) - exp(epsilon + _log_normal_cdf(-shift - epsilon * sigma))


def _normal_cdf(x: float) -> float:
    return erfc(-x / sqrt(2)) / 2


def _log_normal_cdf(x: float) -> float:
    """Logarithm of the normal distribution function; minus infinity where that underflows."""
    probability = _normal_cdf(x)
    return log(probability) if probability else -inf
