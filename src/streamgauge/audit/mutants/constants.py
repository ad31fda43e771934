"""Wrong constants, as they are printed or mistyped: counters whose noise is too small by a factor.

The exact computation condemns each at every horizon; attacks do at the ones given here.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, isqrt, log2
from typing import Any

from streamgauge.audit.exact import price
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.claimed import Claimed, under
from streamgauge.audit.mutants.twins import ONE, RUNS, Twins
from streamgauge.continual import Binary, Kary, Mechanism, SimpleI, SimpleII, TwoLevel
from streamgauge.privacy import Pure, Reach, User, WEvent, Zcdp

MORE_RUNS = 200_000  # means are bounded less tightly than rates
WHOLE = Fraction(1)  # what a move by one loses under noise of scale 1/epsilon, for ONE


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield log_levels(chance, 4)
    yield rounded_levels(chance, 2)
    yield simple_counts(chance, 4)
    yield two_levels(chance, 4)
    yield short_horizon(chance, 2)
    yield rate_for_scale(chance)
    yield event_for_user(chance, 3)
    yield unsplit_budget(chance, "Mean", 2)
    yield unsplit_budget(chance, "Variance", 3)
    yield summed_rho(chance, 6)
    yield deviation_for_variance(chance)


def log_levels(chance: Chance, horizon: int) -> Twins:
    broken = under(dyadic(horizon), 1 / Fraction(log2(horizon)))
    why = "blocks of 1, 2, 4, .. items are floor(log2 T) + 1 levels: for T = 4 three, not two"
    return twins("Binary, levels counted as log2 T", why, broken, Binary(ONE, horizon=horizon), chance)


def rounded_levels(chance: Chance, horizon: int) -> Twins:
    broken = under(dyadic(horizon), Fraction(1, ceil(log2(horizon))))
    why = "rounding up does not help where T is a power of two: T = 2 has blocks of one and of two items"
    return twins("Binary, log2 T levels rounded up", why, broken, Binary(ONE, horizon=horizon), chance)


def dyadic(horizon: int) -> Kary:
    """All blocks of 1, 2, 4, .. items that counts up to the horizon are made of."""
    return Kary(ONE, branching=2, levels=horizon.bit_length(), horizon=horizon)


def simple_counts(chance: Chance, horizon: int) -> Twins:
    honest = SimpleI(ONE, horizon=horizon)
    why = "an event at the first tick moves all T counts: noise of scale 1/epsilon loses T epsilon"
    return twins("Simple I, scale 1/epsilon", why, under(honest, WHOLE), honest, chance)


def two_levels(chance: Chance, horizon: int) -> Twins:
    honest = TwoLevel(ONE, horizon=horizon, block_size=2)
    why = "an item is in two p-sums, its own and its block's: noise of scale 1/epsilon loses 2 epsilon"
    return twins("Two-level, scale 1/epsilon", why, under(honest, WHOLE), honest, chance)


def short_horizon(chance: Chance, horizon: int) -> Twins:
    honest = SimpleI(ONE, horizon=horizon)
    why = "noise for T - 1 counts, and T counts released"
    return twins("Simple I, horizon short by one", why, under(honest, WHOLE / (horizon - 1)), honest, chance)


def rate_for_scale(chance: Chance) -> Twins:
    honest = SimpleII(Pure("1/2"), horizon=1)
    why = "epsilon, the rate of the noise, is handed to a sampler that takes the scale, 1/epsilon"
    return twins("Simple II, rate taken for scale", why, under(honest, Fraction(2)), honest, chance)


def event_for_user(chance: Chance, ticks: int) -> Twins:
    honest = SimpleII(ONE, horizon=ticks, unit=User(1, ticks))
    why = "noise for one event, claimed for a user who has one in each of several ticks"
    return twins("Simple II, a user taken for an event", why, under(honest, WHOLE), honest, chance)


def unsplit_budget(chance: Chance, name: str, counters: int) -> Twins:
    """Counts, sums and, for a variance, sums of squares of values up to 1, whose event moves all of them."""
    honest = SimpleII(ONE, horizon=1, bound=Reach(counters, counters, counters))
    why = "an event moves the count, the sum and the squares; each was given the whole epsilon"
    return twins(f"{name}, budget not split", why, under(honest, WHOLE), honest, chance)


def summed_rho(chance: Chance, horizon: int, w: int = 3) -> Twins:
    loss = Zcdp("1/4")
    honest = SimpleI(loss, horizon=horizon, unit=WEvent(w))
    cost = price(SimpleI(loss.part(Fraction(1, w)), horizon=horizon).distribution)
    why = "the rho of the ticks of a window do not add up: moves do, and rho is the square of their sum"
    return twins("Simple I, rho shared out in a window", why, under(honest, cost), honest, chance)


def deviation_for_variance(chance: Chance) -> Twins:
    honest = SimpleII(Zcdp("1/32"), horizon=1)
    deviation = isqrt(int(1 / (2 * price(honest.distribution))))
    why = "the standard deviation is handed to a sampler that takes the variance"
    broken = under(honest, Fraction(1, 2 * deviation))
    return twins("Simple II, deviation taken for variance", why, broken, honest, chance)


def twins(name: str, why: str, broken: Mechanism[Any], honest: Mechanism[Any], chance: Chance) -> Twins:
    """Both claim what the honest one keeps."""
    loss = honest.loss
    both = Claimed(name, loss, broken, chance), Claimed(f"{name}: honest", loss, honest, chance)
    runs = RUNS if loss.currency == "pure" else MORE_RUNS
    return Twins(*both, why, truth=float(broken.loss.kept_as.amount), runs=runs)
