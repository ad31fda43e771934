"""Wrong constants, as they are printed or mistyped: counters whose noise is too small by a factor.

The exact computation condemns each at every horizon; attacks do at the ones given here.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from math import ceil, isqrt, log2
from typing import Any

from streamgauge.audit.broken.pairs import (
    TWIN_RUNS,
    UNIT_LOSS,
    ExperimentNoise,
    TwinPair,
    build_claimed_subject,
    build_twins,
    replace_noise,
)
from streamgauge.audit.exact.worst_case import price
from streamgauge.continual import Binary, Kary, LinearMechanism, SimpleI, SimpleII, TwoLevel
from streamgauge.privacy import Pure, Sensitivity, User, WEvent, Zcdp

MORE_RUNS = 200_000  # means are bounded less tightly than rates
UNIT_COST = Fraction(1)  # what a move by one loses under noise of scale 1/epsilon, for ONE


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    yield build_log_levels(chance, 4)
    yield build_rounded_levels(chance, 2)
    yield build_simple_counts(chance, 4)
    yield build_two_levels(chance, 4)
    yield build_short_horizon(chance, 2)
    yield build_rate_for_scale(chance)
    yield build_event_for_user(chance, 3)
    yield build_unsplit_budget(chance, "Mean", 2)
    yield build_unsplit_budget(chance, "Variance", 3)
    yield build_summed_rho(chance, 6)
    yield build_deviation_for_variance(chance)


def build_log_levels(chance: ExperimentNoise, horizon: int) -> TwinPair:
    broken = replace_noise(build_dyadic_tree(horizon), 1 / Fraction(log2(horizon)))
    why = "blocks of 1, 2, 4, .. items are floor(log2 T) + 1 levels: for T = 4 three, not two"
    return pair_counters("Binary, levels counted as log2 T", why, broken, Binary(UNIT_LOSS, horizon=horizon), chance)


def build_rounded_levels(chance: ExperimentNoise, horizon: int) -> TwinPair:
    broken = replace_noise(build_dyadic_tree(horizon), Fraction(1, ceil(log2(horizon))))
    why = "rounding up does not help where T is a power of two: T = 2 has blocks of one and of two items"
    return pair_counters("Binary, log2 T levels rounded up", why, broken, Binary(UNIT_LOSS, horizon=horizon), chance)


def build_dyadic_tree(horizon: int) -> Kary:
    """Build the tree of all blocks of 1, 2, 4, .. items in counts up to the horizon."""
    return Kary(UNIT_LOSS, branching=2, levels=horizon.bit_length(), horizon=horizon)


def build_simple_counts(chance: ExperimentNoise, horizon: int) -> TwinPair:
    honest = SimpleI(UNIT_LOSS, horizon=horizon)
    why = "an event at the first tick moves all T counts: noise of scale 1/epsilon loses T epsilon"
    return pair_counters("Simple I, scale 1/epsilon", why, replace_noise(honest, UNIT_COST), honest, chance)


def build_two_levels(chance: ExperimentNoise, horizon: int) -> TwinPair:
    honest = TwoLevel(UNIT_LOSS, horizon=horizon, block_size=2)
    why = "an item is in two p-sums, its own and its block's: noise of scale 1/epsilon loses 2 epsilon"
    return pair_counters("Two-level, scale 1/epsilon", why, replace_noise(honest, UNIT_COST), honest, chance)


def build_short_horizon(chance: ExperimentNoise, horizon: int) -> TwinPair:
    honest = SimpleI(UNIT_LOSS, horizon=horizon)
    why = "noise for T - 1 counts, and T counts released"
    return pair_counters(
        "Simple I, horizon short by one", why, replace_noise(honest, UNIT_COST / (horizon - 1)), honest, chance
    )


def build_rate_for_scale(chance: ExperimentNoise) -> TwinPair:
    honest = SimpleII(Pure("1/2"), horizon=1)
    why = "epsilon, the rate of the noise, is handed to a sampler that takes the scale, 1/epsilon"
    return pair_counters("Simple II, rate taken for scale", why, replace_noise(honest, Fraction(2)), honest, chance)


def build_event_for_user(chance: ExperimentNoise, ticks: int) -> TwinPair:
    honest = SimpleII(UNIT_LOSS, horizon=ticks, unit=User(1, ticks))
    why = "noise for one event, claimed for a user who has one in each of several ticks"
    return pair_counters("Simple II, a user taken for an event", why, replace_noise(honest, UNIT_COST), honest, chance)


def build_unsplit_budget(chance: ExperimentNoise, name: str, counters: int) -> TwinPair:
    """Build counts, sums and, for a variance, squares of values up to 1; one event moves all of them."""
    honest = SimpleII(UNIT_LOSS, horizon=1, bound=Sensitivity(counters, counters, counters))
    why = "an event moves the count, the sum and the squares; each was given the whole epsilon"
    return pair_counters(f"{name}, budget not split", why, replace_noise(honest, UNIT_COST), honest, chance)


def build_summed_rho(chance: ExperimentNoise, horizon: int, w: int = 3) -> TwinPair:
    loss = Zcdp("1/4")
    honest = SimpleI(loss, horizon=horizon, unit=WEvent(w))
    cost = price(SimpleI(loss.part(Fraction(1, w)), horizon=horizon).distribution)
    why = "the rho of the ticks of a window do not add up: moves do, and rho is the square of their sum"
    return pair_counters("Simple I, rho shared out in a window", why, replace_noise(honest, cost), honest, chance)


def build_deviation_for_variance(chance: ExperimentNoise) -> TwinPair:
    honest = SimpleII(Zcdp("1/32"), horizon=1)
    deviation = isqrt(int(1 / (2 * price(honest.distribution))))
    why = "the standard deviation is handed to a sampler that takes the variance"
    broken = replace_noise(honest, Fraction(1, 2 * deviation))
    return pair_counters("Simple II, deviation taken for variance", why, broken, honest, chance)


def pair_counters(
    name: str, why: str, broken: LinearMechanism[Any], honest: LinearMechanism[Any], chance: ExperimentNoise
) -> TwinPair:
    """Build twins that both claim what the honest one keeps."""
    runs = TWIN_RUNS if honest.loss.currency == "pure" else MORE_RUNS
    build = partial(build_claimed_subject, loss=honest.loss, noise=chance)
    return build_twins(name, why, build, broken, honest, truth=float(broken.loss.additive_loss.amount), runs=runs)
