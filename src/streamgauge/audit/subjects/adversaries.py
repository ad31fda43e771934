"""Streams that an adversary chooses in view of past releases, in two worlds.

At every tick the adversary sees all releases so far and names two values, x and x'. The first world is fed x, the other
x'. The world must stay hidden, up to the loss, as long as all x and x' differ by one unit.

    tick       1        2             3
    named      x1 x1'   x2 x2'(r1)    x3 x3'(r1, r2)
    release    r1       r2            r3

An adversary is a function of releases alone, so releases determine what it named. The log-likelihood ratio of a linear
mechanism is known as for fixed streams: given the releases, both worlds' draws are.

    Chase      counts stay at the last release, or so far above it that the next decision is close: a unit of 1 tips it
    Echo       a tick is busy if the last release rose
    Ambush     the unit waits for a release that fell

Late choices increase the frequency of a loss, never its size: along one transcript of releases an adversary has named
one stream, and the probability of the transcript is that of a fixed stream. So under a pure claim some fixed pair of
streams separates no less, and losses computed over all streams or all decisions (`adaptive`) bound
adversaries too. But fixed streams may come near a decision in one run of many, and an adversary in every run: such an
experiment shows more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import ClassVar, Protocol

import numpy as np

from streamgauge.audit.exact.linear import LikelihoodRatio, build_view
from streamgauge.audit.exact.worst_case import Pattern, worst_neighbour
from streamgauge.audit.subject import ClaimSubject, Pair
from streamgauge.audit.subjects.adaptive import list_public_arrays, reshape_by_run
from streamgauge.continual import LinearMechanism
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.privacy import Unit

World = tuple["Adversary", bool]  # whether the first of the two values is fed
TickValues = tuple[Ints, Ints]  # what is fed in the first world and in the other, one number for each run


class Adversary(Protocol):
    """A chooser of streams; runs are parallel and must not be mixed."""

    @property
    def name(self) -> str: ...

    def choose(self, releases: Floats) -> TickValues:
        """Choose the values of the next tick from the releases so far, (runs, ticks)."""


@dataclass(frozen=True)
class Echo:
    """Feeds the past back: a tick is busy if the last release rose, and idle if it fell.

    Its unit is in ticks that were chosen beforehand.
    """

    pattern: Pattern
    amount: int
    name: ClassVar[str] = "an echo of past releases"

    def choose(self, releases: Floats) -> TickValues:
        other = self.amount * has_risen(releases)
        now = releases.shape[1] + 1
        return other + (self.amount if now in self.pattern else 0), other


@dataclass(frozen=True)
class Ambush:
    """Waits with its unit for the tick after a release fell, or until there is no time left."""

    ticks: int
    length: int  # of the unit
    amount: int
    name: ClassVar[str] = "an ambush after a release that fell"

    def choose(self, releases: Floats) -> TickValues:
        runs, now = releases.shape
        begun = np.full(runs, self.ticks - self.length)
        for tick in reversed(range(1, min(now, self.ticks - self.length) + 1)):
            begun = np.where(has_risen(releases[:, :tick]), begun, tick)
        inside = (begun <= now) & (now < begun + self.length)
        other = np.zeros(runs, np.int64)
        return other + self.amount * inside, other


def has_risen(releases: Floats) -> Bools:
    """Return whether the last release is above the one before, or above 0 if it is the first."""
    runs, ticks = releases.shape
    if not ticks:
        return np.zeros(runs, np.bool_)
    return np.asarray(releases[:, -1] > (releases[:, -2] if ticks > 1 else 0.0))


def are_one_unit(moved: Bools, unit: Unit) -> bool:
    """Return whether the moved ticks, (runs, ticks), are of one unit."""
    if not unit.consecutive:
        return bool((moved.sum(axis=1) <= unit.ticks).all())
    ticks = np.arange(moved.shape[1])
    first = np.where(moved, ticks, moved.shape[1]).min(axis=1)
    last = np.where(moved, ticks, -1).max(axis=1)
    return bool((last - first < unit.ticks).all())


MAX_COUNT = 2**40  # a count that is named at most


@dataclass(frozen=True)
class Chase:
    """Every count is so much above the last release, and in some ticks one more."""

    offset: int
    pattern: Pattern

    @property
    def name(self) -> str:
        return f"counts {self.offset} above the last release"

    def choose(self, releases: Floats) -> TickValues:
        runs, past = releases.shape
        last = releases[:, -1] if past else np.zeros(runs)
        other = np.clip(np.rint(last), -MAX_COUNT, MAX_COUNT).astype(np.int64) + self.offset
        return other + (past + 1 in self.pattern), other


@dataclass(frozen=True)
class AdversarySubject(ClaimSubject):
    """All releases of the first ticks, to the adversary who chose the stream; to those above, if none is given."""

    ticks: int
    adversaries: Sequence[Adversary] = ()
    max_pairs: int | None = None

    DESCRIPTION: ClassVar[str] = " under an adversary"

    @property
    def is_linear(self) -> bool:
        return isinstance(self.claim, LinearMechanism)

    @property
    def amount(self) -> int:
        """Distance by which a unit moves one number."""
        return isqrt(int(self.claim.tick_sensitivity.l2_squared)) if self.is_linear else 1

    def pairs(self) -> Sequence[Pair]:
        """Return a pair for each adversary; the likelihood ratio is known if the mechanism is linear."""
        found = []
        for each in [*(self.adversaries or self._choose_adversaries())][: self.max_pairs]:
            replay = partial(self._replay_adversary, each)
            evidence = (
                LikelihoodRatio(build_view(self.claim.strategy(self.ticks)), 1, replay) if self.is_linear else None
            )
            found.append(Pair(each.name, (each, True), (each, False), evidence))
        return found

    def _choose_adversaries(self) -> Sequence[Adversary]:
        size = min(self.claim.unit.ticks, self.ticks)
        ambush = Ambush(self.ticks, size, self.amount)
        if self.is_linear:
            return [Echo(worst_neighbour(self.claim, self.ticks).pattern, self.amount), ambush]
        late, deviation = tuple(range(self.ticks - size + 1, self.ticks + 1)), self.claim.error_bound(1).stddev
        # at such a distance from a release a decision compares data with its noise
        scale = max(1, round(float(np.max(deviation)) / 2**0.5)) if np.isfinite(deviation).all() else 1
        return [*(Chase(above, late) for above in (0, scale, 2 * scale)), Echo(late, 1), ambush]

    def _replay_adversary(self, adversary: Adversary, views: Floats) -> tuple[Floats, Floats]:
        """Return both streams, (runs, 1, ticks), that the adversary named before these releases."""
        named = [adversary.choose(views[:, :tick]) for tick in range(self.ticks)]
        one, other = (np.stack([both[world] for both in named], axis=1)[:, None] for world in (0, 1))
        return one.astype(np.float64), other.astype(np.float64)

    def views(self, data: World, runs: int) -> Floats:
        """Run many groups of one start, or a start for each run if groups are decided on together."""
        if self.is_linear or not self.claim.HAS_JOINT_GROUPS:
            return self._play(data, runs)
        return np.concatenate([self._play(data, 1) for _ in range(runs)])

    def _play(self, world: World, runs: int) -> Floats:
        """Run the groups of one start, each of which has an adversary of its own."""
        (adversary, is_first), run = world, self.claim.start(runs, self.source)
        values, moved, released = np.zeros((runs, 0)), np.zeros((runs, 0), np.bool_), []
        for _ in range(self.ticks):
            one, other = adversary.choose(values)
            moved = np.column_stack([moved, one != other])
            if np.abs(one - other).max() > self.amount:
                raise ValueError(f"adversary must move one tick by at most {self.amount}, got more")
            if not are_one_unit(moved, self.claim.unit):
                raise ValueError("adversary must move no more ticks than one unit does, got more")
            released.append(run.step(one if is_first else other))
            values = np.column_stack([values, np.asarray(getattr(released[-1], "value", released[-1]), np.float64)])
        if self.is_linear:
            return values
        parts = (part for release in released for part in list_public_arrays(release))
        return np.concatenate([reshape_by_run(np.atleast_2d(part), runs) for part in parts], axis=1)
