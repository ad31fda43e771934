"""Losses are exact, add, compare, scale and split; invalid losses are refused."""

import pickle
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.noise import DiscreteGaussian, DiscreteLaplace
from streamgauge.privacy import Approx, Loss, PrivacyError, Pure, Zcdp, parse_rational
from streamgauge.privacy.rationals import format_rational, parse_whole, sqrt_up

amounts = st.fractions(min_value=Fraction(1, 1000), max_value=20, max_denominator=1000)
deltas = st.integers(1, 40).map(lambda bits: Fraction(1, 2**bits + 1))


@pytest.mark.parametrize("text", ["0.1", "0.3", "1e-06", "2.5", "123456.789", "1e+22", "5e-324"])
def test_a_float_means_the_decimal_that_was_typed(text: str) -> None:
    assert parse_rational(float(text)) == Fraction(text)
    assert parse_rational(np.float64(text)) == Fraction(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_comes_back_as_itself(value: float) -> None:
    assert float(parse_rational(value)) == value


def test_all_spellings_of_a_number_are_one_loss() -> None:
    spellings = (0.5, "0.5", "1/2", Decimal("0.5"), Fraction(1, 2), np.float64(0.5))
    assert {Pure(value) for value in spellings} == {Pure(Fraction(1, 2))}
    assert Pure(np.int64(2)) == Pure(2)
    assert Pure(np.float32(0.1)) == Pure("0.1")
    assert type(Pure(np.int64(2)).epsilon.numerator) is int


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "nan", "one", None, [1], 1j, Decimal("NaN")])
@pytest.mark.parametrize(("kind", "name"), [(Pure, "epsilon"), (Zcdp, "rho")])
def test_losses_other_than_finite_numbers_are_refused(kind: type, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be a finite number, got "):
        kind(value)


@pytest.mark.parametrize("value", [0, -1, 0.0, -0.0, "-1/3"])
def test_a_loss_that_is_not_positive_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=rf"^epsilon must be positive, got {value}$"):
        Pure(value)
    with pytest.raises(ValueError, match=rf"^rho must be positive, got {value}$"):
        Zcdp(value)
    with pytest.raises(ValueError, match=rf"^epsilon must be positive, got {value}$"):
        Approx(value, 0.1)


def test_booleans_are_no_numbers() -> None:
    with pytest.raises(ValueError, match=r"^epsilon must be a number, got True$"):
        Pure(True)
    with pytest.raises(ValueError, match=r"^size must be a whole number, got True$"):
        Pure(1).group(True)


@pytest.mark.parametrize(("delta", "rule"), [(0, "positive"), (-1, "positive"), (1, "below 1"), (2.5, "below 1")])
def test_delta_lies_strictly_between_0_and_1(delta: float, rule: str) -> None:
    with pytest.raises(ValueError, match=rf"^delta must be {rule}, got {delta}$"):
        Approx(1, delta)


@pytest.mark.parametrize("fraction", [0, -1, "3/2"])
def test_a_share_is_above_0_and_at_most_1(fraction: float) -> None:
    for loss in (Pure(1), Zcdp(1), Approx(1, 0.1)):
        with pytest.raises(ValueError, match=rf"^fraction must be above 0 and at most 1, got {fraction}$"):
            loss.part(fraction)


@pytest.mark.parametrize("size", [0, -3, 1.5])
def test_a_group_has_at_least_one_event(size: int) -> None:
    for loss in (Pure(1), Zcdp(1), Approx(1, 0.1)):
        with pytest.raises(ValueError, match=rf"^size must be (at least 1|a whole number), got {size}$"):
            loss.group(size)


def test_losses_print_as_they_are_typed() -> None:
    assert str(Pure(1.0)) == "Pure(epsilon=1)"
    assert repr(Pure("1/3")) == "Pure(epsilon=1/3)"
    assert repr(Zcdp(0.5)) == "Zcdp(rho=1/2)"
    assert repr(Approx(1, 1e-9)) == "Approx(epsilon=1, delta=1e-09)"
    assert format_rational(Fraction(10**400 + 1, 3**500)) == f"{10**400 + 1}/{3**500}"


@given(amounts, deltas)
def test_losses_are_values(amount: Fraction, delta: Fraction) -> None:
    for loss in (Pure(amount), Zcdp(amount), Approx(amount, delta)):
        assert pickle.loads(pickle.dumps(loss)) == loss
        assert len({loss, pickle.loads(pickle.dumps(loss))}) == 1


def test_losses_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Pure(1).epsilon = Fraction(1)


@given(amounts, amounts)
def test_losses_of_one_currency_add_and_compare(a: Fraction, b: Fraction) -> None:
    for kind in (Pure, Zcdp):
        assert kind(a) + kind(b) == kind(a + b)
        assert (kind(a) < kind(b)) == (a < b)
        assert kind(a) + kind.zero() == kind(a)
        assert kind.zero() < kind(a)


def test_the_order_of_approximate_losses_is_partial() -> None:
    assert Approx(1, 0.1) <= Approx(1, 0.1)
    assert Approx(1, 0.1) < Approx(2, 0.1)
    assert Approx(2, 0.2) > Approx(1, 0.1)
    assert not Approx(1, 0.2) <= Approx(2, 0.1)
    assert not Approx(2, 0.1) <= Approx(1, 0.2)
    assert Approx(1, 0.1) + Approx(2, 0.2) == Approx(3, 0.3)
    assert Approx(1, 0.1) + Approx.zero() == Approx(1, 0.1)


@pytest.mark.parametrize(("a", "b"), [(Pure(1), Zcdp(1)), (Zcdp(1), Approx(1, 0.1)), (Approx(1, 0.1), Pure(1))])
def test_currencies_never_mix_silently(a: Loss, b: Loss) -> None:
    for mixed in (lambda: a + b, lambda: a < b, lambda: a <= b, lambda: b > a):
        with pytest.raises(TypeError):
            mixed()
    assert a != b


@given(amounts, st.integers(1, 50))
def test_group_of_k_loses_k_epsilon_and_k_squared_rho(amount: Fraction, k: int) -> None:
    assert Pure(amount).group(k).epsilon == k * amount
    assert Zcdp(amount).group(k).rho == k * k * amount


@given(amounts, st.integers(1, 9))
def test_grouping_and_converting_a_pure_loss_commute(amount: Fraction, k: int) -> None:
    assert Pure(amount).group(k).as_zcdp() == Pure(amount).as_zcdp().group(k)


@given(amounts, deltas, st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_shares_compose_to_the_whole(amount: Fraction, delta: Fraction, weights: list[int]) -> None:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    for loss in (Pure(amount), Zcdp(amount)):
        assert sum((loss.part(share) for share in shares), type(loss).zero()) == loss
    whole_loss = Approx(amount, delta)
    together = sum((whole_loss.part(share) for share in shares), Zcdp.zero())
    assert together.as_approx(delta) <= whole_loss


@given(amounts, st.integers(1, 9))
def test_calibrated_noise_keeps_exactly_the_loss(amount: Fraction, move: int) -> None:
    laplace = Pure(amount).calibrate(l1=move, l2_squared=move**2)
    gaussian = Zcdp(amount).calibrate(l1=move, l2_squared=move**2)
    assert isinstance(laplace, DiscreteLaplace)
    assert isinstance(gaussian, DiscreteGaussian)
    assert Pure(move / laplace.scale) == Pure(amount)
    assert Zcdp(move**2 / (2 * gaussian.parameter)) == Zcdp(amount)


def test_an_approximate_loss_is_calibrated_through_zcdp() -> None:
    loss = Approx(1, 1e-6)
    assert loss.calibrate(l1=2, l2_squared=2) == loss.additive_loss.calibrate(l1=2, l2_squared=2)


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(1), Approx(1, 0.1)])
def test_a_vector_that_does_not_move_is_refused(loss: Loss) -> None:
    with pytest.raises(ValueError, match=r"^l(1|2_squared) must be positive, got 0$"):
        loss.calibrate(l1=0, l2_squared=0)


def test_no_noise_keeps_no_loss() -> None:
    with pytest.raises(ValueError, match=r"^epsilon must be positive, got 0$"):
        Pure.zero().calibrate(l1=1, l2_squared=1)


def test_only_theorems_convert() -> None:
    for loss in (Zcdp(1), Approx(1, 0.1)):
        with pytest.raises(PrivacyError, match=r"^loss must be pure, got "):
            loss.as_pure()
    with pytest.raises(PrivacyError, match=r"^loss must be pure or zCDP, got "):
        Approx(1, 0.1).as_zcdp()
    with pytest.raises(PrivacyError, match=r"^delta must be at least 1/10, got 0.01$"):
        Approx(1, 0.1).as_approx(0.01)
    assert Approx(1, 0.1).as_approx(0.2) == Approx(1, 0.2)
    assert Pure(1).as_approx(0.1) == Approx(1, 0.1)


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=10**6))
def test_square_roots_are_rounded_up_or_exact(value: Fraction) -> None:
    root = sqrt_up(value)
    assert root * root >= value
    assert sqrt_up(value * value) == value
    assert (root - Fraction(1, 2**60)) ** 2 <= value or root < Fraction(1, 2**60)


def test_whole_numbers_have_a_floor() -> None:
    with pytest.raises(ValueError, match=r"^w must be at least 1, got 0$"):
        parse_whole(0, "w")
