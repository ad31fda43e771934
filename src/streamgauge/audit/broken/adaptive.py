"""Broken mechanisms that adapt to their data: Pegasus, window budgets and counters for few events.

Two groupers and two window budgets lose more than they claim on patterns that hardly ever come, or by little:
computation must condemn them. An exact decision shows only if the data are at its edge. A fixed stream is there in few
runs, and an adversary who sees publications is there in all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from streamgauge.adaptive import (
    AdaptiveRelease,
    BudgetDistribution,
    CascadingBuffers,
    Grouper,
    Pegasus,
    PegasusHierarchy,
    SparseCounter,
    StaleErrorBound,
)
from streamgauge.adaptive.pegasus.grouper import OpenGroups, fold_counts
from streamgauge.adaptive.pegasus.hierarchy import Tier, TierState
from streamgauge.adaptive.pegasus.node_estimates import LevelReadings
from streamgauge.adaptive.sparse.sparse_counter import State
from streamgauge.adaptive.w_event.distribution import BUDGET_PARTS
from streamgauge.adaptive.w_event.republish import State as RepublishState
from streamgauge.adaptive.w_event.republish import clipped_distance
from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair, build_twins
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.audit.subjects.adaptive import AdaptiveMechanismSubject
from streamgauge.audit.subjects.adversaries import AdversarySubject
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.coerce import Bools
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Pure, WEvent
from streamgauge.testing.noise import SilentNoise

PEGASUS_RUNS, COUNTED_PEGASUS_RUNS = 1000, 4000
PEGASUS_TICKS = 4
TWIN_HIERARCHY = Hierarchy([-1, 0, 0])
SMALL_LOSS = Pure("1/8")  # of which the grouper has 4/5: under such noise a count may turn from above to below


class UnclosedGrouper(Grouper):
    """A count that is refused opens the next group, which is not closed."""

    def step(self, state: OpenGroups, values: Ints, noise: Noise, active: Bools | None = None) -> Bools:
        was_open = state.length > 0
        began = super().step(state, values, noise, active)
        again = was_open & began
        self._append_counts(state, fold_counts(values, self.max_count), again)
        state.threshold[again] = self.max_deviation + self.threshold_noise.draw(noise, int(again.sum()))
        return began


class FixedThresholdGrouper(Grouper):
    """One noisy threshold for all groups of a column."""

    def step(self, state: OpenGroups, values: Ints, noise: Noise, active: Bools | None = None) -> Bools:
        requested = state.length > 0
        self._append_counts(state, fold_counts(values, self.max_count), np.ones_like(requested))
        refused = self._find_uneven(state, np.flatnonzero(requested), noise)
        first = ~requested & (state.threshold == 0)
        state.threshold[first] = self.max_deviation + self.threshold_noise.draw(noise, int(first.sum()))
        chosen = state.threshold.copy()
        self._close_groups(state, refused | (state.length >= self.max_group_ticks))
        state.threshold[:] = chosen
        return np.asarray(~requested | refused)


class InvertedNoiseGrouper(Grouper):
    """The rate of the noise is used as its scale, as in a published implementation."""

    @cached_property
    def threshold_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon / (2 * self.SENSITIVITY))

    @cached_property
    def test_noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon / (4 * self.SENSITIVITY))


class UnclosedPegasus(Pegasus):
    """Opens the next group with a refused count, which is in the queries of two groups.

    Each of them may lose as much as one.
    """

    grouper_class: type[Grouper] = UnclosedGrouper

    @cached_property
    def grouper(self) -> Grouper:
        honest = super().grouper
        return self.grouper_class(honest.epsilon, honest.theta, honest.max_group_ticks)


class FixedThresholdPegasus(UnclosedPegasus):
    """Has one threshold for all groups: those that ended show it, so it does not hide how a later one ended."""

    grouper_class = FixedThresholdGrouper


class InvertedNoisePegasus(UnclosedPegasus):
    """Draws noise of scales epsilon/4 and epsilon/8 for 4/epsilon and 8/epsilon: ends of groups are all but exact."""

    grouper_class = InvertedNoiseGrouper


class UnsplitPerturberPegasus(Pegasus):
    """Reads ticks with all of the Perturber's part, which the readings of ticks and of blocks must share."""

    @cached_property
    def perturber(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / (Fraction(self.split) * self.step_loss.epsilon))


class ExactParentTier(Tier):
    """The exact count above decides if children are read."""

    def step(
        self, state: TierState, counts: Ints, above: LevelReadings | None, tick: int, noise: Noise
    ) -> LevelReadings:
        return super().step(state, counts, above, tick, noise)._replace(newest=counts.astype(np.float64))


class ExactParentHierarchy(PegasusHierarchy):
    """Prunes by exact counts: children that are read have somebody in them."""

    def build_tier(self, *which: Any) -> Tier:
        honest = super().build_tier(*which)
        return ExactParentTier(honest.level, honest.pegasus, honest.pruner)


BROKEN_PEGASUS: tuple[tuple[str, type[Pegasus], int], ...] = (
    ("Pegasus, a refused count opens the next group", UnclosedPegasus, PEGASUS_RUNS),
    ("Pegasus, one threshold for all groups", FixedThresholdPegasus, PEGASUS_RUNS),
    ("Pegasus, rate taken for scale", InvertedNoisePegasus, COUNTED_PEGASUS_RUNS),
)


def build_pegasus_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    build = partial(AdaptiveMechanismSubject, noise=chance, max_pairs=1)
    short, long = partial(build, ticks=2), partial(build, ticks=PEGASUS_TICKS)
    for name, kind, runs in BROKEN_PEGASUS:
        claim, is_counted = kind(SMALL_LOSS, split="1/5", theta="1/10"), runs > PEGASUS_RUNS
        yield build_twins(name, long, claim, runs=runs, is_counted=is_counted)
    pruned = ExactParentHierarchy(UNIT_LOSS, hierarchy=TWIN_HIERARCHY, prune="1/1000")
    yield build_twins("Pegasus of a hierarchy, pruned by exact counts", short, pruned, runs=COUNTED_PEGASUS_RUNS)
    blocks = UnsplitPerturberPegasus(UNIT_LOSS, block=2)
    yield build_twins("Pegasus, blocks besides the whole", short, blocks, runs=PEGASUS_RUNS, is_counted=False)


WINDOW_TICKS = 3
WINDOW_TWIN_TICKS = 5
WINDOW_RUNS, DECISION_RUNS = 100, 1000


class ShortWindowDistribution(BudgetDistribution):
    """Offers what the first of w ticks has spent again to the last."""

    def max_parts(self, history: Ints, tick: int) -> int:
        return (BUDGET_PARTS - int(history[self.w + 2 :].sum())) // 2


class UnsplitDissimilarityDistribution(BudgetDistribution):
    """Draws the noise of a distance for epsilon/w, though publications have half of it."""

    @cached_property
    def distance_noise(self) -> DiscreteLaplace:
        return self.build_law(self.epsilon / self.w)


BROKEN_DISTRIBUTIONS: tuple[tuple[str, type[BudgetDistribution]], ...] = (
    ("Budget distribution, a window of w - 1", ShortWindowDistribution),
    ("Budget distribution, distances at twice their budget", UnsplitDissimilarityDistribution),
)


def build_window_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    build = partial(AdaptiveMechanismSubject, ticks=WINDOW_TWIN_TICKS, noise=chance, max_pairs=1)
    for name, kind in BROKEN_DISTRIBUTIONS:
        claim = kind(UNIT_LOSS, unit=WEvent(WINDOW_TICKS))
        yield build_twins(name, build, claim, runs=WINDOW_RUNS, is_counted=False)
    adversary, exact = partial(AdversarySubject, ticks=2, noise=chance), ExactDecisionDistribution(UNIT_LOSS)
    yield build_twins("Budget distribution, decided by the exact distance", adversary, exact, runs=DECISION_RUNS)


@dataclass
class FirstSilentNoise:
    """Noise whose first draw is 0."""

    noise: Noise
    first: bool = True

    def laplace(self, scale: Fraction, size: int) -> Ints:
        drawn = self.noise.laplace(scale, size)
        silent, self.first = self.first, False
        return np.zeros_like(drawn) if silent else drawn

    gaussian = laplace


class ExactDecisionDistribution(BudgetDistribution):
    """Decides by the exact distance, and publishes a noisy one.

    A reader who has seen a publication can put the next count at the edge.
    """

    def step(self, state: RepublishState, values: Ints, noise: Noise) -> AdaptiveRelease:
        found = clipped_distance(state.last_published, values) + int(self.distance_noise.draw(noise, 1)[0])
        release = super().step(state, values, FirstSilentNoise(noise))
        bars = tuple(
            replace(bar, noisy_distance=found) if isinstance(bar, StaleErrorBound) else bar
            for bar in release.error_bounds
        )
        return replace(release, error_bounds=bars)


SPARSE_TICKS, PEEK_TICK = 3, 2
SPARSE_RUNS = 2000


class ZeroStartBuffers(CascadingBuffers):
    """Begins accumulators again from 0, not from a draw: all that has come since is exact in memory."""

    def _draw_accumulators(self, rows: int, width: int, noise: Noise) -> Ints:
        return np.zeros((rows, width), np.int64)


class ExactSumCounter(SparseCounter):
    """Compares exact sums with the noisy threshold.

    A segment that ends after others have not has somebody in its last tick.
    """

    def _run_tests(self, state: State, noise: Noise) -> Bools:
        return super()._run_tests(state, SilentNoise())


def build_sparse_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    build = partial(AdaptiveMechanismSubject, ticks=SPARSE_TICKS, noise=chance, max_pairs=1)
    buffers = ZeroStartBuffers(UNIT_LOSS, horizon=SPARSE_TICKS, levels=1, kappa=1)
    seized = partial(build, peek=PEEK_TICK)
    yield build_twins("Cascading buffers, accumulators from 0", seized, buffers, runs=SPARSE_RUNS)
    counter, every_pair = ExactSumCounter(UNIT_LOSS, threshold=1, signed=False), partial(build, max_pairs=None)
    yield build_twins("Sparse counter, sums without noise", every_pair, counter, runs=2 * SPARSE_RUNS)
