"""A budget adds up in one currency, accepts convertible charges, and converts once."""

from fractions import Fraction

import pytest

from streamgauge.privacy import Approx, BudgetExceededError, Event, Ledger, PrivacyError, Pure, User, Zcdp


def test_a_pure_budget_refuses_other_currencies() -> None:
    ledger = Ledger(Pure(1), Event())
    for loss in (Zcdp("1/100"), Approx(1, 1e-9)):
        with pytest.raises(PrivacyError, match=r"^loss must be pure, got "):
            ledger.charge("r", loss)
    assert ledger.entries == ()


def test_a_zcdp_budget_takes_pure_charges_at_half_their_square() -> None:
    ledger = Ledger(Zcdp(1), User(1, 2))
    ledger.charge("pure", Pure("1/2"))
    assert ledger.spent_loss() == Pure(1).as_zcdp()
    ledger.charge("zcdp", Zcdp("1/8"))
    assert ledger.remaining_loss().amount == 0


def test_an_approximate_budget_composes_in_zcdp_and_converts_once() -> None:
    budget = Approx(1, 1e-6)
    ledger = Ledger(budget, Event())
    for _ in range(10):
        ledger.charge("tenth", budget.part("1/10"))
    assert ledger.remaining_loss() == Zcdp.zero()
    assert ledger.spent_loss() <= budget
    assert ledger.spent_loss().epsilon > budget.epsilon * Fraction(999_999, 1_000_000)
    with pytest.raises(BudgetExceededError):
        ledger.charge("more", Zcdp("1e-9"))


def test_approximate_charge_is_refused_with_advice() -> None:
    ledger = Ledger(Approx(1, 1e-6), Event())
    with pytest.raises(PrivacyError, match=r"charge the charged_loss of a mechanism"):
        ledger.charge("r", Approx("1/2", 1e-7))
    ledger.charge("r", Approx("1/2", 1e-7).additive_loss)
    assert Ledger(Approx(1, 1e-6), Event()).spent_loss() == Approx.zero()
