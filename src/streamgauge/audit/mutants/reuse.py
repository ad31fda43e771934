"""Noise that is used twice, and data that are noised twice: by mechanisms that are right if they run once.

Two numbers under the same draw differ by the exact data: the loss has no bound. Two draws for the same number
are averaged: each costs epsilon, and one was charged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins, twins_of
from streamgauge.continual import SimpleI, SimpleII
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import InsecureNoise

TICKS = 3
GROUPS = 3
READINGS = 4


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield twins_of(
        between_ticks,
        chance,
        "Simple I, noise reused between ticks",
        "the counts of all ticks have the same noise, and differ by the exact items",
        one=np.array([0, 1, 0]),
        other=np.zeros(TICKS, np.int64),
        pair="an event in tick 2",
    )
    yield twins_of(
        between_groups,
        chance,
        "Histogram, one draw for all groups",
        "counts of one tick have the same noise, and differ by the exact counts",
        one=np.array([0, 1, 0]),
        other=np.zeros(GROUPS, np.int64),
        pair="an event in group 2",
    )
    yield twins_of(
        between_runs,
        chance,
        "Two releases, one seed",
        "everybody is counted, and all who are older: under the same noise the difference is exact",
        one=1,
        other=0,
        pair="an event in one release only",
    )
    yield twins_of(
        after_a_crash,
        chance,
        "Simple II, a tick drawn again after a crash",
        "a release left before it was committed, and was drawn anew: both were seen",
        one=1,
        other=0,
        pair="an event in the tick of the crash",
        truth=2.0,
        evidence=partial(nearness, 2),
    )
    yield twins_of(
        at_every_reading,
        chance,
        "Simple II, noise drawn at every reading",
        "what is noised when it is read is noised again for each reader, who may ask again",
        one=1,
        other=0,
        pair="an event",
        truth=float(READINGS),
        evidence=partial(nearness, READINGS),
    )


@dataclass
class Stuck:
    """Gives the same draws to all ticks."""

    inner: Noise
    drawn: dict[Fraction, Ints] = field(default_factory=dict)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        if scale not in self.drawn:
            self.drawn[scale] = self.inner.laplace(scale, size)
        return self.drawn[scale]

    gaussian = laplace


@dataclass
class Broadcast:
    """Draws for one group, and gives all groups the same."""

    inner: Noise

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return np.tile(self.inner.laplace(scale, size // GROUPS), GROUPS)

    gaussian = laplace


def between_ticks(chance: Chance, broken: bool, items: Ints, runs: int) -> Ints:
    run = SimpleI(ONE, horizon=TICKS).start(runs, Stuck(chance) if broken else chance)
    return np.array([run.step(np.full(runs, item)) for item in items]).T


def between_groups(chance: Chance, broken: bool, counts: Ints, runs: int) -> Ints:
    run = SimpleII(ONE, horizon=1).start(GROUPS * runs, Broadcast(chance) if broken else chance)
    return np.asarray(run.step(np.repeat(counts, runs)).reshape(GROUPS, runs).T)


def between_runs(chance: Chance, broken: bool, item: int, runs: int) -> Ints:
    """Two releases of half the loss each."""
    seeded = InsecureNoise(int(chance.words(1)[0]))
    noises = (seeded, seeded.clone() if broken else chance)
    both = [SimpleII(ONE.part("1/2"), horizon=1).start(runs, noise) for noise in noises]
    return np.array([run.step(np.full(runs, count)) for run, count in zip(both, (item, 0), strict=True)]).T


def after_a_crash(chance: Chance, broken: bool, item: int, runs: int) -> Ints:
    """Published, committed, published again: the crash comes before the commit, or after it."""
    counter, items = SimpleII(ONE, horizon=2), np.full(runs, item)
    run = counter.start(runs, chance)
    before = run.save()
    published = run.step(items)
    restored = counter.load(before if broken else run.save(), chance)
    again = restored.step(items) if broken else published
    return np.array([published, again, restored.step(np.zeros(runs, np.int64))]).T


def at_every_reading(chance: Chance, broken: bool, item: int, runs: int) -> Ints:
    draws = [SimpleII(ONE, horizon=1).start(runs, chance) for _ in range(READINGS if broken else 1)]
    readings = [run.step(np.full(runs, item)) for run in draws]
    return np.array(readings if broken else readings * READINGS).T


def nearness(places: int, views: Floats) -> Floats:
    """By how much the first places are nearer to 1 than to 0: the likelihood ratio of Laplace noise."""
    return np.asarray((np.abs(views) - np.abs(views - 1))[:, :places].sum(axis=1), np.float64)
