"""Groupers that say more of the counts than they may, and a hierarchy that looks where it must not.

The first two lose more than they claim on patterns that hardly ever come: they are condemned by computation.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.adaptive.folding import folded
from streamgauge.adaptive.grouper import Grouper, OpenGroups
from streamgauge.adaptive.pegasus import Pegasus
from streamgauge.adaptive.pegasus_hierarchy import PegasusHierarchy
from streamgauge.adaptive.pruning import Seen
from streamgauge.adaptive.tiers import Tier, TierState
from streamgauge.audit.adapting import ForestSubject, PegasusSubject
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Bools
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Pure

FEW, ENOUGH = 1000, 4000
TICKS = 4
TREE = Hierarchy([-1, 0, 0])
SMALL = Pure("1/8")  # of which the grouper has 4/5: under such noise a count may turn from above to below


class OpensTheNext(Grouper):
    """A count that is refused opens the next group, which is not closed."""

    def step(self, state: OpenGroups, values: Ints, noise: Noise, active: Bools | None = None) -> Bools:
        was_open = state.length > 0
        began = super().step(state, values, noise, active)
        again = was_open & began
        self._take(state, folded(values, self.limit), again)
        state.threshold[again] = self.level + self.opening.draw(noise, int(again.sum()))
        return began


class KeepsThreshold(Grouper):
    """One noisy threshold for all groups of a column."""

    def step(self, state: OpenGroups, values: Ints, noise: Noise, active: Bools | None = None) -> Bools:
        asked = state.length > 0
        self._take(state, folded(values, self.limit), np.ones_like(asked))
        refused = self._refused(state, np.flatnonzero(asked), noise)
        first = ~asked & (state.threshold == 0)
        state.threshold[first] = self.level + self.opening.draw(noise, int(first.sum()))
        kept = state.threshold.copy()
        self._forget(state, refused | (state.length >= self.longest))
        state.threshold[:] = kept
        return np.asarray(~asked | refused)


class Inverted(Grouper):
    """The rate of the noise, taken for its scale, as a published implementation has it."""

    @cached_property
    def opening(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon / (2 * self.SENSITIVITY))

    @cached_property
    def asking(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.epsilon / (4 * self.SENSITIVITY))


class Unopened(Pegasus):
    grouping: type[Grouper] = OpensTheNext

    @cached_property
    def grouper(self) -> Grouper:
        honest = super().grouper
        return self.grouping(honest.epsilon, honest.theta, honest.longest)


class OneThreshold(Unopened):
    grouping = KeepsThreshold


class Narrow(Unopened):
    grouping = Inverted


BROKEN: tuple[tuple[str, str, type[Pegasus], bool], ...] = (
    (
        "Pegasus, a refused count opens the next group",
        "it is in the asks of two groups, each of which may lose as much as one",
        Unopened,
        False,
    ),
    (
        "Pegasus, one threshold for all groups",
        "groups that ended tell where it is, and it no longer hides how a later one ended",
        OneThreshold,
        False,
    ),
    (
        "Pegasus, rate taken for scale",
        "epsilon/4 and epsilon/8 for 4/epsilon and 8/epsilon: where groups end is all but exact",
        Narrow,
        True,
    ),
)


def every_twin(chance: Chance) -> Iterator[Twins]:
    for name, why, kind, counted in BROKEN:
        broken, honest = (
            grouped(chance, title, of) for title, of in ((name, kind), (f"{name}: honest", Pegasus))
        )
        yield Twins(broken, honest, why, runs=ENOUGH if counted else FEW, counted=counted)
    yield looks_below(chance)
    yield whole_twice(chance)


class WholeTwice(Pegasus):
    """Ticks are read with all of the Perturber's part, as if there were no blocks."""

    @cached_property
    def perturber(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / (Fraction(self.split) * self.share.epsilon))


def whole_twice(chance: Chance) -> Twins:
    name = "Pegasus, blocks besides the whole"
    broken, honest = (
        PegasusSubject(kind(ONE, block=2), 2, noise=chance, title=title, most=1)
        for title, kind in ((name, WholeTwice), (f"{name}: honest", Pegasus))
    )
    why = "a count is in the readings of its tick and of its block, which share what the Perturber has"
    return Twins(broken, honest, why, runs=FEW, counted=False)


def grouped(chance: Chance, title: str, kind: type[Pegasus]) -> PegasusSubject:
    claim = kind(SMALL, split="1/5", theta="1/10")
    return PegasusSubject(claim, TICKS, noise=chance, title=title, most=1)


class ExactAbove(Tier):
    """Whether children are read is decided by the exact count above."""

    def step(self, state: TierState, counts: Ints, above: Seen | None, tick: int, noise: Noise) -> Seen:
        return super().step(state, counts, above, tick, noise)._replace(newest=counts.astype(np.float64))


class LooksBelow(PegasusHierarchy):
    def tier(self, *which: Any) -> Tier:
        honest = super().tier(*which)
        return ExactAbove(honest.level, honest.pegasus, honest.guessing)


def looks_below(chance: Chance) -> Twins:
    name = "Pegasus of a hierarchy, pruned by exact counts"
    broken, honest = (
        ForestSubject(kind(ONE, hierarchy=TREE, prune="1/1000"), 2, noise=chance, title=title, most=1)
        for title, kind in ((name, LooksBelow), (f"{name}: honest", PegasusHierarchy))
    )
    return Twins(broken, honest, "children that are read have somebody in them", runs=ENOUGH)
