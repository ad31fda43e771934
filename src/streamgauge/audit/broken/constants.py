"""Wrong constants, as they are printed or mistyped: counters whose noise is too small by a factor.

The exact computation condemns each at every horizon; attacks do at the ones given here. The docstring of a builder is
the reason of its twin.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, isqrt, log2
from typing import Any

from streamgauge.audit.broken import pairs
from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair
from streamgauge.audit.exact.worst_case import price
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.continual import (
    Binary,
    BridgeTree,
    BufferedToeplitz,
    Kary,
    LinearMechanism,
    SimpleI,
    SimpleII,
    TwoLevel,
)
from streamgauge.continual.factorizations.normalisation import ColumnScales, build_scales
from streamgauge.privacy import Event, Pure, Sensitivity, Unit, User, WEvent, Zcdp

MORE_RUNS = 200_000  # means are bounded less tightly than rates
UNIT_COST = Fraction(1)  # what a move by one loses under noise of scale 1/epsilon, for `UNIT_LOSS`


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    yield build_log_levels(chance, 4)
    yield build_rounded_levels(chance, 2)
    yield build_simple_counts(chance, 4)
    yield build_two_levels(chance, 4)
    yield build_short_horizon(chance, 2)
    yield build_topless_bridge(chance, 2)
    yield build_rate_for_scale(chance)
    yield build_event_for_user(chance, 3)
    yield build_unsplit_budget(chance, "Mean", 2)
    yield build_unsplit_budget(chance, "Variance", 3)
    yield build_summed_rho(chance, 6)
    yield build_deviation_for_variance(chance)
    yield build_scale_twins(chance, "Toeplitz, scales of columns rounded up", LongColumns, Event())
    yield build_scale_twins(chance, "Toeplitz, several scaled columns charged as plain", PlainCharge, WEvent(4))


def build_log_levels(chance: ExperimentNoise, horizon: int) -> TwinPair:
    """Count blocks of 1, 2, 4, .. items as log2 T levels: they are floor(log2 T) + 1, for T = 4 three."""
    honest, cost = Binary(UNIT_LOSS, horizon=horizon), 1 / Fraction(log2(horizon))
    return pair_counters("Binary, levels counted as log2 T", build_log_levels, honest, cost, chance)


def build_rounded_levels(chance: ExperimentNoise, horizon: int) -> TwinPair:
    """Round levels up, which does not help if T is a power of two: T = 2 has blocks of one and of two items."""
    honest, cost = Binary(UNIT_LOSS, horizon=horizon), Fraction(1, ceil(log2(horizon)))
    return pair_counters("Binary, log2 T levels rounded up", build_rounded_levels, honest, cost, chance)


def build_dyadic_tree(horizon: int) -> Kary:
    """Build the tree of all blocks of 1, 2, 4, .. items in counts up to the horizon."""
    return Kary(UNIT_LOSS, branching=2, levels=horizon.bit_length(), horizon=horizon)


def build_simple_counts(chance: ExperimentNoise, horizon: int) -> TwinPair:
    """Add noise of scale 1/epsilon to all T counts, which lose T epsilon: the first event moves all of them."""
    honest = SimpleI(UNIT_LOSS, horizon=horizon)
    return pair_counters("Simple I, scale 1/epsilon", build_simple_counts, honest, UNIT_COST, chance)


def build_two_levels(chance: ExperimentNoise, horizon: int) -> TwinPair:
    """Add noise of scale 1/epsilon to two p-sums of an item, its own and its block's, which lose 2 epsilon."""
    honest = TwoLevel(UNIT_LOSS, horizon=horizon, block_size=2)
    return pair_counters("Two-level, scale 1/epsilon", build_two_levels, honest, UNIT_COST, chance)


def build_short_horizon(chance: ExperimentNoise, horizon: int) -> TwinPair:
    """Draw noise for T - 1 counts, and release T counts."""
    honest, cost = SimpleI(UNIT_LOSS, horizon=horizon), UNIT_COST / (horizon - 1)
    return pair_counters("Simple I, horizon short by one", build_short_horizon, honest, cost, chance)


def build_topless_bridge(chance: ExperimentNoise, horizon: int) -> TwinPair:
    """Draw noise for the levels of children alone: blocks of the top level have draws, too."""
    honest = BridgeTree(UNIT_LOSS, horizon=horizon, radices=(2,))
    return pair_counters("Bridge, top level not counted", build_topless_bridge, honest, UNIT_COST, chance)


def build_rate_for_scale(chance: ExperimentNoise) -> TwinPair:
    """Pass epsilon, the rate of the noise, to a sampler that takes the scale, 1/epsilon."""
    honest = SimpleII(Pure("1/2"), horizon=1)
    return pair_counters("Simple II, rate taken for scale", build_rate_for_scale, honest, Fraction(2), chance)


def build_event_for_user(chance: ExperimentNoise, ticks: int) -> TwinPair:
    """Draw noise for one event, and claim it for a user who has one in each of several ticks."""
    honest = SimpleII(UNIT_LOSS, horizon=ticks, unit=User(1, ticks))
    return pair_counters("Simple II, a user taken for an event", build_event_for_user, honest, UNIT_COST, chance)


def build_unsplit_budget(chance: ExperimentNoise, name: str, counters: int) -> TwinPair:
    """Give the count, the sum and the squares the whole epsilon each, though an event moves all of them.

    A mean has no squares. Values are at most 1.
    """
    honest = SimpleII(UNIT_LOSS, horizon=1, bound=Sensitivity(counters, counters, counters))
    return pair_counters(f"{name}, budget not split", build_unsplit_budget, honest, UNIT_COST, chance)


def build_summed_rho(chance: ExperimentNoise, horizon: int, w: int = 3) -> TwinPair:
    """Add up the rho of the ticks of a window: moves add up, and rho is the square of their sum."""
    loss = Zcdp("1/4")
    honest = SimpleI(loss, horizon=horizon, unit=WEvent(w))
    cost = price(SimpleI(loss.part(Fraction(1, w)), horizon=horizon).distribution)
    return pair_counters("Simple I, rho shared out in a window", build_summed_rho, honest, cost, chance)


def build_deviation_for_variance(chance: ExperimentNoise) -> TwinPair:
    """Pass the standard deviation to a sampler that takes the variance."""
    honest = SimpleII(Zcdp("1/32"), horizon=1)
    cost = Fraction(1, 2 * isqrt(int(1 / (2 * price(honest.distribution)))))
    return pair_counters("Simple II, deviation taken for variance", build_deviation_for_variance, honest, cost, chance)


class LongColumns(BufferedToeplitz):
    """Round the scales of columns up, on a grid of halves: late columns are longer than the first, which is charged."""

    @cached_property
    def scales(self) -> ColumnScales:
        below = build_scales(self.encoder, self.horizon, 1)
        return replace(below, tops=tuple(top + 1 for top in below.tops))


class PlainCharge(BufferedToeplitz):
    """Charge the first n plain columns for n ticks, though the last n are longer and overlap more if scaled."""

    def norm_squared(self, ticks: int) -> Fraction:
        return self.encoder.norm_squared(ticks, self.last_tick)


def build_scale_twins(
    chance: ExperimentNoise, name: str, broken: type[BufferedToeplitz], unit: Unit, horizon: int = 4
) -> TwinPair:
    claim = broken(Zcdp("1/2"), horizon=horizon, normalised=True, unit=unit)
    build = partial(pairs.build_claimed_subject, loss=claim.loss, noise=chance)
    return pairs.build_twins(name, build, claim, runs=MORE_RUNS, is_counted=False)


def pair_counters(
    name: str, builder: Callable[..., TwinPair], honest: LinearMechanism[Any], cost: Fraction, chance: ExperimentNoise
) -> TwinPair:
    """Build twins that claim what the honest one keeps; in the broken one a move by one loses `cost`."""
    tree = build_dyadic_tree(honest.horizon or 1) if isinstance(honest, Binary) else honest
    broken = pairs.replace_noise(tree, cost)
    truth = float(broken.charged_loss.amount)
    runs = pairs.TWIN_RUNS if honest.loss.currency == "pure" else MORE_RUNS
    build = partial(pairs.build_claimed_subject, loss=honest.loss, noise=chance)
    return pairs.build_twins(name, build, broken, honest, truth=truth, runs=runs, reason=pairs.read_reason(builder))
