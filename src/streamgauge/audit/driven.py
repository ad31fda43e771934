"""Mechanisms that are run in other ways than as many groups of one long feed, and must lose no more by it.

    FED       all ticks at once, many groups of one start, as elsewhere in the audit
    SAVED     after every tick the run is saved, and goes on from the bytes
    BESIDE    every run has starts of its own: some groups, a measure of the same noise, one of its own noise

Where the audit takes the groups of one start for runs, it assumes that groups share no draw, and starts none.
BESIDE does not assume it: the first group alone has the unit, and readers see all groups of all measures, and
how each differs from the first. As an event is in one group of one measure, the claim is the mechanism's.

A run that is behind after it was loaded is fed the same ticks again, and what it releases is seen again.

Promise
    The worst loss is computed by trying (see `trying`), each tick and each draw through `step`, `save` and
    `load`: draws that groups or measures share, forget or make again are found as long as they are asked of
    the noise that is given. Experiments see the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from streamgauge.audit.exact import Pattern, Worst, covered, worst_neighbour
from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView
from streamgauge.audit.neighbours import busy, joined, spread
from streamgauge.audit.subject import Pair
from streamgauge.audit.trying import tried
from streamgauge.audit.worst_views import worst_tried
from streamgauge.continual import Mechanism
from streamgauge.continual.run import chance
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss

Drive = Callable[[Mechanism[Any], Ints, Noise | None], Floats]  # of streams: all releases, (groups, numbers)


@dataclass(frozen=True)
class Way:
    """How a mechanism is run, and how many groups there are beside the unit's."""

    name: str
    drive: Drive = field(repr=False)
    others: int = 0


def fed(mechanism: Mechanism[Any], streams: Ints, noise: Noise | None) -> Floats:
    """All ticks at once."""
    return np.array(mechanism.start(len(streams), noise).feed(streams.T), np.float64).T


def stopped(mechanism: Mechanism[Any], streams: Ints, noise: Noise | None) -> Floats:
    """Saved and loaded after every tick."""
    run, told = mechanism.start(len(streams), noise), []
    for tick in range(1, streams.shape[1] + 1):
        while run.tick < tick:
            told.append(np.array(run.step(streams[:, run.tick]), np.float64))
        run = mechanism.load(run.save(), noise)
    return np.stack(told, axis=1)


def beside(mechanism: Mechanism[Any], streams: Ints, noise: Noise | None) -> Floats:
    """The last two groups are measures: one under the same noise as the first, one as any start is."""
    source = noise if noise is not None else chance(mechanism)
    parts = streams[:-2], streams[-2:-1], streams[-1:]
    runs = [mechanism.start(len(part), of) for part, of in zip(parts, (source, source, noise), strict=True)]
    told = [
        np.concatenate([run.step(part[:, tick]) for run, part in zip(runs, parts, strict=True)])
        for tick in range(streams.shape[1])
    ]
    return np.array(told, np.float64).T


FED = Way("fed at once", fed)
SAVED = Way("saved and loaded after every tick", stopped)
BESIDE = Way("beside other groups and measures", beside, others=4)


@dataclass(frozen=True)
class DrivenSubject:
    """All releases of the first ticks, of all groups; `noise` is the system's unless told otherwise."""

    mechanism: Mechanism[Any]
    ticks: int
    way: Way
    noise: Noise | None = field(default=None, repr=False)
    title: str = ""
    asked: int | None = None  # ticks, where fewer are run

    @property
    def loss(self) -> Loss:
        return self.mechanism.loss.kept_as

    @property
    def name(self) -> str:
        return self.title or f"{self.mechanism!r} {self.way.name}"

    def worst(self) -> Worst:
        seen = lambda values, noise: self._seen(values, noise).ravel()  # noqa: E731 - of all groups
        worst = worst_tried(self.mechanism, seen, self.ticks, self.way.name)
        return replace(worst, part=covered(self.ticks, self.asked))

    def _seen(self, values: Ints, noise: Noise) -> Floats:
        """Where the first group has these values, and the others nothing."""
        streams = np.zeros((1 + self.way.others, self.ticks), np.int64)
        streams[0] = values
        return self.way.drive(self.mechanism, streams, noise)

    @cached_property
    def view(self) -> LinearView:
        """What is seen of the first group, which tells all there is where others share nothing with it."""
        return tried(lambda values, noise: self._seen(values, noise)[0], self.ticks)

    def pairs(self) -> Sequence[Pair]:
        """The dearest unit, in a stream of nothing and in a busy one, and the last."""
        dearest = worst_neighbour(self.mechanism, self.ticks).pattern
        last = tuple(range(1 + self.ticks - len(dearest), self.ticks + 1))
        nothing = np.zeros((len(self._move) + self.way.others, self.ticks), np.int64)
        found = [(dearest, nothing, ""), (dearest, busy(nothing), " of a busy stream"), (last, nothing, "")]
        return [self._pair(f"{Worst(at, 0)}{where}", at, other) for at, other, where in found]

    @cached_property
    def _move(self) -> Ints:
        return spread(self.mechanism.reach, self.loss.currency == "pure")

    def _pair(self, name: str, pattern: Pattern, other: Ints) -> Pair:
        moving = len(self._move)
        one = joined(other, np.pad(self._move, (0, self.way.others)), pattern)
        ratio = Likelihood(self.view, moving, fixed(one[:moving], other[:moving]))
        return Pair(name, one, other, partial(of_first, ratio))

    def views(self, data: Ints, runs: int) -> Floats:
        """All numbers of a run's first group, then of the next, then the differences."""
        if not self.way.others:
            return self.way.drive(self.mechanism, np.tile(data, (runs, 1)), self.noise).reshape(runs, -1)
        return np.stack([compared(self.way.drive(self.mechanism, data, self.noise)) for _ in range(runs)])


def compared(told: Floats) -> Floats:
    """The releases of all groups, (groups, numbers), and how they differ from the first one's."""
    return np.concatenate([told.ravel(), (told[1:] - told[0]).ravel()])


def of_first(ratio: Likelihood, views: Floats) -> Floats:
    """The likelihood ratio of the groups that a unit moves."""
    return ratio(views[:, : ratio.groups * len(ratio.view.by_data)])
