"""Mechanisms that adapt to their data, against one who adapts to them and names counts in view of releases.

    Chase      counts stay at the last release, or so far above it that the next decision is a close one: a
               unit of 1 is all it takes
    Echo       a tick is busy if the last release rose (see `adaptive`)
    Ambush     the unit waits for a release that fell

What is gained by choosing late is how often, never how much: along one transcript of releases an adversary
has named one stream, and the chance of the transcript is that of a fixed stream. So under a pure claim no
transcript is told better than by some fixed pair of streams, and what is computed over all streams or all
decisions (`groupings`, `spending`) bounds adversaries too. But fixed streams may come near a decision in one
run of many where an adversary is there in every run: an experiment that chooses sees what others miss.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.adaptive import Adaptive
from streamgauge.audit.adapting import by_run, public
from streamgauge.audit.adaptive import Adversary, Ambush, Echo, Named, World, within
from streamgauge.audit.exact import Pattern
from streamgauge.audit.subject import Pair
from streamgauge.continual.run import chance
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.privacy import Loss

FARTHEST = 2**40  # a count that is named at most


@dataclass(frozen=True)
class Chase:
    """Every count is so much above the last release, and in some ticks one more."""

    above: int
    pattern: Pattern

    @property
    def name(self) -> str:
        return f"counts {self.above} above the last release"

    def choose(self, releases: Floats) -> Named:
        runs, past = releases.shape
        last = releases[:, -1] if past else np.zeros(runs)
        other = np.clip(np.rint(last), -FARTHEST, FARTHEST).astype(np.int64) + self.above
        return other + (past + 1 in self.pattern), other


@dataclass(frozen=True)
class ChasedSubject:
    """All releases of the first ticks, to whoever chose the stream; without adversaries, those above."""

    claim: Adaptive[Any]
    ticks: int
    adversaries: Sequence[Adversary] = ()
    noise: Noise | None = field(default=None, repr=False)
    title: str = ""
    most: int | None = None  # adversaries that are tried

    @property
    def name(self) -> str:
        return self.title or f"{self.claim!r} under an adversary"

    @property
    def loss(self) -> Loss:
        return self.claim.loss

    def pairs(self) -> Sequence[Pair]:
        chosen = [*(self.adversaries or self._known())][: self.most]
        return [Pair(each.name, World(each, True), World(each, False)) for each in chosen]

    def _known(self) -> Sequence[Adversary]:
        size, scale = min(self.claim.unit.ticks, self.ticks), scale_of(self.claim)
        late = tuple(range(self.ticks - size + 1, self.ticks + 1))
        close = [Chase(above, late) for above in (0, scale, 2 * scale)]
        return [*close, Echo(late, 1), Ambush(self.ticks, size, 1)]

    def views(self, data: World, runs: int) -> Floats:
        """Side by side, but where groups are decided on together."""
        if not self.claim.JOINT:
            return self._played(data, runs)
        return np.concatenate([self._played(data, 1) for _ in range(runs)])

    @cached_property
    def _chance(self) -> Noise:
        """One source for all starts, which are many."""
        return self.noise if self.noise is not None else chance(self.claim)

    def _played(self, world: World, runs: int) -> Floats:
        """Groups of one start, each of which is seen by an adversary of its own."""
        run = self.claim.start(runs, self._chance)
        releases, moved, told = np.zeros((runs, 0)), np.zeros((runs, 0), np.bool_), []
        for _ in range(self.ticks):
            one, other = world.adversary.choose(releases)
            moved = np.column_stack([moved, one != other])
            self._check(one, other, moved)
            told.append(run.step(one if world.first else other))
            releases = np.column_stack([releases, told[-1].value])
        shown = [by_run(np.atleast_2d(part), runs) for release in told for part in public(release)]
        return np.concatenate(shown, axis=1)

    def _check(self, one: Ints, other: Ints, moved: Bools) -> None:
        """An adversary that cheats shows nothing."""
        if np.abs(one - other).max() > 1 or not within(moved, self.claim.unit):
            raise ValueError("adversary must move one unit by 1 in each of its ticks, got more")


def scale_of(claim: Adaptive[Any]) -> int:
    """How far data have to move from a release for a decision that compares them with its noise."""
    first = claim.bar(1)
    return max(1, round(float(np.max(first.stddev)) / 2**0.5)) if np.isfinite(first.stddev).all() else 1
