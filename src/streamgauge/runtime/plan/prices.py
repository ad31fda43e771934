"""What a loss buys in each currency, before it is paid.

    rho 0.0044      count ± 68        Gaussian noise
    epsilon 0.0938  count ± 381       Laplace noise, for no more

A budget with a delta, or of rho, takes a release with a rho or with an epsilon. Errors differ by several times, so a
plan shows both. Amounts are cut to three digits: an amount that is typed in costs no more than the one it stands for.

**No higher price.** An epsilon of sqrt(2 rho) composes as zCDP with exactly rho. In place of an epsilon, a rho of
epsilon^2/2 does the same under a budget of rho. Under a budget with a delta, the rho that epsilon converts to at the
remaining delta adds at most epsilon, since that conversion is concave in rho (`gaussian_hints`). Larger ones are tried
in copies of the ledger, up to epsilon^2/2: the price is the largest by which no unit loses more than by the epsilon.

**Privacy.** Prices follow from declarations and the ledger. Nothing here reads data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import isfinite, isqrt

from streamgauge.plan.aggregates.prediction import ErrorPrediction
from streamgauge.plan.planner import ReleasePlan, replan_release
from streamgauge.plan.predict import predict_errors
from streamgauge.privacy import Approx, IntegerZcdp, Ledger, Loss, Pure, Remainder, Step, Timeline, Zcdp
from streamgauge.runtime.format import loss_text
from streamgauge.runtime.ledger.log import LedgerLog

SEARCH_STEPS = 9  # of a rho between two bounds
UNREACHABLE_EPSILON = 10**6  # an epsilon that no ledger reaches
ROOT_SCALE = 10**24  # of exact square roots, rounded down


@dataclass(frozen=True)
class Price:
    """A loss, and the predicted errors of a release that has it."""

    loss: Pure | Zcdp
    errors: tuple[ErrorPrediction, ...]

    def __str__(self) -> str:
        """Return the loss and the error of each measure at the last shown tick."""
        last = max(error.tick for error in self.errors)
        shown = [error for error in self.errors if error.tick == last]
        sizes = [f"{error.measure} ± {error.half_width:,.4g}" for error in shown if isfinite(error.half_width)]
        return f"{loss_text(self.loss)}: {', '.join(sizes) or 'not known before there are data'}"


def find_alternatives(plan: ReleasePlan, ledger_log: LedgerLog) -> tuple[Price, ...]:
    """Return the other currency for no higher price, with its errors; none under a pure budget.

    The ledger has the charge of the release, unless it is refused.
    """
    ledger, loss = ledger_log.ledger, plan.release.loss
    if ledger is None or plan.query.report is not None:
        return ()
    left = getattr(ledger.budget, "delta", Fraction(0)) - ledger.spent_delta() - (plan.release.delta or 0)
    losses = convert_price(loss, ledger.budget, left, plan.stream.allows_integer_orders)
    if losses and isinstance(loss, Pure) and isinstance(ledger.budget, Approx) and plan.name in ledger_log.releases:
        losses = [raise_price(losses[0].amount, plan, loss, ledger_log, ledger.budget)]
    return tuple(predict_prices(plan, losses))


def find_affordable(plan: ReleasePlan, left: Loss | Remainder | None) -> tuple[Price, ...]:
    """Return what is left in each currency, with the errors that it buys."""
    if left is None or plan.query.report is not None:
        return ()
    losses: list[Pure | Zcdp]
    if isinstance(left, Remainder):
        losses = [Zcdp.from_amount(left.rho), Pure.from_amount(left.epsilon)]
    elif isinstance(left, Zcdp):
        losses = [left, Pure.from_amount(compute_root(2 * left.rho))]
    else:
        losses = [Pure.from_amount(left.amount)]
    return tuple(predict_prices(plan, losses))


def raise_price(low: Fraction, plan: ReleasePlan, loss: Pure, ledger_log: LedgerLog, budget: Approx) -> Zcdp:
    """Return about the largest rho that, in place of the charged epsilon, costs no unit more; at least `low`."""
    high, kind = loss.as_zcdp().rho, IntegerZcdp if plan.stream.allows_integer_orders else Zcdp
    for tried in range(SEARCH_STEPS):
        middle = high if not tried else Fraction(float(low * high) ** 0.5)
        if not low < middle <= high:
            break
        if is_affordable({plan.name: cut_digits(middle)}, ledger_log, budget, kind):
            low = middle
        else:
            high = middle
    return Zcdp.from_amount(low)


def convert_price(loss: Loss, budget: Loss, delta_left: Fraction, looks_ahead: bool = False) -> list[Pure | Zcdp]:
    """Return the loss in the other currency of the budget, for no higher price.

    Args:
        looks_ahead: True if counters may be charged at integer orders only.

    >>> convert_price(Zcdp("1/200"), Zcdp(1), Fraction(0)), convert_price(Pure("1/10"), Zcdp(1), Fraction(0))
    ([Pure(epsilon=1/10)], [Zcdp(rho=1/200)])
    >>> convert_price(Pure(1), Pure(2), Fraction(0))
    []
    """
    if isinstance(budget, Pure):
        return []
    if isinstance(loss, Zcdp):
        return [Pure.from_amount(compute_root(2 * loss.rho))]
    rho = loss.as_zcdp().rho
    if isinstance(budget, Approx):
        if delta_left <= 0:
            return []
        rho = min(rho, convert_to_rho(Approx(loss.amount, delta_left), looks_ahead))
    return [Zcdp.from_amount(rho)]


def convert_to_rho(budget: Approx, looks_ahead: bool) -> Fraction:
    """Return the rho that a budget buys, at integer orders only if counters may look ahead."""
    return budget.integer_order_loss.rho if looks_ahead else budget.additive_loss.rho


def predict_prices(plan: ReleasePlan, losses: list[Pure | Zcdp]) -> Iterator[Price]:
    """Yield the errors at each loss, if the mechanism and the unit have noise of its kind."""
    for loss in losses:
        amount = Fraction(cut_digits(loss.amount))
        if not amount:
            continue
        cut = type(loss).from_amount(amount)
        try:
            yield Price(cut, tuple(predict_errors(replan_release(plan, cut))))
        except ValueError:
            continue


def compute_root(value: Fraction) -> Fraction:
    """Return the square root, rounded down.

    >>> compute_root(Fraction(1, 4)), float(compute_root(Fraction(2)))
    (Fraction(1, 2), 1.4142135623730951)
    """
    return Fraction(isqrt(value.numerator * ROOT_SCALE**2 // value.denominator), ROOT_SCALE)


def cut_digits(amount: Fraction) -> Decimal:
    """Cut an amount to three digits, so that the shown number costs no more.

    >>> cut_digits(Fraction(44099, 10**7))
    Decimal('0.00440')
    """
    exact = Context(prec=30, rounding=ROUND_FLOOR).divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return Context(prec=3, rounding=ROUND_FLOOR).plus(exact)


def is_affordable(
    rhos: Mapping[str, Decimal], ledger_log: LedgerLog, budget: Approx, kind: type[Zcdp | IntegerZcdp] = Zcdp
) -> bool:
    """Return whether no unit loses more, on the whole timeline, with these rhos."""
    ledger = ledger_log.ledger
    if ledger is None:
        return False
    numbers = {ledger_log.releases[name].charge.number: kind(rho) for name, rho in rhos.items()}
    other = Ledger(Approx(UNREACHABLE_EPSILON, budget.delta), ledger.unit)
    for charge in ledger.entries:
        if charge.active_timeline is not None:
            steps = charge.active_timeline.steps
            if charge.number in numbers:
                steps = tuple(Step(step.first, step.last, numbers[charge.number]) for step in steps)
            how = {"native": charge.native, "per_tick": charge.per_tick}
            other.charge_timeline(charge.name, Timeline(steps), delta=charge.delta, **how)
    return other.spent_loss().amount <= ledger.spent_loss().amount
