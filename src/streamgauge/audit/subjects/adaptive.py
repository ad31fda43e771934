"""Mechanisms that adapt to their data, under audit: readers see all releases.

A view has every array of every release (values, centres, noisy counts, starts of groups, readings), and the noisy
numbers of its error bounds. For a pan-private mechanism it has all of its memory after a tick. Nothing is linear in
the data, so scores are trained. Computed losses are in `groupings` and below.

Many runs are the groups of one start, unless groups are decided on together: then each run is a start of its own.
Neighbours differ in one unit that comes first or last. Events of others are none, many, or such that counts jump at the
unit.

A mechanism that looks before it publishes is driven through all sequences of decisions: noise that no distance
outweighs decides each look. The draws of a tick are its cost: a vector that a unit moves by l1 in L1, under Laplace
noise of some scale, loses l1/scale. The cost of a window of w ticks is the sum. Costs are fractions, as scales are.

Promise
    `find_worst_window` returns the largest cost of any w consecutive ticks, over all decisions, exactly, if no vector
    under noise moves further than `tick_sensitivity.l1`. Tests of the distance, and experiments, cover that.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from streamgauge.adaptive import AdaptiveMechanism, AdaptiveRelease
from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.w_event.budget import WEventMechanism
from streamgauge.audit.exact.worst_case import Pattern, WorstCase, describe_coverage, price
from streamgauge.audit.neighbours import add_unit, list_landmarks, spread_unit
from streamgauge.audit.subject import ClaimSubject, Pair
from streamgauge.audit.subjects.groupings import FORCING_NOISE, ScriptedNoise, worst_grouping
from streamgauge.audit.subjects.pan_private import StateLayout, load_state
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.testing.noise import CountedNoise

Costs = tuple[Fraction, ...]


def find_worst_window(claim: WEventMechanism[Any], ticks: int) -> WorstCase:
    """Find the worst window of the claim's unit."""
    size = min(claim.unit.ticks, ticks)
    windows = (
        (sum(costs[first : first + size], Fraction(0)), first)
        for costs in list_costs(claim, claim.initial(1, ScriptedNoise(None)), ticks)
        for first in range(ticks - size + 1)
    )
    amount, first = max(windows)
    return WorstCase(tuple(range(first + 1, first + size + 1)), amount, computed_from=f"all decisions of {ticks} ticks")


def list_costs(claim: WEventMechanism[Any], state: Any, ticks: int) -> Iterator[Costs]:
    """List the costs of the ticks, for all sequences of decisions."""
    if not ticks:
        yield ()
        return
    for forced in (FORCING_NOISE, -FORCING_NOISE):
        after, noise = deepcopy(state), CountedNoise(ScriptedNoise(np.array([forced])))
        claim.step(after, np.zeros(1, np.int64), noise)
        cost = sum((claim.tick_sensitivity.l1 / scale for _, scale, size in noise.requests if size), Fraction(0))
        yield from ((cost, *later) for later in list_costs(claim, after, ticks - 1))


BAR_FIELDS = ("draws_inside", "draws", "ordinal", "is_waiting", "unread_ticks", "ceiling_sums")  # of each group
MAX_PATTERNS = 2  # of a unit
COUNT_JUMP = 12  # of others' counts
MAX_DECISION_TICKS = 8  # ticks over which every decision is tried


@dataclass(frozen=True)
class AdaptiveMechanismSubject(ClaimSubject):
    """All releases of the first ticks; with `peek`, the memory after so many."""

    claim: AdaptiveMechanism[Any]
    ticks: int
    peek: int | None = None
    max_pairs: int | None = None

    @cached_property
    def move(self) -> Ints:
        """The move of one tick by a unit, one number per group; all other groups of a run are empty."""
        move = spread_unit(self.claim.tick_sensitivity, is_laplace=True)
        return np.append(move, np.zeros(max(0, getattr(self.claim, "leaves", 1) - len(move)), np.int64))

    def pairs(self) -> Sequence[Pair]:
        places = list(list_landmarks(self.claim.unit, self.ticks))[:MAX_PATTERNS]
        found = [
            Pair(f"{WorstCase(at, 0)}{where}", add_unit(other, self.move, at), other)
            for at in places
            for where, other in self._build_backgrounds(at)
        ]
        return found[: self.max_pairs]

    def _build_backgrounds(self, pattern: Pattern) -> Iterator[tuple[str, Ints]]:
        nothing = np.zeros((len(self.move), self.ticks), np.int64)
        yield "", nothing
        yield " where counts jump", nothing + COUNT_JUMP * (np.arange(1, self.ticks + 1) >= pattern[0])
        yield " of a busy stream", nothing + 1000

    def views(self, data: Ints, runs: int) -> Floats:
        claim = self.parallel_claim(runs)
        if claim is not None:
            return self._run_views(claim, np.tile(data, (runs, 1)), runs)
        return np.concatenate([self._run_views(self.claim, data, 1) for _ in range(runs)])

    def parallel_claim(self, runs: int) -> AdaptiveMechanism[Any] | None:
        """Return the claim for so many parallel runs, if runs can be parallel."""
        return None if self.claim.HAS_JOINT_GROUPS else self.claim

    def _run_views(self, claim: AdaptiveMechanism[Any], streams: Ints, runs: int) -> Floats:
        """Return the views of one start, a row for each run."""
        run = claim.start(len(streams), self.source)
        peek = self.ticks if self.peek is None else self.peek
        before, memory = run.feed(streams[:, :peek].T), list[Floats]()
        if self.peek is not None:
            memory = [reshape_by_run(self.memory.read_groups(load_state(run), run.width), runs)]
        shown = claim.join_releases([before, run.feed(streams[:, peek:].T)]) if peek < self.ticks else before
        return np.concatenate([*(reshape_by_run(part, runs) for part in list_public_arrays(shown)), *memory], axis=1)

    @cached_property
    def memory(self) -> StateLayout:
        return StateLayout.from_mechanism(self.claim)


def list_public_arrays(release: AdaptiveRelease) -> Iterator[Floats]:
    """List all arrays with a number for each group: of all ticks, then of error bounds tick by tick."""
    for name in release.array_names:
        yield np.asarray(getattr(release, name), np.float64)
    for bar in release.error_bounds:
        parts = [getattr(bar, name) for name in BAR_FIELDS if hasattr(bar, name)]
        yield from (np.atleast_2d(np.asarray(part, np.float64)) for part in parts)
        yield np.full((1, release.value.shape[-1]), float(getattr(bar, "noisy_distance", np.nan)))


def reshape_by_run(rows: Floats, runs: int) -> Floats:
    """Reshape numbers (rows, groups of all runs) to one row for each run.

    >>> reshape_by_run(np.array([[1.0, 2.0, 3.0, 4.0]]), 2)
    array([[1., 2.],
           [3., 4.]])
    """
    apart = rows.reshape(len(rows), runs, -1)
    return np.ascontiguousarray(apart.transpose(1, 0, 2)).reshape(runs, -1)


@dataclass(frozen=True)
class PegasusSubject(AdaptiveMechanismSubject):
    """With the worst of the groups that were searched, and of one noisy count."""

    claim: Pegasus

    def worst(self) -> WorstCase:
        return combine_level_losses([self.claim], self.claim.max_unit_steps)


@dataclass(frozen=True)
class WindowBudgetSubject(AdaptiveMechanismSubject):
    """With the most that any window spends, over all decisions of the first ticks."""

    claim: WEventMechanism[Any]

    def worst(self) -> WorstCase:
        ticks = min(self.ticks, MAX_DECISION_TICKS)
        return replace(find_worst_window(self.claim, ticks), computed_part=describe_coverage(ticks, self.ticks))


@dataclass(frozen=True)
class ForestSubject(AdaptiveMechanismSubject):
    """A hierarchy, of which as many stand side by side as there are runs; each level loses what it has."""

    claim: PegasusHierarchy

    def worst(self) -> WorstCase:
        """Return the loss of counts that are all in one leaf, at ticks at which all levels are read."""
        return combine_level_losses([tier.pegasus for tier in self.claim.tiers], self.claim.max_unit_steps)

    def parallel_claim(self, runs: int) -> PegasusHierarchy:
        one = self.claim.hierarchy.parents
        many = [-1 if up < 0 else up + first for first in range(0, runs * len(one), len(one)) for up in one]
        return replace(self.claim, hierarchy=Hierarchy(many))


def combine_level_losses(levels: Sequence[Pegasus], steps: int) -> WorstCase:
    """Return a lower bound of the loss of groups, noisy counts and blocks: other streams were not tried."""
    found = {each.grouper: worst_grouping(each.grouper) for each in levels}
    laws = [[each.perturber, *([each.blocks.block_law] if each.blocks else [])] for each in levels]
    least = sum(found[each.grouper].floor + float(sum(map(price, own))) for each, own in zip(levels, laws, strict=True))
    return replace(found[levels[0].grouper], amount=inf, lower_bound=steps * least)


def build_adaptive_subject(claim: AdaptiveMechanism[Any], ticks: int, **options: Any) -> AdaptiveMechanismSubject:
    """Build the subject that computes as much of a claim as possible."""
    kinds: dict[type[Any], type[AdaptiveMechanismSubject]] = {
        Pegasus: PegasusSubject,
        PegasusHierarchy: ForestSubject,
        WEventMechanism: WindowBudgetSubject,
    }
    found = next((kind for root, kind in kinds.items() if isinstance(claim, root)), AdaptiveMechanismSubject)
    return found(claim, ticks, **options)
