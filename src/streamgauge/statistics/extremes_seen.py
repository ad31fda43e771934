"""Extremes read off a profile: the outermost cells beyond which more events lie than noise could feign.

The exact maximum cannot be published: one event moves it from anywhere to anywhere. What can be:

    maximum   the last cell c with  #{events in c or above} > kappa,  minimum  the first with #{c or below}

where counts are noisy and, for each extreme, kappa is such that the noise of the count by itself exceeds it
with probability `doubt`, at most, in any cell (and at any tick that is counted in, see `chances`): a union
bound, by Chernoff's inequality. So, but for `doubt` of each extreme, some event does lie in the published
cell or beyond. What is told is a cell, by the edge at which it begins, of values clipped to the axis. So the
true maximum, clipped, is not below the published one; the true minimum, clipped, is not above the *end* of
the published cell, one step above what is published (if all values are 19.5, in steps of 10, the minimum is
told as 10). Of values beyond the axis no more is told than its first or last cell (if all are -100 and
`lower` is 0, both extremes are told as 0). How far beyond its cell an extreme lies no release can tell; how
many events are there, `beyond` does.

`interval` says the same as bounds: the maximum is between the beginning of its cell and the end of the axis,
but for `doubt`, and the minimum between the axis' beginning and the end of its cell, but for as much again.
Asked for more confidence than that leaves, the cell is sought again with less doubt.

Proof of `beyond`: with `confidence` the noise of the counts from all edges stays within half widths at once
(union bound over the edges); so it does at the edge that was published, however that was chosen.
Where too few events are there the two may cross, minimum above maximum: both still hold, as bounds on cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from streamgauge.noise import Ints, NoiseSum
from streamgauge.statistics.columns import Bools
from streamgauge.statistics.estimate import Estimate, Floats, check_confidence, is_number
from streamgauge.statistics.noises import added, outwards
from streamgauge.statistics.profile import Profile
from streamgauge.statistics.told import Columns

DOUBT = 0.05
LOW, HIGH = 0, 1  # rows of what readers see


@dataclass(frozen=True, eq=False)
class ExtremesSeen:
    """The minimum (row 0) and the maximum (row 1) of every group, (2, width); several ticks come before.

    Each is the edge at which its cell begins: the true minimum may lie above by up to a step.
    `enough` says whether any cell was found; if not, the value is the opposite end of the axis, which says
    nothing. `rank` is kappa at the published cell: as many events as it takes to be seen there.
    """

    value: Floats
    rank: Floats
    enough: Bools
    _beyond: Callable[[float], tuple[Floats, Floats]] = field(repr=False)
    _intervals: Callable[[float], tuple[Floats, Floats]] = field(repr=False)

    @property
    def minimum(self) -> Floats:
        return self.value[..., LOW, :]

    @property
    def maximum(self) -> Floats:
        return self.value[..., HIGH, :]

    def beyond(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds on how many events lie in cells beyond the published one, for each tick and group alone."""
        check_confidence(confidence)
        return self._beyond(confidence)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds for the true extremes, clipped: each holds with `confidence`, at each tick and group alone.

        An extreme can be bounded from one side only: the other end is that of the axis.
        """
        check_confidence(confidence)
        return self._intervals(confidence)

    def told(self, confidence: float = 0.95) -> dict[str, Columns]:
        """The minimum as columns, "min", and the maximum, "max". They have no standard error."""
        check_confidence(confidence)
        shared = lru_cache(maxsize=1)(self._intervals)

        def one(row: int) -> Estimate:
            def intervals(confidence: float) -> tuple[Floats, Floats]:
                low, high = shared(confidence)
                return low[..., row, :], high[..., row, :]

            value, enough = self.value[..., row, :], self.enough[..., row, :]
            return Estimate(value, lambda: np.full(value.shape, np.nan), enough, intervals)

        return {"min": Columns(confidence, partial(one, LOW)), "max": Columns(confidence, partial(one, HIGH))}

    def of_tick(self, row: int) -> "ExtremesSeen":
        """One of several ticks."""

        def only(
            bounds: Callable[[float], tuple[Floats, Floats]], confidence: float
        ) -> tuple[Floats, Floats]:
            low, high = bounds(confidence)
            return low[row], high[row]

        both = partial(only, self._beyond), partial(only, self._intervals)
        return ExtremesSeen(self.value[row], self.rank[row], self.enough[row], *both)


class Cells(NamedTuple):
    """Published cells, (ticks, width): the number of cells for no minimum, -1 for no maximum."""

    low: Ints
    high: Ints


def stacked_extremes(releases: Sequence[ExtremesSeen]) -> ExtremesSeen:
    """The extremes of several ticks, one row each."""

    def both(bounds: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
        return np.stack([low for low, _ in bounds]), np.stack([high for _, high in bounds])

    return ExtremesSeen(
        np.stack([release.value for release in releases]),
        np.stack([release.rank for release in releases]),
        np.stack([release.enough for release in releases]),
        lambda confidence: both([release.beyond(confidence) for release in releases]),
        lambda confidence: both([release.interval(confidence) for release in releases]),
    )


def extremes_of(
    profile: Profile,
    doubt: float = DOUBT,
    chances: Sequence[int] | None = None,
    carried: Callable[[Cells], Cells] = lambda cells: cells,
) -> ExtremesSeen:
    """The extremes of a profile, a row per tick.

    `doubt` is for all ticks together of which tick i is given 1/chances[i], and for each by itself without.
    `carried` says what becomes of cells that were found, in view of what was published before.
    """
    check_doubt(doubt)
    below, above = both_thresholds(profile, doubt, chances)
    cells = carried(found(profile, below, above))
    ends = profile.axis.cells
    edges = np.stack([np.minimum(cells.low + 1, ends), np.maximum(cells.high, 0)], axis=1)
    value = profile.axis.edges[np.stack([cells.low, edges[:, HIGH]], axis=1)]
    rank = np.stack([at(below, edges[:, LOW]), at(above, edges[:, HIGH])], axis=1)
    enough = np.stack([cells.low < ends, cells.high >= 0], axis=1)

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        sure = cells if confidence <= 1 - doubt else at_most(profile, cells, 1 - confidence)
        return cell_bounds(profile, sure)

    return ExtremesSeen(
        value, rank, enough, lambda confidence: outside(profile, cells, confidence), intervals
    )


def both_thresholds(
    profile: Profile, doubt: float, chances: Sequence[int] | None = None
) -> tuple[Floats, Floats]:
    """kappa for counts from below and from above, at every tick and edge."""
    ticks = [1] * len(profile.noises) if chances is None else list(chances)
    below = thresholds(profile, profile.tree.below + profile.tree.inside, doubt, ticks)
    above = thresholds(profile, profile.tree.below + profile.tree.top - profile.tree.inside, doubt, ticks)
    return below, above


def at_most(profile: Profile, cells: Cells, doubt: float) -> Cells:
    """Cells that are not beyond the true ones, with less doubt than those published, nor beyond these."""
    sure = found(profile, *both_thresholds(profile, doubt))
    return Cells(np.maximum(sure.low, cells.low), np.minimum(sure.high, cells.high))


def cell_bounds(profile: Profile, cells: Cells) -> tuple[Floats, Floats]:
    """From the axis' beginning to the end of the minimum's cell, from the maximum's cell to the axis' end."""
    edges, last = profile.axis.edges, profile.axis.cells
    ends, begins = edges[np.minimum(cells.low + 1, last)], edges[np.maximum(cells.high, 0)]
    low = np.stack([np.full(ends.shape, edges[0]), begins], axis=1)
    return low, np.stack([ends, np.full(begins.shape, edges[-1])], axis=1)


def check_doubt(doubt: float) -> None:
    if not (is_number(doubt) and 0 < doubt <= 0.5):
        raise ValueError(f"doubt must be above 0 and at most 0.5, got {doubt!r}")


def found(profile: Profile, below: Floats, above: Floats) -> Cells:
    """The first cell with enough events up to its end, and the last with enough from its beginning."""
    ranks, total = profile.ranks, profile.total[:, None]
    low = ranks[:, 1:] > below[:, 1:, None]
    high = total - ranks[:, :-1] > above[:, :-1, None]
    cells = profile.axis.cells
    first = np.where(low.any(axis=1), np.argmax(low, axis=1), cells)
    last = np.where(high.any(axis=1), cells - 1 - np.argmax(high[:, ::-1], axis=1), -1)
    return Cells(first, last)


def thresholds(profile: Profile, blocks: Ints, doubt: float, chances: list[int]) -> Floats:
    """kappa at every tick and edge, where so many blocks are."""
    kinds, which = np.unique(blocks, return_inverse=True)
    laws, known = profile.laws, dict[tuple[int, int], Floats]()
    for place, chance in set(zip(laws.which.tolist(), chances, strict=True)):
        known[place, chance] = kappa(laws.distinct[place], kinds, doubt, profile.axis.cells * chance)
    rows = [known[place, chance] for place, chance in zip(laws.which.tolist(), chances, strict=True)]
    scales = laws.scales[:, None]
    return outwards(np.reshape(rows, (len(rows), len(kinds))) * scales, scales)[:, which]


def kappa(noise: NoiseSum, blocks: Ints, doubt: float, chances: int) -> Floats:
    """What the noise of so many blocks exceeds with probability doubt/chances at most."""
    sums = [added(noise, [(count, 1)], fast=True) for count in blocks.tolist()]
    return np.array([both.simultaneous(1 - 2 * doubt, chances) for both in sums])


def outside(profile: Profile, cells: Cells, confidence: float) -> tuple[Floats, Floats]:
    """Bounds on the events beyond published cells, valid at all edges at once."""
    tree, total = profile.tree, profile.total
    half_low = at(simultaneous(profile, tree.below + tree.inside, confidence), cells.low)
    half_high = at(simultaneous(profile, tree.below + tree.top - tree.inside, confidence), cells.high + 1)
    low, high = at_groups(profile.ranks, cells.low), total - at_groups(profile.ranks, cells.high + 1)
    counts, half = np.stack([low, high], axis=1), np.stack([half_low, half_high], axis=1)
    return np.maximum(counts - half, 0.0), np.maximum(counts + half, 0.0)


def simultaneous(profile: Profile, blocks: Ints, confidence: float) -> Floats:
    """Half widths at every tick and edge that hold at all edges of a tick at once."""
    kinds, which = np.unique(blocks, return_inverse=True)
    widths = np.zeros((len(profile.noises), len(kinds)))
    for law, rows in profile.laws.rows():
        sums = [added(law, [(count, 1)]) for count in kinds.tolist()]
        widths[rows] = [both.simultaneous(confidence, profile.axis.cells) for both in sums]
    scales = profile.laws.scales[:, None]
    return outwards(widths * scales, scales)[:, which]


def at(widths: Floats, edges: Ints) -> Floats:
    """Numbers of edges, (ticks, edges), at one edge for each tick and group."""
    return np.take_along_axis(widths, edges, axis=1)


def at_groups(ranks: Floats, edges: Ints) -> Floats:
    """The same for (ticks, edges, width)."""
    taken: Floats = np.take_along_axis(ranks, edges[:, None], axis=1)[:, 0]
    return taken
