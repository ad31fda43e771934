"""Gaussian hints: a rho may cost no more than an epsilon and err less.

A release with an `epsilon` has Laplace noise. Under an (epsilon, delta) budget it may have Gaussian noise, which
composes better. A rho grows as the square of epsilon. So n releases that share the rho of a sum of epsilons have about
n times the rho that each of them has by itself. A plan tries two prices:

    all     every new release with an epsilon gets its part of the rho that their sum converts to
    alone   this release gets the rho that its own epsilon converts to

The first is tried in a copy of the ledger, and suggested only if no unit loses more than before. The second needs no
trial. The conversion is concave in rho, so it adds at most epsilon (and -ln(1 - delta)) to other charges. Its rho is at
most epsilon^2/2, so it adds no more than a release that composes as zCDP did.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from streamgauge.plan.planner import ReleasePlan, replan_release
from streamgauge.plan.predict import predict_errors
from streamgauge.privacy import Approx, IntegerZcdp, Pure, Zcdp
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.plan.prices import convert_price, convert_to_rho, cut_digits, is_affordable

MAX_ERROR_RATIO = 0.9  # of the plan's error; a smaller gain is not worth a hint
SHARED_RHO_HINT = (
    "rho = {rho:f}, and the like for every epsilon here, spends no more and has {times:.2f} times the error"
)
SINGLE_RHO_HINT = "rho = {rho:f} in place of epsilon spends no more and has {times:.2f} times the error"


def find_gaussian_hints(plans: Sequence[ReleasePlan], ledger_log: LedgerLog) -> dict[str, str]:
    """Return a hint for each release that errs less with a rho.

    The releases must be charged in the ledger log.
    """
    budget = None if ledger_log.ledger is None else ledger_log.ledger.budget
    pure = {plan.name: plan.release.loss for plan in plans if plan.query.report is None}
    epsilons = {name: loss.epsilon for name, loss in pure.items() if isinstance(loss, Pure)}
    if ledger_log.ledger is None or not isinstance(budget, Approx) or not epsilons.keys() <= ledger_log.releases.keys():
        return {}
    left, total = budget.delta - ledger_log.ledger.spent_delta(), sum(epsilons.values(), Fraction(0))
    if left <= 0 or not total:
        return {}
    looks_ahead = any(plan.stream.allows_integer_orders for plan in plans)  # so that counters may need integer orders
    pool = convert_to_rho(Approx(total, left), looks_ahead)
    rhos, text = {name: cut_digits(pool * epsilon / total) for name, epsilon in epsilons.items()}, SHARED_RHO_HINT
    if len(rhos) == 1 or not is_affordable(rhos, ledger_log, budget, IntegerZcdp if looks_ahead else Zcdp):
        text = SINGLE_RHO_HINT
        prices = {name: convert_price(Pure(epsilon), budget, left, looks_ahead) for name, epsilon in epsilons.items()}
        rhos = {name: cut_digits(price.amount) for name, (price,) in prices.items()}
    found = {plan.name: _error_ratio(plan, rhos[plan.name]) for plan in plans if plan.name in rhos}
    return {name: text.format(rho=rhos[name], times=ratio) for name, ratio in found.items() if ratio <= MAX_ERROR_RATIO}


def _error_ratio(plan: ReleasePlan, rho: Decimal) -> float:
    """Return the error with this rho, relative to the plan's, at the last shown tick."""
    try:
        others = predict_errors(replan_release(plan, Zcdp(rho)))
    except ValueError:  # its mechanism, or its unit, has no Gaussian noise
        return 1.0
    found = predict_errors(plan)
    last = max(error.tick for error in found)
    pairs = [(a.half_width, b.half_width) for a, b in zip(found, others, strict=True) if a.tick == last]
    known = all(isfinite(a) and isfinite(b) and a > 0 for a, b in pairs)
    return max(b / a for a, b in pairs) if known else 1.0
