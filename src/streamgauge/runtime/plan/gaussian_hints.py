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

from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import isfinite

from streamgauge.plan.planner import ReleasePlan, replan_release
from streamgauge.plan.predict import predict_errors
from streamgauge.privacy import Approx, IntegerZcdp, Ledger, Pure, Step, Timeline, Zcdp
from streamgauge.runtime.ledger.log import LedgerLog

MAX_ERROR_RATIO = 0.9  # of the plan's error; a smaller gain is not worth a hint
UNREACHABLE_EPSILON = 10**6  # an epsilon that no ledger reaches
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
    pool = _convert_to_rho(total, left, looks_ahead)
    rhos, text = {name: _round(pool * epsilon / total) for name, epsilon in epsilons.items()}, SHARED_RHO_HINT
    if len(rhos) == 1 or not _is_affordable(rhos, ledger_log, budget, IntegerZcdp if looks_ahead else Zcdp):
        text = SINGLE_RHO_HINT
        alone = {name: _convert_to_rho(epsilon, left, looks_ahead) for name, epsilon in epsilons.items()}
        rhos = {name: _round(min(rho, Pure(epsilons[name]).as_zcdp().rho)) for name, rho in alone.items()}
    found = {plan.name: _error_ratio(plan, rhos[plan.name]) for plan in plans if plan.name in rhos}
    return {name: text.format(rho=rhos[name], times=ratio) for name, ratio in found.items() if ratio <= MAX_ERROR_RATIO}


def _convert_to_rho(epsilon: Fraction, delta: Fraction, looks_ahead: bool) -> Fraction:
    budget = Approx(epsilon, delta)
    return budget.integer_order_loss.rho if looks_ahead else budget.additive_loss.rho


def _round(rho: Fraction) -> Decimal:
    """Cut a rho to three digits, so that the suggested number costs no more."""
    exact = Context(prec=30, rounding=ROUND_FLOOR).divide(Decimal(rho.numerator), Decimal(rho.denominator))
    return Context(prec=3, rounding=ROUND_FLOOR).plus(exact)


def _is_affordable(
    rhos: Mapping[str, Decimal], ledger_log: LedgerLog, budget: Approx, kind: type[Zcdp | IntegerZcdp]
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
