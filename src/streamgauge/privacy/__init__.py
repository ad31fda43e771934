"""Losses, units of privacy, and the ledger that adds one up for the other."""

from streamgauge.privacy.analytic import analytic_gaussian_sigma
from streamgauge.privacy.charges import Charge
from streamgauge.privacy.errors import BudgetExceeded, PrivacyError, WrongCurrency
from streamgauge.privacy.exact import Number, exact
from streamgauge.privacy.groups import across_groups
from streamgauge.privacy.ledger import Ledger, Remainder
from streamgauge.privacy.losses import Approx, Loss, Pure, Zcdp
from streamgauge.privacy.participation import worst_participation
from streamgauge.privacy.reach import Reach
from streamgauge.privacy.timeline import Step, Timeline
from streamgauge.privacy.units import Event, Tick, Unit, User, WEvent, XAdjacent

__all__ = [
    "Approx",
    "BudgetExceeded",
    "Charge",
    "Event",
    "Ledger",
    "Loss",
    "Number",
    "PrivacyError",
    "Pure",
    "Reach",
    "Remainder",
    "Step",
    "Tick",
    "Timeline",
    "Unit",
    "User",
    "WEvent",
    "WrongCurrency",
    "XAdjacent",
    "Zcdp",
    "across_groups",
    "analytic_gaussian_sigma",
    "exact",
    "worst_participation",
]
