"""Typed refusals: what a caller may catch, with what it needs to decide what next.

Every text depends on declarations only, never on data, so showing it to an analyst is safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamgauge.privacy.losses import Loss


class PrivacyError(ValueError):
    """A promise that cannot be kept, or not in the currency it was asked in."""


class WrongCurrency(PrivacyError):  # noqa: N818 - a refusal, named by what it says
    """No theorem turns this loss into the currency that was asked for."""


class BudgetExceeded(PrivacyError):  # noqa: N818 - the same
    """A charge that some unit could not afford; the ledger is as it was before.

    `asked` is the loss of the charge, `spent` what the dearest unit that touches the interval had lost
    before, `allowed` the budget; the interval is `first`..`last`, open-ended if `last` is None.
    """

    def __init__(self, asked: Loss, spent: Loss, allowed: Loss, first: int, last: int | None) -> None:
        self.asked, self.spent, self.allowed = asked, spent, allowed
        self.first, self.last = first, last
        until = "on" if last is None else f"to {last}"
        super().__init__(
            f"charge must be at most what is left of {allowed} from tick {first} {until}, "
            f"got {asked} on top of {spent}"
        )

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[Loss, Loss, Loss, int, int | None]]:
        return type(self), (self.asked, self.spent, self.allowed, self.first, self.last)
