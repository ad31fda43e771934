"""Shares of analysts: a part of the budget, in a separate ledger.

The one ledger of all charges guarantees the promise to everybody in the stream. A share divides among analysts the
loss that this ledger allows. It is never above the budget, and never frees anything.

An analyst's ledger has a share of the budget in the additive currency, like `share` of a release. It has the active
part of all their charges. They may use the same share of the budget's delta.

Under an (epsilon, delta) budget a release uses the part of the budget that it would use by itself: rho of
`additive_loss`. For a pure release it is epsilon of epsilon, if that is less than its epsilon^2/2 of `additive_loss`.
So half of the budget is half of its epsilon for pure releases, and half of its rho for others.
"""

from fractions import Fraction
from math import isqrt

from streamgauge.privacy import (
    AdditiveLoss,
    Approx,
    BudgetExceededError,
    Charge,
    Ledger,
    Loss,
    PrivacyError,
    Pure,
    Remainder,
    Step,
    Timeline,
    Zcdp,
)
from streamgauge.runtime.format import loss_text
from streamgauge.runtime.ledger.log import LedgerLog


def check_share(ledger_log: LedgerLog, analyst: str, share: Fraction | None) -> None:
    """Reject charges of an analyst above their share. None is the whole budget."""
    if share is not None:
        try:
            build_analyst_ledger(ledger_log, analyst, share)
        except PrivacyError as refusal:
            refusal.add_note(f"the share of {analyst}")
            raise


def remaining_share(
    ledger_log: LedgerLog, analyst: str, share: Fraction | None, first: int = 1
) -> AdditiveLoss | Remainder | None:
    """Return the loss that an analyst can still request from a tick on.

    None if there is no share, or no budget yet.
    """
    if share is None or ledger_log.ledger is None:
        return None
    budget = ledger_log.ledger.budget
    try:
        left = build_analyst_ledger(ledger_log, analyst, share).remaining_loss(first)
    except PrivacyError:  # the share was reduced since then
        left = budget.additive_loss.zero()
    return _build_remainder(left.amount, budget) if isinstance(budget, Approx) else left


def build_analyst_ledger(ledger_log: LedgerLog, analyst: str, share: Fraction) -> Ledger:
    """Return the ledger of one analyst, with the active part of all their charges."""
    budget = ledger_log.require_ledger().budget
    own, delta = Ledger(budget.part(share), ledger_log.unit), Fraction(0)
    for entry in ledger_log.releases.values():
        covers = entry.charge.active_timeline
        if entry.requested_by == analyst and covers is not None and entry.column is None:
            _charge(own, entry.charge, covers, budget)
            delta += entry.delta
    allowed = share * getattr(budget, "delta", Fraction(0))
    if delta > allowed:
        raise PrivacyError(f"delta must be at most {float(allowed):.4g} in all, got {float(delta):.4g}")
    return own


def _charge(own: Ledger, charge: Charge, covers: Timeline, budget: Loss) -> None:
    """Charge a release to an analyst's ledger, by its part of a budget with a delta."""
    timeline = covers
    if isinstance(budget, Approx):
        steps = [Step(step.first, step.last, _convert_to_budget_rho(step.loss, budget)) for step in covers.steps]
        timeline = Timeline(tuple(steps))
    try:
        own.charge_timeline(charge.name, timeline, native=charge.native, per_tick=charge.per_tick)
    except BudgetExceededError:
        if not isinstance(budget, Approx):
            raise
        left = _build_remainder(own.remaining_loss(*covers.span).amount, budget)
        requested = loss_text(covers.steps[0].loss)
        raise PrivacyError(f"charge must be at most what is left, {loss_text(left)}, got {requested}") from None


def _convert_to_budget_rho(loss: Loss, budget: Approx) -> Zcdp:
    """Return the rho whose part of `additive_loss` is the loss's part of the budget."""
    whole, rho = budget.additive_loss.rho, loss.as_integer_zcdp().rho
    return Zcdp(min(rho, whole * loss.epsilon / budget.epsilon) if isinstance(loss, Pure) else rho)


def _build_remainder(rho: Fraction, budget: Approx) -> Remainder:
    """Return a rho, and the largest epsilon that uses no larger part of the budget."""
    root = Fraction(isqrt(2 * rho.numerator * rho.denominator), rho.denominator)
    return Remainder(max(root, budget.epsilon * rho / budget.additive_loss.rho), rho)
