"""Mechanisms that adapt to their data, under audit: readers see all releases.

A view has every array of every release (values, centres, noisy counts, starts of groups, readings), and the noisy
numbers of its error bounds. For a pan-private mechanism it has all of its memory after a tick. Nothing is linear in
the data, so scores are trained.

Many runs are the groups of one start, unless groups are decided on together: then each run is a start of its own.
Neighbours differ in one unit that comes first or last. Events of others are none, many, or such that counts jump at the
unit.

The worst loss of a grouper is computed for streams and patterns that were found by search:

    alone      a count, then many that are lower by the same, then one: all queries but the last move alike
    between    the same after many that are higher: one group refuses the count, which opens the next
    late       the same after many groups that ended at once, which reveal their threshold, if it is shared

In all of them the count that moves is in as many queries as any, where a sparse vector loses most: queries that joined
pull the threshold, and the last refuses. A unit moves the count, up or down by 1.

The probability of a pattern comes from the code of the grouper. Noise that no deviation outweighs forces each query,
and the draws are recorded. Before each query its state is repeated and queried under many noises: the noise at which
the answer changes is its margin. So a pattern is a sequence of thresholds, each with its queries:

    threshold r   queries   join if v1 < m1 + r,   join if v2 < m2 + r,   refuse if v3 >= m3 + r

    P = sum over r of P(r) P(v1 < m1 + r) P(v2 < m2 + r) P(v3 >= m3 + r),      a factor for each threshold

All laws are those of the code: a grouper that shares a threshold, draws too little, or admits a count to the queries of
two groups is computed as it is.

A mechanism that looks before it publishes is driven through all sequences of decisions: noise that no distance
outweighs decides each look. The draws of a tick are its cost: a vector that a unit moves by l1 in L1, under Laplace
noise of some scale, loses l1/scale. The cost of a window of w ticks is the sum. Costs are fractions, as scales are.

Promise
    The probability of a pattern is exact up to float error, and up to thresholds that are `TAIL_SCALES` beyond all
    margins. The worst pattern is a lower bound of the loss. Other streams may lose more, up to the proved bound.
    `find_worst_window` returns the largest cost of any w consecutive ticks, over all decisions, exactly, if no vector
    under noise moves further than `tick_sensitivity.l1`. Tests of the distance, and experiments, cover that.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import islice
from math import inf, log, tanh
from typing import Any

import numpy as np

from streamgauge.adaptive import AdaptiveMechanism, AdaptiveRelease, Pegasus, PegasusHierarchy
from streamgauge.adaptive.pegasus.grouper import Grouper
from streamgauge.adaptive.w_event.budget import WEventMechanism
from streamgauge.audit.exact.costs import build_unknown_worst
from streamgauge.audit.exact.worst_case import WorstCase, describe_coverage, price
from streamgauge.audit.neighbours import add_unit, list_landmarks, spread_unit
from streamgauge.audit.subject import ClaimSubject, Pair
from streamgauge.audit.subjects.pan_private import find_state_layout, load_state
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.testing.noise import CountedNoise

TAIL_SCALES = 40
FORCING_NOISE = 2**50  # noise that outweighs any deviation
PROBE_RADIUS = 2**8  # noises to either side that an ask is tried under at once

Counts = tuple[int, ...]


@dataclass
class ScriptedNoise:
    """Noise with given first draws; all others are 0."""

    first_draws: Ints | None

    def laplace(self, scale: Fraction, size: int) -> Ints:
        if self.first_draws is None or not size:
            return np.zeros(size, np.int64)
        said, self.first_draws = np.resize(self.first_draws, size), None
        return said

    gaussian = laplace


@dataclass
class ThresholdQueries:
    """All asks under one threshold: what noise each joins below, and which of them refused."""

    threshold_scale: Fraction  # the scale of the threshold
    query_scales: list[Fraction] = field(default_factory=list)
    margins: list[int] = field(default_factory=list)
    refusals: list[bool] = field(default_factory=list)

    def log_probability(self) -> float:
        """Return the log-probability of all these answers."""
        reach = max(map(abs, self.margins), default=0) + int(TAIL_SCALES * self.threshold_scale) + 1
        r = np.arange(-reach, reach + 1)
        found = np.asarray(log(tanh(float(1 / (2 * self.threshold_scale)))) - np.abs(r) / float(self.threshold_scale))
        for scale, margin, no in zip(self.query_scales, self.margins, self.refusals, strict=True):
            found = found + log_cdf(scale, -margin - r if no else margin + r - 1)
        top = float(found.max())
        return top + log(float(np.exp(found - top).sum()))


def log_cdf(scale: Fraction, k: Ints) -> Floats:
    """Return log P(v <= k) of a discrete Laplace draw v.

    >>> bool(np.isclose(np.exp(log_cdf(Fraction(1), np.array([-1, 0]))).sum(), 1))
    True
    """
    rate = float(1 / scale)
    edge = -np.log1p(np.exp(-rate))
    above = np.exp(edge - rate * (np.maximum(k, 0) + 1))
    return np.asarray(np.where(k >= 0, np.log1p(-above), edge + rate * np.minimum(k, 0)))


def log_pattern_probability(grouper: Grouper, counts: Counts, refusal_ticks: frozenset[int]) -> float:
    """Return the log-probability that queries at these ticks refuse, and all others join."""
    return sum(asks.log_probability() for asks in trace_queries(grouper, counts, refusal_ticks))


def trace_queries(grouper: Grouper, counts: Counts, refusal_ticks: frozenset[int]) -> list[ThresholdQueries]:
    """Return the queries along a pattern, threshold by threshold."""
    state, found = grouper.initial(1), list[ThresholdQueries]()
    for tick, count in enumerate(counts, 1):
        requested, no = bool(state.length[0]), tick in refusal_ticks
        if requested:
            found[-1].margins.append(find_margin(grouper, state, count))
            found[-1].refusals.append(no)
        noise = CountedNoise(ScriptedNoise(np.array([FORCING_NOISE if no else -FORCING_NOISE]) if requested else None))
        grouper.step(state, np.array([count]), noise)
        drawn = [scale for _, scale, size in noise.requests if size]
        if requested:
            found[-1].query_scales.append(drawn.pop(0))
        found += [ThresholdQueries(scale) for scale in drawn]
    return found


def find_margin(grouper: Grouper, state: Any, count: int) -> int:
    """Find the least noise under which the open group refuses a count."""
    joins, refuses, under = -FORCING_NOISE, FORCING_NOISE, np.arange(-PROBE_RADIUS, PROBE_RADIUS)
    while refuses - joins > 1:
        values, others = np.full(len(under), count), repeat_state(state, len(under))
        refused = grouper.step(others, values, ScriptedNoise(under))
        joins = max([joins, *under[~refused].tolist()])
        refuses = min([refuses, *under[refused].tolist()])
        under = np.unique(np.linspace(joins + 1, refuses - 1, 2 * PROBE_RADIUS).astype(np.int64))
    if not -FORCING_NOISE + 1 < refuses < FORCING_NOISE:
        raise ValueError("grouper must answer by its noise, got one answer for all")
    return refuses


def repeat_state(state: Any, width: int) -> Any:
    """Repeat a state of one column so many times."""
    others = deepcopy(state)
    for each in fields(others):
        setattr(others, each.name, np.repeat(getattr(state, each.name), width, axis=-1))
    return others


GROUP_SIZE, GROUP_COUNT = 20, 3  # counts that a group has besides, all the same
COUNT_EXCESS = 1  # by so much is the one that moves
LAST_COUNTS = (0, 2 * (GROUP_SIZE + GROUP_COUNT))  # with the others, or so far beyond that all are below the mean
PRIOR_GROUP_SIZE = 20  # counts of the group before
PRIOR_GROUPS = 12  # groups before
MAX_THRESHOLD_SCALE = 2**14  # a scale of thresholds whose chances are added up one by one


def list_candidates() -> Iterator[tuple[Counts, int, frozenset[int]]]:
    """List all streams that are tried, the tick whose count moves by 1, and the refusals."""
    for last in LAST_COUNTS:
        alone = (GROUP_COUNT + COUNT_EXCESS, *[GROUP_COUNT] * GROUP_SIZE, last)
        yield alone, 1, frozenset([len(alone)])
        between = (*[GROUP_COUNT + COUNT_EXCESS + 2] * PRIOR_GROUP_SIZE, *alone)
        yield between, PRIOR_GROUP_SIZE + 1, frozenset([PRIOR_GROUP_SIZE + 1, len(between)])
        late = (*[GROUP_COUNT] * (2 * PRIOR_GROUPS), *alone)
        yield late, 2 * PRIOR_GROUPS + 1, frozenset([*range(2, 2 * PRIOR_GROUPS + 1, 2), len(late)])


@lru_cache
def worst_grouping(grouper: Grouper) -> WorstCase:
    """Return the largest log-ratio of probabilities, in either direction; unknown if noise is too wide."""
    opening = grouper.threshold_noise.scale
    if opening > MAX_THRESHOLD_SCALE:
        return build_unknown_worst((1,), f"not computed: noise of scale {float(opening):.3g} is too wide")
    found = (compute_grouping_loss(grouper, *each) for each in list_candidates())
    worst = max(found, key=lambda each: each.amount)
    return replace(worst, computed_from="groups that were searched")


def compute_grouping_loss(grouper: Grouper, counts: Counts, tick: int, refusal_ticks: frozenset[int]) -> WorstCase:
    moved = [(*counts[: tick - 1], counts[tick - 1] + by, *counts[tick:]) for by in (0, 1, -1)]
    still, *others = (log_pattern_probability(grouper, each, refusal_ticks) for each in moved)
    groups = "1 group" if len(refusal_ticks) == 1 else f"{len(refusal_ticks)} groups"
    return WorstCase((tick,), max(abs(still - other) for other in others), f"{groups} in {len(counts)} ticks")


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

    def worst(self) -> WorstCase | None:
        """Return the worst of the groups that were searched, or the most that any window spends.

        Each level of a hierarchy loses what it has: counts are all in one leaf, at ticks at which all levels are read.
        """
        if isinstance(self.claim, WEventMechanism):
            ticks = min(self.ticks, MAX_DECISION_TICKS)
            return replace(find_worst_window(self.claim, ticks), computed_part=describe_coverage(ticks, self.ticks))
        if isinstance(self.claim, Pegasus):
            return combine_level_losses([self.claim], self.claim.max_unit_steps)
        if isinstance(self.claim, PegasusHierarchy):
            return combine_level_losses([tier.pegasus for tier in self.claim.tiers], self.claim.max_unit_steps)
        return None

    def pairs(self) -> Sequence[Pair]:
        nothing, found = np.zeros((len(self.move), self.ticks), np.int64), []
        for at in islice(list_landmarks(self.claim.unit, self.ticks), MAX_PATTERNS):
            jump = nothing + COUNT_JUMP * (np.arange(1, self.ticks + 1) >= at[0])
            backgrounds = {"": nothing, " where counts jump": jump, " of a busy stream": nothing + 1000}
            for where, other in backgrounds.items():
                found.append(Pair(f"{WorstCase(at, 0)}{where}", add_unit(other, self.move, at), other))
        return found[: self.max_pairs]

    def views(self, data: Ints, runs: int) -> Floats:
        claim = self.parallel_claim(runs)
        if claim is not None:
            return self._run_views(claim, np.tile(data, (runs, 1)), runs)
        return np.concatenate([self._run_views(self.claim, data, 1) for _ in range(runs)])

    def parallel_claim(self, runs: int) -> AdaptiveMechanism[Any] | None:
        """Return the claim for so many parallel runs, if runs can be parallel; hierarchies stand side by side."""
        if not isinstance(self.claim, PegasusHierarchy):
            return None if self.claim.HAS_JOINT_GROUPS else self.claim
        one = self.claim.hierarchy.parents
        many = [-1 if up < 0 else up + first for first in range(0, runs * len(one), len(one)) for up in one]
        return replace(self.claim, hierarchy=Hierarchy(many))

    def _run_views(self, claim: AdaptiveMechanism[Any], streams: Ints, runs: int) -> Floats:
        """Return the views of one start, a row for each run."""
        run = claim.start(len(streams), self.source)
        peek = self.ticks if self.peek is None else self.peek
        before, memory = run.feed(streams[:, :peek].T), list[Floats]()
        if self.peek is not None:
            memory = [reshape_by_run(find_state_layout(self.claim).read_groups(load_state(run), run.width), runs)]
        shown = claim.join_releases([before, run.feed(streams[:, peek:].T)]) if peek < self.ticks else before
        return np.concatenate([*(reshape_by_run(part, runs) for part in list_public_arrays(shown)), *memory], axis=1)


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


def combine_level_losses(levels: Sequence[Pegasus], steps: int) -> WorstCase:
    """Return a lower bound of the loss of groups, noisy counts and blocks: other streams were not tried."""
    found = {each.grouper: worst_grouping(each.grouper) for each in levels}
    laws = [[each.perturber, *([each.blocks.block_law] if each.blocks else [])] for each in levels]
    least = sum(found[each.grouper].floor + float(sum(map(price, own))) for each, own in zip(levels, laws, strict=True))
    return replace(found[levels[0].grouper], amount=inf, lower_bound=steps * least)
