"""The worst loss of a grouper, by computation: streams and patterns were found by search.

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

Promise
    The probability of a pattern is exact up to float error, and up to thresholds that are `TAIL_SCALES` beyond all
    margins. The worst pattern is a lower bound of the loss. Other streams may lose more, up to the proved bound.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from math import log, tanh
from typing import Any, Protocol

import numpy as np

from streamgauge.audit.exact.costs import build_unknown_worst
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.testing.noise import CountedNoise

TAIL_SCALES = 40
FORCING_NOISE = 2**50  # noise that outweighs any deviation
PROBE_RADIUS = 2**8  # noises to either side that an ask is tried under at once

Counts = tuple[int, ...]


class GrouperProtocol(Protocol):
    """Code that cuts columns of counts into groups; its state has the `length` of each open group."""

    @property
    def threshold_noise(self) -> DiscreteLaplace:
        """The noise of a threshold."""
        ...

    def initial(self, width: int) -> Any: ...

    def step(self, state: Any, values: Ints, noise: Noise) -> Bools:
        """Return the columns that began a group at this tick; queries are drawn before thresholds."""
        ...


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


def log_pattern_probability(grouper: GrouperProtocol, counts: Counts, refusal_ticks: frozenset[int]) -> float:
    """Return the log-probability that queries at these ticks refuse, and all others join."""
    return sum(asks.log_probability() for asks in trace_queries(grouper, counts, refusal_ticks))


def trace_queries(grouper: GrouperProtocol, counts: Counts, refusal_ticks: frozenset[int]) -> list[ThresholdQueries]:
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


def find_margin(grouper: GrouperProtocol, state: Any, count: int) -> int:
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


@dataclass(frozen=True)
class GroupingNeighbours:
    """Streams that differ by 1 at one tick, and a pattern of groups."""

    counts: Counts
    tick: int
    refusal_ticks: frozenset[int]

    def move_counts(self, delta_count: int) -> Counts:
        place = self.tick - 1
        return (*self.counts[:place], self.counts[place] + delta_count, *self.counts[place + 1 :])


def list_candidates() -> Iterator[GroupingNeighbours]:
    """List all streams and patterns that are tried."""
    for last in LAST_COUNTS:
        alone = (GROUP_COUNT + COUNT_EXCESS, *[GROUP_COUNT] * GROUP_SIZE, last)
        yield GroupingNeighbours(alone, 1, frozenset([len(alone)]))
        between = (*[GROUP_COUNT + COUNT_EXCESS + 2] * PRIOR_GROUP_SIZE, *alone)
        yield GroupingNeighbours(between, PRIOR_GROUP_SIZE + 1, frozenset([PRIOR_GROUP_SIZE + 1, len(between)]))
        late = (*[GROUP_COUNT] * (2 * PRIOR_GROUPS), *alone)
        yield GroupingNeighbours(late, 2 * PRIOR_GROUPS + 1, frozenset([*range(2, 2 * PRIOR_GROUPS + 1, 2), len(late)]))


@lru_cache
def worst_grouping(grouper: GrouperProtocol) -> WorstCase:
    """Return the largest log-ratio of probabilities, in either direction; unknown if noise is too wide."""
    opening = grouper.threshold_noise.scale
    if opening > MAX_THRESHOLD_SCALE:
        return build_unknown_worst((1,), f"not computed: noise of scale {float(opening):.3g} is too wide")
    found = (compute_grouping_loss(grouper, each) for each in list_candidates())
    worst = max(found, key=lambda each: each.amount)
    return replace(worst, computed_from="groups that were searched")


def compute_grouping_loss(grouper: GrouperProtocol, each: GroupingNeighbours) -> WorstCase:
    still = log_pattern_probability(grouper, each.counts, each.refusal_ticks)
    moved = [log_pattern_probability(grouper, each.move_counts(by), each.refusal_ticks) for by in (1, -1)]
    most = max(abs(still - other) for other in moved)
    groups = "1 group" if len(each.refusal_ticks) == 1 else f"{len(each.refusal_ticks)} groups"
    return WorstCase((each.tick,), most, f"{groups} in {len(each.counts)} ticks")
