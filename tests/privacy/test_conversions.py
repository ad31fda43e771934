"""Conversions are theorems, rounded towards more loss, and agree with an independent accountant."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from streamgauge.noise import DiscreteGaussian
from streamgauge.privacy import Approx, IntegerZcdp, PrivacyError, Pure, Zcdp
from streamgauge.privacy.conversions import epsilon_from_rho, find_best_order, group_delta

law = settings(deadline=None, max_examples=60)
amounts = st.fractions(min_value=Fraction(1, 1000), max_value=20, max_denominator=1000)
deltas = st.integers(1, 60).map(lambda bits: Fraction(1, 2**bits + 1))

RHOS = ("1/10000", "1/100", "1/2", "3", "20")
DELTAS = (1e-2, 1e-6, 1e-9, 1e-12)


def bound(alpha: Decimal, rho: Fraction, delta: Fraction) -> Decimal:
    """Solve Corollary 13 of Canonne, Kamath, Steinke for epsilon, at 80 digits."""
    with localcontext() as context:
        context.prec = 80
        r, d = (Decimal(x.numerator) / Decimal(x.denominator) for x in (rho, delta))
        log_factor = alpha * (1 - 1 / alpha).ln() - (alpha - 1).ln()
        return alpha * r + (log_factor - d.ln()) / (alpha - 1)


@law
@given(amounts, deltas)
def test_epsilon_is_nearly_the_best_valid_bound(rho: Fraction, delta: Fraction) -> None:
    epsilon = Zcdp(rho).as_approx(delta).epsilon
    order = find_best_order(float(rho), delta)
    nearby = [bound(1 + Decimal(f"{order * factor:.12e}"), rho, delta) for factor in (1, 0.99, 1.01)]
    assert epsilon >= Fraction(nearby[0])
    assert epsilon <= Fraction(min(nearby)) * (1 + Fraction(1, 10**9)) or epsilon <= Fraction(1, 10**15)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_closed_form_and_dp_accounting_agree(rho: str, delta: float) -> None:
    closed = Zcdp(rho).as_approx(delta)
    independent = Zcdp(rho).as_approx(delta, method="dp-accounting")
    assert closed <= independent
    assert independent.epsilon <= closed.epsilon * Fraction(1005, 1000) + Fraction(1, 10**8)


def test_dp_accounting_composes_as_we_do() -> None:
    from dp_accounting import ComposedDpEvent, SelfComposedDpEvent, ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    ours = sum((Zcdp("1/50") for _ in range(10)), Zcdp("3/10"))
    theirs = RdpAccountant([1 + i / 100 for i in range(1, 3000)])
    theirs.compose(ComposedDpEvent([SelfComposedDpEvent(ZCDpEvent(0.02), 10), ZCDpEvent(0.3)]))
    assert float(ours.as_approx(1e-6).epsilon) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-4)


@law
@given(amounts, deltas)
def test_round_trip_conversion_never_gains_privacy(amount: Fraction, delta: Fraction) -> None:
    loss = Approx(amount, delta)
    back = loss.additive_loss.as_approx(delta)
    assert back <= loss
    assert back.epsilon >= loss.epsilon * (1 - Fraction(1, 10**6))


@law
@given(amounts, amounts, deltas, deltas)
def test_conversions_are_monotone(a: Fraction, b: Fraction, d: Fraction, e: Fraction) -> None:
    (low, high), (strict, lax) = sorted((a, b)), sorted((d, e))
    assert Zcdp(low).as_approx(d).epsilon <= Zcdp(high).as_approx(d).epsilon
    assert Zcdp(a).as_approx(lax).epsilon <= Zcdp(a).as_approx(strict).epsilon
    assert Approx(low, d).additive_loss <= Approx(high, d).additive_loss
    assert Approx(a, strict).additive_loss <= Approx(a, lax).additive_loss


def test_pure_implies_half_its_square_and_not_less() -> None:
    assert Pure(3).as_zcdp() == Zcdp("9/2")


@pytest.mark.parametrize("rho", ["1/50", "1/2", "2", "8"])
@pytest.mark.parametrize("epsilon", [1, 4, 8])
def test_discrete_gaussian_satisfies_the_epsilon_of_its_rho(rho: str, epsilon: int) -> None:
    noise = DiscreteGaussian(1 / (2 * Fraction(rho)))
    true = true_delta(noise.parameter, epsilon)
    if true > 1e-200:
        assert Zcdp(rho).as_approx(true).epsilon >= epsilon * (1 - Fraction(1, 10**9))


def true_delta(parameter: Fraction, epsilon: float) -> float:
    """Return the exact delta of discrete Gaussian noise if an integer moves by 1."""
    with localcontext() as context:
        context.prec = 50
        twice = 2 * Decimal(parameter.numerator) / Decimal(parameter.denominator)
        reach = range(-int(40 * float(parameter) ** 0.5) - 60, int(40 * float(parameter) ** 0.5) + 60)
        weight = {k: (-Decimal(k * k) / twice).exp() for k in reach}
        growth = Decimal(epsilon).exp()
        excess = sum(max(Decimal(0), weight[k] - growth * weight[k + 1]) for k in list(reach)[:-1])
        return float(excess / sum(weight.values()))


@law
@given(amounts, st.integers(1, 12))
def test_a_group_pays_delta_for_each_step_of_the_chain(epsilon: Fraction, k: int) -> None:
    delta = Fraction(1, 2**200)
    with localcontext() as context:
        context.prec = 60
        step = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        chain = Fraction(sum(((i * step).exp() for i in range(k)), Decimal(0)))
    chain = min(chain, 1 / delta)  # a delta of 1 is no guarantee, and the largest
    paid = group_delta(epsilon, delta, k) / delta
    assert chain * (1 - Fraction(1, 10**50)) <= paid <= chain * (1 + Fraction(1, 10**13))


def test_group_with_delta_of_at_least_1_is_refused() -> None:
    assert Approx(1, 1e-6).group(1) == Approx(1, 1e-6)
    assert Approx(1, 1e-6).group(2).epsilon == 2
    with pytest.raises(ValueError, match=r"^delta must be below 1, got "):
        Approx(5, 0.1).group(3)
    with pytest.raises(ValueError, match=r"^delta must be below 1, got 1$"):
        Approx(1, 1e-6).group(10**12)


def test_unknown_conversion_method_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^through must be one of closed form, dp-accounting, got magic$"):
        Zcdp(1).as_approx(0.1, method="magic")


def test_a_loss_too_small_to_matter_still_has_an_epsilon() -> None:
    assert Zcdp("1e-20").as_approx("0.1").epsilon == Fraction(1, 10**15)
    assert Zcdp.zero().as_approx(0.1) == Approx.zero()
    assert Approx("1e-6", "1e-6").additive_loss > Zcdp.zero()


@law
@given(amounts, deltas)
def test_best_integer_order_lies_between_best_order_and_closed_form(rho: Fraction, delta: Fraction) -> None:
    best, closed = Zcdp(rho).as_approx(delta).epsilon, Zcdp(rho).as_approx(delta).epsilon + rho
    integer = epsilon_from_rho(rho, delta, integer_orders=True)
    tried = min(bound(Decimal(alpha), rho, delta) for alpha in (*range(2, 60), *(2**i for i in range(6, 70))))
    assert best * (1 - Fraction(1, 10**9)) <= integer
    assert integer <= max(Fraction(tried), Fraction(1, 10**15)) * (1 + Fraction(1, 10**9))
    if find_best_order(float(rho), delta) >= 1:  # below order 2 the closed form has an advantage
        assert integer <= closed * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_integer_orders_agree_with_dp_accounting_over_the_same_orders(rho: str, delta: float) -> None:
    ours, theirs = (IntegerZcdp(rho).as_approx(delta, method=method) for method in ("closed form", "dp-accounting"))
    assert float(ours.epsilon) == pytest.approx(float(theirs.epsilon), rel=1e-3, abs=2e-9)


def test_integer_orders_imply_no_zcdp_and_nothing_for_groups() -> None:
    loss = IntegerZcdp("1/2")
    for convert in (loss.as_zcdp, loss.as_pure):
        with pytest.raises(PrivacyError, match=r"^loss must be"):
            convert()
    with pytest.raises(PrivacyError, match=r"^size must be 1 under IntegerZcdp\(rho=1/2\), got 2: group privacy"):
        loss.group(2)
    assert loss.group(1) == loss
    assert (loss + Zcdp("1/4"), Zcdp("1/4") + loss) == (IntegerZcdp("3/4"), IntegerZcdp("3/4"))
    assert loss.restate(Pure(1)) == Zcdp("1/2").as_integer_zcdp() == loss
    assert loss.part("1/4") == IntegerZcdp("1/8")
    assert loss.calibrate(l1=1, l2_squared=1) == Zcdp("1/2").calibrate(l1=1, l2_squared=1)
    assert IntegerZcdp.zero().as_approx("1/10") == Approx.zero()
    assert isinstance(loss, Zcdp) is False


@law
@given(amounts, deltas)
def test_there_and_back_at_integer_orders_never_gains(amount: Fraction, delta: Fraction) -> None:
    loss = Approx(amount, delta)
    rho = loss.integer_order_loss.rho
    back = IntegerZcdp(rho).as_approx(delta).epsilon
    assert loss.epsilon * (1 - Fraction(1, 10**6)) <= back <= loss.epsilon
    assert rho <= loss.additive_loss.rho * (1 + Fraction(1, 10**9))


def test_integer_orders_cost_next_to_nothing_at_usual_losses() -> None:
    for rho, cost in ((Fraction("0.0244"), 1.4e-6), (Fraction(1, 2), 9e-4)):
        delta = Fraction(1, 10**6)
        assert 0 < epsilon_from_rho(rho, delta, integer_orders=True) - epsilon_from_rho(rho, delta) < cost


def divergence_ahead(alpha: float, parameter: Fraction, released: int) -> float:
    """Return the Renyi divergence, over alpha rho, of an event at the second tick of a bridge of radix 2.

    The first release fixes e + z_0 - z_1, for the draws of the block and its children: a coset. The event moves e and
    z_1 by 1.
    """
    e, z0 = np.meshgrid(np.arange(-40, 41), np.arange(-40, 41))
    z1, twice = e + z0 - released, 2 * float(parameter)
    log_weight = -(e**2 + z0**2 + z1**2) / twice
    shifted = -((e + 1) ** 2 + z0**2 + (z1 + 1) ** 2) / twice
    moment = logsumexp(alpha * log_weight + (1 - alpha) * shifted) - logsumexp(log_weight)
    return float(moment / (alpha - 1) / (alpha * 2 / twice))


def test_noise_ahead_keeps_integer_orders_exactly_and_others_not() -> None:
    """By enumeration of the coset: the ratio of both lattice sums is 1 for integers; at 1.5 there is an excess."""
    for released in (0, 1, 2):
        for alpha in (2, 3, 4, 7):
            assert divergence_ahead(alpha, Fraction(1, 4), released) == pytest.approx(1, rel=1e-9)
    assert max(divergence_ahead(1.5, Fraction(1, 4), released) for released in (0, 1, 2)) > 1.05
    assert max(divergence_ahead(1.5, Fraction(2), released) for released in (0, 1, 2)) < 1 + 1e-9
