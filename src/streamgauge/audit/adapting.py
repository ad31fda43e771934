"""A mechanism that adapts to its data, under audit: readers see all that it releases.

A view is every array of every release (values, centres, noisy counts, where groups begin, what was read), and
what its bars tell, such as noisy distances; of a pan-private mechanism, all that its memory holds after a
tick besides. Nothing of it is linear in the data, so scores are those that are trained (see `scores`); what
can be computed is in `groupings` and `spending`.

Many runs are the groups of one start, but where groups are decided on together: there each run is a start of
its own.

Neighbours differ in one unit that comes first or last; others' events are none, many, or such that counts
jump where the unit is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from streamgauge.adaptive import Adaptive, Released
from streamgauge.adaptive.pegasus import Pegasus
from streamgauge.adaptive.pegasus_hierarchy import PegasusHierarchy
from streamgauge.adaptive.window_budget import WindowClaim
from streamgauge.audit.exact import Pattern, Worst, covered, price
from streamgauge.audit.groupings import worst_grouping
from streamgauge.audit.memories import Memory
from streamgauge.audit.neighbours import joined, landmarks, spread
from streamgauge.audit.pan_private import read
from streamgauge.audit.spending import worst_window
from streamgauge.audit.subject import Pair
from streamgauge.continual import Run
from streamgauge.continual.run import chance
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Loss

TOLD = ("inside", "draws", "ordinal", "waiting", "unread", "ceilings")  # that bars have for each group
PLACES = 2  # of a unit
JUMP = 12  # of others' counts
SPENT = 8  # ticks over which every decision is gone through


@dataclass(frozen=True)
class AdaptingSubject:
    """All releases of the first ticks; with `peek`, the memory after so many."""

    claim: Adaptive[Any]
    ticks: int
    peek: int | None = None
    noise: Noise | None = field(default=None, repr=False)
    title: str = ""
    most: int | None = None  # neighbours that are tried

    @property
    def name(self) -> str:
        return self.title or f"{self.claim!r}"

    @property
    def loss(self) -> Loss:
        return self.claim.loss

    @cached_property
    def move(self) -> Ints:
        """What a unit does to one tick, one number per group; all other groups of a run have nothing."""
        move = spread(self.claim.reach, laplace=True)
        return np.append(move, np.zeros(max(0, getattr(self.claim, "leaves", 1) - len(move)), np.int64))

    def pairs(self) -> Sequence[Pair]:
        places = list(landmarks(self.claim.unit, self.ticks))[:PLACES]
        return [self._pair(at, *kind) for at in places for kind in self._others(at)][: self.most]

    def _others(self, at: Pattern) -> Iterator[tuple[str, Ints]]:
        nothing = np.zeros((len(self.move), self.ticks), np.int64)
        yield "", nothing
        yield " where counts jump", nothing + JUMP * (np.arange(1, self.ticks + 1) >= at[0])
        yield " of a busy stream", nothing + 1000

    def _pair(self, at: Pattern, where: str, other: Ints) -> Pair:
        return Pair(f"{Worst(at, 0)}{where}", joined(other, self.move, at), other)

    def views(self, data: Ints, runs: int) -> Floats:
        claim = self.beside(runs)
        if claim is not None:
            return self._seen(claim, np.tile(data, (runs, 1)), runs)
        return np.concatenate([self._seen(self.claim, data, 1) for _ in range(runs)])

    def beside(self, runs: int) -> Adaptive[Any] | None:
        """The claim for so many runs side by side, if runs can be."""
        return None if self.claim.JOINT else self.claim

    def _seen(self, claim: Adaptive[Any], streams: Ints, runs: int) -> Floats:
        """Of one start, a row for each run."""
        run = claim.start(len(streams), self._chance)
        peek = self.ticks if self.peek is None else self.peek
        before, memory = run.feed(streams[:, :peek].T), self._memory(run, runs)
        shown = claim.joined([before, run.feed(streams[:, peek:].T)]) if peek < self.ticks else before
        return np.concatenate([*(by_run(part, runs) for part in public(shown)), *memory], axis=1)

    def _memory(self, run: Run[Any, Released], runs: int) -> list[Floats]:
        if self.peek is None:
            return []
        return [by_run(self.memory.of_each(read(run), run.width), runs)]

    @cached_property
    def memory(self) -> Memory:
        return Memory.of(self.claim)

    @cached_property
    def _chance(self) -> Noise:
        """One source for all starts, which are many."""
        return self.noise if self.noise is not None else chance(self.claim)


def public(release: Released) -> Iterator[Floats]:
    """All that has a number for each group: of all ticks, and then of the bars tick by tick."""
    for name in release.arrays:
        yield np.asarray(getattr(release, name), np.float64)
    for bar in release.bars:
        parts = [getattr(bar, name) for name in TOLD if hasattr(bar, name)]
        yield from (np.atleast_2d(np.asarray(part, np.float64)) for part in parts)
        yield np.full((1, release.value.shape[-1]), float(getattr(bar, "moved", np.nan)))


def by_run(rows: Floats, runs: int) -> Floats:
    """Numbers (rows, groups of all runs) as one row for each run.

    >>> by_run(np.array([[1.0, 2.0, 3.0, 4.0]]), 2)
    array([[1., 2.],
           [3., 4.]])
    """
    apart = rows.reshape(len(rows), runs, -1)
    return np.ascontiguousarray(apart.transpose(1, 0, 2)).reshape(runs, -1)


@dataclass(frozen=True)
class PegasusSubject(AdaptingSubject):
    """With the worst of the groups that were searched, and of one noisy count."""

    claim: Pegasus

    def worst(self) -> Worst:
        return searched([self.claim], self.claim.steps)


@dataclass(frozen=True)
class SpendingSubject(AdaptingSubject):
    """With the most that any window spends, over all decisions of the first ticks."""

    claim: WindowClaim[Any]

    def worst(self) -> Worst:
        ticks = min(self.ticks, SPENT)
        return replace(worst_window(self.claim, ticks), part=covered(ticks, self.ticks))


@dataclass(frozen=True)
class ForestSubject(AdaptingSubject):
    """A hierarchy, of which as many stand side by side as there are runs; each level loses what it has."""

    claim: PegasusHierarchy

    def worst(self) -> Worst:
        """Of counts that all are in one leaf, at ticks at which all levels are read."""
        return searched([tier.pegasus for tier in self.claim.tiers], self.claim.steps)

    def beside(self, runs: int) -> PegasusHierarchy:
        one = self.claim.hierarchy.parents
        many = [-1 if up < 0 else up + first for first in range(0, runs * len(one), len(one)) for up in one]
        return replace(self.claim, hierarchy=Hierarchy(many))


def searched(levels: Sequence[Pegasus], steps: int) -> Worst:
    """What groups, noisy counts and blocks lose, from below alone: other streams were not tried."""
    found = {each.grouper: worst_grouping(each.grouper) for each in levels}
    least = sum(found[each.grouper].floor + float(sum(map(price, read_by(each)))) for each in levels)
    return replace(found[levels[0].grouper], amount=inf, least=steps * least)


def read_by(level: Pegasus) -> list[DiscreteLaplace]:
    """The noise of all readings that a count is in: of its tick and, where there are blocks, of its block."""
    return [level.perturber, *([level.blocks.law] if level.blocks else [])]


def subject_of(claim: Adaptive[Any], ticks: int, **how: Any) -> AdaptingSubject:
    """With what can be computed of it."""
    kinds: dict[type[Any], type[AdaptingSubject]] = {
        Pegasus: PegasusSubject,
        PegasusHierarchy: ForestSubject,
        WindowClaim: SpendingSubject,
    }
    found = next((kind for root, kind in kinds.items() if isinstance(claim, root)), AdaptingSubject)
    return found(claim, ticks, **how)
