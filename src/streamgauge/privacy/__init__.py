"""Losses, units of privacy, and the ledger that adds losses up per unit.

losses               `Pure`, `Zcdp`, `IntegerZcdp`, `Approx`
units                `Event`, `User`, `WEvent`, `Tick`, `XAdjacent`
sensitivity          how far one unit moves the vector of one tick
timeline             loss of one event at each input tick to one release
ledger               charges of releases against a budget
composition          sensitivity of a linear strategy to one unit
worst_case           worst-case set or window of ticks for user-level units
split_bounds         approximate zCDP: failure probabilities split over releases
loss_profiles        losses of one unit to every release, listed
conversions          conversions between losses, rounded towards more loss
analytic_gaussian    conditions for continuous Gaussian noise
rationals            exact fractions from untyped input
errors               typed errors
"""

from streamgauge.privacy.analytic_gaussian import analytic_gaussian_sigma
from streamgauge.privacy.composition import compose_groups, worst_case_participation
from streamgauge.privacy.errors import BudgetExceededError, PrivacyError
from streamgauge.privacy.ledger import Charge, Ledger, Remainder
from streamgauge.privacy.losses import AdditiveLoss, Approx, IntegerZcdp, Loss, Pure, Zcdp
from streamgauge.privacy.rationals import Number, parse_rational
from streamgauge.privacy.sensitivity import Sensitivity
from streamgauge.privacy.timeline import Step, Timeline
from streamgauge.privacy.units import Event, Tick, Unit, User, WEvent, XAdjacent, is_charged_whole

__all__ = [
    "AdditiveLoss",
    "Approx",
    "BudgetExceededError",
    "Charge",
    "Event",
    "IntegerZcdp",
    "Ledger",
    "Loss",
    "Number",
    "PrivacyError",
    "Pure",
    "Remainder",
    "Sensitivity",
    "Step",
    "Tick",
    "Timeline",
    "Unit",
    "User",
    "WEvent",
    "XAdjacent",
    "Zcdp",
    "analytic_gaussian_sigma",
    "compose_groups",
    "is_charged_whole",
    "parse_rational",
    "worst_case_participation",
]
