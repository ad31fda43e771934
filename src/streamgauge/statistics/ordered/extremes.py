"""Running minimum and maximum of a column of numbers, under differential privacy.

The values are placed in the cells of an axis and counted by a tree of blocks (see `value_tree`), as for
quantiles. An extreme is the outermost cell beyond which more events lie than noise alone would show.
Over a running window the published maximum never falls and the minimum never rises.

    maximum   the last cell c with  #{events in c or above} > kappa,  minimum  the first with #{c or below}

Counts are noisy. For each extreme, kappa bounds the noise of the count by itself: it exceeds kappa with
probability at most `doubt`, in any cell (and at any tick that is included, see `chances`). This is a union
bound, by Chernoff's inequality. So, except with probability `doubt` for each extreme, some event lies in the published
cell or beyond.

A release is a cell, named by the edge at which it begins, of values clipped to the axis. So the
true maximum, clipped, is not below the published one. The true minimum, clipped, is not above the *end* of
the published cell, one step above the published value (if all values are 19.5, in steps of 10, the minimum is
released as 10). Values beyond the axis show only as its first or last cell (if all are -100 and
`lower` is 0, both extremes are released as 0). No release can say how far beyond its cell an extreme lies.
`count_beyond` bounds how many events are there.

`interval` gives the same as bounds. The maximum is between the beginning of its cell and the end of the axis,
except with `doubt`. The minimum is between the axis' beginning and the end of its cell, except with as much again.
For a higher confidence, the cell is searched again with less doubt.

Proof of `count_beyond`: with `confidence` the noise of the counts from all edges stays below half widths at once
(union bound over the edges). So it does at the published edge, however that was chosen.
If there are too few events the two may cross, minimum above maximum: both are still valid, as bounds on cells.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream. Proof: an event adds
    1 to one block of each of the h levels, h in L1 and in squared L2. Everything else is post-processing. So is the
    reuse of published extremes, whose memory is public.

Error
    The exact maximum has unbounded sensitivity, since one event moves it from anywhere to anywhere. No private release
    comes near it on all data. The cell of this one is not above that of the true one, except with `doubt`. The
    minimum's cell is not below, except with as much again: `doubt` is for each extreme, and up to twice that for both
    together. Each falls short by about `max_rank_error` events, which is in every release. `count_beyond` bounds how
    many, with confidence. Cells are named by the edges at which they begin, so a published minimum may be less than
    the true one, by up to a step. Values beyond `lower` and `upper` count as those, so extremes beyond the axis are
    released as its first and last cell. Over running windows `doubt` is for all ticks together, since a mistake would
    stay: equal parts of it up to the horizon or, without one, 6/(pi t)^2 of it at tick t. Over other windows it is for
    each tick by itself.

Reference
    The usual advice is to require a count of three standard deviations. If that is applied to every cell at every tick
    and the result stays, it overshoots almost surely. A count of five to six does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import ceil, nan, pi
from typing import ClassVar, NamedTuple

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.statistics.estimate import (
    Columns,
    Estimate,
    Floats,
    Intervals,
    add_blocks,
    check_confidence,
    is_number,
    round_outwards,
)
from streamgauge.statistics.ordered.axis import AxisProfile, AxisStatistic
from streamgauge.statistics.ordered.value_tree import ValueTree, choose_tree
from streamgauge.statistics.statistic import ExpectedData, NoisySums

DEFAULT_DOUBT = 0.05
LOW_ROW, HIGH_ROW = 0, 1  # rows of an estimate


@dataclass(frozen=True, eq=False, kw_only=True)
class ExtremeEstimates(Estimate):
    """Minimum (row 0) and maximum (row 1) of every group, (2, width), by tick.

    Each is the edge at which its cell begins: the true minimum may lie above by up to a step.
    `reliable` says if any cell was found. If not, the value is the opposite end of the axis, which has no
    information. `rank` is kappa at the published cell: the events needed for publication there.

    There is no standard error. Intervals are of the true extremes, clipped, at each tick and group alone. An extreme
    can be bounded from one side only: the other end is that of the axis.
    """

    ARRAYS: ClassVar[tuple[str, ...]] = (*Estimate.ARRAYS, "rank")
    BOUNDS: ClassVar[tuple[str, ...]] = (*Estimate.BOUNDS, "_count_beyond")
    rank: Floats
    _count_beyond: Intervals = field(repr=False)

    @property
    def minimum(self) -> Floats:
        return self.value[..., LOW_ROW, :]

    @property
    def maximum(self) -> Floats:
        return self.value[..., HIGH_ROW, :]

    def count_beyond(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return bounds on the events in cells beyond the published one.

        They are valid for each tick and group alone.
        """
        check_confidence(confidence)
        return self._count_beyond(confidence)

    def columns(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Return the columns "min" and "max"."""
        return self.split_columns(("min", "max"), confidence)


class ExtremeCells(NamedTuple):
    """Published cells, (ticks, width).

    The number of cells means no minimum, -1 no maximum.
    """

    low: Ints
    high: Ints


def estimate_extremes(
    profile: AxisProfile,
    doubt: float = DEFAULT_DOUBT,
    chances: Sequence[int] | None = None,
    carry: Callable[[ExtremeCells], ExtremeCells] = lambda cells: cells,
) -> ExtremeEstimates:
    """Return the extremes of a profile, a row per tick.

    With `chances`, `doubt` is for all ticks together, and tick i has 1/chances[i] of it. Without, it is for each tick
    by itself. `carry` combines the cells found with those published before.
    """
    check_doubt(doubt)
    below, above = compute_both_thresholds(profile, doubt, chances)
    cells = carry(find_extreme_cells(profile, below, above))
    ends = profile.axis.cells
    edges = np.stack([np.minimum(cells.low + 1, ends), np.maximum(cells.high, 0)], axis=1)
    value = profile.axis.edges[np.stack([cells.low, edges[:, HIGH_ROW]], axis=1)]
    rank = np.stack([pick_edges(below, edges[:, LOW_ROW]), pick_edges(above, edges[:, HIGH_ROW])], axis=1)
    reliable = np.stack([cells.low < ends, cells.high >= 0], axis=1)

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        sure = cells if confidence <= 1 - doubt else restrict_cells(profile, cells, 1 - confidence)
        return compute_cell_bounds(profile, sure)

    return ExtremeEstimates(
        value,
        lambda: np.full(value.shape, nan),
        reliable,
        intervals,
        rank=rank,
        _count_beyond=partial(bound_events_beyond, profile, cells),
    )


def compute_both_thresholds(
    profile: AxisProfile, doubt: float, chances: Sequence[int] | None = None
) -> tuple[Floats, Floats]:
    """Return kappa for counts from below and from above, at every tick and edge."""
    ticks = [1] * len(profile.noises) if chances is None else list(chances)
    tree = profile.tree
    below = compute_thresholds(profile, tree.blocks_before, doubt, ticks)
    return below, compute_thresholds(profile, tree.blocks_after, doubt, ticks)


def restrict_cells(profile: AxisProfile, cells: ExtremeCells, doubt: float) -> ExtremeCells:
    """Return cells not beyond the true ones, with less doubt than the published ones.

    They are not beyond the published ones either.
    """
    sure = find_extreme_cells(profile, *compute_both_thresholds(profile, doubt))
    return ExtremeCells(np.maximum(sure.low, cells.low), np.minimum(sure.high, cells.high))


def compute_cell_bounds(profile: AxisProfile, cells: ExtremeCells) -> tuple[Floats, Floats]:
    """Return bounds from the axis' ends to the published cells.

    They go from the axis' beginning to the end of the minimum's cell, and from the maximum's cell to the axis' end.
    """
    edges, last = profile.axis.edges, profile.axis.cells
    ends, begins = edges[np.minimum(cells.low + 1, last)], edges[np.maximum(cells.high, 0)]
    low = np.stack([np.full(ends.shape, edges[0]), begins], axis=1)
    return low, np.stack([ends, np.full(begins.shape, edges[-1])], axis=1)


def check_doubt(doubt: float) -> None:
    if not (is_number(doubt) and 0 < doubt <= 0.5):
        raise ValueError(f"doubt must be above 0 and at most 0.5, got {doubt!r}")


def find_extreme_cells(profile: AxisProfile, below: Floats, above: Floats) -> ExtremeCells:
    """Return the outermost cells with enough events.

    They are the first with enough events up to its end, and the last with enough from its beginning.
    """
    ranks, total = profile.ranks, profile.total[:, None]
    low = ranks[:, 1:] > below[:, 1:, None]
    high = total - ranks[:, :-1] > above[:, :-1, None]
    cells = profile.axis.cells
    first = np.where(low.any(axis=1), np.argmax(low, axis=1), cells)
    last = np.where(high.any(axis=1), cells - 1 - np.argmax(high[:, ::-1], axis=1), -1)
    return ExtremeCells(first, last)


def compute_thresholds(profile: AxisProfile, blocks: Ints, doubt: float, chances: list[int]) -> Floats:
    """Return kappa at every tick and edge, with `blocks` blocks there."""
    kinds, which = np.unique(blocks, return_inverse=True)
    laws, known = profile.laws, dict[tuple[int, int], Floats]()
    for place, chance in set(zip(laws.law_indices.tolist(), chances, strict=True)):
        known[place, chance] = kappa(laws.distinct_laws[place], kinds, doubt, profile.axis.cells * chance)
    rows = [known[place, chance] for place, chance in zip(laws.law_indices.tolist(), chances, strict=True)]
    scales = laws.scales[:, None]
    return round_outwards(np.reshape(rows, (len(rows), len(kinds))) * scales, scales)[:, which]


def kappa(noise: NoiseSum, blocks: Ints, doubt: float, chances: int) -> Floats:
    """Return the bound that noise of `blocks` blocks exceeds rarely.

    The probability is at most doubt/chances.
    """
    sums = [add_blocks(noise, [(count, 1)], fast=True) for count in blocks.tolist()]
    return np.array([both.simultaneous_half_width(1 - 2 * doubt, chances) for both in sums])


def bound_events_beyond(profile: AxisProfile, cells: ExtremeCells, confidence: float) -> tuple[Floats, Floats]:
    """Return bounds on the events beyond published cells, valid at all edges at once."""
    tree, total = profile.tree, profile.total
    half_low = pick_edges(simultaneous_half_widths(profile, tree.blocks_before, confidence), cells.low)
    half_high = pick_edges(simultaneous_half_widths(profile, tree.blocks_after, confidence), cells.high + 1)
    low, high = (pick_group_edges(profile.ranks, cells.low), total - pick_group_edges(profile.ranks, cells.high + 1))
    counts, half = np.stack([low, high], axis=1), np.stack([half_low, half_high], axis=1)
    return np.maximum(counts - half, 0.0), np.maximum(counts + half, 0.0)


def simultaneous_half_widths(profile: AxisProfile, blocks: Ints, confidence: float) -> Floats:
    """Return half widths at every tick and edge, valid at all edges of a tick at once."""
    kinds, which = np.unique(blocks, return_inverse=True)
    widths = np.zeros((len(profile.noises), len(kinds)))
    for law, rows in profile.laws.iterate_laws():
        sums = [add_blocks(law, [(count, 1)]) for count in kinds.tolist()]
        widths[rows] = [both.simultaneous_half_width(confidence, profile.axis.cells) for both in sums]
    scales = profile.laws.scales[:, None]
    return round_outwards(widths * scales, scales)[:, which]


def pick_edges(widths: Floats, edges: Ints) -> Floats:
    """Return numbers of edges, (ticks, edges), at one edge for each tick and group."""
    return np.take_along_axis(widths, edges, axis=1)


def pick_group_edges(ranks: Floats, edges: Ints) -> Floats:
    """Return the same for (ticks, edges, width)."""
    picked: Floats = np.take_along_axis(ranks, edges[:, None], axis=1)[:, 0]
    return picked


@dataclass(slots=True)
class PublishedExtremes:
    """Extremes that a run has published so far."""

    tick: int
    low: Ints  # noisy: the cell of the minimum, the number of cells if there is none
    high: Ints  # noisy: the cell of the maximum, -1 if there is none


@dataclass(frozen=True, kw_only=True)
class Extremes(AxisStatistic[ExtremeEstimates]):
    """Least and largest value, as far as they can be released. See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> claim = Extremes(Pure(1), lower=0, upper=50, step=1, horizon=24)
    >>> run = claim.start(noise=SilentNoise())
    >>> run.step([21.5] * 500 + [38] * 500).value.tolist()
    [[21.0], [38.0]]
    """

    doubt: float = DEFAULT_DOUBT

    def check(self) -> None:
        check_doubt(self.doubt)
        self.vector_size(1, None)

    @cached_property
    def tree(self) -> ValueTree:
        return choose_tree(self.axis.cells, self.loss, self.branching)

    def initial_memory(self, width: int) -> PublishedExtremes:
        none = np.full(width, -1, np.int64)
        return PublishedExtremes(0, none + 1 + self.axis.cells, none)

    @property
    def measures(self) -> tuple[str, ...]:
        return ("min", "max")

    def release(self, sums: NoisySums) -> ExtremeEstimates:
        """Return the extremes, combined with those published before, and remember them."""
        profile = self.build_profile(sums)
        if self.window != "running":
            return estimate_extremes(profile, self.doubt)
        first, ticks = sums.memory.tick, len(sums.noises)
        sums.memory.tick += ticks
        chances = [self.chance_divisor(tick) for tick in range(first + 1, first + ticks + 1)]
        return estimate_extremes(profile, self.doubt, chances, partial(carry_extremes, sums.memory))

    def chance_divisor(self, tick: int) -> int:
        """Return one over the part of `doubt` of a tick in a running window."""
        return self.horizon if self.horizon is not None else ceil((pi * tick) ** 2 / 6)

    def max_rank_error(self, tick: int) -> float:
        """Return the largest kappa at `tick`.

        With this many events beyond it, any value would be published.
        """
        tree, noise = self.tree, self.linear_counter.noise_at(self.linear_counter.check_tick(tick))
        chances = self.chance_divisor(tick) if self.window == "running" else 1
        blocks = np.append(tree.blocks_before, tree.blocks_after)
        return float(kappa(noise, np.unique(blocks), self.doubt, self.axis.cells * chances).max())

    def _predict_stddev(self, measure: str, tick: int, expected: ExpectedData) -> float:
        """Return NaN: `max_rank_error` says how many events an extreme falls short by."""
        return nan


def carry_extremes(published: PublishedExtremes, cells: ExtremeCells) -> ExtremeCells:
    """Return maxima that never fall and minima that never rise."""
    low = np.minimum.accumulate(np.vstack([published.low, cells.low]), axis=0)[1:]
    high = np.maximum.accumulate(np.vstack([published.high, cells.high]), axis=0)[1:]
    if len(low):
        published.low, published.high = low[-1].copy(), high[-1].copy()
    return ExtremeCells(low, high)
