"""Statistics under audit: what their counters release, which is the most that readers can see, or all that is
told.

`StatisticSubject` takes the exact vectors that a statistic makes of neighbouring streams (see `happenings`),
finds the dearest, and attacks the counter's noisy vectors, of which all that is published is decoded: the
loss is that of the counter. `PublishedSubject` runs the statistic whole, one group for every run, and attacks
the decoded estimates: that nothing but the vectors gets out, keys that are discovered included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from streamgauge.audit.exact import Worst, loss_of
from streamgauge.audit.happenings import (
    Allowed,
    Given,
    Happened,
    Neighbouring,
    Stream,
    as_values,
    columns,
    crowded,
    neighbouring,
    vectors,
)
from streamgauge.audit.layouts import run_layout
from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView, written
from streamgauge.audit.subject import Pair
from streamgauge.continual import Strategy
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss, User
from streamgauge.statistics import Ranges, Ranking, Statistic

USERS = 1000  # of one run, where runs have users of their own


@dataclass(frozen=True)
class StatisticSubject:
    """The noisy vectors of a statistic over the first ticks; `carried` is what events may carry."""

    statistic: Statistic[Any]
    ticks: int
    carried: Sequence[Any]
    width: int = 1  # groups
    given: Given = as_values
    noise: Noise | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.statistic!r}"

    @property
    def loss(self) -> Loss:
        """What the counter's noise is calibrated to, from which the claim follows."""
        return self.statistic.counter.loss.kept_as

    @cached_property
    def strategy(self) -> Strategy:
        return self.statistic.linear.strategy(self.ticks)

    @cached_property
    def dearest(self) -> tuple[float, Neighbouring]:
        """Of all neighbours that can be made of what is carried."""
        exact = lru_cache(maxsize=None)(self._vectors)  # many pairs have a stream in common
        found = neighbouring(self.statistic.unit, self.ticks, self.carried, self.width, self._allowed)
        priced = ((self._loss_between(exact(pair.one), exact(pair.other)), pair) for pair in found)
        return max(priced, key=lambda known: known[0])

    @property
    def _allowed(self) -> Allowed:
        """A user who is removed carries no other users, and does not come again."""
        of_users = isinstance(self.statistic.unit, User)
        names_users = "users" in self.given(list(self.carried[:1]))
        return Allowed(varied=not (of_users and names_users), again=self.statistic.REMEMBERS and not of_users)

    def _loss_between(self, one: Ints, other: Ints) -> float:
        first, second = padded(one, other)
        return loss_of(self.strategy, first - second)

    def worst(self) -> Worst:
        amount, pair = self.dearest
        how = f"matrices of {self.ticks} ticks, and events through the statistic"
        return Worst(pair.pattern, amount, f"carrying {pair.told}", how=how)

    def pairs(self) -> Sequence[Pair]:
        alone = self.dearest[1]
        busy = crowded(alone, self.statistic.unit, self.carried, self.width)
        return [self._pair(pair) for pair in (alone, busy)]

    def _pair(self, pair: Neighbouring) -> Pair:
        one, other = padded(self._vectors(pair.one), self._vectors(pair.other))
        view: LinearView = written(self.strategy)
        name = str(Worst(pair.pattern, 0, f"carrying {pair.told}"))
        return Pair(name, one, other, Likelihood(view, len(one), fixed(one, other)))

    def _vectors(self, stream: Stream) -> Ints:
        return vectors(self.statistic, stream, self.width, self.given)

    def views(self, data: Ints, runs: int) -> Floats:
        return run_layout(self.statistic.linear, data, runs, self.noise)


def padded(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Vectors of as many places, where one has grown further."""
    places = max(len(one), len(other))
    wide = [np.pad(vector, ((0, places - len(vector)), (0, 0))) for vector in (one, other)]
    return wide[0], wide[1]


@dataclass(frozen=True)
class PublishedSubject:
    """All that a statistic publishes over the first ticks, of one group, which every run has of its own."""

    statistic: Statistic[Any]
    ticks: int
    carried: Sequence[Any]
    given: Given = as_values
    noise: Noise | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.statistic!r} as published"

    @property
    def loss(self) -> Loss:
        return self.statistic.loss

    def pairs(self) -> Sequence[Pair]:
        vectorised = StatisticSubject(self.statistic, self.ticks, self.carried, given=self.given)
        alone = vectorised.dearest[1]
        busy = crowded(alone, self.statistic.unit, self.carried, 1)
        named = ((str(Worst(pair.pattern, 0, f"carrying {pair.told}")), pair) for pair in (alone, busy))
        return [Pair(name, pair.one, pair.other) for name, pair in named]

    def views(self, data: Stream, runs: int) -> Floats:
        run = self.statistic.start(runs, self.noise)
        told = [self._read(run.step(**self._columns(events, runs)), runs) for events in data]
        return np.concatenate(told, axis=1)

    def _columns(self, events: Sequence[Happened], runs: int) -> dict[str, Any]:
        """The same events in every group, whose users are others where users are bounded."""
        users = USERS if self.statistic.bounds_users else 0
        each = [
            Happened(event.carried, group, event.user + users * group)
            for group in range(runs)
            for event in events
        ]
        return columns(self.statistic, each, self.given)

    def _read(self, release: Any, runs: int) -> Floats:
        """All numbers of a release, a row for each group; NaN for a key that is not listed."""
        if isinstance(release, Ranking):
            return self._ranked(release, runs)
        if isinstance(release, Ranges):
            return by_group(release.nodes, runs)  # of which all boxes are made
        values = [np.asarray(column.value, np.float64) for column in release.told().values()]
        return np.concatenate([by_group(value, runs) for value in values], axis=1)

    def _ranked(self, release: Ranking, runs: int) -> Floats:
        places = {key: place for place, key in enumerate(dict.fromkeys(self.carried))}
        listed = np.full((runs, len(places)), np.nan)
        for group, (keys, counts) in enumerate(zip(release.keys, release.counts, strict=True)):
            listed[group, [places[key] for key in keys]] = counts
        return listed


def by_group(value: Floats, runs: int) -> Floats:
    """Numbers of any shape that has an axis for groups, as (groups, numbers)."""
    return np.moveaxis(value, value.shape.index(runs), 0).reshape(runs, -1)
