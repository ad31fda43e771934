"""What an analyst may spend: a share of the budget, in a ledger of their own.

The promise to everybody in the stream is kept by the one ledger of all charges. A share divides among
analysts what that ledger allows: it is never above the budget, and it never frees anything.

An analyst's ledger has a share of the budget in the currency that adds up, as `share` of a release is, and
what all their charges that count still cover. Of the budget's delta they may take the same share.
"""

from fractions import Fraction

from streamgauge.pipeline.book import Book
from streamgauge.privacy import Ledger, Loss, PrivacyError


class ShareExceeded(PrivacyError):  # noqa: N818 - refusals are named by what they say
    """A release whose delta is above what an analyst may take."""


def check_share(book: Book, by: str, share: Fraction | None) -> None:
    """Raises if what an analyst has charged is above their share; a share of None is the whole budget."""
    if share is not None:
        try:
            own_ledger(book, by, share)
        except PrivacyError as refusal:
            refusal.add_note(f"the share of {by}")
            raise


def share_left(book: Book, by: str, share: Fraction | None, first: int = 1) -> Loss | None:
    """What an analyst can still ask for from a tick on; None where there is no share, or no budget yet."""
    if share is None or book.ledger is None:
        return None
    try:
        return own_ledger(book, by, share).left(first)
    except PrivacyError:  # the share was made smaller since
        return book.ledger.budget.kept_as.nothing()


def own_ledger(book: Book, by: str, share: Fraction) -> Ledger:
    """The ledger of one analyst: all that their charges still cover."""
    if book.ledger is None:
        raise ValueError("a budget must be declared before a charge, got none")
    budget = book.ledger.budget
    own, taken = Ledger(budget.part(share), book.unit), Fraction(0)
    for entry in book.entries.values():
        covers = entry.charge.covers
        if entry.asked == by and covers is not None and entry.column is None:
            native, per_tick = entry.charge.native, entry.charge.per_tick
            own.charge_timeline(entry.name, covers, native=native, per_tick=per_tick)
            taken += entry.delta
    allowed = share * getattr(budget, "delta", Fraction(0))
    if taken > allowed:
        raise ShareExceeded(f"delta must be at most {float(allowed):.4g} in all, got {float(taken):.4g}")
    return own
