"""The analytic Gaussian condition holds for continuous noise, but not for discrete noise."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp

import pytest

from streamgauge.privacy import Approx, analytic_gaussian_sigma
from streamgauge.privacy.analytic_gaussian import analytic_gaussian_delta


def discrete_delta(sigma: float, epsilon: float, shift: int = 1) -> float:
    """Return the exact delta of discrete Gaussian noise if an integer moves by `shift`."""
    with localcontext() as context:
        context.prec = 40
        twice, growth = 2 * Decimal(sigma) ** 2, Decimal(epsilon).exp()
        reach = int(20 * sigma + 20 * epsilon * sigma**2) + 20
        weights = [(-Decimal(k * k) / twice).exp() for k in range(-reach, reach + 1)]
        pairs = zip(weights, weights[shift:], strict=False)
        return float(sum(max(Decimal(0), p - growth * q) for p, q in pairs) / sum(weights))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1, 1e-6), (1, 1e-9), (8, 1e-6), (30, 1e-9)])
def test_sigma_meets_the_condition_and_barely(epsilon: float, delta: float) -> None:
    sigma = analytic_gaussian_sigma(epsilon, delta)
    assert analytic_gaussian_delta(epsilon, sigma) <= delta
    assert analytic_gaussian_delta(epsilon, sigma * (1 - 1e-7)) > delta


def test_sigma_matches_the_condition_by_numerical_integration() -> None:
    sigma, epsilon, step = analytic_gaussian_sigma(1, 1e-6), 1, 1e-3
    densities = (
        (exp(-(x**2) / (2 * sigma**2)), exp(-((x + 1) ** 2) / (2 * sigma**2)))
        for x in (i * step for i in range(-80_000, 80_001))
    )
    excess, total = map(sum, zip(*((max(0, p - exp(epsilon) * q), p) for p, q in densities), strict=True))
    assert excess / total == pytest.approx(1e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"), [(1, 1e-6, 1.020), (8, 1e-6, 3.014), (1, 7e-6, 0.913), (8, 1e-7, 0.344)]
)
def test_true_discrete_delta_can_exceed_the_analytic_one(epsilon: float, delta: float, ratio: float) -> None:
    true = discrete_delta(analytic_gaussian_sigma(epsilon, delta), epsilon)
    assert true / delta == pytest.approx(ratio, rel=2e-3)


@pytest.mark.parametrize("epsilon", [1, 8])
@pytest.mark.parametrize("delta", [1e-5, 1e-6])
def test_our_calibration_bounds_the_true_discrete_delta(epsilon: int, delta: float) -> None:
    noise = Approx(epsilon, delta).calibrate(l1=1, l2_squared=1)
    assert discrete_delta(float(noise.parameter) ** 0.5, epsilon) <= delta
    assert noise.parameter >= Fraction(analytic_gaussian_sigma(epsilon, delta)) ** 2
