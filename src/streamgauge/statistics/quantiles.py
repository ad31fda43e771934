"""Quantiles read off a profile: values at ranks, with bars in ranks and in units of the data.

With F the noisy ranks of the edges and N the noisy number of events, all from the same blocks:

value     F is made monotone (halfway between the largest rank so far and the smallest to come, within 0 and
          N), and the q-quantile is the first cell at whose end it has reached q N; it is published as the
          edge at which that cell begins. Monotone in q: quantiles never cross. Where N is below 1 the events
          that are missing to 1 are thought to lie evenly over the axis.
ranks     the noise of F(e) - q N is a sum of blocks: those below the top level weigh 1, those of the top
          level 1 - q before the edge and q after it. `rank_stddev` is its standard deviation, the larger of
          both edges of the cell: by how many events the published value may be off the rank q N.
interval  all cells c, and what lies between them, with F(c) - q N < h(c) and F(c+1) - q N >= -h(c+1), where h
          is the half width of the noise at that edge.

Proof that the interval holds the true quantile with `confidence` = 1 - beta: that lies in the cell c whose
true ranks have R(c) < q M <= R(c+1), M the true number of events. The noise at edge c is above h(c), or that
at edge c+1 below -h(c+1), with probability beta/2 each, at most; else c is among the cells. The two edges
are fixed by the data, not chosen in view of the noise: no union over edges is needed, nor that F be monotone.
Making F monotone never adds to the largest error over all edges: neither the largest before an edge nor the
smallest after it is farther from a monotone truth than the worst of F is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.privacy.exact import Number, exact
from streamgauge.statistics.columns import Bools
from streamgauge.statistics.estimate import Estimate, Floats, check_confidence
from streamgauge.statistics.noises import added, outwards
from streamgauge.statistics.pieces import pieces
from streamgauge.statistics.profile import Profile
from streamgauge.statistics.told import Columns
from streamgauge.statistics.value_tree import ValueTree

SURE = 2.0  # standard errors that both sides of a quantile must hold, to have enough to go on
ONE_SIGMA = 0.6826894921370859


@dataclass(frozen=True, eq=False)
class Quantiles:
    """The value at each q, in every group: (width,) or, for several q, (quantiles, width); a row per tick.

    `enough` says where both sides of the quantile hold more than twice the rank error, judged from noisy
    counts alone; elsewhere the interval is wide, and still valid.
    """

    q: Number | tuple[Number, ...]
    value: Floats
    rank_stddev: Floats  # in events
    count: Floats  # noisy: the number of events, (width,)
    enough: Bools
    _intervals: Callable[[float], tuple[Floats, Floats]] = field(repr=False)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds that hold the true quantile with `confidence`, at each tick, q and group by itself.

        An end at the end of the axis means that or beyond, since values are clipped there.
        """
        check_confidence(confidence)
        return self._intervals(confidence)

    @cached_property
    def stddev(self) -> Floats:
        """Half the length of the interval of one sigma (68 %), in units of the data."""
        low, high = self._intervals(ONE_SIGMA)
        return (high - low) / 2

    @property
    def fraction_stddev(self) -> Floats:
        """The rank error as a part of all events."""
        count = self.count if self.value.ndim == self.count.ndim else self.count[..., None, :]
        return self.rank_stddev / np.maximum(count, 1.0)

    def told(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Each quantile as columns, numbered in the order of q: "0", "1", ..."""
        check_confidence(confidence)
        shared = lru_cache(maxsize=1)(self._intervals)
        parts: list[Any] = [np.s_[..., place, :] for place in range(len(fractions(self.q)))]
        parts = parts if isinstance(self.q, tuple) else [np.s_[...]]

        def one(part: Any) -> Estimate:
            def intervals(confidence: float) -> tuple[Floats, Floats]:
                low, high = shared(confidence)
                return low[part], high[part]

            return Estimate(self.value[part], lambda: self.stddev[part], self.enough[part], intervals)

        return {str(place): Columns(confidence, partial(one, part)) for place, part in enumerate(parts)}

    def of_tick(self, row: int) -> "Quantiles":
        """One of several ticks."""

        def intervals(confidence: float) -> tuple[Floats, Floats]:
            low, high = self._intervals(confidence)
            return low[row], high[row]

        arrays = self.value[row], self.rank_stddev[row], self.count[row], self.enough[row]
        return Quantiles(self.q, *arrays, intervals)


def stacked_quantiles(releases: Sequence[Quantiles]) -> Quantiles:
    """The quantiles of several ticks, one row each."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        bounds = [release.interval(confidence) for release in releases]
        return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])

    return Quantiles(
        releases[0].q,
        np.stack([release.value for release in releases]),
        np.stack([release.rank_stddev for release in releases]),
        np.stack([release.count for release in releases]),
        np.stack([release.enough for release in releases]),
        intervals,
    )


def quantiles_of(profile: Profile, q: Number | Sequence[Number]) -> Quantiles:
    """The quantiles of a profile; a row per tick."""
    parts = fractions(q)
    count = profile.total
    cells = crossings(profile.ranks, parts)
    spreads = [rank_spread(profile, part, cell) for part, cell in zip(parts, cells, strict=True)]
    sides = [np.minimum(count * float(part), count * float(1 - part)) for part in parts]
    enough = [side >= SURE * spread for side, spread in zip(sides, spreads, strict=True)]
    found = [profile.axis.edges[cell] for cell in cells]

    asked: Any = tuple(q) if isinstance(q, tuple | list) else q

    def shaped(rows: list[Any]) -> Any:
        return np.stack(rows, axis=1) if isinstance(asked, tuple) else rows[0]

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        both = [cell_range(profile, part, c, confidence) for part, c in zip(parts, cells, strict=True)]
        return shaped([low for low, _ in both]), shaped([high for _, high in both])

    return Quantiles(asked, shaped(found), shaped(spreads), count, shaped(enough), intervals)


def fractions(q: Any) -> list[Fraction]:
    """Every q as an exact fraction between 0 and 1."""
    given = list(q) if isinstance(q, tuple | list) else [q]
    if not given:
        raise ValueError("q must be a number or several, got none")
    parts = [exact(value, "q") for value in given]
    for part, value in zip(parts, given, strict=True):
        if not 0 < part < 1:
            raise ValueError(f"q must be above 0 and below 1 (Extremes has the ends), got {value}")
    return parts


def monotone(ranks: Floats) -> Floats:
    """Ranks that never fall, from 0 to the whole; at least one event in all, spread evenly if need be."""
    whole = np.maximum(ranks[..., -1:, :], 0.0)
    rising = np.maximum.accumulate(ranks, axis=-2)
    falling = np.minimum.accumulate(ranks[..., ::-1, :], axis=-2)[..., ::-1, :]
    middle = np.clip((rising + falling) / 2, 0.0, whole)
    middle[..., -1:, :] = whole
    even = np.linspace(0.0, 1.0, ranks.shape[-2])[:, None]
    return middle + np.maximum(1.0 - whole, 0.0) * even


def crossings(ranks: Floats, parts: list[Fraction]) -> list[Ints]:
    """The cell of each quantile, at every tick, of ranks that are made monotone."""
    found = []
    for piece in pieces(len(ranks), ranks[0].size if len(ranks) else 1):
        own = monotone(ranks[piece])
        found.append([crossing(own, part) for part in parts])
    return [np.concatenate(of) for of in zip(*found, strict=True)]


def crossing(ranks: Floats, q: Fraction) -> Ints:
    """The first cell at whose end the rank is q of the whole."""
    target = ranks[..., -1:, :] * q.numerator / q.denominator
    before = (ranks[..., 1:-1, :] < target).sum(axis=-2)
    return np.asarray(before, np.int64)


def variance_blocks(tree: ValueTree, q: Fraction) -> Floats:
    """The variance of F - q N at every edge, in blocks."""
    part = float(q)
    blocks: Floats = tree.below + (1 - part) ** 2 * tree.inside + part**2 * (tree.top - tree.inside)
    return blocks


def rank_spread(profile: Profile, q: Fraction, cells: Ints) -> Floats:
    """The standard deviation of a rank at published cells."""
    own = variance_blocks(profile.tree, q)
    larger = np.maximum(own[:-1], own[1:])[cells]
    return np.sqrt(profile.variances[:, None] * larger)


def cell_range(profile: Profile, q: Fraction, cells: Ints, confidence: float) -> tuple[Floats, Floats]:
    """The hull of all cells that may hold the true quantile, and of the published one."""
    gaps = profile.ranks - profile.total[:, None] * q.numerator / q.denominator
    first, last = cells.copy(), cells.copy()
    for law, rows in profile.laws.rows():
        widths, scales = Widths(profile.tree, float(q), law, confidence), profile.laws.scales[rows]
        first[rows], last[rows] = hull(gaps[rows], widths, cells[rows], scales)
    return profile.axis.edges[first], profile.axis.edges[last + 1]


class Widths:
    """The half width of F - q N at every edge: a bound for all at first, made exact where it is decisive.

    Edges of as many blocks of each weight have the same law. An exact half width takes some hundredths of a
    second, Chernoff's a thousandth; a hull is decided by few edges.
    """

    EXACT = 2  # refinements: none, Chernoff's bound, the exact law

    def __init__(self, tree: ValueTree, q: float, noise: NoiseSum, confidence: float) -> None:
        pairs = np.stack([tree.below, tree.inside], axis=1)
        kinds, which = np.unique(pairs, axis=0, return_inverse=True)
        self.blocks = [[(below, 1.0), (top, 1 - q), (tree.top - top, q)] for below, top in kinds.tolist()]
        self.kinds: Ints = which.reshape(-1)
        self.noise, self.confidence = noise, confidence
        largest = [(int(tree.below.max()), 1.0), (tree.top, max(q, 1 - q))]
        self.half = np.full(len(kinds), added(noise, largest, fast=True).half_width(confidence))
        self.refined = np.zeros(len(kinds), np.int64)

    def edges(self, scales: Floats) -> Floats:
        """As far as they are known, of noise on these scales: (scales, edges, 1)."""
        wide = outwards(np.multiply.outer(scales, self.half), scales[:, None])
        return wide[:, self.kinds, None]

    def refine(self, edges: Ints) -> bool:
        """Makes those of some edges less, and says whether there was anything left to do."""
        found = np.unique(self.kinds[edges])
        rough = found[self.refined[found] < self.EXACT]
        for kind in rough.tolist():
            self.refined[kind] += 1
            law = added(self.noise, self.blocks[kind], fast=self.refined[kind] < self.EXACT)
            self.half[kind] = min(self.half[kind], law.half_width(self.confidence))
        return len(rough) > 0


def hull(gaps: Floats, widths: Widths, cells: Ints, scales: Floats) -> tuple[Ints, Ints]:
    """The first and the last cell that may hold the quantile, or that was published."""
    while True:
        half = widths.edges(scales)
        may = (gaps[:, :-1] < half[:, :-1]) & (gaps[:, 1:] >= -half[:, 1:])
        some, end = may.any(axis=1), may.shape[1] - 1
        first, last = np.argmax(may, axis=1), end - np.argmax(may[:, ::-1], axis=1)
        deciding = np.append(first[some], last[some])
        if not widths.refine(np.append(deciding, deciding + 1)):
            low, high = np.where(some, first, cells), np.where(some, last, cells)
            return np.minimum(low, cells), np.maximum(high, cells)
