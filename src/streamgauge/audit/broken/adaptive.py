"""Broken mechanisms that adapt to their data: Pegasus, window budgets and counters for few events.

Two groupers and two window budgets lose more than they claim on patterns that hardly ever come, or by little:
computation must condemn them. An exact decision shows only if the data are at its edge. A fixed stream is there in few
runs, and an adversary who sees publications is there in all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease
from streamgauge.adaptive.pegasus.grouper import Grouper, OpenGroups, fold_counts
from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy, Tier, TierState
from streamgauge.adaptive.pegasus.node_estimates import LevelReadings
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse.sparse_counter import SparseCounter, State
from streamgauge.adaptive.w_event.distribution import BUDGET_PARTS, BudgetDistribution
from streamgauge.adaptive.w_event.republish import StaleErrorBound, clipped_distance
from streamgauge.adaptive.w_event.republish import State as RepublishState
from streamgauge.audit.broken.pairs import UNIT_LOSS, ExperimentNoise, TwinPair, build_twins
from streamgauge.audit.subjects.adaptive import (
    AdaptiveMechanismSubject,
    ForestSubject,
    PegasusSubject,
    WindowBudgetSubject,
)
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
        kept = state.threshold.copy()
        self._close_groups(state, refused | (state.length >= self.max_group_ticks))
        state.threshold[:] = kept
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
    grouper_class: type[Grouper] = UnclosedGrouper

    @cached_property
    def grouper(self) -> Grouper:
        honest = super().grouper
        return self.grouper_class(honest.epsilon, honest.theta, honest.max_group_ticks)


class FixedThresholdPegasus(UnclosedPegasus):
    grouper_class = FixedThresholdGrouper


class InvertedNoisePegasus(UnclosedPegasus):
    grouper_class = InvertedNoiseGrouper


BROKEN_GROUPERS: tuple[tuple[str, str, type[Pegasus], bool], ...] = (
    (
        "Pegasus, a refused count opens the next group",
        "it is in the asks of two groups, each of which may lose as much as one",
        UnclosedPegasus,
        False,
    ),
    (
        "Pegasus, one threshold for all groups",
        "groups that ended tell where it is, and it no longer hides how a later one ended",
        FixedThresholdPegasus,
        False,
    ),
    (
        "Pegasus, rate taken for scale",
        "epsilon/4 and epsilon/8 for 4/epsilon and 8/epsilon: where groups end is all but exact",
        InvertedNoisePegasus,
        True,
    ),
)


def build_pegasus_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    def build_group_subject(title: str, kind: type[Pegasus]) -> PegasusSubject:
        claim = kind(SMALL_LOSS, split="1/5", theta="1/10")
        return PegasusSubject(claim, PEGASUS_TICKS, noise=chance, title=title, max_pairs=1)

    for name, why, kind, counted in BROKEN_GROUPERS:
        runs = COUNTED_PEGASUS_RUNS if counted else PEGASUS_RUNS
        yield build_twins(name, why, build_group_subject, kind, Pegasus, runs=runs, is_counted=counted)
    yield build_twins(
        "Pegasus of a hierarchy, pruned by exact counts",
        "children that are read have somebody in them",
        lambda title, kind: ForestSubject(
            kind(UNIT_LOSS, hierarchy=TWIN_HIERARCHY, prune="1/1000"), 2, noise=chance, title=title, max_pairs=1
        ),
        ExactParentHierarchy,
        PegasusHierarchy,
        runs=COUNTED_PEGASUS_RUNS,
    )
    yield build_twins(
        "Pegasus, blocks besides the whole",
        "a count is in the readings of its tick and of its block, which share what the Perturber has",
        lambda title, kind: PegasusSubject(kind(UNIT_LOSS, block=2), 2, noise=chance, title=title, max_pairs=1),
        UnsplitPerturberPegasus,
        Pegasus,
        runs=PEGASUS_RUNS,
        is_counted=False,
    )


class UnsplitPerturberPegasus(Pegasus):
    """Ticks are read with all of the Perturber's part, as if there were no blocks."""

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
    def build_tier(self, *which: Any) -> Tier:
        honest = super().build_tier(*which)
        return ExactParentTier(honest.level, honest.pegasus, honest.pruner)


WINDOW_TICKS = 3
WINDOW_TWIN_TICKS = 5
WINDOW_RUNS, DECISION_RUNS = 100, 1000


class ShortWindowDistribution(BudgetDistribution):
    """Budgets come back a tick too early."""

    def max_parts(self, history: Ints, tick: int) -> int:
        return (BUDGET_PARTS - int(history[self.w + 2 :].sum())) // 2


class UnsplitDissimilarityDistribution(BudgetDistribution):
    """Half of epsilon is for looking; each look has the noise of all of it."""

    @cached_property
    def distance_noise(self) -> DiscreteLaplace:
        return self.build_law(self.epsilon / self.w)


BROKEN_DISTRIBUTIONS: tuple[tuple[str, str, type[BudgetDistribution]], ...] = (
    (
        "Budget distribution, a window of w - 1",
        "what the first of w ticks has spent is offered again to the last",
        ShortWindowDistribution,
    ),
    (
        "Budget distribution, distances at twice their budget",
        "the noise of a distance must be for epsilon/(2 w), since publications have the other half",
        UnsplitDissimilarityDistribution,
    ),
)


def build_window_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    def build(title: str, kind: type[BudgetDistribution]) -> WindowBudgetSubject:
        claim = kind(UNIT_LOSS, unit=WEvent(WINDOW_TICKS))
        return WindowBudgetSubject(claim, WINDOW_TWIN_TICKS, noise=chance, title=title, max_pairs=1)

    for name, why, kind in BROKEN_DISTRIBUTIONS:
        yield build_twins(name, why, build, kind, BudgetDistribution, runs=WINDOW_RUNS, is_counted=False)
    yield build_twins(
        "Budget distribution, decided by the exact distance",
        "who has seen a publication can put the next count at the edge",
        lambda title, kind: AdversarySubject(kind(UNIT_LOSS), 2, noise=chance, title=title),
        ExactDecisionDistribution,
        BudgetDistribution,
        runs=DECISION_RUNS,
    )


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
    """The published distance is noisy; the one that decides is not."""

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
    """An accumulator that has passed on begins again from 0, not from a draw."""

    def _draw_accumulators(self, rows: int, width: int, noise: Noise) -> Ints:
        return np.zeros((rows, width), np.int64)


class ExactSumCounter(SparseCounter):
    """Exact sums are compared with the noisy threshold."""

    def _run_tests(self, state: State, noise: Noise) -> Bools:
        return super()._run_tests(state, SilentNoise())


def build_sparse_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    yield build_twins(
        "Cascading buffers, accumulators from 0",
        "what has come since it passed on is exact in memory",
        lambda title, kind: AdaptiveMechanismSubject(
            kind(UNIT_LOSS, horizon=SPARSE_TICKS, levels=1, kappa=1),
            SPARSE_TICKS,
            PEEK_TICK,
            noise=chance,
            title=title,
            max_pairs=1,
        ),
        ZeroStartBuffers,
        CascadingBuffers,
        runs=SPARSE_RUNS,
    )
    yield build_twins(
        "Sparse counter, sums without noise",
        "a segment that ends after others have not has somebody in its last tick",
        lambda title, kind: AdaptiveMechanismSubject(
            kind(UNIT_LOSS, threshold=1, signed=False), SPARSE_TICKS, noise=chance, title=title
        ),
        ExactSumCounter,
        SparseCounter,
        runs=2 * SPARSE_RUNS,
    )
