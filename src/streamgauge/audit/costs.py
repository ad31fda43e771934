"""What it costs to hide data behind the draws of a linear view, in the currency of the claim.

    an event moves the view by D e        a shift s of the draws hides it if N s = D e

    pure    Laplace draws alone can pay: an event that is hidden by Gaussian draws only loses without bound
    zCDP    a Gaussian draw loses s^2/(2 parameter), a Laplace draw at most (|s|/scale)^2/2

Promise
    The loss of an event is at least `Cost.least` and at most `Cost.most`. Proof: a whole shift maps the draws
    of one world to those of the other, view by view, so that its cost is an upper end; where no whole shift
    does, no view of the two worlds is the same. From below, pure: far out along D e a view has weight
    exp(-|v|) but for a polynomial, where |v| is the least cost over real shifts of Laplace draws, a norm:
    |k De| - |(k - 1) De| = |De|, so that no less holds for all k; Gaussian draws beside them weigh nothing
    so far out, and where they alone see D e, its ratio has no bound. From below, zCDP: rho is no less than
    the KL divergence, which adds up over draws that the view tells one by one. Under Gaussian noise alone
    both ends are the least squares, which are the rho of continuous noise.
"""

from dataclasses import dataclass
from math import exp, inf

import numpy as np
from scipy.optimize import LinearConstraint, milp

from streamgauge.audit.exact import price
from streamgauge.audit.linear import LinearView, Source
from streamgauge.noise.numbers import Floats

CLOSE = 1e-9  # what floats may be off in a linear program


@dataclass(frozen=True)
class Cost:
    """Between which numbers the loss of an event is; infinite if no shift hides it."""

    least: float
    most: float


NOTHING, UNBOUNDED = Cost(0.0, 0.0), Cost(inf, inf)


def cost_of(view: LinearView, move: Floats, currency: str) -> Cost:
    """Of data that move so far, tick by tick."""
    target = view.by_data @ move
    if not target.any():
        return NOTHING
    if not (view.spans(target) and view.reaches(target)):
        return UNBOUNDED
    return pure_cost(view.laplace_alone, target) if currency == "pure" else rho_cost(view, target)


def pure_cost(view: LinearView, target: Floats) -> Cost:
    """Of a view under Laplace noise alone."""
    if not view.sources or not view.spans(target):
        return UNBOUNDED
    prices, hides = laplace_prices(view), view.reaches(target)
    if view.injective:
        least = float(prices @ np.abs(view.inverse @ target))
        return Cost(least, least if hides else inf)
    least, most = (paid(prices, cheapest(view, target, prices, whole=whole)) for whole in (False, True))
    return Cost(least, most if hides else inf)


def rho_cost(view: LinearView, target: Floats) -> Cost:
    shift: Floats | None = view.inverse @ target
    if view.gaussian:
        return Cost(*[float(gaussian_prices(view) @ shift**2)] * 2)  # type: ignore[operator]
    if not view.injective:
        shift = cheapest(view, target, 1 / view.deviations, whole=True)
    if shift is None:
        return Cost(0.0, inf)
    draws = list(zip(view.sources, shift, strict=True))
    least = sum(divergence(source, abs(s)) for source, s in draws) if view.injective else 0.0
    return Cost(least, sum(most_rho(source, abs(s)) for source, s in draws))


def most_rho(source: Source, shift: float) -> float:
    """Of one draw, for Laplace noise: epsilon-DP is epsilon^2/2-zCDP."""
    cost = float(price(source.law))
    return (cost * shift) ** 2 / 2 if source.laplace else cost / source.draws * shift**2


def divergence(source: Source, shift: float) -> float:
    """KL between a draw and the same shifted, at least; of sums of Laplace draws it is not known here.

    Of one with q = exp(-1/scale) it is (k - 2 q (1 - q^k)/(1 - q^2))/scale, the mean of |z + k| - |z|.

    >>> from streamgauge.noise import DiscreteLaplace
    >>> round(divergence(Source(DiscreteLaplace(1000)), 1000), 3)  # nearly 1/e, as of continuous noise
    0.368
    """
    if not source.laplace:
        return most_rho(source, shift)
    rate = float(price(source.law))
    q = exp(-rate)
    return rate * (shift - 2 * q * (1 - q**shift) / (1 - q * q)) if source.draws == 1 else 0.0


def laplace_prices(view: LinearView) -> Floats:
    """What a shift of each source costs: one draw of a sum pays for all of it."""
    return np.array([float(price(source.law)) for source in view.sources])


def gaussian_prices(view: LinearView) -> Floats:
    """What the square of a shift costs: less for a sum of several draws."""
    return np.array([float(price(source.law)) / source.draws for source in view.sources])


def gram(view: LinearView) -> Floats:
    """What two ticks cost together under Gaussian noise, where they can be hidden at all."""
    shifts = view.inverse @ view.by_data
    return np.asarray((shifts.T * gaussian_prices(view)) @ shifts)


def is_quick(view: LinearView) -> bool:
    """Whether costs are had without a linear program."""
    return view.gaussian or view.injective


def cheapest(view: LinearView, target: Floats, prices: Floats, *, whole: bool) -> Floats | None:
    """The real or whole shift that moves the view to `target` at the least sum of |shift| prices."""
    both = np.hstack([view.by_noise, -view.by_noise])
    close = CLOSE * max(1.0, float(np.abs(target).max()))
    limits = LinearConstraint(both, target - close, target + close)
    costs = np.concatenate([prices, prices])
    found = milp(costs, constraints=limits, integrality=np.full(len(costs), int(whole)))
    if not found.success:
        return None
    up, down = np.split(np.asarray(found.x, np.float64), 2)
    return np.asarray(up - down)


def paid(prices: Floats, shift: Floats | None) -> float:
    return inf if shift is None else float(prices @ np.abs(shift))
