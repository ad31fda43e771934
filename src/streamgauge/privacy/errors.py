"""Typed errors, with the amounts that a caller needs to decide.

Every text depends on declarations only, never on data. So an analyst may see it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from streamgauge.privacy.rationals import format_rational

if TYPE_CHECKING:
    from streamgauge.privacy.losses import Loss


class PrivacyError(ValueError):
    """A promise that is impossible, or impossible in the requested currency."""


class BudgetExceededError(PrivacyError):
    """A charge that some unit cannot afford; the ledger is unchanged.

    `requested` is the loss of the charge and `delta` its delta. `spent` is the worst-case loss so far of a unit that
    touches the interval, `delta_spent` the most delta that one of them lost. `allowed` is the budget. The
    interval is `first`..`last`, open-ended if `last` is None.
    """

    def __init__(  # noqa: PLR0917 - all that a caller may want to know
        self,
        requested: Loss,
        spent: Loss,
        allowed: Loss,
        first: int,
        last: int | None,
        delta: Fraction = Fraction(0),
        delta_spent: Fraction = Fraction(0),
    ) -> None:
        self.requested, self.spent, self.allowed = requested, spent, allowed
        self.first, self.last = first, last
        self.delta, self.delta_spent = delta, delta_spent
        self.note = ""  # the same in the words of the request
        until = "on" if last is None else f"to {last}"
        extra = f" and delta {format_rational(delta)}" if delta else ""
        spent_delta = f", delta {format_rational(delta_spent)} taken" if delta_spent else ""
        super().__init__(
            f"charge must be at most what is left of {allowed} from tick {first} {until}, "
            f"got {requested}{extra} on top of {spent}{spent_delta}"
        )

    def __reduce__(self) -> tuple[type[BudgetExceededError], tuple[object, ...]]:
        amounts = self.requested, self.spent, self.allowed, self.first, self.last, self.delta, self.delta_spent
        return type(self), amounts
