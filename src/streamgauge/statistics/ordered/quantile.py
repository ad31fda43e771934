"""Quantiles of a column of numbers at every tick, one or several, from one tree.

The values are placed in the cells of an axis, `lower` to `upper` by `step`. Every level of a tree of blocks
(see `value_tree`) counts them, and the ranks of all cells are computed from the noisy blocks.
With F the noisy ranks of the edges and N the noisy number of events, all from the same blocks:

value     F is made monotone (halfway between the largest rank so far and the smallest to come, between 0 and
          N). The q-quantile is the first cell at whose end it has reached q N, published as the
          edge at which that cell begins. It is monotone in q: quantiles never cross. If N is below 1, the events
          missing to 1 are spread evenly over the axis.
ranks     the noise of F(e) - q N is a sum of blocks: those below the top level weigh 1, those of the top
          level 1 - q before the edge and q after it. `rank_stddev` is its standard deviation, the larger of
          both edges of the cell: by how many events the published value may be off the rank q N.
interval  all cells c, and the cells between them, with F(c) - q N < h(c) and F(c+1) - q N >= -h(c+1). Here h
          is the half width of the noise at that edge.

Proof that the interval contains the true quantile with `confidence` = 1 - beta: that lies in the cell c whose
true ranks have R(c) < q M <= R(c+1), M the true number of events. The noise at edge c is above h(c), or that
at edge c+1 below -h(c+1), with probability beta/2 each, at most. Otherwise c is among the cells. The two edges
are fixed by the data, not chosen in view of the noise: no union over edges is needed, nor that F be monotone.
Making F monotone never adds to the largest error over all edges: neither the largest before an edge nor the
smallest after it is farther from a monotone truth than the worst of F is.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all quantiles.
    Proof: an event adds 1 to one block of each of the h levels, h in L1 and in squared L2. A replaced one
    leaves as many and enters as many. Everything else is post-processing.

Error
    In ranks, known beforehand: see `max_rank_stddev`. In units of the data it depends on their density at
    the quantile, and the interval shows it. Ranks are monotone in the value and quantiles in q, at every tick.
    Over time a quantile may rise and fall, as the true one may.

Reference
    The tree over values under a counter over time is folklore; see Qardaji, Yang, Li, VLDB 2013, for broad
    trees. Here ranks are reached from either side, and intervals are proved from the exact noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.privacy.rationals import Number, parse_rational
from streamgauge.statistics.estimate import Columns, Estimate, Floats, add_blocks, round_outwards, split_rows
from streamgauge.statistics.ordered.axis import AxisProfile, AxisStatistic
from streamgauge.statistics.ordered.value_tree import ValueTree, choose_tree
from streamgauge.statistics.statistic import ExpectedData, NoisySums

MIN_STANDARD_ERRORS = 2.0  # standard errors required on both sides of a reliable quantile
ONE_SIGMA_CONFIDENCE = 0.6826894921370859


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantileEstimates(Estimate):
    """Value at each q in every group: (width,), or (quantiles, width), by tick.

    `reliable` says if both sides of the quantile have more than twice the rank error, judged from noisy
    counts alone. Otherwise the interval is wide, and still valid. An end of the interval at the end of the axis means
    that or beyond, since values are clipped there. `stddev` is half the length of the interval of one sigma (68 %).
    """

    ARRAYS: ClassVar[tuple[str, ...]] = (*Estimate.ARRAYS, "rank_stddev", "count")
    q: Number | tuple[Number, ...]
    rank_stddev: Floats  # in events
    count: Floats  # noisy: the number of events, (width,)

    @property
    def fraction_stddev(self) -> Floats:
        """Rank error as a part of all events."""
        count = self.count if self.value.ndim == self.count.ndim else self.count[..., None, :]
        return self.rank_stddev / np.maximum(count, 1.0)

    def columns(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Return each quantile as columns, numbered in the order of q: "0", "1", ..."""
        if isinstance(self.q, tuple):
            return self.split_columns(map(str, range(len(self.q))), confidence)
        return {"0": super().columns(confidence)["value"]}


def estimate_quantiles(profile: AxisProfile, q: Number | Sequence[Number]) -> QuantileEstimates:
    """Return the quantiles of a profile, a row per tick."""
    parts = parse_fractions(q)
    count = profile.total
    cells = find_crossings(profile.ranks, parts)
    spreads = [rank_stddev(profile, part, cell) for part, cell in zip(parts, cells, strict=True)]
    sides = [np.minimum(count * float(part), count * float(1 - part)) for part in parts]
    reliable = [side >= MIN_STANDARD_ERRORS * spread for side, spread in zip(sides, spreads, strict=True)]
    found = [profile.axis.edges[cell] for cell in cells]

    requested: Any = tuple(q) if isinstance(q, tuple | list) else q

    def shaped(rows: list[Any]) -> Any:
        return np.stack(rows, axis=1) if isinstance(requested, tuple) else rows[0]

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        both = [find_cell_range(profile, part, c, confidence) for part, c in zip(parts, cells, strict=True)]
        return shaped([low for low, _ in both]), shaped([high for _, high in both])

    def error() -> Floats:
        low, high = intervals(ONE_SIGMA_CONFIDENCE)
        return (high - low) / 2

    more = {"q": requested, "rank_stddev": shaped(spreads), "count": count}
    return QuantileEstimates(shaped(found), error, shaped(reliable), intervals, **more)


def parse_fractions(q: Any) -> list[Fraction]:
    """Return every q as an exact fraction between 0 and 1."""
    given = list(q) if isinstance(q, tuple | list) else [q]
    if not given:
        raise ValueError("q must be a number or several, got none")
    parts = [parse_rational(value, "q") for value in given]
    for part, value in zip(parts, given, strict=True):
        if not 0 < part < 1:
            raise ValueError(f"q must be above 0 and below 1 (Extremes has the ends), got {value}")
    return parts


def make_monotone(ranks: Floats) -> Floats:
    """Return ranks that never fall, from 0 to the whole.

    There is at least one event in all, spread evenly if necessary.
    """
    whole = np.maximum(ranks[..., -1:, :], 0.0)
    rising = np.maximum.accumulate(ranks, axis=-2)
    falling = np.minimum.accumulate(ranks[..., ::-1, :], axis=-2)[..., ::-1, :]
    middle = np.clip((rising + falling) / 2, 0.0, whole)
    middle[..., -1:, :] = whole
    even = np.linspace(0.0, 1.0, ranks.shape[-2])[:, None]
    return middle + np.maximum(1.0 - whole, 0.0) * even


def find_crossings(ranks: Floats, parts: list[Fraction]) -> list[Ints]:
    """Return the cell of each quantile, at every tick, from monotone ranks."""
    found = []
    for piece in split_rows(len(ranks), ranks[0].size if len(ranks) else 1):
        own = make_monotone(ranks[piece])
        found.append([find_crossing(own, part) for part in parts])
    return [np.concatenate(of) for of in zip(*found, strict=True)]


def find_crossing(ranks: Floats, q: Fraction) -> Ints:
    """Return the first cell at whose end the rank is q of the whole."""
    target = ranks[..., -1:, :] * q.numerator / q.denominator
    before = (ranks[..., 1:-1, :] < target).sum(axis=-2)
    return np.asarray(before, np.int64)


def compute_variance_blocks(tree: ValueTree, q: Fraction) -> Floats:
    """Return the variance of F - q N at every edge, in blocks."""
    part = float(q)
    blocks: Floats = (
        tree.blocks_below_top
        + (1 - part) ** 2 * tree.top_blocks_before
        + part**2 * (tree.top_blocks - tree.top_blocks_before)
    )
    return blocks


def rank_stddev(profile: AxisProfile, q: Fraction, cells: Ints) -> Floats:
    """Return the standard deviation of a rank at published cells."""
    own = compute_variance_blocks(profile.tree, q)
    larger = np.maximum(own[:-1], own[1:])[cells]
    return np.sqrt(profile.variances[:, None] * larger)


def find_cell_range(profile: AxisProfile, q: Fraction, cells: Ints, confidence: float) -> tuple[Floats, Floats]:
    """Return the hull of the published cell and all that may have the quantile."""
    gaps = profile.ranks - profile.total[:, None] * q.numerator / q.denominator
    first, last = cells.copy(), cells.copy()
    for law, rows in profile.laws.iterate_laws():
        widths, scales = EdgeHalfWidths(profile.tree, float(q), law, confidence), profile.laws.scales[rows]
        first[rows], last[rows] = find_hull(gaps[rows], widths, cells[rows], scales)
    return profile.axis.edges[first], profile.axis.edges[last + 1]


class EdgeHalfWidths:
    """Half width of F - q N at every edge, bounded at first and exact where decisive.

    Edges with as many blocks of each weight have the same law. An exact half width needs some hundredths of a
    second, Chernoff's a thousandth. Few edges decide a hull.
    """

    MAX_REFINEMENTS = 2  # refinements: none, Chernoff's bound, the exact law

    def __init__(self, tree: ValueTree, q: float, noise: NoiseSum, confidence: float) -> None:
        pairs = np.stack([tree.blocks_below_top, tree.top_blocks_before], axis=1)
        kinds, which = np.unique(pairs, axis=0, return_inverse=True)
        self.blocks = [[(below, 1.0), (top, 1 - q), (tree.top_blocks - top, q)] for below, top in kinds.tolist()]
        self.kinds: Ints = which.reshape(-1)
        self.noise, self.confidence = noise, confidence
        largest = [(int(tree.blocks_below_top.max()), 1.0), (tree.top_blocks, max(q, 1 - q))]
        self.half = np.full(len(kinds), add_blocks(noise, largest, fast=True).half_width(confidence))
        self.refined = np.zeros(len(kinds), np.int64)

    def edge_half_widths(self, scales: Floats) -> Floats:
        """Return the known half widths of noise on these scales: (scales, edges, 1)."""
        wide = round_outwards(np.multiply.outer(scales, self.half), scales[:, None])
        return wide[:, self.kinds, None]

    def refine(self, edges: Ints) -> bool:
        """Tighten the half widths of some edges. Return whether anything was left to do."""
        found = np.unique(self.kinds[edges])
        rough = found[self.refined[found] < self.MAX_REFINEMENTS]
        for kind in rough.tolist():
            self.refined[kind] += 1
            law = add_blocks(self.noise, self.blocks[kind], fast=self.refined[kind] < self.MAX_REFINEMENTS)
            self.half[kind] = min(self.half[kind], law.half_width(self.confidence))
        return len(rough) > 0


def find_hull(gaps: Floats, widths: EdgeHalfWidths, cells: Ints, scales: Floats) -> tuple[Ints, Ints]:
    """Return the first and the last cell that may have the quantile, or was published."""
    while True:
        half = widths.edge_half_widths(scales)
        may = (gaps[:, :-1] < half[:, :-1]) & (gaps[:, 1:] >= -half[:, 1:])
        some, end = may.any(axis=1), may.shape[1] - 1
        first, last = np.argmax(may, axis=1), end - np.argmax(may[:, ::-1], axis=1)
        deciding = np.append(first[some], last[some])
        if not widths.refine(np.append(deciding, deciding + 1)):
            low, high = np.where(some, first, cells), np.where(some, last, cells)
            return np.minimum(low, cells), np.maximum(high, cells)


@dataclass(frozen=True, kw_only=True)
class Quantile(AxisStatistic[QuantileEstimates]):
    """Value below which a part q of the events lies, for one q or several.

    See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> claim = Quantile(Pure(1), q=(0.25, 0.5), lower=0, upper=120, step=1, horizon=24)
    >>> run = claim.start(noise=SilentNoise())
    >>> run.step([31, 44, 58, 70]).value.tolist()
    [[31.0], [44.0]]
    """

    q: Number | Sequence[Number] = 0.5

    def check(self) -> None:
        parse_fractions(self.q)
        if isinstance(self.q, list):
            object.__setattr__(self, "q", tuple(self.q))
        self.vector_size(1, None)

    @cached_property
    def tree(self) -> ValueTree:
        """Tree of least predicted rank error. Top-level blocks have weight q (1 - q)."""
        parts = parse_fractions(self.q)
        share = float(sum(part * (1 - part) for part in parts) / len(parts))
        return choose_tree(self.axis.cells, self.loss, self.branching, share)

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(str(place) for place in range(len(parse_fractions(self.q))))

    def release(self, sums: NoisySums) -> QuantileEstimates:
        return estimate_quantiles(self.build_profile(sums), self.q)

    def max_rank_stddev(self, tick: int) -> float:
        """Return the largest standard error of a rank at `tick`, in events.

        It is over all values and all q.
        """
        worst = max(float(compute_variance_blocks(self.tree, part).max()) for part in parse_fractions(self.q))
        return sqrt(worst) * self.linear_counter.stddev(tick)

    def _predict_stddev(self, measure: str, tick: int, expected: ExpectedData) -> float:
        """Return the stddev of values spread evenly over the axis, at most half the axis."""
        part = parse_fractions(self.q)[int(measure)]
        ranks = sqrt(float(compute_variance_blocks(self.tree, part).max())) * self.linear_counter.stddev(tick)
        length = float(self.axis.upper - self.axis.lower)
        return length * min(ranks / max(expected.count, 1.0), 0.5)
