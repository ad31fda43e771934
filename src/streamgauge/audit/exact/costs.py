"""Costs of hiding data behind the draws of a linear view, and the worst neighbour under it.

    an event moves the view by D e        a shift s of the draws hides it if N s = D e

    pure    only Laplace draws can pay: an event that only Gaussian draws hide loses without bound
    zCDP    a Gaussian draw loses s^2/(2 parameter), a Laplace draw at most (|s|/scale)^2/2

Promise
    The loss of an event lies between the two ends of `Cost`. Proof: a whole shift maps the draws of one world to those
    of the other, view by view, so its cost is an upper end. Without a whole shift, no view is of both worlds. Lower
    end, pure: far out along D e a view has weight exp(-|v|) up to a polynomial, where |v| is the least cost over real
    shifts of Laplace draws, a norm: |k De| - |(k - 1) De| = |De|, so no less holds for all k. Gaussian draws weigh
    nothing so far out, and if they alone show D e, its ratio has no bound. Lower end, zCDP: rho is at least the KL
    divergence, which adds up over draws that the view determines one by one. Under Gaussian noise alone both ends are
    the least squares, which are the rho of continuous noise.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, isqrt
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, milp

from streamgauge.audit.exact import worst_case
from streamgauge.audit.exact.linear import LinearView, NoiseTerm
from streamgauge.audit.exact.probe import ViewFunction, probe_view
from streamgauge.audit.neighbours import list_landmarks
from streamgauge.continual import LinearMechanism
from streamgauge.noise.coerce import Floats

LP_TOLERANCE = 1e-9  # what floats may be off in a linear program


@dataclass(frozen=True)
class Cost:
    """Between which numbers the loss of an event is; infinite if no shift hides it."""

    lower_bound: float
    upper_bound: float


ZERO_COST, INFINITE_COST = Cost(0.0, 0.0), Cost(inf, inf)


def compute_cost(view: LinearView, move: Floats, currency: str) -> Cost:
    """Return the cost of hiding data that move so far, tick by tick."""
    target = view.by_data @ move
    if not target.any():
        return ZERO_COST
    if not (view.can_span(target) and view.can_reach(target)):
        return INFINITE_COST
    return pure_cost(view.laplace_part, target) if currency == "pure" else rho_cost(view, target)


def pure_cost(view: LinearView, target: Floats) -> Cost:
    """Return the cost under Laplace noise alone."""
    if not view.sources or not view.can_span(target):
        return INFINITE_COST
    prices, hides = np.array([float(worst_case.price(source.law)) for source in view.sources]), view.can_reach(target)
    if view.is_injective:
        least = float(prices @ np.abs(view.inverse @ target))
        return Cost(least, least if hides else inf)
    least, most = (
        inf if shift is None else float(prices @ np.abs(shift))
        for shift in (find_cheapest_shift(view, target, prices, is_whole=whole) for whole in (False, True))
    )
    return Cost(least, most if hides else inf)


def rho_cost(view: LinearView, target: Floats) -> Cost:
    shift: Floats | None = view.inverse @ target
    if view.is_gaussian:
        return Cost(*[float(gaussian_prices(view) @ shift**2)] * 2)  # type: ignore[operator]
    if not view.is_injective:
        shift = find_cheapest_shift(view, target, 1 / view.deviations, is_whole=True)
    if shift is None:
        return Cost(0.0, inf)
    draws = list(zip(view.sources, shift, strict=True))
    least = sum(divergence(source, abs(s)) for source, s in draws) if view.is_injective else 0.0
    return Cost(least, sum(max_rho(source, abs(s)) for source, s in draws))


def max_rho(source: NoiseTerm, shift: float) -> float:
    """Return an upper bound of the rho of one draw; for Laplace noise, epsilon-DP is epsilon^2/2-zCDP."""
    cost = float(worst_case.price(source.law))
    return (cost * shift) ** 2 / 2 if source.is_laplace else cost / source.draws * shift**2


def divergence(source: NoiseTerm, shift: float) -> float:
    """Return a lower bound of KL between a draw and its shift; 0 for sums of Laplace draws.

    Of one with q = exp(-1/scale) it is (k - 2 q (1 - q^k)/(1 - q^2))/scale, the mean of |z + k| - |z|.

    >>> from streamgauge.noise import DiscreteLaplace
    >>> round(divergence(NoiseTerm(DiscreteLaplace(1000)), 1000), 3)  # nearly 1/e, as of continuous noise
    0.368
    """
    if not source.is_laplace:
        return max_rho(source, shift)
    rate = float(worst_case.price(source.law))
    q = exp(-rate)
    return rate * (shift - 2 * q * (1 - q**shift) / (1 - q * q)) if source.draws == 1 else 0.0


def gaussian_prices(view: LinearView) -> Floats:
    """Return the price of a squared shift of each source: less for a sum of several draws."""
    return np.array([float(worst_case.price(source.law)) / source.draws for source in view.sources])


def is_quick(view: LinearView) -> bool:
    """Return whether costs need no linear program."""
    return view.is_gaussian or view.is_injective


def find_cheapest_shift(view: LinearView, target: Floats, prices: Floats, *, is_whole: bool) -> Floats | None:
    """Find the real or whole shift that moves the view to `target` at the least sum of |shift| prices."""
    both = np.hstack([view.by_noise, -view.by_noise])
    close = LP_TOLERANCE * max(1.0, float(np.abs(target).max()))
    limits = LinearConstraint(both, target - close, target + close)
    costs = np.concatenate([prices, prices])
    found = milp(costs, constraints=limits, integrality=np.full(len(costs), int(is_whole)))
    if not found.success:
        return None
    up, down = np.split(np.asarray(found.x, np.float64), 2)
    return np.asarray(up - down)


MAX_QUICK_PATTERNS, MAX_LP_PATTERNS = 20_000, 300  # patterns that are tried; the second if each is a linear program


def compute_probed_worst(
    mechanism: LinearMechanism[Any], view: ViewFunction, ticks: int, observation: str = ""
) -> worst_case.WorstCase:
    """Compute the worst neighbour under any view."""
    return compute_view_worst(mechanism, probe_view(view, ticks), observation)


def compute_view_worst(mechanism: LinearMechanism[Any], linear: LinearView, observation: str) -> worst_case.WorstCase:
    """Compute the worst neighbour under a view that was found by trying."""
    ticks = linear.by_data.shape[1]
    if linear.nonlinear_streams:
        first = next(list_landmarks(mechanism.unit, ticks))
        return replace(build_nonlinear_worst(linear, first), observation=observation)
    found = compute_worst_pattern(linear, mechanism, observation)
    return replace(found, computed_from=f"the code of {ticks} ticks was tried")


def build_nonlinear_worst(linear: LinearView, pattern: worst_case.Pattern) -> worst_case.WorstCase:
    """Build the result for code that is not linear: any loss."""
    why = f"the code is not linear, as a stream of {linear.nonlinear_streams[0].name} shows"
    return build_unknown_worst(pattern, f"not computed: {why}")


def build_unknown_worst(pattern: worst_case.Pattern, computed_from: str) -> worst_case.WorstCase:
    """Build the result if nothing can be computed: any loss."""
    return worst_case.WorstCase(pattern, inf, lower_bound=0.0, computed_from=computed_from)


def compute_worst_pattern(
    linear: LinearView, mechanism: LinearMechanism[Any], observation: str = ""
) -> worst_case.WorstCase:
    """Compute the worst of all patterns; if there are too many, of some, with a bound for all."""
    unit, ticks = mechanism.unit, linear.by_data.shape[1]
    price_pattern = partial(compute_pattern_worst, linear, mechanism, observation)
    if worst_case.is_enumerable(unit, ticks, MAX_QUICK_PATTERNS if is_quick(linear) else MAX_LP_PATTERNS):
        return worst_case.combine_worst_cases(map(price_pattern, worst_case.list_patterns(unit, ticks)))
    costly = bound_worst_set(linear, min(unit.ticks, ticks), find_currency(mechanism))
    worst = worst_case.combine_worst_cases(map(price_pattern, {*list_landmarks(unit, ticks), costly.pattern}))
    return replace(worst, amount=max(float(worst.amount), compute_unit_scale(mechanism) * costly.upper_bound))


def compute_pattern_worst(
    linear: LinearView, mechanism: LinearMechanism[Any], observation: str, pattern: worst_case.Pattern
) -> worst_case.WorstCase:
    """Compute the cost of hiding one unit.

    Upper ends grow with the reach, or with its square. So do lower ends, except for the rho of Laplace noise, whose
    lower end is that of a move in one number.
    """
    move, currency = np.zeros(linear.by_data.shape[1]), find_currency(mechanism)
    move[[tick - 1 for tick in pattern]] = 1
    cost, scale = compute_cost(linear, move, currency), compute_unit_scale(mechanism)
    lower_bound = scale * cost.lower_bound
    if currency != "pure" and not linear.is_gaussian:
        far = isqrt(int(mechanism.tick_sensitivity.l2_squared))
        lower_bound = compute_cost(linear, far * move, currency).lower_bound
    return worst_case.WorstCase(pattern, scale * cost.upper_bound, observation, lower_bound)


def find_currency(mechanism: LinearMechanism[Any]) -> str:
    """Return the currency that the mechanism keeps its claim in."""
    return mechanism.charged_loss.currency


def compute_unit_scale(mechanism: LinearMechanism[Any]) -> float:
    """Return the distance that a unit moves a tick, in the norm that counts."""
    reach = mechanism.tick_sensitivity
    return float(reach.l1 if find_currency(mechanism) == "pure" else reach.l2_squared)


def bound_worst_set(linear: LinearView, size: int, currency: str) -> worst_case.WorstCaseSet:
    """Bound the worst of sets that are too many to enumerate: the cost of hiding is a norm, so it at most adds up.

    Rho is the square of a norm; `bound_worst_case_set` is tighter under Gaussian noise.
    """
    alone = np.array([compute_cost(linear, move, currency).upper_bound for move in np.eye(linear.by_data.shape[1])])
    power = 1 if currency == "pure" else 2
    if power == 2 and linear.is_gaussian and np.isfinite(alone).all():
        shifts = linear.inverse @ linear.by_data
        gram = (shifts.T * gaussian_prices(linear)) @ shifts  # the joint cost of each two ticks
        return worst_case.bound_worst_case_set(np.abs(gram), size)
    worst = worst_case.find_largest(alone, size)
    most = float((alone[worst] ** (1 / power)).sum()) ** power
    return worst_case.WorstCaseSet(tuple(int(place) + 1 for place in worst), 0.0, most)
