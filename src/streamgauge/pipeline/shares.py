"""What an analyst may spend: a share of the budget, in a ledger of their own.

The promise to everybody in the stream is kept by the one ledger of all charges. A share divides among
analysts what that ledger allows: it is never above the budget, and it never frees anything.

An analyst's ledger has a share of the budget in the currency that adds up, as `share` of a release is, and
what all their charges that count still cover. Of the budget's delta they may take the same share.

Under an (epsilon, delta) budget a release takes the part of the budget that it would take by itself: rho of
`kept_as`, and a pure one epsilon of epsilon if that is less than its epsilon^2/2 of `kept_as`. So half of the
budget is half of its epsilon for pure releases, and half of its rho for others.
"""

from fractions import Fraction
from math import isqrt

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.words import loss_text
from streamgauge.privacy import (
    Approx,
    BudgetExceeded,
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


class ShareExceeded(PrivacyError):  # noqa: N818 - refusals are named by what they say
    """A release whose delta, or whose part of a budget with a delta, is above what an analyst may take."""


def check_share(book: Book, by: str, share: Fraction | None) -> None:
    """Raises if what an analyst has charged is above their share; a share of None is the whole budget."""
    if share is not None:
        try:
            own_ledger(book, by, share)
        except PrivacyError as refusal:
            refusal.add_note(f"the share of {by}")
            raise


def share_left(book: Book, by: str, share: Fraction | None, first: int = 1) -> Pure | Zcdp | Remainder | None:
    """What an analyst can still ask for from a tick on; None where there is no share, or no budget yet."""
    if share is None or book.ledger is None:
        return None
    budget = book.ledger.budget
    try:
        left = own_ledger(book, by, share).left(first)
    except PrivacyError:  # the share was made smaller since
        left = budget.kept_as.nothing()
    return _both_ways(left.amount, budget) if isinstance(budget, Approx) else left


def own_ledger(book: Book, by: str, share: Fraction) -> Ledger:
    """The ledger of one analyst: all that their charges still cover."""
    if book.ledger is None:
        raise ValueError("a budget must be declared before a charge, got none")
    budget = book.ledger.budget
    own, taken = Ledger(budget.part(share), book.unit), Fraction(0)
    for entry in book.entries.values():
        covers = entry.charge.covers
        if entry.asked == by and covers is not None and entry.column is None:
            _charge(own, entry.charge, covers, budget)
            taken += entry.delta
    allowed = share * getattr(budget, "delta", Fraction(0))
    if taken > allowed:
        raise ShareExceeded(f"delta must be at most {float(allowed):.4g} in all, got {float(taken):.4g}")
    return own


def _charge(own: Ledger, charge: Charge, covers: Timeline, budget: Loss) -> None:
    """Charge a release to an analyst's ledger, by its part of the budget if that has a delta."""
    timeline = covers
    if isinstance(budget, Approx):
        steps = [Step(step.first, step.last, _part_taken(step.loss, budget)) for step in covers.steps]
        timeline = Timeline(tuple(steps))
    try:
        own.charge_timeline(charge.name, timeline, native=charge.native, per_tick=charge.per_tick)
    except BudgetExceeded:
        if not isinstance(budget, Approx):
            raise
        left = _both_ways(own.left(*covers.span).amount, budget)
        asked = loss_text(covers.steps[0].loss)
        raise ShareExceeded(f"charge must be at most what is left, {loss_text(left)}, got {asked}") from None


def _part_taken(loss: Loss, budget: Approx) -> Zcdp:
    """Return the rho that has the same part of `kept_as` as the loss has of the budget."""
    whole, rho = budget.kept_as.rho, loss.as_zcdp().rho
    return Zcdp(min(rho, whole * loss.epsilon / budget.epsilon) if isinstance(loss, Pure) else rho)


def _both_ways(rho: Fraction, budget: Approx) -> Remainder:
    """Return a rho, and the largest epsilon that takes no larger part of the budget."""
    root = Fraction(isqrt(2 * rho.numerator * rho.denominator), rho.denominator)
    return Remainder(max(root, budget.epsilon * rho / budget.kept_as.rho), rho)
