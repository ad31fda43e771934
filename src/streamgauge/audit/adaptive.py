"""Streams that are chosen in view of past releases: an adversary plays against a mechanism in two worlds.

At every tick the adversary sees all releases so far and names two values, x and x'; the first world is fed x,
the other x'. Which world it is must stay hidden, within the loss, as long as all x and x' differ by one unit.

    tick       1        2             3
    named      x1 x1'   x2 x2'(r1)    x3 x3'(r1, r2)
    release    r1       r2            r3

An adversary is a function of releases alone, so that releases tell what it named, and the log-likelihood
ratio is known as it is for fixed streams: given the releases, both worlds' draws are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isqrt
from typing import Any, Protocol

import numpy as np

from streamgauge.audit.exact import Pattern, worst_neighbour
from streamgauge.audit.likelihood import Likelihood
from streamgauge.audit.linear import LinearView, written
from streamgauge.audit.subject import Pair
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.privacy import Loss, Unit

Named = tuple[Ints, Ints]  # what is fed in the first world and in the other, one number for each run


class Adversary(Protocol):
    """Whoever chooses the stream; runs go side by side and must not be mixed."""

    @property
    def name(self) -> str: ...

    def choose(self, releases: Floats) -> Named:
        """The next tick's values, of the releases so far: (runs, ticks)."""
        ...


@dataclass(frozen=True)
class Echo:
    """Feeds the past back: a tick is busy if the last release rose, and idle if it fell.

    Its unit is in ticks that were chosen beforehand.
    """

    pattern: Pattern
    amount: int

    @property
    def name(self) -> str:
        return "an echo of past releases"

    def choose(self, releases: Floats) -> Named:
        other = self.amount * rose(releases)
        now = releases.shape[1] + 1
        return other + (self.amount if now in self.pattern else 0), other


@dataclass(frozen=True)
class Ambush:
    """Waits with its unit for the tick after a release fell, or until there is no time left."""

    ticks: int
    length: int  # of the unit
    amount: int

    @property
    def name(self) -> str:
        return "an ambush after a release that fell"

    def choose(self, releases: Floats) -> Named:
        runs, now = releases.shape
        begun = np.full(runs, self.ticks - self.length)
        for tick in reversed(range(1, min(now, self.ticks - self.length) + 1)):
            begun = np.where(rose(releases[:, :tick]), begun, tick)
        inside = (begun <= now) & (now < begun + self.length)
        other = np.zeros(runs, np.int64)
        return other + self.amount * inside, other


def rose(releases: Floats) -> Bools:
    """Whether the last release is above the one before, or above 0 if it is the first."""
    runs, ticks = releases.shape
    if not ticks:
        return np.zeros(runs, np.bool_)
    return np.asarray(releases[:, -1] > (releases[:, -2] if ticks > 1 else 0.0))


@dataclass(frozen=True)
class World:
    """Who chooses, and which of the two values is fed."""

    adversary: Adversary
    first: bool


@dataclass(frozen=True)
class AdaptiveSubject:
    """All releases of the first ticks, to whoever chose the stream; without adversaries, the ones above."""

    mechanism: Mechanism[Any]
    ticks: int
    adversaries: Sequence[Adversary] = ()
    noise: Noise | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.mechanism!r} under an adversary"

    @property
    def loss(self) -> Loss:
        """What the noise is calibrated to, from which the claim follows."""
        return self.mechanism.loss.kept_as

    @property
    def amount(self) -> int:
        """How far a unit moves one number."""
        return isqrt(int(self.mechanism.reach.l2_squared))

    @cached_property
    def view(self) -> LinearView:
        return written(self.mechanism.strategy(self.ticks))

    def pairs(self) -> Sequence[Pair]:
        length = min(self.mechanism.unit.ticks, self.ticks)
        pattern = worst_neighbour(self.mechanism, self.ticks).pattern
        known: tuple[Adversary, ...] = (
            Echo(pattern, self.amount),
            Ambush(self.ticks, length, self.amount),
        )
        return [self._pair(adversary) for adversary in self.adversaries or known]

    def _pair(self, adversary: Adversary) -> Pair:
        score = Likelihood(self.view, 1, partial(self._named, adversary))
        return Pair(adversary.name, World(adversary, True), World(adversary, False), score)

    def views(self, data: World, runs: int) -> Floats:
        run = self.mechanism.start(runs, self.noise)
        releases, moved = np.zeros((runs, 0)), np.zeros((runs, 0), np.bool_)
        for _ in range(self.ticks):
            one, other = data.adversary.choose(releases)
            moved = np.column_stack([moved, one != other])
            self._check(one, other, moved)
            release = run.step(one if data.first else other)
            releases = np.column_stack([releases, np.asarray(release, np.float64)])
        return releases

    def _check(self, one: Ints, other: Ints, moved: Bools) -> None:
        """An adversary that cheats shows nothing."""
        if np.abs(one - other).max() > self.amount:
            raise ValueError(f"adversary must move one tick by at most {self.amount}, got more")
        if not within(moved, self.mechanism.unit):
            raise ValueError("adversary must move no more ticks than one unit does, got more")

    def _named(self, adversary: Adversary, views: Floats) -> tuple[Floats, Floats]:
        """Both streams, (runs, 1, ticks), that the adversary named on the way to these releases."""
        named = [adversary.choose(views[:, :tick]) for tick in range(self.ticks)]
        one, other = (np.stack([both[world] for both in named], axis=1)[:, None] for world in (0, 1))
        return one.astype(np.float64), other.astype(np.float64)


def within(moved: Bools, unit: Unit) -> bool:
    """Whether the ticks that were moved, (runs, ticks), are of one unit."""
    if not unit.consecutive:
        return bool((moved.sum(axis=1) <= unit.ticks).all())
    ticks = np.arange(moved.shape[1])
    first = np.where(moved, ticks, moved.shape[1]).min(axis=1)
    last = np.where(moved, ticks, -1).max(axis=1)
    return bool((last - first < unit.ticks).all())
