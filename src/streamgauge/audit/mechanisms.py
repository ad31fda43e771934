"""A continual mechanism under audit: readers see all its releases, from the first tick to the last.

Many runs are the groups of one run, since groups share nothing but the code; where one unit moves several
numbers of a tick's vector, a run is as many groups.

Neighbours: the dearest pattern of the unit (see `exact`), in a stream of nothing and in a busy one, and units
that come first and last, which a mechanism that is not what it says may treat otherwise. Evidence is the
exact log-likelihood ratio where releases tell all draws, else the best linear score (see `likelihood`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from streamgauge.audit.exact import Pattern, Worst, patterns, worst_neighbour
from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView, View, tried, written
from streamgauge.audit.subject import Pair
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss, Reach, Unit

MOST_GROUPS = 64  # that one unit is spread over: a run needs as many
TRIED = 16  # ticks up to which a mechanism is tried as well as read


@dataclass(frozen=True)
class MechanismSubject:
    """All releases of the first ticks; `noise` is the system's unless told otherwise."""

    mechanism: Mechanism[Any]
    ticks: int
    noise: Noise | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.mechanism!r}"

    @property
    def loss(self) -> Loss:
        """What the noise is calibrated to, from which the claim follows."""
        return self.mechanism.loss.kept_as

    @cached_property
    def view(self) -> LinearView:
        return written(self.mechanism.strategy(self.ticks))

    def worst(self) -> Worst:
        """As written down; of short streams also as tried, if that is more: code that is not its matrices."""
        read = worst_neighbour(self.mechanism, self.ticks)
        if self.ticks > TRIED:
            return read
        return max(read, worst_tried(self.mechanism, self._released, self.ticks), key=lambda w: w.amount)

    def _released(self, values: Ints, noise: Noise) -> Floats:
        return np.asarray(self.mechanism.start(1, noise).feed(values[:, None])[:, 0], np.float64)

    def pairs(self) -> Sequence[Pair]:
        return list(neighbours(self.mechanism, self.ticks, self.view))

    def views(self, data: Ints, runs: int) -> Floats:
        return released(self.mechanism, data, runs, self.noise)


def released(mechanism: Mechanism[Any], data: Ints, runs: int, noise: Noise | None) -> Floats:
    """Of streams (groups, ticks): all releases of a run's first group, then of the next."""
    run = mechanism.start(runs * len(data), noise)
    releases = run.feed(np.tile(data.T, (1, runs)))
    return np.ascontiguousarray(releases.T, np.float64).reshape(runs, -1)


def neighbours(mechanism: Mechanism[Any], ticks: int, view: LinearView) -> Iterator[Pair]:
    """Pairs of streams (groups, ticks) that differ in one unit."""
    move = spread(mechanism.reach, view.laplace)
    nothing = np.zeros((len(move), ticks), np.int64)
    worst = worst_neighbour(mechanism, ticks)
    tried_out = [(worst.pattern, nothing, ""), (worst.pattern, busy(nothing), " of a busy stream")]
    for pattern in (at_first(mechanism.unit, ticks), at_last(mechanism.unit, ticks)):
        if pattern != worst.pattern:
            tried_out.append((pattern, nothing, ""))
    for pattern, other, where in tried_out:
        one = joined(other, move, pattern)
        yield Pair(f"{Worst(pattern, 0)}{where}", one, other, Likelihood(view, len(move), fixed(one, other)))


def joined(stream: Ints, move: Ints, pattern: Pattern) -> Ints:
    """The stream with a unit that moves these ticks."""
    with_unit = stream.copy()
    for tick in pattern:
        with_unit[:, tick - 1] += move
    return with_unit


def busy(stream: Ints) -> Ints:
    """Other people's events: so many that they would not fit into the noise."""
    return stream + 1000 + 7 * np.arange(stream.shape[1]) % 11


def spread(reach: Reach, laplace: bool) -> Ints:
    """A move of one tick that is as far as the reach allows in the norm that counts, one number per group.

    >>> spread(Reach(13, 91, 3), True), spread(Reach(13, 91, 3), False)
    (array([5, 4, 4]), array([9]))
    """
    groups = min(reach.coordinates, int(reach.l1))
    if not laplace or reach.l2_squared == reach.l1**2 or groups > MOST_GROUPS:
        return np.array([isqrt(int(reach.l2_squared))], np.int64)
    each, rest = divmod(int(reach.l1), groups)
    return np.array([each + (place < rest) for place in range(groups)], np.int64)


def at_first(unit: Unit, ticks: int) -> Pattern:
    """The first of its patterns."""
    return tuple(range(1, min(unit.ticks, ticks) + 1))


def at_last(unit: Unit, ticks: int) -> Pattern:
    """The last of its patterns."""
    return tuple(range(ticks - min(unit.ticks, ticks) + 1, ticks + 1))


def worst_tried(mechanism: Mechanism[Any], view: View, ticks: int, seen: str = "") -> Worst:
    """The dearest neighbour under a view that is found by trying."""
    linear, reach = tried(view, ticks), mechanism.reach
    scale = float(reach.l1 if linear.laplace else reach.l2_squared)
    found = []
    for pattern in patterns(mechanism.unit, ticks):
        move = np.zeros(ticks)
        move[[tick - 1 for tick in pattern]] = 1
        cost = linear.cost(move)
        found.append(Worst(pattern, scale * cost.most, seen, scale * cost.least))
    return max(found, key=lambda worst: worst.amount)
