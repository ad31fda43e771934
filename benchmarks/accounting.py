"""Comparison of the ledger's epsilon with dp-accounting's PLD accountant.

A ledger adds up some pure releases and composes the others as zCDP, in the split with the least epsilon
(docs/privacy.md). The privacy loss distribution (PLD) composes the mechanisms themselves: Laplace and Gaussian noise
on a count of sensitivity 1. Each row prints, at delta 1e-6, the epsilon of zCDP alone, of the ledger and of the
accountant, and the excess of the ledger.

    python benchmarks/accounting.py             # seconds
"""

import math
import time
from fractions import Fraction
from typing import Any

import dp_accounting
from dp_accounting.pld import PLDAccountant

from streamgauge.privacy import Approx, BudgetExceededError, Event, Ledger, Loss, Pure, Zcdp

DELTA = 1e-6
BUDGET = Approx(1, DELTA)
TENTH = BUDGET.part("1/10")
LEDGERS: dict[str, list[Loss]] = {
    "1 pure of 0.25": [Pure("1/4")],
    "5 pure of 0.2": [Pure("1/5")] * 5,
    "10 pure of 0.1": [Pure("1/10")] * 10,
    "100 pure of 0.01": [Pure("1/100")] * 100,
    "1,000 pure of 0.005": [Pure("1/200")] * 1000,
    "pure of 0.5, 0.2 and 0.1": [Pure("1/2"), Pure("1/5"), Pure("1/10")],
    "1 Gaussian of the whole budget": [BUDGET.additive_loss],
    "10 Gaussian of a tenth": [TENTH] * 10,
    "1 pure of 0.25, 1 Gaussian of the rest": [Pure("1/4"), Approx("3/4", DELTA).additive_loss],
    "2 pure of 0.25, 4 Gaussian of a twentieth": [Pure("1/4")] * 2 + [BUDGET.part("1/20")] * 4,
    "100 pure of 0.01, 5 Gaussian of a tenth": [Pure("1/100")] * 100 + [TENTH] * 5,
}


def build_event(loss: Loss) -> Any:
    """Build the accountant's event of a mechanism with this loss."""
    if isinstance(loss, Pure):
        return dp_accounting.LaplaceDpEvent(1 / float(loss.epsilon))
    return dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * float(loss.amount)))


def pld_epsilon(losses: list[Loss]) -> float:
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    for loss in dict.fromkeys(losses):
        accountant.compose(build_event(loss), losses.count(loss))
    return float(accountant.get_epsilon(DELTA))


def ledger_epsilon(losses: list[Loss]) -> float:
    ledger = Ledger(Approx(1000, DELTA), Event())
    for number, loss in enumerate(losses):
        ledger.charge(f"r{number}", loss)
    return float(ledger.spent_loss().amount)


def zcdp_epsilon(losses: list[Loss]) -> float:
    rho = sum((loss.as_zcdp().rho for loss in losses), Fraction(0))
    return float(Zcdp(rho).as_approx(DELTA).epsilon)


def show_fits() -> None:
    """Print outcomes of charges against epsilon 1, delta 1e-6."""
    for name, losses in (("1 of epsilon 0.25", [Pure("1/4")]), ("5 of epsilon 0.2", [Pure("1/5")] * 5)):
        ledger = Ledger(BUDGET, Event())
        try:
            for number, loss in enumerate(losses):
                ledger.charge(f"r{number}", loss)
            outcome = f"remaining: {ledger.remaining_epsilon()} or {ledger.remaining_loss()}"
        except BudgetExceededError as refusal:
            outcome = f"refused: {refusal}"
        print(f"{name:<44}{outcome}")


def show_costs(count: int = 200) -> None:
    """Print the time of charges, half of them pure, with successive first ticks."""
    ledger, start = Ledger(Approx(1000, DELTA), Event()), time.perf_counter()
    for number in range(count):
        loss = Pure(Fraction(1 + number % 50, 1000)) if number % 2 else TENTH
        ledger.charge(f"r{number}", loss, 1 + 3 * number, None if number % 3 else 200 + 5 * number)
    each = (time.perf_counter() - start) / count
    start = time.perf_counter()
    ledger.spent_loss()
    seconds = time.perf_counter() - start
    print(f"{count} charges: {1000 * each:.1f} ms each, spent loss of all ticks {seconds:.2f} s")


def main() -> None:
    print(f"{'epsilon at delta 1e-6':<44}{'zCDP alone':>12}{'ledger':>12}{'PLD':>12}{'above PLD':>12}")
    for name, losses in LEDGERS.items():
        ours, best = ledger_epsilon(losses), pld_epsilon(losses)
        numbers = f"{zcdp_epsilon(losses):>12.4f}{ours:>12.4f}{best:>12.4f}{ours / best - 1:>12.1%}"
        print(f"{name:<44}{numbers}", flush=True)
    print("\nunder a budget of epsilon 1, delta 1e-6")
    show_fits()
    print()
    show_costs()


if __name__ == "__main__":
    main()
