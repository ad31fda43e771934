"""Gaussian hints: under a budget with a delta, a rho may cost no more than an epsilon and err less.

A release with an `epsilon` has Laplace noise. Under an (epsilon, delta) budget it may have Gaussian
noise, which composes better. A rho grows as the square of epsilon: n releases that share the rho of a sum of
epsilons have about n times the rho that each of them has by itself. So a plan tries two prices:

    all     every new release with an epsilon gets its part of the rho that their sum converts to
    alone   this release gets the rho that its own epsilon converts to

The first is tried in a copy of the ledger, and named only if no unit loses more than before. The second needs
no trial. The conversion is concave in rho, so beside others it adds at most epsilon (and -ln(1 - delta)). Its
rho is at most epsilon^2/2, so it adds no more than a release that composes as zCDP did.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import isfinite

from streamgauge.pipeline.book import Book
from streamgauge.privacy import Approx, Ledger, Pure, Step, Timeline, Zcdp
from streamgauge.query.planner import Planned, replanned
from streamgauge.query.predicted import errors

SMALLER = 0.9  # times the error: less of a gain is not worth a word
BEYOND = 10**6  # an epsilon that no ledger reaches
ALL = "rho = {rho:f}, and the like for every epsilon here, spends no more and has {times:.2f} times the error"
ALONE = "rho = {rho:f} in place of epsilon spends no more and has {times:.2f} times the error"


def gaussian_hints(plans: Sequence[Planned], book: Book) -> dict[str, str]:
    """Return a hint for each of these releases that a rho serves better; they must be in the book."""
    budget = None if book.ledger is None else book.ledger.budget
    pure = {plan.name: plan.release.loss for plan in plans if plan.query.report is None}
    epsilons = {name: loss.epsilon for name, loss in pure.items() if isinstance(loss, Pure)}
    if book.ledger is None or not isinstance(budget, Approx) or not epsilons.keys() <= book.entries.keys():
        return {}
    left, total = budget.delta - book.ledger.delta_spent(), sum(epsilons.values(), Fraction(0))
    if left <= 0 or not total:
        return {}
    pool = Approx(total, left).kept_as.rho
    rhos, text = {name: _round(pool * epsilon / total) for name, epsilon in epsilons.items()}, ALL
    if len(rhos) == 1 or not _costs_no_more(rhos, book, budget):
        text = ALONE
        rhos = {name: _round(_rho_alone(epsilon, left)) for name, epsilon in epsilons.items()}
    found = {plan.name: _error_ratio(plan, rhos[plan.name]) for plan in plans if plan.name in rhos}
    return {
        name: text.format(rho=rhos[name], times=ratio) for name, ratio in found.items() if ratio <= SMALLER
    }


def _rho_alone(epsilon: Fraction, delta: Fraction) -> Fraction:
    return min(Approx(epsilon, delta).kept_as.rho, Pure(epsilon).as_zcdp().rho)


def _round(rho: Fraction) -> Decimal:
    """Cut a rho to three digits, so that the number that is named costs no more."""
    exact = Context(prec=30, rounding=ROUND_FLOOR).divide(Decimal(rho.numerator), Decimal(rho.denominator))
    return Context(prec=3, rounding=ROUND_FLOOR).plus(exact)


def _costs_no_more(rhos: Mapping[str, Decimal], book: Book, budget: Approx) -> bool:
    """Return whether no unit loses more, over the whole timeline, if these releases cost a rho."""
    ledger = book.ledger
    if ledger is None:
        return False
    numbers = {book.entries[name].charge.number: Zcdp(rho) for name, rho in rhos.items()}
    other = Ledger(Approx(BEYOND, budget.delta), ledger.unit)
    for charge in ledger.entries:
        if charge.covers is not None:
            steps = charge.covers.steps
            if charge.number in numbers:
                steps = tuple(Step(step.first, step.last, numbers[charge.number]) for step in steps)
            how = {"native": charge.native, "per_tick": charge.per_tick}
            other.charge_timeline(charge.name, Timeline(steps), delta=charge.delta, **how)
    return other.spent().amount <= ledger.spent().amount


def _error_ratio(plan: Planned, rho: Decimal) -> float:
    """Return the predicted error with this rho, in that of the plan, at the last tick that is shown."""
    try:
        others = errors(replanned(plan, Zcdp(rho)))
    except ValueError:  # its mechanism, or its unit, has no Gaussian noise
        return 1.0
    found = errors(plan)
    last = max(error.tick for error in found)
    pairs = [(a.half_width, b.half_width) for a, b in zip(found, others, strict=True) if a.tick == last]
    known = all(isfinite(a) and isfinite(b) and a > 0 for a, b in pairs)
    return max(b / a for a, b in pairs) if known else 1.0
