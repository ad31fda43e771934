"""What a grouper loses at worst, by computation: streams and patterns that were found by search.

    alone     a count, then many that are lower by the same, then one: all asks but the last move the same way
    between   the same after many that are higher: the count is refused by one group, and opens the next if
              nobody has closed it
    late      the same after many groups that ended at once, which tell of their thresholds, if these are one

In all of them the count that moves is in as many asks as any, which is what a sparse vector loses most by:
asks that said yes pull the threshold, and the last says no. A unit moves it, up or down by 1.

Promise
    The loss of each pattern is computed (see `group_patterns`); the worst of them bounds what the grouper
    loses from below. Other streams may lose more, up to what is proved.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from streamgauge.audit.exact import Worst
from streamgauge.audit.group_patterns import Counts, Groups, log_chance
from streamgauge.audit.worst_views import unknown

MANY, LOW = 20, 3  # counts that a group has besides, all the same
HIGHER = 1  # by so much is the one that moves
LAST = (
    0,
    2 * (MANY + LOW),
)  # the last: on the side of the others, or so far beyond that all are below the mean
FIRST = 20  # counts of the group before
ENDED = 12  # groups before
WIDEST = 2**14  # a scale of thresholds whose chances are added up one by one


@dataclass(frozen=True)
class Neighbours:
    """Streams that differ by 1 at one tick, and a pattern of groups."""

    counts: Counts
    tick: int
    refused: frozenset[int]

    def moved(self, by: int) -> Counts:
        place = self.tick - 1
        return (*self.counts[:place], self.counts[place] + by, *self.counts[place + 1 :])


def candidates() -> Iterator[Neighbours]:
    """All that are tried."""
    for last in LAST:
        alone = (LOW + HIGHER, *[LOW] * MANY, last)
        yield Neighbours(alone, 1, frozenset([len(alone)]))
        between = (*[LOW + HIGHER + 2] * FIRST, *alone)
        yield Neighbours(between, FIRST + 1, frozenset([FIRST + 1, len(between)]))
        late = (*[LOW] * (2 * ENDED), *alone)
        yield Neighbours(late, 2 * ENDED + 1, frozenset([*range(2, 2 * ENDED + 1, 2), len(late)]))


@lru_cache
def worst_grouping(grouper: Groups) -> Worst:
    """The largest logarithm of a ratio of chances, in either direction; unknown, if noise is too wide."""
    opening = grouper.opening.scale
    if opening > WIDEST:
        return unknown((1,), f"not computed: noise of scale {float(opening):.3g} is too wide")
    found = (loss_of(grouper, each) for each in candidates())
    worst = max(found, key=lambda each: each.amount)
    return replace(worst, how="groups that were searched")


def loss_of(grouper: Groups, each: Neighbours) -> Worst:
    still = log_chance(grouper, each.counts, each.refused)
    moved = [log_chance(grouper, each.moved(by), each.refused) for by in (1, -1)]
    most = max(abs(still - other) for other in moved)
    groups = "1 group" if len(each.refused) == 1 else f"{len(each.refused)} groups"
    return Worst((each.tick,), most, f"{groups} in {len(each.counts)} ticks")
