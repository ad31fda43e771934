"""Noise that is used twice, and data that are noised twice: by mechanisms that are right if they run once.

Two numbers under the same draw differ by the exact data: the loss has no bound. Two draws for the same number
are averaged: each costs epsilon, and one was charged. All but the last are counters of the package with one
line of them changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.driven import BESIDE, FED, SAVED, DrivenSubject, Way
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, RUNS, Twins, mistake
from streamgauge.audit.subject import Pair
from streamgauge.continual import Mechanism, Run, SimpleI, SimpleII
from streamgauge.continual.saved import Saved
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import InsecureNoise, SilentNoise

TICKS = 3
READINGS = 4
FEW = 1000  # runs that have starts of their own


def every_twin(chance: Chance) -> Iterator[Twins]:
    for broken in BROKEN:
        yield broken.twins(chance)
    event = Pair("an event", 1, 0, partial(nearness, READINGS))
    yield at_every_reading.twins(chance, event, truth=float(READINGS))


class OneForAllTicks(SimpleI):
    """Draws for the first tick of a block."""

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        exact: Ints = super().feed(state, block, SilentNoise())
        return exact + self.distribution.draw(noise, block.shape[1])


@dataclass(frozen=True)
class Repeated:
    """Draws for one group in so many, and gives its neighbours the same."""

    inner: Noise
    groups: int

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return np.repeat(self.inner.laplace(scale, -(-size // self.groups)), self.groups)[:size]

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return np.repeat(self.inner.gaussian(variance, -(-size // self.groups)), self.groups)[:size]


class OneForAllGroups(SimpleII):
    """Draws once a tick."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        return super().step(state, values, Repeated(noise, len(values)))


class OneForTwoGroups(SimpleII):
    """Draws for every second group."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        return super().step(state, values, Repeated(noise, 2))


class Seeded(SimpleII):
    """Draws from a seed, so that a run can be made again."""

    def start(self, width: int = 1, noise: Noise | None = None) -> Run[Any, Any]:
        return super().start(width, InsecureNoise(0))

    def load(self, saved: Saved, noise: Noise | None = None) -> Run[Any, Any]:
        return super().load(saved, InsecureNoise(0))


def saved_too_early(mechanism: Mechanism[Any], streams: Ints, noise: Noise | None) -> Floats:
    """Saved before a release leaves, not after: what is loaded releases the same tick again."""
    run, told = mechanism.start(len(streams), noise), []
    for values in streams.T:
        saved = run.save()
        told.append(np.array(run.step(values), np.float64))
        run = mechanism.load(saved, noise)
        told.append(np.array(run.step(values), np.float64))
    return np.stack(told, axis=1)


@dataclass(frozen=True)
class Broken:
    """A counter whose noise is used twice, or which is run so that data are noised twice."""

    name: str
    why: str
    way: Way
    kind: type[SimpleI] | type[SimpleII] = SimpleII
    run_as: Way | None = None  # by who gets it wrong
    honest: type[SimpleI] | type[SimpleII] = SimpleII
    truth: float = inf

    def twins(self, chance: Chance) -> Twins:
        ready = InsecureNoise(int(chance.words(1)[0])) if self.way.others else chance  # starts draw little
        broken = DrivenSubject(
            self.kind(ONE, horizon=TICKS), TICKS, self.run_as or self.way, ready, self.name
        )
        honest = DrivenSubject(
            self.honest(ONE, horizon=TICKS), TICKS, self.way, ready, f"{self.name}: honest"
        )
        return Twins(broken, honest, self.why, self.truth, FEW if self.way.others else RUNS)


BROKEN = (
    Broken(
        "Simple I, noise reused between ticks",
        "the counts of all ticks have the same noise, and differ by the exact items",
        FED,
        OneForAllTicks,
        honest=SimpleI,
    ),
    Broken(
        "Histogram, one draw for all groups",
        "counts of one tick have the same noise, and differ by the exact counts",
        BESIDE,
        OneForAllGroups,
    ),
    Broken(
        "Histogram, one draw for two groups",
        "two counts in a row have the same noise",
        BESIDE,
        OneForTwoGroups,
    ),
    Broken(
        "Two releases, one seed", "under the same noise two counts differ by who is in one", BESIDE, Seeded
    ),
    Broken("Simple II, the same noise after loading", "ticks before and after share it", SAVED, Seeded),
    Broken(
        "Simple II, a tick drawn again after a crash",
        "a release left before it was committed, and was drawn anew: both were seen",
        SAVED,
        run_as=Way("saved before every tick", saved_too_early),
        truth=2.0,
    ),
)


@mistake(
    "Simple II, noise drawn at every reading",
    "what is noised when it is read is noised again for each reader, who may ask again",
)
def at_every_reading(chance: Chance, broken: bool, item: int, runs: int) -> Ints:
    draws = [SimpleII(ONE, horizon=1).start(runs, chance) for _ in range(READINGS if broken else 1)]
    readings = [run.step(np.full(runs, item)) for run in draws]
    return np.array(readings if broken else readings * READINGS).T


def nearness(places: int, views: Floats) -> Floats:
    """By how much the first places are nearer to 1 than to 0: the likelihood ratio of Laplace noise."""
    return np.asarray((np.abs(views) - np.abs(views - 1))[:, :places].sum(axis=1), np.float64)
