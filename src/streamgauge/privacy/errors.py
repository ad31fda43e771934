"""Typed refusals: what a caller may catch, with what it needs to decide what next.

Every text depends on declarations only, never on data, so showing it to an analyst is safe.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from streamgauge.privacy.exact import shown

if TYPE_CHECKING:
    from streamgauge.privacy.losses import Loss


class PrivacyError(ValueError):
    """A promise that cannot be kept, or not in the currency it was asked in."""


class WrongCurrency(PrivacyError):  # noqa: N818 - a refusal, named by what it says
    """No theorem turns this loss into the currency that was asked for."""


class BudgetExceeded(PrivacyError):  # noqa: N818 - the same
    """A charge that some unit could not afford; the ledger is as it was before.

    `asked` is the loss of the charge and `delta` the delta beside it, `spent` what the dearest unit that
    touches the interval had lost before, `delta_spent` the most that deltas had taken from one of them,
    `allowed` the budget; the interval is `first`..`last`, open-ended if `last` is None.
    """

    def __init__(  # noqa: PLR0917 - all that a caller may want to know
        self,
        asked: Loss,
        spent: Loss,
        allowed: Loss,
        first: int,
        last: int | None,
        delta: Fraction = Fraction(0),
        delta_spent: Fraction = Fraction(0),
    ) -> None:
        self.asked, self.spent, self.allowed = asked, spent, allowed
        self.first, self.last = first, last
        self.delta, self.delta_spent = delta, delta_spent
        until = "on" if last is None else f"to {last}"
        beside = f" and delta {shown(delta)}" if delta else ""
        taken = f", delta {shown(delta_spent)} taken" if delta_spent else ""
        super().__init__(
            f"charge must be at most what is left of {allowed} from tick {first} {until}, "
            f"got {asked}{beside} on top of {spent}{taken}"
        )

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[object, ...]]:
        told = (self.asked, self.spent, self.allowed, self.first, self.last, self.delta, self.delta_spent)
        return type(self), told
